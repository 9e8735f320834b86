//! What the library exports, in Jaeger: attribute by attribute, and through a restart.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use relayproof::evidence::{Backoff, Sample};
use relayproof::telemetry::spans::{CellSpans, SampleFacts, SampleOutcome};
use relayproof::telemetry::{Case, RunInfo, Suite, SuiteInfo, SuiteStatus, Telemetry};

use crate::make;
use crate::programs::{Backends, binaries, get, references, tag};

/// A text with the shape of a key; the Collector's own rules must stop it.
const KEY_SHAPED: &str = "sk-CanaryCanaryCanary0123456789";

const RUN: &str = "20251124T160000Z-real";

#[test]
fn every_sample_is_found_in_jaeger_as_it_was_measured() {
    let Some(bin) = binaries(&["otelcol", "jaeger"]) else {
        return;
    };
    let backends = Backends::start(&bin, 1);
    let folder = tempfile::tempdir().unwrap();
    let telemetry = telemetry(&backends, folder.path());
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
        assert_eq!(
            span,
            case_id(&backends, &trace),
            "the link leads to the cell"
        );
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
    let found = backends.search(
        &format!(r#"{{"relay.run.id":"{RUN}","relay.sample.outcome":"error"}}"#),
        100,
    );
    assert_eq!(found.len(), failing, "one search finds the failing samples");

    backends.wait_for("metrics of the spans", || {
        let text = get(&backends.host, 8889, "/metrics").ok()?;
        let phases = text.lines().any(|line| {
            line.starts_with("traces_span_metrics_") && line.contains("relay_phase=\"first_token\"")
        });
        phases.then_some(())
    });
}

#[test]
fn a_collector_that_is_restarted_during_a_run_loses_nothing() {
    let Some(bin) = binaries(&["otelcol", "jaeger"]) else {
        return;
    };
    let mut backends = Backends::start(&bin, 2);
    let folder = tempfile::tempdir().unwrap();
    let telemetry = telemetry(&backends, folder.path());
    let (suite, case) = open(&telemetry);
    let samples = samples(100..140);
    for (sample, facts) in &samples[..20] {
        case.sample(sample, facts);
    }
    let cell = CellSpans::new(&make::header());
    let (first, facts) = &samples[0];
    // The first half has arrived before the Collector dies, and the second half while it is dead.
    backends.trace(&first.trace_id, cell.sample(first, facts, None).len());
    backends.kill_collector();
    for (sample, facts) in &samples[20..] {
        case.sample(sample, facts);
    }
    drop(case);
    suite.finish(SuiteStatus::Success);
    backends.start_collector();
    let account = telemetry.finish(Duration::from_secs(5));
    assert_eq!(account.warnings, Vec::<String>::new());
    assert_eq!(account.spans.exported, account.spans.made);
    for (sample, facts) in &samples {
        backends.trace(&sample.trace_id, cell.sample(sample, facts, None).len());
    }
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

fn telemetry(backends: &Backends, folder: &Path) -> Telemetry {
    let endpoint = backends.endpoint();
    let run = RunInfo {
        run_id: RUN.into(),
        folder: folder.to_owned(),
        host: "probe-1".into(),
    };
    Telemetry::start(&run, &|name| {
        (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| endpoint.clone())
    })
}

/// The span id of the cell in the run's trace.
fn case_id(backends: &Backends, trace: &str) -> String {
    backends.wait_for("the cell's span", || {
        let (_, spans) = backends.look(trace)?;
        let case = spans
            .iter()
            .find(|span| span["operationName"] == "relay.case")?;
        Some(case["spanID"].as_str()?.to_owned())
    })
}

fn micros(at: std::time::SystemTime) -> u64 {
    at.duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_micros() as u64
}
