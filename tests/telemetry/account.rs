//! What happens when the other side is away, slow or wrong, and what is never shown.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, TracesData};
use relayproof::telemetry::spans::SampleOutcome;
use relayproof::telemetry::{Exported, SuiteStatus, Telemetry, file};
use tracing_subscriber::layer::SubscriberExt;

use crate::make::{self, T0};
use crate::receiver::{Mode, Receiver, spans, text};

const BUDGET: Duration = Duration::from_secs(5);

/// Samples of the runs below.
const SAMPLES: u64 = 60;

/// Spans of such a run: 14 a sample, one verdict, one cell, one suite.
const SPANS: u64 = SAMPLES * 14 + 3;

/// Exports a run and gives the account with the time that the end took.
fn play(telemetry: Telemetry) -> (Exported, Duration) {
    let suite = telemetry.suite(&crate::suite());
    let case = suite.case(&make::header());
    for index in 0..SAMPLES {
        case.sample(
            &make::sample(index, make::whole()),
            &make::facts(SampleOutcome::Good),
        );
    }
    case.finish(&[make::violated()], T0);
    suite.finish(SuiteStatus::Failure);
    let start = Instant::now();
    let account = telemetry.finish(BUDGET);
    (account, start.elapsed())
}

/// A run against an endpoint that takes nothing: everything is counted as lost, said once, kept in
/// the file, and over in time.
fn nothing_arrives(endpoint: &str, reason: &str) {
    let folder = tempfile::tempdir().unwrap();
    let telemetry = crate::start(folder.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)]);
    let (account, end) = play(telemetry);
    assert!(end < Duration::from_secs(10), "{end:?}");
    assert_eq!(account.spans.made, SPANS);
    assert_eq!(account.spans.exported, 0);
    assert_eq!(account.spans.failed + account.spans.dropped, SPANS);
    assert!(account.spans.failed > 0, "it was tried");
    assert_eq!(account.written, SPANS);
    let [warning] = account.warnings.as_slice() else {
        panic!("{:?}", account.warnings);
    };
    assert!(warning.contains(reason), "{warning}");
    assert!(warning.contains(file::NAME), "{warning}");
    assert!(
        warning.starts_with(&format!("{SPANS} of {SPANS} spans")),
        "{warning}"
    );
}

#[test]
fn no_collector_is_one_warning() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    nothing_arrives(&endpoint, "connection refused");
}

#[test]
fn a_collector_that_never_answers_is_one_warning() {
    nothing_arrives(
        &Receiver::start(Mode::Hang).endpoint(),
        "the time was too short",
    );
}

#[test]
fn a_wrong_address_is_one_warning() {
    nothing_arrives(
        &Receiver::start(Mode::Status(404)).endpoint(),
        "HTTP status 404",
    );
}

#[test]
fn an_overloaded_collector_is_one_warning() {
    nothing_arrives(
        &Receiver::start(Mode::Status(503)).endpoint(),
        "HTTP status 503",
    );
}

#[test]
fn a_redirect_is_not_followed() {
    nothing_arrives(
        &Receiver::start(Mode::Status(307)).endpoint(),
        "HTTP status 307",
    );
}

#[test]
fn a_collector_that_comes_back_loses_nothing() {
    let receiver = Receiver::start(Mode::Recover(2));
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_METRICS_EXPORTER", "none"),
    ];
    let telemetry = crate::start(folder.path(), &env);
    // Two refusals while the run lasts; the end of the run must not come before the third request.
    let suite = telemetry.suite(&crate::suite());
    let case = suite.case(&make::header());
    for index in 0..SAMPLES {
        case.sample(
            &make::sample(index, make::whole()),
            &make::facts(SampleOutcome::Good),
        );
    }
    let start = Instant::now();
    while receiver.seen().requests("/v1/traces") < 3 {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::yield_now();
    }
    drop(case);
    suite.finish(SuiteStatus::Success);
    let account = telemetry.finish(BUDGET);
    assert_eq!(account.spans.exported, account.spans.made);
    assert_eq!(account.spans.failed + account.spans.dropped, 0);
    assert_eq!(account.warnings, Vec::<String>::new());
    assert_eq!(receiver.spans().len() as u64, account.spans.made);
}

