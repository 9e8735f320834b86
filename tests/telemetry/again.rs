//! Spans of recorded evidence, sent later: the same as those of the run, and every one counted.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::{Span, TracesData};
use relayproof::evidence::{
    Backoff, Close, CloseReason, Evidence, Header, Line, Sample, SelfCheck, Writer,
};
use relayproof::telemetry::replay::{ReplayError, Replayed, Target, replay};
use relayproof::telemetry::spans::{SampleFacts, SuiteInfo, SuiteStatus};
use relayproof::verdict;

use crate::make::{self, T0};
use crate::receiver::{Mode, Receiver, spans};

/// Two cells of one spec, one of them violated, one interrupted by its second relay's failure.
fn evidence() -> [Evidence; 2] {
    let header = |relay: &str| Header {
        cell_id: format!("{relay}-id"),
        cell: format!("{relay}/m-small/short"),
        relay: relay.into(),
        spec_cells: Some(2),
        ..make::header()
    };
    let mut retried = make::sample(4, make::refused());
    let mut second = make::attempt(260_000, make::whole());
    second.backoff = Some(Backoff {
        length: make::us(250_000),
        retry_after: Some(make::us(200_000)),
    });
    retried.attempts.push(second);
    let mut warmup = make::sample(50, make::whole());
    warmup.warmup = true;
    let bad = vec![
        warmup,
        make::sample(0, make::cut()),
        make::sample(1, make::whole()),
        make::sample(2, make::refused()),
        make::sample(3, make::cut()),
        retried,
    ];
    let good: Vec<Sample> = (100..140)
        .map(|index| make::sample(index, make::whole()))
        .collect();
    [(header("acme"), bad), (header("brave"), good)].map(|(header, samples)| {
        let mut evidence = Evidence::new(header);
        for sample in samples {
            evidence.push(Line::Sample(Box::new(sample)));
        }
        evidence.push(Line::Close(Close {
            reason: CloseReason::Budget,
            at_unix_ns: T0 + 90_000_000_000,
            abandoned: 0,
            self_check: SelfCheck::default(),
            error: None,
        }));
        evidence
    })
}

/// The evidence as files in a folder.
fn written(folder: &Path, all: &[Evidence]) -> Vec<PathBuf> {
    let files = all.iter().map(|evidence| {
        let header = &evidence.header;
        let path = folder.join(format!("{}-{}.jsonl", header.run_id, header.relay));
        let mut writer = Writer::create(&path, header).unwrap();
        for sample in &evidence.samples {
            writer.sample(sample).unwrap();
        }
        if let Some(close) = &evidence.close {
            writer.close(close).unwrap();
        }
        path
    });
    files.collect()
}

/// What the run itself sends while it lasts.
fn live(all: &[Evidence]) -> Vec<Span> {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let telemetry = crate::start(folder.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]);
    let suite = telemetry.suite(&SuiteInfo::of(&all[0].header, 0));
    let mut cells = Vec::new();
    for evidence in all {
        let case = suite.case(&evidence.header);
        for sample in &evidence.samples {
            case.sample(sample, &SampleFacts::of(&evidence.header, sample));
        }
        let verdicts = verdict::judge(evidence);
        if let Some(close) = &evidence.close {
            case.finish(&verdicts, close.at_unix_ns);
        }
        cells.push((evidence, verdicts));
    }
    let status = SuiteStatus::of(cells.iter().map(|(evidence, verdicts)| {
        (
            &evidence.header,
            evidence.close.as_ref(),
            verdicts.as_slice(),
        )
    }));
    suite.finish(status);
    let account = telemetry.finish(Duration::from_secs(5));
    assert_eq!(account.spans.made, account.spans.exported, "{account:?}");
    receiver.spans()
}

fn again(
    files: &[PathBuf],
    target: Target<'_>,
    env: &[(&str, &str)],
) -> Result<Replayed, ReplayError> {
    let env: HashMap<_, _> = env.iter().copied().collect();
    replay(files, target, &|name| {
        env.get(name).map(|it| (*it).to_owned())
    })
}

/// Spans by their ids, which no two of them share.
fn by_id(spans: Vec<Span>) -> BTreeMap<(Vec<u8>, Vec<u8>), Span> {
    let count = spans.len();
    let by_id: BTreeMap<_, _> = spans
        .into_iter()
        .map(|span| ((span.trace_id.clone(), span.span_id.clone()), span))
        .collect();
    assert_eq!(by_id.len(), count, "ids are unique");
    by_id
}

fn names(spans: &BTreeMap<(Vec<u8>, Vec<u8>), Span>, name: &str) -> usize {
    spans.values().filter(|span| span.name == name).count()
}

