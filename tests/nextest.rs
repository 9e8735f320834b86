//! The real cargo-nextest on a package that `relayproof init` has set up: one process for each
//! test, and one set of samples for all of them.
//!
//! Needs the folder of an installed cargo-nextest in `RELAYPROOF_NEXTEST` (`.ci/run nextest`
//! installs one); says so where it is missing.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::explicit_write,
    reason = "a test fails by panicking, waits for programs, and must say aloud that it skips"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use relayproof::evidence::{self, Evidence};
use relayproof::sim::{self, Fault, Planned};
use relayproof::verdict::{self, Decision};

/// Longer than anything here takes on any machine that works; builds excepted.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exit code of nextest when a test has failed.
const TESTS_FAILED: i32 = 100;

/// Exit code of nextest when there was nothing to run.
const NOTHING_TO_RUN: i32 = 4;

const SPEC: &str = "\
relayproof: 1
relays:
  - name: r
    base_url: ${env.RELAY_URL}
    api_key: { env: RELAY_KEY }
    models: [m]
sampling: { rate: 10/s, max_samples: 75 }
slos:
  - ttft.p90 < 5s
  - parse_success >= 90%
  - interruption < 10%
";

const TESTS: [&str; 3] = [
    "r/m/default/interruption < 10%",
    "r/m/default/parse_success >= 90%",
    "r/m/default/ttft.p90 < 5s",
];

/// The package under test; one at a time works in it.
struct Package {
    nextest: PathBuf,
    folder: &'static Path,
    runs: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Package {
    /// Nothing where cargo-nextest is not installed.
    fn new() -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        static FOLDER: OnceLock<PathBuf> = OnceLock::new();
        let Some(bin) = std::env::var_os("RELAYPROOF_NEXTEST") else {
            // Not through `eprintln!`: the test runner would keep it to itself.
            let words = "skipped: RELAYPROOF_NEXTEST names no cargo-nextest; see .ci/run nextest";
            writeln!(io::stderr(), "{words}").unwrap();
            return None;
        };
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self {
            nextest: Path::new(&bin).join("cargo-nextest"),
            folder: FOLDER.get_or_init(set_up),
            runs: tempfile::tempdir().unwrap(),
            _alone: alone,
        })
    }

    /// `cargo nextest …` in the package.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.nextest);
        command
            .arg("nextest")
            .args(arguments)
            .current_dir(self.folder)
            .env("CARGO_TARGET_DIR", target())
            .env("CARGO_TERM_COLOR", "never")
            .env("RELAYPROOF_DIR", self.runs.path())
            .env("RELAY_KEY", "sk-nextest-7f3a9b2c51d8e640")
            .env_remove("NEXTEST_RUN_ID")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, relay: &sim::Relay, arguments: &[&str]) -> Seen {
        let all = [&["run", "--profile", "relay"], arguments].concat();
        let mut command = self.command(&all);
        Seen::of(command.env("RELAY_URL", relay.base_url()).output().unwrap())
    }

    /// The evidence of each run, with the run's name.
    fn evidence(&self) -> Vec<(String, Evidence)> {
        let mut all = Vec::new();
        for run in fs::read_dir(self.runs.path()).unwrap() {
            let run = run.unwrap();
            for file in fs::read_dir(run.path()).unwrap() {
                let path = file.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if name.ends_with(".jsonl") && !name.ends_with(".otlp.jsonl") {
                    let run = run.file_name().to_string_lossy().into_owned();
                    all.push((run, evidence::read(&path).unwrap()));
                }
            }
        }
        all
    }

    /// Names and failures of nextest's own report on the last run.
    fn junit(&self) -> Vec<(String, bool)> {
        let text = fs::read_to_string(target().join("nextest/relay/junit.xml")).unwrap();
        let cases = text.split("<testcase ").skip(1);
        cases
            .map(|case| {
                let name = case.split("name=\"").nth(1).unwrap();
                let name = name.split('"').next().unwrap();
                let failed = case.contains("<failure");
                (name.replace("&lt;", "<").replace("&gt;", ">"), failed)
            })
            .collect()
    }
}

/// Built things are kept from one run to the next.
fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/consumer")
}