#[test]
fn refused_spans_are_failed_spans() {
    let receiver = Receiver::start(Mode::Refuse(7));
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let telemetry = crate::start(folder.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]);
    let (account, _) = play(telemetry);
    let requests = receiver.seen().requests("/v1/traces") as u64;
    assert_eq!(account.spans.failed, 7 * requests);
    assert_eq!(account.spans.exported, SPANS - 7 * requests);
    assert_eq!(account.warnings.len(), 1);
}

#[test]
fn an_answer_that_is_no_otlp_is_taken_as_yes() {
    let receiver = Receiver::start(Mode::Garbage);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let telemetry = crate::start(folder.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]);
    let (account, _) = play(telemetry);
    assert_eq!(account.spans.exported, SPANS);
    assert_eq!(account.warnings, Vec::<String>::new());
}

/// More than the queue to the network holds, while nothing takes it away.
#[test]
fn a_full_queue_drops_for_the_network_and_not_for_the_file() {
    let receiver = Receiver::start(Mode::Hang);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_METRICS_EXPORTER", "none"),
    ];
    let telemetry = crate::start(folder.path(), &env);
    let suite = telemetry.suite(&crate::suite());
    let case = suite.case(&make::header());
    // A little more than the queue and the batch under way hold, for a busy machine has to write
    // all of it before its budget is over.
    for index in 0..660 {
        case.sample(
            &make::sample(index, make::whole()),
            &make::facts(SampleOutcome::Good),
        );
    }
    drop(case);
    drop(suite);
    // Time enough for a busy machine to write the file; the network takes nothing in any time.
    let account = telemetry.finish(BUDGET);
    assert_eq!(account.spans.made, 660 * 14 + 2);
    assert_eq!(account.written, account.spans.made);
    assert_eq!(
        account.spans.failed + account.spans.dropped,
        account.spans.made
    );
    assert!(account.spans.dropped > 0);
}

#[test]
fn without_an_endpoint_nothing_is_sent_and_the_file_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (account, _) = play(crate::start(folder.path(), &[]));
    assert_eq!(account.endpoint, None);
    assert_eq!(account.written, SPANS);
    assert_eq!(account.warnings, Vec::<String>::new());
    assert_eq!(
        account.to_string(),
        format!("evidence {SPANS}/{SPANS} spans")
    );
}

#[test]
fn a_disabled_sdk_or_no_exporter_sends_nothing() {
    for (name, value) in [
        ("OTEL_SDK_DISABLED", "TRUE"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ] {
        let receiver = Receiver::start(Mode::Ok);
        let folder = tempfile::tempdir().unwrap();
        let endpoint = receiver.endpoint();
        let env = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_METRICS_EXPORTER", "none"),
            (name, value),
        ];
        let (account, _) = play(crate::start(folder.path(), &env));
        assert_eq!(account.spans.exported, 0);
        assert_eq!(account.written, SPANS, "the run's record stays whole");
        assert_eq!(account.warnings, Vec::<String>::new());
        assert!(receiver.seen().heads.is_empty());
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let telemetry = crate::start(&folder.path().join("missing"), &[]);
    let (account, _) = play(telemetry);
    assert_eq!(account.written, 0);
    assert_eq!(account.spans.made, SPANS);
    assert_eq!(account.warnings.len(), 1);
}

#[test]
fn a_torn_last_line_spoils_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file::NAME);
    std::fs::write(&path, "{\"resourceSpans\":[{\"res").unwrap();
    let (account, _) = play(crate::start(folder.path(), &[]));
    let text = std::fs::read_to_string(path).unwrap();
    let whole: Vec<TracesData> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let count: usize = whole
        .iter()
        .map(|data| spans(&data.resource_spans).len())
        .sum();
    assert_eq!(count as u64, account.written);
    assert_eq!(text.lines().count(), whole.len() + 1);
}

