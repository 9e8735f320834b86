//! The spans themselves: names, kinds, parents, times, attributes, links, statuses.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span, TracesData, span, status};
use relayproof::evidence::{Backoff, Sample};
use relayproof::observation::{
    Class, Ending, Limit, Observation, Phase, Stretch, TcpAttempt, Timeline,
};
use relayproof::telemetry::SuiteStatus;
use relayproof::telemetry::semconv;
use relayproof::telemetry::spans::{SampleFacts, SampleOutcome};

use crate::make::{self, T0, us};
use crate::receiver::{Mode, Receiver, spans, text};

const BUDGET: Duration = Duration::from_secs(5);

/// Exports samples through a receiver; gives what arrived and what the file holds.
fn exported(samples: &[(Sample, SampleFacts)], env: &[(&str, &str)]) -> (Vec<Span>, Vec<Span>) {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let mut all = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    all.extend_from_slice(env);
    let telemetry = crate::start(folder.path(), &all);
    let suite = telemetry.suite(&crate::suite());
    let case = suite.case(&make::header());
    for (sample, facts) in samples {
        case.sample(sample, facts);
    }
    case.finish(&[make::violated()], T0 + 60_000_000_000);
    suite.finish(SuiteStatus::Failure);
    let account = telemetry.finish(BUDGET);
    assert_eq!(account.warnings, Vec::<String>::new());
    assert_eq!(account.spans.made, account.spans.exported);
    assert_eq!(account.spans.made, account.written);
    (receiver.spans(), spans(&file(folder.path())))
}

fn file(folder: &std::path::Path) -> Vec<ResourceSpans> {
    let text = std::fs::read_to_string(folder.join(relayproof::telemetry::file::NAME)).unwrap();
    text.lines()
        .flat_map(|line| {
            serde_json::from_str::<TracesData>(line)
                .unwrap()
                .resource_spans
        })
        .collect()
}

/// The spans of one sample by name, the trace's root first.
fn drawn(observation: Observation, outcome: SampleOutcome) -> Vec<Span> {
    let sample = make::sample(0, observation);
    let (spans, _) = exported(&[(sample.clone(), make::facts(outcome))], &[]);
    spans
        .into_iter()
        .filter(|span| hex(&span.trace_id) == sample.trace_id)
        .collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no span {name}"));
    assert!(found.next().is_none(), "{name} twice");
    span
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    text(&span.attributes, key)
}

/// Start and end as microseconds after t0.
fn times(span: &Span) -> (u64, u64) {
    (
        (span.start_time_unix_nano - T0) / 1000,
        (span.end_time_unix_nano - T0) / 1000,
    )
}

fn events(span: &Span) -> Vec<(&str, u64)> {
    span.events
        .iter()
        .map(|event| (event.name.as_str(), (event.time_unix_nano - T0) / 1000))
        .collect()
}

fn code(span: &Span) -> status::StatusCode {
    span.status
        .as_ref()
        .map_or(status::StatusCode::Unset, |status| status.code())
}

#[test]
fn a_whole_answer_becomes_the_documented_tree() {
    let spans = drawn(make::whole(), SampleOutcome::Good);
    let names: HashMap<_, _> = spans
        .iter()
        .map(|span| (span.span_id.clone(), span.name.as_str()))
        .collect();
    let mut tree: Vec<_> = spans
        .iter()
        .map(|span| {
            let parent = names.get(&span.parent_span_id).copied().unwrap_or("-");
            let (start, end) = times(span);
            (parent, span.name.as_str(), span.kind(), start, end)
        })
        .collect();
    tree.sort_by_key(|(_, _, _, start, end)| (*start, u64::MAX - *end));
    use span::SpanKind::{Client, Internal};
    assert_eq!(
        tree,
        [
            ("-", "relay.sample", Internal, 0, 1_915_500),
            ("relay.sample", "chat m-small", Client, 0, 1_915_500),
            ("chat m-small", "POST", Client, 0, 1_915_500),
            ("POST", "HTTP connection_setup", Internal, 10, 45_040),
            ("HTTP connection_setup", "DNS lookup", Internal, 10, 5_010),
            (
                "HTTP connection_setup",
                "socket connect",
                Internal,
                5_020,
                17_020
            ),
            (
                "HTTP connection_setup",
                "proxy tunnel",
                Internal,
                17_030,
                20_030
            ),
            (
                "HTTP connection_setup",
                "TLS client handshake",
                Internal,
                20_040,
                45_040
            ),
            ("POST", "HTTP request send", Internal, 45_100, 45_300),
            ("POST", "HTTP response wait", Internal, 45_300, 145_300),
            ("POST", "HTTP response headers", Internal, 145_300, 145_400),
            ("POST", "SSE first token", Internal, 145_400, 312_347),
            ("POST", "SSE tokens", Internal, 312_347, 1_912_347),
            ("POST", "SSE done", Internal, 1_912_347, 1_915_001),
        ]
    );
}

