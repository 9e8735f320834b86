//! Evidence made by hand: every time is a literal, so that spans can be compared to the microsecond.

use std::time::Duration;

use relayproof::dialect::Protocol;
use relayproof::evidence::{Attempt, Header, Sample};
use relayproof::objective::metric::Metric;
use relayproof::objective::{Objective, Op, Severity, Statistic};
use relayproof::observation::{
    Class, Connection, Counts, Ending, Finding, Gap, Observation, Packets, Phase, Stretch,
    Timeline, Usage,
};
use relayproof::plan::{
    Judging, Method, Mode, OnInconclusive, OtelSettings, Propagation, Sampling, Scope, Stop,
    Timing, Tokens, TransportKind, USUAL_BUCKET, USUAL_MIN_DAYS,
};
use relayproof::telemetry::spans::{SampleFacts, SampleOutcome};
use relayproof::verdict::{Decision, Verdict};

/// Wall clock of the first sample, not a whole number of milliseconds.
pub(crate) const T0: u64 = 1_764_000_000_123_456_789;

pub(crate) fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn stretch(start: u64, end: u64) -> Option<Stretch> {
    Some(Stretch {
        start: us(start),
        end: Some(us(end)),
    })
}

pub(crate) fn objective() -> Objective {
    Objective {
        text: "ttft.p95 < 1.5s".into(),
        metric: Metric::Ttft,
        statistic: Statistic::Quantile(950_000),
        op: Op::Less,
        bound: 1.5,
        confidence_ppm: None,
        severity: Severity::Gate,
        window: None,
        line: 7,
        column: 5,
    }
}

pub(crate) fn header() -> Header {
    Header {
        schema: 1,
        tool_version: "0.1.0".into(),
        run_id: "20251124T160000Z-4f2a".into(),
        started_unix_ns: T0 - 1_000_000_000,
        host: "probe-1".into(),
        spec_name: "chat".into(),
        spec_source: "specs/chat.yaml".into(),
        spec_sha256: "ab".repeat(32),
        plan_digest: "cd".repeat(32),
        cell_id: "0123456789abcdef".into(),
        cell: "acme/m-small/short".into(),
        relay: "acme".into(),
        model: "m-small".into(),
        workload: "short".into(),
        base_url: "https://relay.example:8443/v1".into(),
        protocol: Protocol::OpenaiChat,
        transport: TransportKind::Raw,
        stream: true,
        max_tokens: Some(128),
        prompt: Vec::new(),
        sampling: Sampling {
            seed: 1,
            rate_per_s: 2.0,
            max_samples: 232,
            concurrency: 16,
            warmup: 0,
            max_tokens: None,
            max_duration: None,
            max_cost_usd: None,
            mode: Timing::Burst,
            duration: None,
            start_unix_ns: None,
        },
        judge: Judging {
            method: Method::Sequential,
            confidence_ppm: 950_000,
            mode: Mode::Prove,
            on_inconclusive: OnInconclusive::Fail,
            stop: Stop::All,
            design_ratio: 4.0,
            futility: true,
            tokens: Tokens::Usage,
            scope: Scope::Run,
            bucket: USUAL_BUCKET,
            min_days: USUAL_MIN_DAYS,
        },
        otel: OtelSettings::default(),
        seal_allowance_ppm: None,
        spec_cells: Some(1),
        propagation: Propagation::None,
        earlier_runs: Vec::new(),
        segment: None,
        core_digest: String::new(),
        objectives: vec![objective()],
        price: None,
        region: None,
        beside: None,
        pair_ppm: 0,
        calibration: false,
        concurrency: None,
        windows: Vec::new(),
        regions: Vec::new(),
    }
}