/// A package as a user has it after `init`, with a spec for the relays of these tests. Always in
/// the same folder, for Cargo builds a package in another folder anew.
fn set_up() -> PathBuf {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = clone.join("target/consumer-nextest");
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(folder.join("src")).unwrap();
    let manifest = "[package]\nname = \"chat\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("src/lib.rs"), "").unwrap();
    fs::copy(clone.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let init = Command::new(env!("CARGO_BIN_EXE_relayproof"))
        .args(["init", "--relayproof-path", "../.."])
        .current_dir(&folder)
        .output()
        .unwrap();
    Seen::of(init).exits(0);
    fs::remove_file(folder.join("specs/embedded.yaml")).unwrap();
    fs::write(folder.join("specs/relay.yaml"), SPEC).unwrap();
    folder
}

struct Seen {
    code: Option<i32>,
    text: String,
}

impl Seen {
    fn of(output: Output) -> Self {
        let text = [output.stdout, output.stderr].concat();
        Self {
            code: output.status.code(),
            text: String::from_utf8_lossy(&text).into_owned(),
        }
    }

    #[track_caller]
    fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{}", self.text);
        self
    }

    #[track_caller]
    fn says(&self, words: &str) -> &Self {
        assert!(
            self.text.contains(words),
            "`{words}` is not in\n{}",
            self.text
        );
        self
    }
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
        first_token: Duration::from_millis(5),
        token_gap: Duration::from_millis(1),
        tokens: 4,
        ..sim::Settings::default()
    }
}

/// A relay that breaks most of its answers off.
fn broken() -> sim::Settings {
    sim::Settings {
        faults: vec![Planned {
            fault: Fault::Truncate { after_tokens: None },
            share_ppm: 600_000,
        }],
        ..quick()
    }
}

/// Every request is a sample on record, and there is one set of them, big enough for a verdict.
#[track_caller]
fn assert_one_set(relay: &sim::Relay, package: &Package) -> Evidence {
    let mut all = package.evidence();
    assert_eq!(all.len(), 1, "one run, one cell");
    let (run, evidence) = all.pop().unwrap();
    assert_eq!(relay.requests(), evidence.samples.len() as u64);
    assert_eq!(
        run.len(),
        36,
        "`{run}` is not the id that nextest gave its run"
    );
    evidence
}

#[track_caller]
fn assert_all_pass(evidence: &Evidence) {
    let verdicts = verdict::judge(evidence);
    let passed = verdicts
        .iter()
        .map(|verdict| verdict.decision == Decision::Pass);
    assert_eq!(passed.collect::<Vec<_>>(), [true; 3], "{verdicts:?}");
}

#[test]
fn one_run_takes_one_set_of_samples_for_all_its_processes() {
    let Some(package) = Package::new() else {
        return;
    };
    beside_a_relay(quick(), |relay| {
        let seen = package.run(relay, &[]);
        seen.exits(0).says("3 tests run: 3 passed");
        assert_all_pass(&assert_one_set(relay, &package));
        let junit: BTreeSet<_> = package.junit().into_iter().collect();
        let all = TESTS.map(|name| (name.to_owned(), false));
        assert_eq!(junit, BTreeSet::from(all));
    });
}

#[test]
fn a_failure_shows_our_words_in_the_output_and_in_nextests_report() {
    let Some(package) = Package::new() else {
        return;
    };
    beside_a_relay(broken(), |relay| {
        let seen = package.run(relay, &[]);
        seen.exits(TESTS_FAILED)
            .says("VIOLATED      interruption < 10%")
            .says("look at: relay-middleware, phase stream")
            .says("evidence: ");
        assert_one_set(relay, &package);
        // Not only the first one is looked at.
        let junit = package.junit();
        assert_eq!(junit.len(), 3, "{junit:?}");
        assert!(junit.contains(&(TESTS[0].to_owned(), true)), "{junit:?}");
        let report = fs::read_to_string(target().join("nextest/relay/junit.xml")).unwrap();
        assert!(
            report.contains("VIOLATED      interruption &lt; 10%"),
            "{report}"
        );
    });
}

#[test]
fn a_second_try_of_the_same_run_reads_the_same_samples() {
    let Some(package) = Package::new() else {
        return;
    };
    beside_a_relay(broken(), |relay| {
        // The profile says 0; a word on the command line overrules it.
        package.run(relay, &["--retries", "2"]).exits(TESTS_FAILED);
        assert_one_set(relay, &package);
    });
}

#[test]
fn the_profile_tries_nothing_twice() {
    let Some(package) = Package::new() else {
        return;
    };
    beside_a_relay(broken(), |relay| {
        // As a project would set it for its own tests.
        let mut command = package.command(&["run", "--profile", "relay"]);
        let config = fs::read_to_string(package.folder.join(".config/nextest.toml")).unwrap();
        let path = package.runs.path().join("nextest.toml");
        fs::write(&path, format!("{config}\n[profile.default]\nretries = 2\n")).unwrap();
        command.arg("--config-file").arg(&path);
        let output = command.env("RELAY_URL", relay.base_url()).output().unwrap();
        fs::remove_file(path).unwrap();
        let seen = Seen::of(output);
        seen.exits(TESTS_FAILED);
        assert!(!seen.text.contains("TRY "), "{}", seen.text);
    });
}