#[test]
fn time_to_first_token_equals_the_evidence_to_the_microsecond() {
    let spans = drawn(make::whole(), SampleOutcome::Good);
    let evidence = make::whole().timeline.first_token.unwrap();
    let sample = named(&spans, "relay.sample");
    let post = named(&spans, "POST");
    for span in [sample, post] {
        let seconds: f64 = attribute(span, semconv::RELAY_TTFT)
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!((seconds * 1e6).round(), 312_347.0);
    }
    let first = named(&spans, "SSE first token");
    let event = first
        .events
        .iter()
        .find(|event| event.name == semconv::EVENT_FIRST_TOKEN)
        .unwrap();
    assert_eq!(
        event.time_unix_nano - post.start_time_unix_nano,
        u64::try_from(evidence.as_nanos()).unwrap()
    );
    assert_eq!(first.end_time_unix_nano, event.time_unix_nano);
}

/// Sum of the phases plus the gaps between them is the attempt, and nothing overlaps.
#[test]
fn phases_tile_the_attempt() {
    for observation in [make::whole(), make::refused(), make::cut()] {
        let spans = drawn(observation, SampleOutcome::Error);
        for parent in ["POST", "HTTP connection_setup"] {
            let Some(parent) = spans.iter().find(|span| span.name == parent) else {
                continue;
            };
            let mut children: Vec<_> = spans
                .iter()
                .filter(|span| span.parent_span_id == parent.span_id)
                .collect();
            children.sort_by_key(|span| span.start_time_unix_nano);
            let mut at = parent.start_time_unix_nano;
            let (mut covered, mut gaps) = (0, 0);
            for child in children {
                assert!(child.start_time_unix_nano >= at, "{} overlaps", child.name);
                gaps += child.start_time_unix_nano - at;
                covered += child.end_time_unix_nano - child.start_time_unix_nano;
                at = child.end_time_unix_nano;
            }
            assert!(
                at <= parent.end_time_unix_nano,
                "a phase leaves the attempt"
            );
            gaps += parent.end_time_unix_nano - at;
            assert_eq!(
                covered + gaps,
                parent.end_time_unix_nano - parent.start_time_unix_nano
            );
            assert!(gaps < 1_000_000, "{gaps} ns of {} are dark", parent.name);
        }
    }
}