#[test]
fn the_resource_says_who_emits() {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=ci,team=a%2Cb,relay.run.id=forged",
        ),
    ];
    play(crate::start(folder.path(), &env));
    let seen = receiver.seen();
    let sent = &seen.traces[0];
    let kept = std::fs::read_to_string(folder.path().join(file::NAME)).unwrap();
    let kept: TracesData = serde_json::from_str(kept.lines().next().unwrap()).unwrap();
    let kept = &kept.resource_spans[0];
    let scope = |spans: &ResourceSpans| spans.scope_spans[0].scope.clone();
    assert_eq!(scope(sent), scope(kept));
    assert_eq!(scope(kept).unwrap().name, "relayproof");
    let sorted = |spans: &ResourceSpans| {
        let mut attributes = spans.resource.clone().unwrap().attributes;
        attributes.sort_by(|a, b| a.key.cmp(&b.key));
        attributes
    };
    assert_eq!(sorted(sent), sorted(kept));
    let resource = sent.resource.as_ref().unwrap();
    for (key, value) in [
        ("service.name", "relayproof"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("host.name", "probe-1"),
        ("relay.run.id", "20251124T160000Z-4f2a"),
        ("deployment.environment.name", "ci"),
        ("team", "a,b"),
        ("telemetry.sdk.language", "rust"),
    ] {
        assert_eq!(
            text(&resource.attributes, key).as_deref(),
            Some(value),
            "{key}"
        );
    }
    assert_eq!(
        text(&resource.attributes, "service.instance.id")
            .unwrap()
            .len(),
        32
    );
}

#[test]
fn headers_paths_and_compression_follow_the_variables() {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("{}/base/", receiver.endpoint());
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "x-tenant=a%20b, authorization=Bearer t",
        ),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_LOGS_EXPORTER", "none"),
    ];
    let (account, _) = play(crate::start(folder.path(), &env));
    assert_eq!(account.spans.exported, SPANS);
    let seen = receiver.seen();
    assert_eq!(seen.requests("/base/v1/metrics"), 1);
    for (head, body) in seen.heads.iter().zip(&seen.bodies) {
        let head = head.to_lowercase();
        assert!(
            head.starts_with("post /base/v1/traces http/1.1\r\n")
                || head.starts_with("post /base/v1/metrics http/1.1\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\nx-tenant: a b\r\n"), "{head}");
        assert!(head.contains("\r\nauthorization: bearer t\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-encoding: gzip\r\n"), "{head}");
        assert!(
            head.contains("\r\ncontent-type: application/x-protobuf\r\n"),
            "{head}"
        );
        assert!(body.starts_with(&[0x1f, 0x8b]));
    }
}

#[test]
fn what_cannot_be_honoured_is_said_once() {
    let cases: [(&[(&str, &str)], &str); 7] = [
        (
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")],
            "must be a URL",
        ),
        (
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ],
            "http/json is not supported",
        ),
        (
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ],
            "milliseconds",
        ),
        (
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem"),
            ],
            "/nowhere/ca.pem",
        ),
        (
            &[("OTEL_TRACES_EXPORTER", "otlp")],
            "OTEL_EXPORTER_OTLP_ENDPOINT is not set",
        ),
        (
            &[
                ("OTEL_TRACES_SAMPLER", "traceidratio"),
                ("OTEL_PROPAGATORS", "b3"),
            ],
            "not honoured: OTEL_PROPAGATORS, OTEL_TRACES_SAMPLER",
        ),
        (&[("OTEL_TRACES_EXPORTER", "zipkin")], "zipkin is not known"),
    ];
    for (env, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (account, _) = play(crate::start(folder.path(), env));
        let said = account
            .warnings
            .iter()
            .filter(|warning| warning.contains(expected))
            .count();
        assert_eq!(said, 1, "{env:?}: {:?}", account.warnings);
        assert_eq!(account.written, SPANS, "the file does not depend on it");
        assert_eq!(account.spans.exported, 0);
    }
}

