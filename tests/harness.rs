//! The test harness seen from outside: this binary is both the test and, when started again with
//! `HARNESS_UNDER_TEST` set, the acceptance test of a crate that uses relayproof.

#![expect(
    clippy::unwrap_used,
    reason = "a test with a main of its own; clippy sees no test functions in it"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use relayproof::sim;

const CANARY: &str = "sk-canary-7f3a9b2c51d8e640";

fn main() -> ExitCode {
    match std::env::var("HARNESS_UNDER_TEST").as_deref() {
        Ok("suite") => return suite_under_test(),
        Ok(_) => return relayproof::main("specs"),
        Err(_) => {}
    }
    let tests: &[(&str, fn())] = &[
        ("a_listing_names_one_test_per_objective_and_cell", listing),
        ("filters_and_exact_names_pick_tests", filters),
        ("json_output_is_one_document_a_line", json),
        ("a_missing_key_ignores_a_test_and_says_why", missing_key),
        ("what_the_spec_ignores_runs_when_asked_for", ignored_by_spec),
        ("a_required_key_that_is_missing_fails", required_key),
        ("the_tests_of_a_cell_share_one_set_of_samples", one_process),
        (
            "processes_of_one_run_share_one_set_of_samples",
            many_processes,
        ),
        (
            "a_filter_does_not_change_what_is_judged",
            filter_keeps_judging,
        ),
        (
            "a_violation_fails_its_test_and_says_where_to_look",
            violation,
        ),
        (
            "a_mistake_in_a_spec_stops_everything_with_its_place",
            mistake,
        ),
        ("a_folder_without_specs_is_no_pass", no_specs),
        ("a_profile_is_laid_over_the_specs_that_have_it", profile),
        ("a_run_that_is_over_can_go_on", continuing),
        ("specs_made_in_code_are_tests_like_those_of_a_folder", suite),
        ("a_mistake_in_a_spec_made_in_code_has_its_name", wrong_suite),
        ("a_suite_without_specs_is_no_pass", empty_suite),
        ("the_key_is_nowhere", canary),
    ];
    let trials = tests
        .iter()
        .map(|(name, test)| {
            let test = *test;
            Trial::test(*name, move || {
                std::panic::catch_unwind(test).map_err(|panic| {
                    let words = panic
                        .downcast_ref::<String>()
                        .cloned()
                        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                    Failed::from(words.unwrap_or_default())
                })
            })
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A crate with a folder of specs.
struct Package {
    root: tempfile::TempDir,
}

impl Package {
    fn with(specs: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("specs")).unwrap();
        for (name, text) in specs {
            fs::write(root.path().join("specs").join(name), text).unwrap();
        }
        Self { root }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(arguments)
            .current_dir(self.root.path())
            .env_clear()
            .env("HARNESS_UNDER_TEST", "1")
            .env("CARGO_MANIFEST_DIR", self.root.path())
            .env("RELAYPROOF_DIR", "runs")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Seen {
        Seen::of(self.command(arguments).output().unwrap())
    }

    /// Counted samples of all evidence files.
    fn samples(&self) -> u64 {
        let files = files_below(&self.root.path().join("runs"));
        let evidence = files.iter().filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.ends_with(".jsonl") && !name.ends_with(".otlp.jsonl")
        });
        evidence
            .map(|path| relayproof::evidence::read(path).unwrap())
            .map(|evidence| evidence.samples.len() as u64)
            .sum()
    }
}

struct Seen {
    code: i32,
    out: String,
    err: String,
}

impl Seen {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    fn exits(&self, code: i32) -> &Self {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.out, self.err
        );
        self
    }

    #[track_caller]
    fn says(&self, words: &str) -> &Self {
        assert!(
            self.out.contains(words) || self.err.contains(words),
            "`{words}` is not in\nstdout:\n{}\nstderr:\n{}",
            self.out,
            self.err
        );
        self
    }

    /// Names of the tests that a listing shows.
    fn listed(&self) -> Vec<&str> {
        self.out
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .collect()
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

const TWO_RELAYS: &str = "\
relayproof: 1
relays:
  - { name: one, models: [m], simulate: { first_token: 5ms, token_gap: 1ms, tokens: 4 } }
  - { name: two, models: [m], simulate: { first_token: 5ms, token_gap: 1ms, tokens: 4 } }
sampling: { rate: 20/s }
slos:
  - ttft.p90 < 5s
  - parse_success >= 90%
";

/// A spec for a relay at `base_url`, whose key is in `RELAY_KEY`.
fn at(base_url: &str) -> String {
    format!(
        "relayproof: 1
relays:
  - name: r
    base_url: {base_url}
    api_key: {{ env: RELAY_KEY }}
    models: [m]
sampling: {{ rate: 20/s, max_samples: 75 }}
slos:
  - ttft.p90 < 5s
  - parse_success >= 90%
  - interruption < 10%
"
    )
}

/// Runs `work` while an embedded relay of this process is listening.
fn beside_a_relay<T>(settings: sim::Settings, work: impl FnOnce(&sim::Relay) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let relay = runtime.block_on(sim::Relay::start(settings)).unwrap();
    let result = work(&relay);
    runtime.block_on(relay.stop());
    result
}

fn quick() -> sim::Settings {
    sim::Settings {
        first_token: std::time::Duration::from_millis(5),
        token_gap: std::time::Duration::from_millis(1),
        tokens: 4,
        ..sim::Settings::default()
    }
}

fn listing() {
    let package = Package::with(&[("s.yaml", TWO_RELAYS)]);
    let seen = package.run(&["--list", "--format", "terse"]);
    seen.exits(0);
    assert_eq!(
        seen.listed(),
        [
            "one/m/default/ttft.p90 < 5s",
            "one/m/default/parse_success >= 90%",
            "two/m/default/ttft.p90 < 5s",
            "two/m/default/parse_success >= 90%",
        ]
    );
    assert!(
        !package.root.path().join("runs").exists(),
        "a listing starts nothing"
    );
}

fn filters() {
    let package = Package::with(&[("s.yaml", TWO_RELAYS)]);
    package
        .run(&["one/"])
        .exits(0)
        .says("2 passed")
        .says("2 filtered out");
    package
        .run(&["--exact", "two/m/default/ttft.p90 < 5s"])
        .exits(0)
        .says("1 passed")
        .says("3 filtered out");
    package
        .run(&["--skip", "ttft", "two/"])
        .exits(0)
        .says("1 passed");
    let other = Package::with(&[("s.yaml", TWO_RELAYS)]);
    other.run(&["three/"]).exits(0).says("4 filtered out");
    assert!(
        !other.root.path().join("runs").exists(),
        "a filter that leaves no test leaves no folder"
    );
}

fn json() {
    let package = Package::with(&[("s.yaml", TWO_RELAYS)]);
    let seen = package.run(&["--format", "json", "one/"]);
    seen.exits(0);
    let lines: Vec<serde_json::Value> = seen
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    assert!(
        lines
            .iter()
            .any(|line| line["event"] == "ok" && line["type"] == "suite")
    );
    seen.says("ttft.p90 < 5s");
}

fn missing_key() {
    let package = Package::with(&[("s.yaml", &at("http://127.0.0.1:9/v1"))]);
    package
        .run(&[])
        .exits(0)
        .says("RELAY_KEY is not set")
        .says("3 ignored");
    // A listing for another runner marks them, since it takes "ignored while running" for a pass.
    let listed = package.run(&["--list", "--format", "terse", "--ignored"]);
    assert_eq!(listed.exits(0).listed().len(), 3);
    assert!(!listed.out.contains("error"));
}

fn ignored_by_spec() {
    let text = TWO_RELAYS.replace(
        "{ name: two,",
        "{ name: two, ignored: contract not signed yet,",
    );
    let package = Package::with(&[("s.yaml", &text)]);
    package
        .run(&[])
        .exits(0)
        .says("contract not signed yet")
        .says("2 passed")
        .says("2 ignored");
    package.run(&["--ignored"]).exits(0).says("2 passed");
    package
        .run(&["--include-ignored"])
        .exits(0)
        .says("4 passed");
}

fn required_key() {
    let text =
        at("http://127.0.0.1:9/v1").replace("models: [m]", "models: [m]\n    required: true");
    let package = Package::with(&[("s.yaml", &text)]);
    package
        .run(&[])
        .exits(101)
        .says("RELAY_KEY is not set")
        .says("3 failed");
}

fn one_process() {
    beside_a_relay(quick(), |relay| {
        let package = Package::with(&[("s.yaml", &at(relay.base_url()))]);
        let seen = Seen::of(
            package
                .command(&[])
                .env("RELAY_KEY", CANARY)
                .output()
                .unwrap(),
        );
        seen.exits(0).says("3 passed");
        assert_one_set(relay, &package);
    });
}

/// As cargo-nextest does: a process for each test, all at the same time.
fn many_processes() {
    beside_a_relay(quick(), |relay| {
        let package = Package::with(&[("s.yaml", &at(relay.base_url()))]);
        let listed = package.run(&["--list", "--format", "terse"]);
        let started: Vec<_> = listed
            .listed()
            .into_iter()
            .map(|name| {
                package
                    .command(&["--exact", name, "--nocapture"])
                    .env("RELAY_KEY", CANARY)
                    .env("NEXTEST", "1")
                    .env("NEXTEST_EXECUTION_MODE", "process-per-test")
                    .env("NEXTEST_RUN_ID", "6b1f2a90-5a3c-4c1e-9d0b-2f6f3f1f7a11")
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        assert_eq!(started.len(), 3);
        for child in started {
            Seen::of(child.wait_with_output().unwrap())
                .exits(0)
                .says("1 passed");
        }
        assert_one_set(relay, &package);
    });
}

/// Every request at the relay is a sample on record, and there is no second set of them.
#[track_caller]
fn assert_one_set(relay: &sim::Relay, package: &Package) {
    let requests = relay.requests();
    assert_eq!(requests, package.samples());
    assert!((36..=75).contains(&requests), "{requests} requests");
}

fn filter_keeps_judging() {
    beside_a_relay(quick(), |relay| {
        let package = Package::with(&[("s.yaml", &at(relay.base_url()))]);
        let mut command = package.command(&["ttft"]);
        command
            .env("RELAY_KEY", CANARY)
            .env("RELAYPROOF_RUN_ID", "r");
        Seen::of(command.output().unwrap())
            .exits(0)
            .says("1 passed");
        let files = files_below(&package.root.path().join("runs"));
        let path = files
            .iter()
            .find(|path| {
                path.extension().is_some_and(|ext| ext == "jsonl")
                    && !path.to_string_lossy().ends_with(".otlp.jsonl")
            })
            .unwrap();
        let verdicts = relayproof::verdict::judge(&relayproof::evidence::read(path).unwrap());
        assert_eq!(verdicts.len(), 3);
        let passed = |verdict: &relayproof::verdict::Verdict| {
            verdict.decision == relayproof::verdict::Decision::Pass
        };
        assert!(verdicts.iter().all(passed), "{verdicts:?}");
    });
}

fn violation() {
    let text = "\
relayproof: 1
relays:
  - name: broken
    models: [m]
    simulate: { first_token: 5ms, token_gap: 1ms, tokens: 8, faults: [{ truncate: 60% }] }
sampling: { rate: 20/s }
slos:
  - interruption < 10%
  - http_success >= 90%
otel: { trace_url: \"http://jaeger.example/trace/{trace_id}\" }
";
    let package = Package::with(&[("s.yaml", text)]);
    package
        .run(&[])
        .exits(101)
        .says("1 passed; 1 failed")
        .says("VIOLATED")
        .says("look at: relay-middleware, phase stream")
        .says("evidence:");
}

fn mistake() {
    let text = TWO_RELAYS.replace("ttft.p90 < 5s", "ttfft.p90 < 5s");
    let package = Package::with(&[("s.yaml", &text), ("fine.yaml", TWO_RELAYS)]);
    package
        .run(&[])
        .exits(101)
        .says("specs/s.yaml:7:")
        .says("ttft");
}

fn no_specs() {
    let package = Package::with(&[]);
    package.run(&[]).exits(101).says("no spec found");
}

fn profile() {
    let with = TWO_RELAYS
        .replace("name: one", "name: three")
        .replace("name: two", "name: four")
        + "profiles: { quick: { sampling: { max_samples: 8 }, judge: { mode: guard } } }\n";
    let package = Package::with(&[("plain.yaml", TWO_RELAYS), ("profiled.yaml", &with)]);
    let run = |profile| {
        let mut command = package.command(&["three/"]);
        Seen::of(command.env("RELAYPROOF_PROFILE", profile).output().unwrap())
    };
    run("quick").exits(0).says("2 passed").says("8 of 8");
    run("slow")
        .exits(101)
        .says("unknown profile `slow`")
        .says("the specs have quick");
}

fn continuing() {
    beside_a_relay(quick(), |relay| {
        let package = Package::with(&[("s.yaml", &at(relay.base_url()))]);
        let run = |name: &str, value: &str| {
            let mut command = package.command(&[]);
            command.env("RELAY_KEY", CANARY).env(name, value);
            Seen::of(command.output().unwrap())
        };
        run("RELAYPROOF_RUN_ID", "r").exits(0).says("3 passed");
        let sent = relay.requests();
        // What is decided stays so; the run is named by its name or its folder.
        run("RELAYPROOF_CONTINUE", "r").exits(0).says("3 passed");
        run("RELAYPROOF_CONTINUE", "runs/r")
            .exits(0)
            .says("3 passed");
        assert_eq!(relay.requests(), sent);
        run("RELAYPROOF_CONTINUE", "q")
            .exits(101)
            .says("there is no run");
        assert_one_set(relay, &package);
    });
}

/// A suite of the folder `specs`, if there is one, and of the text that the test wants, if any.
fn suite_under_test() -> ExitCode {
    let mut suite = relayproof::Suite::new();
    if Path::new("specs").is_dir() {
        suite = suite.specs("specs");
    }
    if let Ok(text) = std::env::var("SPEC_TEXT") {
        suite = suite.spec_text("made in code", text);
    }
    suite.main()
}

impl Package {
    fn suite(&self, text: Option<&str>) -> Seen {
        let mut command = self.command(&[]);
        command.env("HARNESS_UNDER_TEST", "suite");
        command.envs(text.map(|text| ("SPEC_TEXT", text)));
        Seen::of(command.output().unwrap())
    }
}

fn suite() {
    let made = TWO_RELAYS
        .replace("name: one", "name: three")
        .replace("name: two", "name: four");
    let package = Package::with(&[("s.yaml", TWO_RELAYS)]);
    package
        .suite(Some(&made))
        .exits(0)
        .says("one/m/default/ttft.p90 < 5s")
        .says("four/m/default/parse_success >= 90%")
        .says("8 passed");
}

fn wrong_suite() {
    let package = Package::with(&[("s.yaml", TWO_RELAYS)]);
    package
        .suite(Some(&TWO_RELAYS.replace("ttft.p90", "ttfft.p90")))
        .exits(101)
        .says("made in code:7:");
    // The same tests as the folder has.
    package
        .suite(Some(TWO_RELAYS))
        .exits(101)
        .says("of made in code is there already");
}

fn empty_suite() {
    let package = Package::with(&[]);
    fs::remove_dir(package.root.path().join("specs")).unwrap();
    package.suite(None).exits(101).says("there is no spec");
    // One made in code is enough.
    package.suite(Some(TWO_RELAYS)).exits(0).says("4 passed");
}

/// A relay that gives the key back wherever it can.
fn canary() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 8192];
                let _ = stream.read(&mut buffer);
                let body = format!(
                    "data: {{\"id\":\"{CANARY}\",\"object\":\"chat.completion.chunk\",\"created\":1,\
                     \"model\":\"{CANARY}\",\"system_fingerprint\":\"{CANARY}\",\"choices\":[{{\"index\":0,\
                     \"delta\":{{\"content\":\"{CANARY}\"}},\"finish_reason\":\"{CANARY}\"}}]}}\n\n\
                     data: {{\"error\":{{\"code\":\"{CANARY}\",\"type\":\"{CANARY}\",\"message\":\"{CANARY}\"}}}}\n\n"
                );
                let head = format!(
                    "HTTP/1.1 200 {CANARY}\r\ncontent-type: text/event-stream; {CANARY}\r\n\
                     x-request-id: {CANARY}\r\nserver: {CANARY}\r\nvia: 1.1 {CANARY}\r\n\
                     connection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes());
            });
        }
    });
    let base_url = format!("http://127.0.0.1:{port}/v1");
    let package = Package::with(&[("s.yaml", &at(&base_url))]);
    let mut command = package.command(&[]);
    command
        .env("RELAY_KEY", CANARY)
        .env("OTEL_EXPORTER_OTLP_HEADERS", format!("x={CANARY}"));
    let seen = Seen::of(command.output().unwrap());
    seen.exits(101).says("VIOLATED");
    assert!(!seen.out.contains(CANARY), "on stdout:\n{}", seen.out);
    assert!(!seen.err.contains(CANARY), "on stderr:\n{}", seen.err);
    let files = files_below(package.root.path());
    assert!(
        files
            .iter()
            .any(|path| path.to_string_lossy().ends_with(".otlp.jsonl"))
    );
    for path in files {
        let bytes = fs::read(&path).unwrap();
        let found = bytes
            .windows(CANARY.len())
            .any(|window| window == CANARY.as_bytes());
        assert!(!found, "the key is in {}", path.display());
    }
    assert!(package.samples() > 0);
}
