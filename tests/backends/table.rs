//! The table of spans of docs/telemetry.md, written down a second time: what Jaeger gives back is
//! held against it, so that the code is not its own measure.

use std::collections::{BTreeMap, BTreeSet};

use relayproof::evidence::{Attempt, Sample};
use relayproof::observation::{Ending, Stretch, Timeline};
use serde_json::Value;

use crate::programs::{references, tag};

/// What is true of every span of one name.
struct Rule {
    name: &'static str,
    kind: &'static str,
    /// Names that its parent may have; none for a root.
    parents: &'static [&'static str],
    /// Attributes that it has, whatever happened.
    has: &'static [&'static str],
}

const COMMON: &[&str] = &["relay.name", "relay.spec", "test.case.name"];
const CHAT: &str = "chat test-model";
const SETUP: &str = "HTTP connection_setup";

/// Phases that lie in `POST` itself.
const PHASES: &[&str] = &[
    "HTTP wait_for_connection",
    SETUP,
    "HTTP request send",
    "HTTP response wait",
    "HTTP response headers",
    "SSE first token",
    "SSE tokens",
    "SSE done",
    "HTTP response body",
];

#[rustfmt::skip]
const TABLE: &[Rule] = &[
    Rule { name: "relay.suite", kind: "internal", parents: &[], has: &["test.suite.name", "test.suite.run.status", "relay.spec", "relay.spec.digest", "relay.case.expected", "relay.sample.planned"] },
    Rule { name: "relay.case", kind: "internal", parents: &["relay.suite"], has: &["test.case.result.status", "relay.sample.count", "relay.sample.error_count", "relay.sample.slow_count"] },
    Rule { name: "relay.slo", kind: "internal", parents: &["relay.case"], has: &["relay.slo.id", "relay.slo.statistic", "relay.slo.bound", "relay.slo.ci_low", "relay.slo.ci_high", "relay.slo.n", "relay.slo.verdict"] },
    Rule { name: "relay.sample", kind: "internal", parents: &[], has: &["relay.sample.id", "relay.sample.index", "relay.sample.outcome", "relay.sample.class", "relay.sample.warmup", "relay.schedule_delay", "relay.attempt.count", "gen_ai.request.model"] },
    Rule { name: CHAT, kind: "client", parents: &["relay.sample"], has: &["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.request.max_tokens", "server.address", "server.port"] },
    Rule { name: "relay.backoff", kind: "internal", parents: &[CHAT], has: &["relay.backoff.reason"] },
    Rule { name: "POST", kind: "client", parents: &[CHAT], has: &["http.request.method", "server.address", "server.port", "url.full", "url.scheme", "http.request.body.size", "http.response.body.size", "relay.attempt.index", "relay.ending", "user_agent.synthetic.type"] },
    Rule { name: "HTTP wait_for_connection", kind: "internal", parents: &["POST"], has: &["relay.phase"] },
    Rule { name: SETUP, kind: "internal", parents: &["POST"], has: &["server.address", "server.port", "url.scheme"] },
    Rule { name: "DNS lookup", kind: "internal", parents: &[SETUP], has: &["relay.phase", "dns.question.name"] },
    Rule { name: "socket connect", kind: "internal", parents: &[SETUP], has: &["relay.phase", "network.peer.address", "network.peer.port", "network.type"] },
    Rule { name: "TLS client handshake", kind: "internal", parents: &[SETUP], has: &["relay.phase", "tls.protocol.name", "server.address"] },
    Rule { name: "HTTP request send", kind: "internal", parents: &["POST"], has: &["relay.phase", "http.request.body.size"] },
    Rule { name: "HTTP response wait", kind: "internal", parents: &["POST"], has: &["relay.phase"] },
    Rule { name: "HTTP response headers", kind: "internal", parents: &["POST"], has: &["relay.phase", "http.response.status_code"] },
    Rule { name: "SSE first token", kind: "internal", parents: &["POST"], has: &["relay.phase"] },
    Rule { name: "SSE tokens", kind: "internal", parents: &["POST"], has: &["relay.phase", "relay.chunk.count", "relay.packet.count", "relay.token.count", "relay.token.source", "relay.stall.count"] },
    Rule { name: "SSE done", kind: "internal", parents: &["POST"], has: &["relay.phase", "relay.done.marker"] },
    Rule { name: "HTTP response body", kind: "internal", parents: &["POST"], has: &["relay.phase"] },
];

/// One span as Jaeger shows it.
pub(crate) struct Shown<'a> {
    pub(crate) span: &'a Value,
    pub(crate) name: &'a str,
    pub(crate) start: u64,
    pub(crate) length: u64,
    parent: Option<String>,
}

impl Shown<'_> {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.length
    }

    /// `OK`, `ERROR`, or nothing said.
    pub(crate) fn status(&self) -> Option<String> {
        tag(self.span, "otel.status_code")
    }
}

