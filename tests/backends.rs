//! The real programs: our spans through the shipped Collector configuration into Jaeger and back.
//!
//! Needs the binaries that tests/backends/build.sh makes, in `.cache/bin` or the folder that
//! `RELAYPROOF_BACKENDS` names; says so where they are missing.
#![cfg(feature = "otel")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::explicit_write,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, waits for programs, and must say aloud that it skips"
)]

#[path = "telemetry/make.rs"]
mod make;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use relayproof::evidence::{Backoff, Sample};
use relayproof::telemetry::spans::{CellSpans, SampleFacts, SampleOutcome};
use relayproof::telemetry::{Case, RunInfo, Suite, SuiteInfo, SuiteStatus, Telemetry};
use serde_json::Value;

/// Longest wait for an outside program.
const PATIENCE: Duration = Duration::from_secs(60);

/// A text with the shape of a key; the Collector's own rules must stop it.
const KEY_SHAPED: &str = "sk-CanaryCanaryCanary0123456789";

const RUN: &str = "20251124T160000Z-real";

#[test]
fn every_sample_is_found_in_jaeger_as_it_was_measured() {
    let Some(bin) = binaries() else { return };
    let backends = Backends::start(&bin, 1);
    let folder = tempfile::tempdir().unwrap();
    let telemetry = backends.telemetry(folder.path());
    let (suite, case) = open(&telemetry);
    let samples = samples(0..24);
    for (sample, facts) in &samples {
        case.sample(sample, facts);
    }
    case.finish(&[make::violated()], make::T0 + 60_000_000_000);
    suite.finish(SuiteStatus::Failure);
    let account = telemetry.finish(Duration::from_secs(5));
    assert_eq!(account.warnings, Vec::<String>::new());
    assert_eq!(account.spans.exported, account.spans.made);
    assert_eq!(account.written, account.spans.made);

    let cell = CellSpans::new(&make::header());
    let mut total = 3;
    let mut everything = String::new();
    for (sample, facts) in &samples {
        let expected = cell.sample(sample, facts, None);
        total += expected.len();
        let (text, found) = backends.trace(&sample.trace_id, expected.len());
        everything += &text;
        let names: BTreeMap<_, _> = found
            .iter()
            .map(|span| (span["spanID"].as_str().unwrap(), span))
            .collect();
        for span in &expected {
            let id = span.span_context.span_id().to_string();
            let jaeger = names[id.as_str()];
            assert_eq!(jaeger["operationName"], span.name.as_ref());
            let (start, end) = (micros(span.start_time), micros(span.end_time));
            assert_eq!(jaeger["startTime"], start, "{}", span.name);
            // Jaeger keeps whole microseconds of both.
            let length = jaeger["duration"].as_u64().unwrap();
            assert!(length.abs_diff(end - start) <= 1, "{}", span.name);
            let parent = references(jaeger, "CHILD_OF").map(|(_, id)| id).next();
            let has_parent = span.parent_span_id != opentelemetry::trace::SpanId::INVALID;
            assert_eq!(
                parent,
                has_parent.then(|| span.parent_span_id.to_string()),
                "{}",
                span.name
            );
            for wanted in &span.attributes {
                let value = tag(jaeger, wanted.key.as_str());
                let shown = wanted.value.as_str();
                if shown.contains(KEY_SHAPED) {
                    assert!(!value.unwrap().contains(KEY_SHAPED));
                } else if !shown.starts_with('[') {
                    assert_eq!(value.as_deref(), Some(shown.as_ref()), "{}", wanted.key);
                }
            }
            let error = tag(jaeger, "error").as_deref() == Some("true");
            let failed = matches!(span.status, opentelemetry::trace::Status::Error { .. });
            assert_eq!(error, failed, "{}", span.name);
        }
        let root = found
            .iter()
            .find(|span| span["operationName"] == "relay.sample")
            .unwrap();
        let ttft = sample.attempts[0].observation.timeline.first_token;
        let shown = tag(root, "relay.ttft").map(|text| text.parse::<f64>().unwrap());
        assert_eq!(
            shown.map(|seconds| (seconds * 1e6).round()),
            ttft.map(|at| at.as_micros() as f64)
        );
        let (trace, span) = references(root, "FOLLOWS_FROM").next().unwrap();
        assert_eq!(span, backends.case_id(&trace), "the link leads to the cell");
    }
    assert_eq!(total as u64, account.spans.made);
    assert!(
        !everything.contains(KEY_SHAPED),
        "redacted by the Collector"
    );
    assert!(
        everything.contains("redaction.masked.count"),
        "and it says so"
    );

    let failing = samples
        .iter()
        .filter(|(_, facts)| facts.outcome == SampleOutcome::Error)
        .count();
    let found = backends.search(&format!(
        r#"{{"relay.run.id":"{RUN}","relay.sample.outcome":"error"}}"#
    ));
    assert_eq!(found.len(), failing, "one search finds the failing samples");

    let metrics = backends.wait_for("metrics of the spans", || {
        let text = get(&backends.host, 8889, "/metrics").ok()?;
        text.contains("relay_phase=\"first_token\"").then_some(text)
    });
    assert!(metrics.contains("traces_span_metrics_"), "{metrics}");
}