#[test]
fn evidence_gives_the_very_spans_that_its_run_has_sent() {
    let all = evidence();
    let sent = by_id(live(&all));
    let folder = tempfile::tempdir().unwrap();
    let files = written(folder.path(), &all);

    let receiver = Receiver::start(Mode::Ok);
    let endpoint = receiver.endpoint();
    // Whatever the exporting process is part of is not what the run was part of.
    let env = [
        (
            "TRACEPARENT",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
        ("OTEL_TRACES_EXPORTER", "none"),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "http://127.0.0.1:9/elsewhere",
        ),
    ];
    let account = again(&files, Target::Network(Some(&endpoint)), &env).unwrap();
    assert_eq!(by_id(receiver.spans()), sent);
    assert_eq!(account.samples, 46);
    assert_eq!(
        (account.made, account.exported),
        (sent.len() as u64, sent.len() as u64)
    );
    assert_eq!(
        account.to_string(),
        format!(
            "exported {0}/{0} spans of 46 samples to {endpoint}/v1/traces",
            sent.len()
        )
    );
    for (name, count) in [
        ("relay.suite", 1),
        ("relay.case", 2),
        ("relay.slo", 2),
        ("relay.sample", 46),
        ("relay.backoff", 1),
    ] {
        assert_eq!(names(&sent, name), count, "{name}");
    }

    let path = folder.path().join("again.otlp.jsonl");
    let account = again(&files, Target::File(&path), &[]).unwrap();
    assert!(account.is_whole());
    let text = std::fs::read_to_string(&path).unwrap();
    let kept: Vec<_> = text
        .lines()
        .flat_map(|line| {
            serde_json::from_str::<TracesData>(line)
                .unwrap()
                .resource_spans
        })
        .collect();
    assert_eq!(by_id(spans(&kept)), sent);
    // Evidence is appended to; what an export has written is not.
    let error = again(&files, Target::File(&path), &[]).unwrap_err();
    assert!(matches!(error, ReplayError::File { .. }), "{error}");
}

#[test]
fn a_cell_without_a_proper_end_has_no_verdicts_live_or_later() {
    let [mut bad, good] = evidence();
    bad.close = None;
    let all = [bad, good];
    let sent = by_id(live(&all));
    let folder = tempfile::tempdir().unwrap();
    let files = written(folder.path(), &all);
    let receiver = Receiver::start(Mode::Ok);
    let endpoint = receiver.endpoint();
    again(&files, Target::Network(Some(&endpoint)), &[]).unwrap();
    assert_eq!(by_id(receiver.spans()), sent);
    assert_eq!(names(&sent, "relay.slo"), 1);
    let suite = sent
        .values()
        .find(|span| span.name == "relay.suite")
        .unwrap();
    let status = crate::receiver::text(&suite.attributes, "test.suite.run.status");
    assert_eq!(status.as_deref(), Some("aborted"));
}

#[test]
fn more_spans_than_any_queue_holds_all_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let [_, mut good] = evidence();
    good.samples = (0..900)
        .map(|index| make::sample(index, make::whole()))
        .collect();
    let files = written(folder.path(), &[good]);
    let receiver = Receiver::start(Mode::Ok);
    let endpoint = receiver.endpoint();
    let account = again(&files, Target::Network(Some(&endpoint)), &[]).unwrap();
    assert_eq!(account.made, 900 * 14 + 3);
    assert!(account.is_whole(), "{account}");
    assert_eq!(receiver.spans().len() as u64, account.made);
}

#[test]
fn what_a_backend_does_not_take_is_counted_to_the_span() {
    let folder = tempfile::tempdir().unwrap();
    let files = written(folder.path(), &evidence());
    let refusing = Receiver::start(Mode::Refuse(7));
    let account = again(&files, Target::Network(Some(&refusing.endpoint())), &[]).unwrap();
    let requests = refusing.seen().bodies.len() as u64;
    assert_eq!(account.made - account.exported, 7 * requests);
    assert!(!account.is_whole());

    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    for (endpoint, why) in [
        (nobody, "connection refused"),
        (
            Receiver::start(Mode::Status(400)).endpoint(),
            "HTTP status 400",
        ),
    ] {
        let account = again(&files, Target::Network(Some(&endpoint)), &[]).unwrap();
        assert_eq!(account.exported, 0);
        let text = account.to_string();
        assert!(
            text.starts_with(&format!("exported 0/{}", account.made)),
            "{text}"
        );
        assert!(
            text.ends_with(&format!("{} were not taken: {why}", account.made)),
            "{text}"
        );
    }
}

#[test]
fn an_export_needs_an_endpoint_and_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let files = written(folder.path(), &evidence());
    let error = again(&files, Target::Network(None), &[]).unwrap_err();
    assert!(error.to_string().contains("--otlp URL"), "{error}");
    let error = again(&files, Target::Network(Some("localhost:4318")), &[]).unwrap_err();
    assert!(matches!(error, ReplayError::Endpoint(_)), "{error}");
    let missing = [folder.path().join("none.jsonl")];
    let error = again(&missing, Target::Network(Some("http://127.0.0.1:9")), &[]).unwrap_err();
    assert!(matches!(error, ReplayError::Evidence(_)), "{error}");
}