/// A trace by span id, after what is true of every span was checked.
pub(crate) fn read(spans: &[Value]) -> BTreeMap<&str, Shown<'_>> {
    let trace: BTreeMap<&str, Shown<'_>> = spans
        .iter()
        .map(|span| {
            let parent = references(span, "CHILD_OF").next().map(|(_, id)| id);
            let shown = Shown {
                span,
                name: span["operationName"].as_str().unwrap(),
                start: span["startTime"].as_u64().unwrap(),
                length: span["duration"].as_u64().unwrap(),
                parent,
            };
            (span["spanID"].as_str().unwrap(), shown)
        })
        .collect();
    for shown in trace.values() {
        let name = shown.name;
        let rule = TABLE
            .iter()
            .find(|rule| rule.name == name)
            .unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(
            tag(shown.span, "span.kind").as_deref(),
            Some(rule.kind),
            "{name}"
        );
        match &shown.parent {
            None => assert!(rule.parents.is_empty(), "{name} has no parent"),
            Some(id) => {
                let parent = &trace[id.as_str()];
                assert!(
                    rule.parents.contains(&parent.name),
                    "{name} in {}",
                    parent.name
                );
                // Jaeger cuts both ends to whole microseconds.
                let inside = shown.start >= parent.start && shown.end() <= parent.end() + 1;
                assert!(inside || name == "relay.slo", "{name} sticks out");
            }
        }
        let common = ["relay.case", "relay.slo", "relay.sample", CHAT, "POST"];
        let named = common
            .contains(&name)
            .then_some(COMMON)
            .into_iter()
            .flatten();
        for key in rule.has.iter().chain(named) {
            assert!(tag(shown.span, key).is_some(), "{name} has no {key}");
        }
        // A status of error and a reason go together.
        let error = shown.status().as_deref() == Some("ERROR");
        let run = ["relay.suite", "relay.case"].contains(&name);
        assert!(
            run || tag(shown.span, "error.type").is_some() == error,
            "{name}"
        );
        assert_eq!(
            tag(shown.span, "error").as_deref() == Some("true"),
            error,
            "{name}"
        );
        // A verdict lasts as long as the sampling, which begins a moment before the cell's span.
        if name != "relay.slo" {
            assert_eq!(shown.span["warnings"], Value::Null, "{name}");
        }
    }
    trace
}

/// One sample's trace against its evidence.
pub(crate) fn check(sample: &Sample, trace: &BTreeMap<&str, Shown<'_>>) {
    let all = |name: &str| -> Vec<(&str, &Shown<'_>)> {
        let mut spans: Vec<_> = trace
            .iter()
            .filter(|(_, shown)| shown.name == name)
            .map(|(id, shown)| (*id, shown))
            .collect();
        spans.sort_by_key(|(_, shown)| shown.start);
        spans
    };
    let [(_, root)] = all("relay.sample")[..] else {
        panic!("one root a sample");
    };
    let [(chat_id, chat)] = all(CHAT)[..] else {
        panic!("one call a sample");
    };
    let t0 = sample.t0_unix_ns / 1000;
    assert_eq!((root.start, chat.start), (t0, t0));
    assert_eq!(
        tag(root.span, "relay.sample.id").as_deref(),
        Some(sample.id.as_str())
    );
    assert_eq!(
        tag(root.span, "relay.attempt.count"),
        Some(sample.attempts.len().to_string())
    );
    let outcome = tag(root.span, "relay.sample.outcome").unwrap();
    let wanted = match outcome.as_str() {
        "good" => Some("OK"),
        "slow" | "error" => Some("ERROR"),
        other => panic!("{other}: nothing is excluded here"),
    };
    assert_eq!(root.status().as_deref(), wanted);
    let died = sample
        .attempts
        .last()
        .unwrap()
        .observation
        .class()
        .is_some();
    assert_eq!(outcome == "error", died, "{outcome}");
    let failed = died.then_some("ERROR");
    assert_eq!(
        chat.status().as_deref(),
        failed,
        "a retry that succeeds is no error"
    );

    let posts = all("POST");
    assert_eq!(posts.len(), sample.attempts.len());
    assert_eq!(all("relay.backoff").len(), sample.attempts.len() - 1);
    for (index, (attempt, (id, post))) in sample.attempts.iter().zip(posts).enumerate() {
        assert_eq!(post.parent.as_deref(), Some(chat_id));
        let resends = tag(post.span, "http.request.resend_count");
        assert_eq!(resends, (index > 0).then(|| index.to_string()));
        let phases: Vec<&Shown<'_>> = trace
            .values()
            .filter(|shown| shown.parent.as_deref() == Some(id))
            .collect();
        attempt_fits(sample, attempt, post, phases);
        let steps = |name: &str| {
            let parts = trace.values().filter(|shown| shown.name == name);
            let setup = |shown: &&Shown<'_>| {
                let parent = &trace[shown.parent.as_deref().unwrap()];
                parent.parent.as_deref() == Some(id)
            };
            parts.filter(setup).count()
        };
        let timeline = &attempt.observation.timeline;
        assert_eq!(steps("DNS lookup"), usize::from(timeline.dns.is_some()));
        assert_eq!(
            steps("TLS client handshake"),
            usize::from(timeline.tls.is_some())
        );
        assert!(steps("socket connect") >= usize::from(timeline.connect.is_some()));
    }
}