#[test]
fn a_whole_answer_carries_the_documented_attributes() {
    let spans = drawn(make::whole(), SampleOutcome::Good);
    let all: HashMap<(&str, &str), &str> = HashMap::from([
        (("relay.sample", "relay.name"), "acme"),
        (("relay.sample", "relay.spec"), "chat"),
        (("relay.sample", "test.case.name"), "acme/m-small/short"),
        (("relay.sample", "relay.sample.index"), "0"),
        (("relay.sample", "relay.sample.warmup"), "false"),
        (("relay.sample", "relay.sample.outcome"), "good"),
        (("relay.sample", "relay.sample.class"), "ok"),
        (("relay.sample", "relay.schedule_delay"), "0.000321"),
        (("relay.sample", "relay.attempt.count"), "1"),
        (("relay.sample", "relay.tps"), "39.4"),
        (("relay.sample", "relay.jitter"), "0.012"),
        (("chat m-small", "gen_ai.operation.name"), "chat"),
        (("chat m-small", "gen_ai.provider.name"), "openai"),
        (("chat m-small", "gen_ai.request.model"), "m-small"),
        (("chat m-small", "gen_ai.request.max_tokens"), "128"),
        (("chat m-small", "gen_ai.request.stream"), "true"),
        (("chat m-small", "gen_ai.response.model"), "m-small-2025"),
        (("chat m-small", "gen_ai.response.id"), "chatcmpl-1"),
        (("chat m-small", "gen_ai.response.finish_reasons"), "stop"),
        (
            ("chat m-small", "gen_ai.response.time_to_first_chunk"),
            "0.1461",
        ),
        (("chat m-small", "gen_ai.usage.input_tokens"), "20"),
        (("chat m-small", "gen_ai.usage.output_tokens"), "64"),
        (
            ("chat m-small", "gen_ai.usage.cache_read.input_tokens"),
            "4",
        ),
        (
            ("chat m-small", "gen_ai.usage.reasoning.output_tokens"),
            "8",
        ),
        (("chat m-small", "openai.api.type"), "chat_completions"),
        (
            ("chat m-small", "openai.response.system_fingerprint"),
            "fp_1",
        ),
        (("POST", "http.request.method"), "POST"),
        (
            ("POST", "url.full"),
            "https://relay.example:8443/v1/chat/completions",
        ),
        (("POST", "server.address"), "relay.example"),
        (("POST", "server.port"), "8443"),
        (("POST", "url.scheme"), "https"),
        (("POST", "network.peer.address"), "192.0.2.7"),
        (("POST", "network.peer.port"), "8443"),
        (("POST", "network.protocol.version"), "1.1"),
        (("POST", "http.response.status_code"), "200"),
        (("POST", "http.request.body.size"), "412"),
        (("POST", "http.response.body.size"), "9001"),
        (("POST", "http.response.header.x-request-id"), "req-77"),
        (("POST", "user_agent.synthetic.type"), "test"),
        (("POST", "relay.connection.reused"), "false"),
        (("POST", "relay.attempt.index"), "0"),
        (
            ("HTTP connection_setup", "relay.proxy"),
            "proxy.example:3128",
        ),
        (("DNS lookup", "dns.question.name"), "relay.example"),
        (("DNS lookup", "dns.answers"), "192.0.2.7,2001:db8::7"),
        (("socket connect", "network.type"), "ipv4"),
        (("TLS client handshake", "tls.protocol.version"), "1.3"),
        (("TLS client handshake", "tls.next_protocol"), "http/1.1"),
        (
            ("TLS client handshake", "tls.cipher"),
            "TLS13_AES_256_GCM_SHA384",
        ),
        (("TLS client handshake", "tls.resumed"), "false"),
        (("SSE tokens", "relay.chunk.count"), "64"),
        (("SSE tokens", "relay.packet.count"), "60"),
        (("SSE tokens", "relay.token.count"), "64"),
        (("SSE tokens", "relay.token.source"), "usage"),
        (("SSE tokens", "relay.stall.count"), "2"),
        (("SSE done", "relay.done.marker"), "true"),
        (("SSE done", "relay.finish_reason"), "stop"),
        (("SSE done", "relay.sealed"), "true"),
    ]);
    for ((span, key), value) in all {
        let found = attribute(named(&spans, span), key);
        assert_eq!(found.as_deref(), Some(value), "{key} on {span}");
    }
    for span in &spans {
        assert_eq!(attribute(span, "error.type"), None, "{}", span.name);
        assert_eq!(attribute(span, "http.request.resend_count"), None);
    }
    assert_eq!(code(named(&spans, "relay.sample")), status::StatusCode::Ok);
    let phases: Vec<_> = spans
        .iter()
        .filter_map(|span| attribute(span, "relay.phase"))
        .collect();
    let expected = [
        "dns",
        "connect",
        "tunnel",
        "tls",
        "send",
        "wait",
        "head",
        "first_token",
        "stream",
        "end",
    ];
    assert_eq!(
        phases.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        BTreeSet::from(expected)
    );
}

#[test]
fn moments_inside_a_phase_are_events_in_their_order() {
    let spans = drawn(make::whole(), SampleOutcome::Good);
    assert_eq!(
        events(named(&spans, "HTTP response wait")),
        [("relay.first_byte", 145_300)]
    );
    assert_eq!(
        events(named(&spans, "SSE first token")),
        [
            ("relay.sse.first_event", 146_100),
            ("relay.first_token", 312_347)
        ]
    );
    assert_eq!(
        events(named(&spans, "SSE tokens")),
        [("relay.stall", 800_000), ("relay.stall", 1_500_000)]
    );
    assert_eq!(
        events(named(&spans, "SSE done")),
        [("relay.done", 1_915_001)]
    );
}