#[test]
fn a_collector_that_is_restarted_during_a_run_loses_nothing() {
    let Some(bin) = binaries() else { return };
    let mut backends = Backends::start(&bin, 2);
    let folder = tempfile::tempdir().unwrap();
    let telemetry = backends.telemetry(folder.path());
    let (suite, case) = open(&telemetry);
    let samples = samples(100..140);
    for (sample, facts) in &samples[..20] {
        case.sample(sample, facts);
    }
    let cell = CellSpans::new(&make::header());
    let (first, facts) = &samples[0];
    // The first half has arrived before the Collector dies, and the second half while it is dead.
    backends.trace(&first.trace_id, cell.sample(first, facts, None).len());
    backends.stop_collector();
    for (sample, facts) in &samples[20..] {
        case.sample(sample, facts);
    }
    drop(case);
    suite.finish(SuiteStatus::Success);
    backends.start_collector(&bin);
    let account = telemetry.finish(Duration::from_secs(5));
    assert_eq!(account.warnings, Vec::<String>::new());
    assert_eq!(account.spans.exported, account.spans.made);
    for (sample, facts) in &samples {
        backends.trace(&sample.trace_id, cell.sample(sample, facts, None).len());
    }
}

/// The folder of the programs, or a word on what is missing.
fn binaries() -> Option<PathBuf> {
    let folder = std::env::var_os("RELAYPROOF_BACKENDS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/bin"),
        PathBuf::from,
    );
    for program in ["otelcol", "jaeger"] {
        if !folder.join(program).is_file() {
            // Not through `eprintln!`: the test runner would keep it to itself.
            writeln!(
                io::stderr(),
                "skipped: no {program} in {}; tests/backends/build.sh builds it",
                folder.display()
            )
            .unwrap();
            return None;
        }
    }
    Some(folder)
}

fn open(telemetry: &Telemetry) -> (Suite, Case) {
    let suite = telemetry.suite(&SuiteInfo {
        spec: "chat".into(),
        plan: "cd".repeat(32),
        spec_sha256: "ab".repeat(32),
        cells: 1,
        planned_samples: 232,
        ci_parent: false,
    });
    let case = suite.case(&make::header());
    (suite, case)
}

/// Good, slow, cut, refused and retried samples in turn, of now: Jaeger searches by time.
fn samples(indices: std::ops::Range<u64>) -> Vec<(Sample, SampleFacts)> {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    indices
        .map(|index| {
            let (mut sample, outcome) = match index % 5 {
                0 => (make::sample(index, make::whole()), SampleOutcome::Good),
                1 => (make::sample(index, make::whole()), SampleOutcome::Slow),
                2 => (make::sample(index, make::cut()), SampleOutcome::Error),
                3 => (make::sample(index, make::refused()), SampleOutcome::Error),
                _ => {
                    let mut sample = make::sample(index, make::refused());
                    let mut second = make::attempt(260_000, make::whole());
                    second.backoff = Some(Backoff {
                        length: make::us(250_000),
                        retry_after: None,
                    });
                    sample.attempts.push(second);
                    (sample, SampleOutcome::Slow)
                }
            };
            sample.t0_unix_ns = now - now % 1000 + index * 1_000_000;
            sample.attempts[0]
                .observation
                .headers
                .push(("x-odd".into(), KEY_SHAPED.into()));
            (sample, make::facts(outcome))
        })
        .collect()
}