/// One attempt: its times, its status, and phases that tile it.
fn attempt_fits(sample: &Sample, attempt: &Attempt, post: &Shown<'_>, mut phases: Vec<&Shown<'_>>) {
    let observation = &attempt.observation;
    let timeline = &observation.timeline;
    let micros = |length: std::time::Duration| u64::try_from(length.as_micros()).unwrap();
    assert_eq!(post.start, sample.t0_unix_ns / 1000 + micros(attempt.start));
    assert!(
        post.length.abs_diff(micros(timeline.over)) <= 1,
        "length of POST"
    );
    assert_eq!(
        tag(post.span, "http.response.status_code"),
        observation.status.map(|status| status.to_string())
    );
    let ttft = tag(post.span, "relay.ttft").map(|text| text.parse::<f64>().unwrap());
    assert_eq!(
        ttft.map(|seconds| (seconds * 1e6).round() as u64),
        timeline.first_token.map(micros),
        "ttft on the span is the evidence's, to the microsecond"
    );
    let failed = observation.class().is_some() && observation.ending != Ending::Cancelled;
    let status = failed.then_some("ERROR");
    assert_eq!(
        post.status().as_deref(),
        status,
        "{:?}",
        observation.class()
    );

    phases.sort_by_key(|phase| (phase.start, phase.end()));
    let names: BTreeSet<&str> = phases.iter().map(|phase| phase.name).collect();
    assert_eq!(names.len(), phases.len(), "each phase once");
    assert!(names.iter().all(|name| PHASES.contains(name)), "{names:?}");
    for pair in phases.windows(2) {
        let [one, next] = pair else { unreachable!() };
        assert!(
            next.start + 1 >= one.end(),
            "{} overlaps {}",
            one.name,
            next.name
        );
    }
    // From the request on there is no hole: each phase begins where the one before it ends.
    let exchange = phases
        .iter()
        .skip_while(|phase| phase.name != "HTTP request send");
    let exchange: Vec<_> = exchange.collect();
    for pair in exchange.windows(2) {
        let [one, next] = pair else { unreachable!() };
        assert!(
            next.start.abs_diff(one.end()) <= 2,
            "a hole of {} µs before {}",
            next.start.abs_diff(one.end()),
            next.name
        );
    }
    let lengths: u64 = phases.iter().map(|phase| phase.length).sum();
    let whole = lengths + micros(gaps(timeline));
    assert!(
        whole.abs_diff(post.length) <= 2 + phases.len() as u64,
        "{whole} of {} µs: {names:?}",
        post.length
    );
    if let Some(first) = timeline.first_token {
        let phase = phases.iter().find(|phase| phase.name == "SSE first token");
        let shown = phase.unwrap().end() - post.start;
        assert!(shown.abs_diff(micros(first)) <= 2, "{shown} for {first:?}");
    }
    let failing: Vec<_> = phases
        .iter()
        .filter(|phase| phase.status().is_some())
        .collect();
    assert!(
        failing.len() <= usize::from(failed),
        "one phase is guilty at most"
    );
    for phase in failing {
        assert_eq!(
            tag(phase.span, "error.type"),
            tag(post.span, "error.type"),
            "{}",
            phase.name
        );
    }
}

/// Time of an attempt that belongs to no phase, from the evidence alone: our own moments before
/// and between, and what came after the end mark.
fn gaps(timeline: &Timeline) -> std::time::Duration {
    let end = |stretch: Stretch| stretch.end.unwrap_or(timeline.over);
    let steps = [
        timeline.dns,
        timeline.connect,
        timeline.tunnel,
        timeline.tls,
    ];
    let steps = steps.into_iter().flatten();
    let setup = steps.fold(None, |all: Option<Stretch>, step| {
        let all = all.unwrap_or(step);
        Some(Stretch {
            start: all.start.min(step.start),
            end: Some(end(all).max(end(step))),
        })
    });
    let mut gaps = std::time::Duration::ZERO;
    let mut reached = std::time::Duration::ZERO;
    for stretch in [timeline.pool, setup, timeline.send].into_iter().flatten() {
        gaps += stretch.start.saturating_sub(reached);
        reached = end(stretch);
    }
    gaps + timeline
        .end_mark
        .map_or(std::time::Duration::ZERO, |mark| timeline.over - mark)
}