#[test]
fn a_retry_is_a_second_post_after_its_backoff() {
    let mut sample = make::sample(0, make::refused());
    let mut second = make::attempt(260_000, make::whole());
    second.backoff = Some(Backoff {
        length: us(250_000),
        retry_after: Some(us(200_000)),
    });
    sample.attempts.push(second);
    let (spans, _) = exported(&[(sample, make::facts(SampleOutcome::Good))], &[]);
    let posts: Vec<_> = spans.iter().filter(|span| span.name == "POST").collect();
    let [first, second] = posts.as_slice() else {
        panic!("{} POST spans", posts.len());
    };
    assert_eq!(times(first), (0, 10_000));
    assert_eq!(times(second), (260_000, 2_175_500));
    assert_eq!(attribute(first, "http.request.resend_count"), None);
    assert_eq!(
        attribute(second, "http.request.resend_count").as_deref(),
        Some("1")
    );
    assert_eq!(attribute(first, "error.type").as_deref(), Some("503"));
    assert_eq!(code(first), status::StatusCode::Error);
    assert_eq!(code(second), status::StatusCode::Unset);
    let backoff = named(&spans, "relay.backoff");
    assert_eq!(times(backoff), (10_000, 260_000));
    assert_eq!(
        attribute(backoff, "relay.backoff.reason").as_deref(),
        Some("503")
    );
    assert_eq!(
        attribute(backoff, "relay.retry_after").as_deref(),
        Some("0.2")
    );
    let chat = named(&spans, "chat m-small");
    assert_eq!(attribute(chat, "error.type"), None, "it ended well");
    // The metric counts from t0 and on the first attempt only: that one had no token.
    let sample = named(&spans, "relay.sample");
    assert_eq!(attribute(sample, semconv::RELAY_TTFT), None);
    assert_eq!(
        attribute(sample, "relay.attempt.count").as_deref(),
        Some("2")
    );
}

#[test]
fn a_refusal_has_a_body_span_and_no_stream_spans() {
    let spans = drawn(make::refused(), SampleOutcome::Error);
    assert_eq!(times(named(&spans, "HTTP response body")), (9_100, 10_000));
    assert!(!spans.iter().any(|span| span.name.starts_with("SSE")));
    assert!(
        !spans
            .iter()
            .any(|span| span.name == "HTTP connection_setup")
    );
    let post = named(&spans, "POST");
    assert_eq!(
        attribute(post, "relay.error.code").as_deref(),
        Some("overloaded")
    );
    assert_eq!(events(post), [("relay.finding", 9_100)]);
}

#[test]
fn a_cut_stream_fails_in_the_phase_that_was_cut() {
    let spans = drawn(make::cut(), SampleOutcome::Error);
    let tokens = named(&spans, "SSE tokens");
    assert_eq!(times(tokens), (312_347, 950_000));
    assert_eq!(code(tokens), status::StatusCode::Error);
    assert_eq!(
        events(tokens),
        [
            ("relay.sse.parse_error", 700_000),
            ("relay.stall", 800_000),
            ("relay.eof", 950_000),
        ]
    );
    assert!(!spans.iter().any(|span| span.name == "SSE done"));
    for name in ["relay.sample", "chat m-small", "POST", "SSE tokens"] {
        let found = attribute(named(&spans, name), "error.type");
        // Malformed JSON leads in the order of classes.
        assert_eq!(found.as_deref(), Some("malformed-json"), "{name}");
    }
    assert_eq!(
        code(named(&spans, "SSE first token")),
        status::StatusCode::Unset
    );
}