/// The running programs, on a loopback address of their own; stopped when dropped.
struct Backends {
    host: String,
    folder: tempfile::TempDir,
    _jaeger: Running,
    collector: Option<Running>,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Backends {
    fn start(bin: &Path, test: u32) -> Self {
        // All of 127/8 is this machine, so tests and runs beside each other need no other ports.
        let pid = std::process::id();
        let host = format!("127.{}.{}.{test}", 64 + (pid >> 8) % 64, pid % 256);
        let folder = tempfile::tempdir().unwrap();
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backends/jaeger.yaml");
        let jaeger = spawn(
            Command::new(bin.join("jaeger"))
                .arg("--config")
                .arg(config)
                .env("JAEGER_HOST", &host),
            &folder.path().join("jaeger.log"),
        );
        let mut backends = Self {
            host,
            folder,
            _jaeger: jaeger,
            collector: None,
        };
        backends.wait_for("Jaeger", || get(&backends.host, 13134, "/status").ok());
        backends.start_collector(bin);
        backends
    }

    fn start_collector(&mut self, bin: &Path) {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("otel-collector.yaml");
        self.collector = Some(spawn(
            Command::new(bin.join("otelcol"))
                .arg("--config")
                .arg(config)
                .env("OTELCOL_HOST", &self.host)
                .env("OTELCOL_QUEUE_DIR", self.folder.path().join("queue"))
                .env("JAEGER_OTLP", format!("{}:14317", self.host)),
            &self.folder.path().join("otelcol.log"),
        ));
        self.wait_for("the Collector", || get(&self.host, 13133, "/").ok());
    }

    fn stop_collector(&mut self) {
        self.collector = None;
    }

    fn telemetry(&self, folder: &Path) -> Telemetry {
        let endpoint = format!("http://{}:4318", self.host);
        let run = RunInfo {
            run_id: RUN.into(),
            folder: folder.to_owned(),
            host: "probe-1".into(),
        };
        Telemetry::start(&run, &|name| {
            (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| endpoint.clone())
        })
    }

    /// Asks again until there is an answer.
    fn wait_for<T>(&self, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            if start.elapsed() > PATIENCE {
                let log = |name: &str| {
                    std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
                };
                panic!(
                    "no sign of {what}\n{}\n{}",
                    log("jaeger.log"),
                    log("otelcol.log")
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The spans of a trace, once Jaeger has as many as there must be.
    fn trace(&self, id: &str, spans: usize) -> (String, Vec<Value>) {
        self.wait_for(&format!("{spans} spans of trace {id}"), || {
            let text = get(&self.host, 16686, &format!("/api/traces/{id}")).ok()?;
            let answer: Value = serde_json::from_str(&text).ok()?;
            let found = answer["data"][0]["spans"].as_array()?.clone();
            assert!(found.len() <= spans, "{} spans of {spans}", found.len());
            (found.len() == spans).then_some((text, found))
        })
    }

    /// Root spans of the samples that have these tags.
    fn search(&self, tags: &str) -> Vec<Value> {
        let encoded: String = tags.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!(
            "/api/traces?service=relayproof&operation=relay.sample&limit=100&lookback=1h&tags={encoded}"
        );
        let answer: Value = serde_json::from_str(&get(&self.host, 16686, &path).unwrap()).unwrap();
        answer["data"].as_array().unwrap().clone()
    }

    /// The span id of the cell in the run's trace.
    fn case_id(&self, trace: &str) -> String {
        self.wait_for("the cell's span", || {
            let text = get(&self.host, 16686, &format!("/api/traces/{trace}")).ok()?;
            let answer: Value = serde_json::from_str(&text).ok()?;
            let spans = answer["data"][0]["spans"].as_array()?;
            let case = spans
                .iter()
                .find(|span| span["operationName"] == "relay.case")?;
            Some(case["spanID"].as_str()?.to_owned())
        })
    }
}

fn spawn(command: &mut Command, log: &Path) -> Running {
    let log = File::options().create(true).append(true).open(log).unwrap();
    let child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    Running(child)
}

/// The body of a successful answer.
fn get(host: &str, port: u16, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((host, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    if head.split(' ').nth(1) == Some("200") {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(head.to_owned()))
    }
}

fn micros(at: std::time::SystemTime) -> u64 {
    at.duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_micros() as u64
}

/// Trace and span ids of a span's references of one kind.
fn references(span: &Value, kind: &str) -> impl Iterator<Item = (String, String)> {
    span["references"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(move |reference| reference["refType"] == kind)
        .map(|reference| {
            let id = |name: &str| reference[name].as_str().unwrap().to_owned();
            (id("traceID"), id("spanID"))
        })
}

fn tag(span: &Value, key: &str) -> Option<String> {
    let value = span["tags"]
        .as_array()?
        .iter()
        .find(|tag| tag["key"] == key)?;
    Some(match &value["value"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}