/// A whole answer over a fresh TLS connection that passed a proxy, with two stalls.
pub(crate) fn whole() -> Observation {
    Observation {
        timeline: Timeline {
            pool: None,
            dns: stretch(10, 5_010),
            connect: stretch(5_020, 17_020),
            tunnel: stretch(17_030, 20_030),
            tls: stretch(20_040, 45_040),
            send: stretch(45_100, 45_300),
            first_byte: Some(us(145_300)),
            head: Some(us(145_400)),
            first_chunk: Some(us(146_000)),
            first_event: Some(us(146_100)),
            first_token: Some(us(312_347)),
            last_token: Some(us(1_912_347)),
            end_mark: Some(us(1_915_001)),
            over: us(1_915_500),
        },
        ending: Ending::Completed,
        timed_out: None,
        lost: None,
        error_kind: None,
        last_phase: Phase::End,
        findings: Vec::new(),
        warnings: Vec::new(),
        parse_ok: true,
        interrupted: false,
        status: Some(200),
        headers: vec![("x-request-id".into(), "req-77".into())],
        retry_after: None,
        error_code: None,
        model: Some("m-small-2025".into()),
        response_id: Some("chatcmpl-1".into()),
        fingerprint: Some("fp_1".into()),
        finish_reason: Some("stop".into()),
        usage: Some(Usage {
            input: Some(20),
            output: Some(64),
            reasoning: Some(8),
            cached_input: Some(4),
            total: Some(84),
        }),
        sealed: Some(true),
        unmet: Vec::new(),
        own_count: None,
        words: Vec::new(),
        packets: Packets {
            count: 60,
            content_events: 64,
            chars: 300,
            first_chars: 5,
            reasoning: true,
            first: Some(us(312_347)),
            last: Some(us(1_912_347)),
            gap_mean_s: Some(0.027),
            gap_m2_s2: Some(0.4),
            longest: vec![
                Gap {
                    at: us(1_500_000),
                    length: us(600_000),
                    packet: 41,
                },
                Gap {
                    at: us(800_000),
                    length: us(300_000),
                    packet: 20,
                },
                Gap {
                    at: us(820_000),
                    length: us(20_000),
                    packet: 21,
                },
            ],
        },
        counts: Counts {
            request_bytes: 412,
            body_bytes: 9_001,
            reads: 64,
            events: 67,
            comments: 0,
            idle_comments: 0,
            tool_calls: 0,
        },
        connection: Connection {
            tried: Vec::new(),
            reused: Some(false),
            dns_name: Some("relay.example".into()),
            addresses: vec!["192.0.2.7".into(), "2001:db8::7".into()],
            peer: Some("192.0.2.7:8443".into()),
            http_version: Some("1.1".into()),
            tls_version: Some("1.3".into()),
            alpn: Some("http/1.1".into()),
            cipher: Some("TLS13_AES_256_GCM_SHA384".into()),
            resumed: Some(false),
            proxy: Some("proxy.example:3128".into()),
        },
        text: None,
    }
}

/// A 503 on the connection that was there, in ten milliseconds.
pub(crate) fn refused() -> Observation {
    Observation {
        timeline: Timeline {
            send: stretch(100, 300),
            first_byte: Some(us(9_000)),
            head: Some(us(9_100)),
            over: us(10_000),
            ..Timeline::default()
        },
        ending: Ending::Refused,
        last_phase: Phase::FirstEvent,
        findings: vec![finding(Class::HttpError, Phase::Head, 9_100)],
        parse_ok: false,
        status: Some(503),
        retry_after: Some(us(200_000)),
        error_code: Some("overloaded".into()),
        finish_reason: None,
        usage: None,
        packets: Packets::default(),
        connection: Connection {
            reused: Some(true),
            ..whole().connection
        },
        ..whole()
    }
}

/// Cut off after some tokens, by an end of the connection.
pub(crate) fn cut() -> Observation {
    let whole = whole();
    Observation {
        timeline: Timeline {
            last_token: Some(us(900_000)),
            end_mark: None,
            over: us(950_000),
            ..whole.timeline
        },
        ending: Ending::Truncated,
        last_phase: Phase::Stream,
        findings: vec![
            finding(Class::TruncatedNoTerminator, Phase::Stream, 950_000),
            finding(Class::MalformedJson, Phase::Stream, 700_000),
        ],
        parse_ok: false,
        interrupted: true,
        finish_reason: None,
        packets: Packets {
            longest: whole.packets.longest[1..].to_vec(),
            ..whole.packets
        },
        ..whole
    }
}

pub(crate) fn finding(class: Class, phase: Phase, at: u64) -> Finding {
    Finding {
        class,
        phase,
        at: Some(us(at)),
        offset: Some(512),
        event: Some(9),
        detail: "half an object".into(),
    }
}

pub(crate) fn attempt(start: u64, observation: Observation) -> Attempt {
    Attempt {
        start: us(start),
        backoff: None,
        observation,
    }
}

/// A sample of one attempt; its trace id and t0 come from the index.
pub(crate) fn sample(index: u64, observation: Observation) -> Sample {
    Sample {
        id: format!("{index:016x}"),
        index,
        warmup: false,
        trace_id: format!("4bf92f3577b34da6a3ce{index:012x}"),
        t0_unix_ns: T0 + index * 500_000_000,
        planned: us(500_000 * index),
        lag: us(321),
        attempts: vec![attempt(0, observation)],
    }
}

pub(crate) fn facts(outcome: SampleOutcome) -> SampleFacts {
    let slow = outcome == SampleOutcome::Slow;
    SampleFacts {
        outcome,
        violations: if slow {
            vec![objective().text]
        } else {
            Vec::new()
        },
        tps: Some(39.4),
        jitter: Some(0.012),
        max_gap: Some(0.6),
    }
}

pub(crate) fn violated() -> Verdict {
    Verdict {
        seals: None,
        bursty: None,
        objective: objective().text,
        decision: Decision::Violated,
        n: 14,
        failures: 5,
        undefined: 0,
        ineligible: 0,
        missing: 0,
        required: 0.95,
        lower: 0.317,
        upper: 0.932,
        rule: "sequential, 95 %".into(),
        observed: Some(1.81),
        censored: false,
        further_clean: None,
        failing: vec![1, 2],
        note: None,
    }
}