#[test]
fn a_phase_that_never_ended_runs_to_the_end_of_the_attempt() {
    let observation = Observation {
        timeline: Timeline {
            dns: Some(Stretch {
                start: us(5),
                end: Some(us(900)),
            }),
            connect: Some(Stretch {
                start: us(1_000),
                end: None,
            }),
            over: us(2_000_000),
            ..Timeline::default()
        },
        ending: Ending::Unreachable,
        timed_out: Some(Limit::Connect),
        last_phase: Phase::Connect,
        findings: vec![make::finding(
            Class::ConnectRefused,
            Phase::Connect,
            2_000_000,
        )],
        status: None,
        ..make::refused()
    };
    let spans = drawn(observation, SampleOutcome::Error);
    let connect = named(&spans, "socket connect");
    assert_eq!(times(connect), (1_000, 2_000_000));
    for name in [
        "socket connect",
        "HTTP connection_setup",
        "POST",
        "relay.sample",
    ] {
        let span = named(&spans, name);
        assert_eq!(code(span), status::StatusCode::Error, "{name}");
        assert_eq!(
            attribute(span, "error.type").as_deref(),
            Some("connect_timeout"),
            "{name}"
        );
    }
    assert_eq!(code(named(&spans, "DNS lookup")), status::StatusCode::Unset);
    assert!(!spans.iter().any(|span| span.name.starts_with("HTTP re")));
}

/// Two addresses race: the slower one is told apart and is no failure.
#[test]
fn each_address_that_was_tried_has_its_own_span() {
    let tried = |address: &str, start, end, connected| TcpAttempt {
        address: address.into(),
        start: us(start),
        end,
        connected,
    };
    let mut observation = make::whole();
    observation.connection.tried = vec![
        tried("[2001:db8::7]:8443", 5_020, None, false),
        tried("192.0.2.9:8443", 6_000, Some(us(7_000)), false),
        tried("192.0.2.7:8443", 10_000, Some(us(17_020)), true),
    ];
    let spans = drawn(observation, SampleOutcome::Good);
    let found: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "socket connect")
        .map(|span| {
            assert_eq!(code(span), status::StatusCode::Unset);
            let text = |key: &str| attribute(span, key).unwrap();
            (
                text("network.peer.address"),
                text("network.type"),
                text("relay.connect.outcome"),
                times(span),
            )
        })
        .collect();
    let expected = [
        ("2001:db8::7", "ipv6", "lost", (5_020, 17_020)),
        ("192.0.2.9", "ipv4", "failed", (6_000, 7_000)),
        ("192.0.2.7", "ipv4", "connected", (10_000, 17_020)),
    ]
    .map(|(address, family, outcome, times)| {
        (
            address.to_owned(),
            family.to_owned(),
            outcome.to_owned(),
            times,
        )
    });
    assert_eq!(found, expected);
}

#[test]
fn facts_follow_from_the_objectives() {
    let header = make::header();
    let of = |sample: &Sample| {
        let facts = SampleFacts::of(&header, sample);
        (facts.outcome, facts.violations)
    };
    let missed = vec![make::objective().text];
    let whole = make::sample(0, make::whole());
    assert_eq!(of(&whole), (SampleOutcome::Good, vec![]));

    let mut slow = whole.clone();
    slow.attempts[0].observation.timeline.first_token = Some(us(1_500_000));
    assert_eq!(of(&slow), (SampleOutcome::Slow, missed.clone()));

    let mut retried = make::sample(0, make::refused());
    retried.attempts.push(make::attempt(260_000, make::whole()));
    assert_eq!(of(&retried), (SampleOutcome::Slow, missed));

    assert_eq!(
        of(&make::sample(0, make::cut())).0,
        SampleOutcome::Error,
        "in time, but not whole"
    );
    slow.warmup = true;
    assert_eq!(of(&slow), (SampleOutcome::Excluded, vec![]));
}

#[test]
fn a_slow_answer_is_a_breach_and_a_cancelled_one_is_nothing() {
    let slow = drawn(make::whole(), SampleOutcome::Slow);
    let sample = named(&slow, "relay.sample");
    assert_eq!(
        attribute(sample, "error.type").as_deref(),
        Some("slo_breach")
    );
    assert_eq!(
        attribute(sample, "relay.slo.violations").as_deref(),
        Some("ttft.p95 < 1.5s")
    );
    assert_eq!(
        sample.status.as_ref().unwrap().message,
        "missed ttft.p95 < 1.5s"
    );
    assert_eq!(code(named(&slow, "POST")), status::StatusCode::Unset);

    let cancelled = Observation {
        ending: Ending::Cancelled,
        ..make::cut()
    };
    for span in drawn(cancelled, SampleOutcome::Excluded) {
        assert_eq!(code(&span), status::StatusCode::Unset, "{}", span.name);
        assert_eq!(attribute(&span, "error.type"), None, "{}", span.name);
    }
}