#[cfg(not(feature = "grpc"))]
#[test]
fn grpc_without_its_feature_is_said_clearly() {
    let folder = tempfile::tempdir().unwrap();
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ];
    let (account, _) = play(crate::start(folder.path(), &env));
    assert_eq!(account.warnings.len(), 1, "{:?}", account.warnings);
    assert!(account.warnings[0].contains("feature `grpc`"));
}

#[test]
fn log_lines_carry_the_ids_of_the_cell_they_were_written_in() {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let telemetry = crate::start(folder.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]);
    let subscriber = tracing_subscriber::registry().with(telemetry.log_layer());
    let suite = telemetry.suite(&crate::suite());
    let case = suite.case(&make::header());
    tracing::subscriber::with_default(subscriber, || {
        case.enter(|| tracing::warn!(failures = 5, "ttft.p95 is violated"));
        tracing::debug!("not for the user");
        tracing::info!(target: "hyper::client", "not ours");
        tracing::info!("outside of everything");
    });
    let context = case.context().clone();
    drop(case);
    suite.finish(SuiteStatus::Failure);
    let account = telemetry.finish(BUDGET);
    assert_eq!((account.logs.made, account.logs.exported), (2, 2));
    let seen = receiver.seen();
    let [verdict, outside] = seen.logs.as_slice() else {
        panic!("{} log records", seen.logs.len());
    };
    assert_eq!(verdict.severity_text, "WARN");
    assert_eq!(text(&verdict.attributes, "failures").as_deref(), Some("5"));
    assert_eq!(verdict.trace_id, context.trace_id().to_bytes());
    assert_eq!(verdict.span_id, context.span_id().to_bytes());
    assert!(outside.trace_id.is_empty());
    let case = receiver_case(&seen.traces);
    assert_eq!(case, context.span_id().to_bytes());
}

fn receiver_case(traces: &[ResourceSpans]) -> Vec<u8> {
    spans(traces)
        .into_iter()
        .find(|span| span.name == "relay.case")
        .unwrap()
        .span_id
}

/// A key in the variables that hold one is sent where it belongs, and shown nowhere.
#[test]
fn secrets_of_the_environment_are_never_shown() {
    const CANARY: &str = "sk-canary-5f1d0c";
    let receiver = Receiver::start(Mode::Status(401));
    let folder = tempfile::tempdir().unwrap();
    let headers = format!("x-api-key={CANARY}");
    let endpoint = receiver
        .endpoint()
        .replace("http://", &format!("http://user:{CANARY}@"))
        + &format!("/?token={CANARY}");
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", headers.as_str()),
    ];
    let telemetry = crate::start(folder.path(), &env);
    let debug = format!("{telemetry:?}");
    let (account, _) = play(telemetry);
    let settings =
        relayproof::telemetry::env::Settings::read(&crate::run(folder.path()), &|name| {
            env.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        });
    let broken = crate::start(
        folder.path(),
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
            ("OTEL_EXPORTER_OTLP_HEADERS", CANARY),
        ],
    );
    let (broken, _) = play(broken);
    assert!(broken.warnings[0].contains("OTEL_EXPORTER_OTLP_HEADERS"));
    let kept = std::fs::read_to_string(folder.path().join(file::NAME)).unwrap();
    for (place, text) in [
        ("Debug of Telemetry", debug),
        ("Debug of Settings", format!("{settings:?}")),
        ("the account", format!("{account:?} {account}")),
        ("the account of a broken variable", format!("{broken:?}")),
        ("the file", kept),
    ] {
        assert!(!text.contains(CANARY), "{place}: {text}");
    }
    let seen = receiver.seen();
    assert!(
        seen.heads[0].contains(&format!("x-api-key: {CANARY}")),
        "it is sent"
    );
    for body in &seen.bodies {
        let found = body
            .windows(CANARY.len())
            .any(|part| part == CANARY.as_bytes());
        assert!(!found, "a key in a body");
    }
}