#[test]
fn the_parts_of_a_partition_are_all_tests_and_each_judges_on_all_objectives() {
    let Some(package) = Package::new() else {
        return;
    };
    beside_a_relay(quick(), |relay| {
        let mut ran = Vec::new();
        for part in ["hash:1/2", "hash:2/2"] {
            let seen = package.run(relay, &["--partition", part]);
            // A part may have got none of three tests.
            if seen.code != Some(NOTHING_TO_RUN) {
                seen.exits(0);
                ran.extend(package.junit().into_iter().map(|(name, _)| name));
            }
        }
        ran.sort();
        assert_eq!(ran, TESTS);
        let all = package.evidence();
        assert!(!all.is_empty());
        let samples: usize = all.iter().map(|(_, one)| one.samples.len()).sum();
        assert_eq!(
            relay.requests(),
            samples as u64,
            "a part is a run of its own"
        );
        for (_, evidence) in &all {
            assert_all_pass(evidence);
        }
    });
}

#[test]
fn parts_that_share_a_folder_and_a_run_share_its_samples() {
    let Some(package) = Package::new() else {
        return;
    };
    beside_a_relay(quick(), |relay| {
        for part in ["count:1/2", "count:2/2"] {
            let mut command = package.command(&["run", "--profile", "relay", "--partition", part]);
            command
                .env("RELAY_URL", relay.base_url())
                .env("RELAYPROOF_RUN_ID", "both");
            Seen::of(command.output().unwrap()).exits(0);
        }
        let all = package.evidence();
        assert_eq!(all.len(), 1);
        assert_eq!(relay.requests(), all[0].1.samples.len() as u64);
    });
}

#[test]
fn a_filter_expression_picks_tests_and_changes_no_sampling() {
    let Some(package) = Package::new() else {
        return;
    };
    beside_a_relay(quick(), |relay| {
        package
            .run(relay, &["-E", "test(/ttft/)"])
            .exits(0)
            .says("1 test run: 1 passed, 2 skipped");
        assert_all_pass(&assert_one_set(relay, &package));
    });
}

#[test]
fn a_listing_names_every_test_and_sends_nothing() {
    let Some(package) = Package::new() else {
        return;
    };
    beside_a_relay(quick(), |relay| {
        let mut command = package.command(&["list"]);
        let output = command.env("RELAY_URL", relay.base_url()).output().unwrap();
        let seen = Seen::of(output);
        seen.exits(0);
        for name in TESTS {
            seen.says(name);
        }
        assert_eq!(relay.requests(), 0);
        assert_eq!(package.evidence().len(), 0);
    });
}

#[test]
fn without_a_key_nothing_is_run_and_nothing_passes() {
    let Some(package) = Package::new() else {
        return;
    };
    beside_a_relay(quick(), |relay| {
        let mut command = package.command(&["run", "--profile", "relay"]);
        command
            .env("RELAY_URL", relay.base_url())
            .env_remove("RELAY_KEY");
        let seen = Seen::of(command.output().unwrap());
        seen.exits(NOTHING_TO_RUN)
            .says("0 tests run: 0 passed, 3 skipped");
        assert_eq!(relay.requests(), 0);
    });
}

#[test]
fn ctrl_c_ends_sampling_and_keeps_the_evidence() {
    let Some(package) = Package::new() else {
        return;
    };
    let slow = sim::Settings {
        first_token: Duration::from_secs(600),
        ..quick()
    };
    beside_a_relay(slow, |relay| {
        let mut child = package
            .command(&["run", "--profile", "relay", "--no-capture"])
            .env("RELAY_URL", relay.base_url())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stderr.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            pipe.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        // A build may come first.
        let deadline = Instant::now() + 10 * PATIENCE;
        while relay.requests() < 3 {
            assert!(Instant::now() < deadline, "no call has come");
            std::thread::sleep(Duration::from_millis(10));
        }
        let kill = format!("kill -INT {}", child.id());
        let killed = Command::new("/bin/sh")
            .args(["-c", &kill])
            .status()
            .unwrap();
        assert!(killed.success());
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("no end within {PATIENCE:?} of Ctrl-C");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(!status.success());
        let text = reader.join().unwrap();
        assert!(text.contains("interrupted: sampling ends"), "{text}");
        let all = package.evidence();
        assert_eq!(all.len(), 1, "{text}");
        let decisions = verdict::judge(&all[0].1);
        assert!(
            decisions
                .iter()
                .all(|verdict| verdict.decision != Decision::Pass),
            "{decisions:?}"
        );
    });
}