#[test]
fn samples_and_cells_are_linked_both_ways() {
    let samples: Vec<_> = (0..50)
        .map(|index| {
            let outcome = match index {
                0 => SampleOutcome::Good,
                1 => SampleOutcome::Slow,
                _ => SampleOutcome::Error,
            };
            (make::sample(index, make::whole()), make::facts(outcome))
        })
        .collect();
    let (spans, _) = exported(&samples, &[]);
    let suite = named(&spans, "relay.suite");
    let case = named(&spans, "relay.case");
    let slo = named(&spans, "relay.slo");
    assert!(suite.parent_span_id.is_empty());
    assert_eq!(case.parent_span_id, suite.span_id);
    assert_eq!(slo.parent_span_id, case.span_id);
    assert_eq!(case.trace_id, suite.trace_id);

    let roots: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "relay.sample")
        .collect();
    assert_eq!(roots.len(), 50);
    for root in &roots {
        assert!(root.parent_span_id.is_empty(), "a root of its own trace");
        let [link] = root.links.as_slice() else {
            panic!("{} links", root.links.len());
        };
        assert_eq!(link.span_id, case.span_id);
        assert_eq!(link.trace_id, case.trace_id);
        assert_eq!(
            text(&link.attributes, "relay.link.type").as_deref(),
            Some("test_case")
        );
    }
    assert_eq!(case.links.len(), 32, "as many as are useful");
    for link in &case.links {
        let root = roots
            .iter()
            .find(|root| root.trace_id == link.trace_id)
            .unwrap();
        assert_eq!(root.span_id, link.span_id);
        assert_ne!(
            attribute(root, "relay.sample.outcome").as_deref(),
            Some("good")
        );
    }
    assert_eq!(attribute(case, "relay.sample.count").as_deref(), Some("50"));
    assert_eq!(
        attribute(case, "relay.sample.error_count").as_deref(),
        Some("48")
    );
    assert_eq!(
        attribute(case, "relay.sample.slow_count").as_deref(),
        Some("1")
    );
    assert_eq!(
        attribute(case, "test.case.result.status").as_deref(),
        Some("fail")
    );
    assert_eq!(
        case.status.as_ref().unwrap().message,
        "violated: ttft.p95 < 1.5s"
    );
    assert_eq!(
        attribute(suite, "test.suite.run.status").as_deref(),
        Some("failure")
    );
    assert_eq!(
        attribute(suite, "relay.case.expected").as_deref(),
        Some("1")
    );
    for (key, value) in [
        ("relay.slo.id", "ttft.p95 < 1.5s"),
        ("relay.slo.statistic", "p95"),
        ("relay.slo.bound", "1.5"),
        ("relay.slo.observed", "1.81"),
        ("relay.slo.ci_low", "0.317"),
        ("relay.slo.ci_high", "0.932"),
        ("relay.slo.n", "14"),
        ("relay.slo.failures", "5"),
        ("relay.slo.verdict", "violated"),
    ] {
        assert_eq!(attribute(slo, key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(code(slo), status::StatusCode::Error);
    assert_eq!(slo.start_time_unix_nano, make::header().started_unix_ns);
    assert_eq!(slo.end_time_unix_nano, T0 + 60_000_000_000);
    for span in [suite, case] {
        for key in [
            "busy_ns",
            "idle_ns",
            "thread.id",
            "code.line.number",
            "target",
        ] {
            assert_eq!(attribute(span, key), None, "{key} on {}", span.name);
        }
    }
}

#[test]
fn the_file_holds_exactly_what_was_sent() {
    let samples = [
        (
            make::sample(0, make::whole()),
            make::facts(SampleOutcome::Good),
        ),
        (
            make::sample(1, make::cut()),
            make::facts(SampleOutcome::Error),
        ),
    ];
    let ci = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let env = [("TRACEPARENT", ci), ("TRACESTATE", "vendor=1,other=2")];
    let (mut sent, mut kept) = exported(&samples, &env);
    for spans in [&mut sent, &mut kept] {
        spans.sort_by_key(|span| span.span_id.clone());
    }
    assert!(sent.len() > 20);
    assert_eq!(sent, kept);
}

#[test]
fn the_same_evidence_gives_the_same_spans_again() {
    let sample = make::sample(3, make::cut());
    let sample_spans = || {
        let (mut spans, _) = exported(&[(sample.clone(), make::facts(SampleOutcome::Error))], &[]);
        spans.retain(|span| hex(&span.trace_id) == sample.trace_id);
        spans.sort_by_key(|span| span.span_id.clone());
        spans
    };
    let first = sample_spans();
    assert_eq!(first, sample_spans());
    let ids: BTreeSet<_> = first.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), first.len(), "ids are unique in their trace");
}

#[test]
fn a_ci_context_is_linked_by_default_and_a_parent_when_asked() {
    let ci = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let (spans, _) = exported(&[], &[("TRACEPARENT", ci)]);
    let suite = named(&spans, "relay.suite");
    assert!(suite.parent_span_id.is_empty());
    let [link] = suite.links.as_slice() else {
        panic!("{} links", suite.links.len());
    };
    assert_eq!(hex(&link.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&link.span_id), "b7ad6b7169203331");
    assert_eq!(
        text(&link.attributes, "relay.link.type").as_deref(),
        Some("ci")
    );

    let folder = tempfile::tempdir().unwrap();
    let telemetry = crate::start(folder.path(), &[("TRACEPARENT", ci)]);
    let mut info = crate::suite();
    info.ci_parent = true;
    let suite = telemetry.suite(&info);
    suite.case(&make::header()).finish(&[], T0);
    suite.finish(SuiteStatus::Success);
    telemetry.finish(BUDGET);
    let spans = crate::receiver::spans(&file(folder.path()));
    let suite = named(&spans, "relay.suite");
    assert_eq!(hex(&suite.parent_span_id), "b7ad6b7169203331");
    let case = named(&spans, "relay.case");
    assert_eq!(case.parent_span_id, suite.span_id);
    for span in [suite, case] {
        assert_eq!(hex(&span.trace_id), "0af7651916cd43dd8448eb211c80319c");
    }
}

#[test]
fn damaged_evidence_never_panics() {
    let mut sample = make::sample(0, make::cut());
    sample.trace_id = "not hex ∞".into();
    sample.t0_unix_ns = u64::MAX;
    sample.attempts[0].start = Duration::MAX;
    let observation = &mut sample.attempts[0].observation;
    observation.timeline.over = Duration::MAX;
    observation.timeline.head = Some(Duration::MAX);
    observation.timeline.dns = Some(Stretch {
        start: us(9),
        end: Some(us(1)),
    });
    observation.connection.peer = Some("∞".repeat(1000));
    observation.headers = vec![("X-É".into(), "é".repeat(1000)); 100];
    observation.model = Some(String::new());
    let empty = Sample {
        attempts: Vec::new(),
        ..make::sample(1, make::whole())
    };
    let mut facts = make::facts(SampleOutcome::Error);
    facts.tps = Some(f64::NAN);
    let (spans, kept) = exported(&[(sample, facts.clone()), (empty, facts)], &[]);
    assert_eq!(spans.len(), kept.len());
    for span in &spans {
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        assert!(span.attributes.len() <= 64, "{}", span.attributes.len());
        for pair in &span.attributes {
            let length = text(&span.attributes, &pair.key).unwrap().len();
            assert!(length <= 600, "{} bytes of {}", length, pair.key);
        }
    }
}

/// The documentation lists what is emitted, all of it and nothing else.
#[test]
fn every_name_is_in_the_documentation() {
    let docs = include_str!("../../docs/telemetry.md");
    for name in semconv::ALL.iter().chain(semconv::span::ALL) {
        assert!(docs.contains(&format!("`{name}`")), "{name} is missing");
    }
    for word in docs.split('`') {
        let ours = word.starts_with("relay.")
            && word
                .chars()
                .all(|char| char.is_ascii_lowercase() || ".0123456789_".contains(char));
        let known = semconv::ALL.contains(&word)
            || semconv::span::ALL.contains(&word)
            || semconv::metric::Instrument::ALL
                .iter()
                .any(|metric| metric.row().released == Some(word));
        assert!(!ours || known, "{word} is not emitted");
    }
}
