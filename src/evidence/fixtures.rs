//! Made-up headers and samples for tests of whatever reads evidence.

use std::time::Duration;

use super::{Attempt, Close, CloseReason, Evidence, Header, Line, SCHEMA, Sample, SelfCheck};
use crate::dialect::Protocol;
use crate::objective::metric::Metric;
use crate::objective::{Objective, Op, Severity, Statistic};
use crate::observation::{
    Class, Connection, Counts, Ending, Finding, Gap, Observation, Packets, Phase, Stretch,
    Timeline, Usage,
};
use crate::plan::{
    Judging, Method, Mode, OnInconclusive, OtelSettings, Propagation, Sampling, Scope, Stop,
    Timing, Tokens, TransportKind, USUAL_BUCKET, USUAL_MIN_DAYS,
};

pub(crate) fn ms(length: u64) -> Duration {
    Duration::from_millis(length)
}

pub(crate) fn judging() -> Judging {
    Judging {
        method: Method::Sequential,
        confidence_ppm: 950_000,
        mode: Mode::Prove,
        on_inconclusive: OnInconclusive::Fail,
        stop: Stop::All,
        design_ratio: 5.0,
        futility: true,
        tokens: Tokens::Usage,
        scope: Scope::Run,
        bucket: USUAL_BUCKET,
        min_days: USUAL_MIN_DAYS,
    }
}

fn objective(text: &str, metric: Metric, statistic: Statistic, op: Op, bound: f64) -> Objective {
    Objective {
        text: text.to_owned(),
        metric,
        statistic,
        op,
        bound,
        confidence_ppm: None,
        severity: Severity::Gate,
        window: None,
        line: 1,
        column: 1,
    }
}

/// `ttft.p95 < 1.5s`
pub(crate) fn ttft_p95() -> Objective {
    let p95 = Statistic::Quantile(950_000);
    objective("ttft.p95 < 1.5s", Metric::Ttft, p95, Op::Less, 1.5)
}

/// `parse_success >= 99%`
pub(crate) fn parse_success() -> Objective {
    let text = "parse_success >= 99%";
    objective(
        text,
        Metric::ParseSuccess,
        Statistic::Rate,
        Op::AtLeast,
        0.99,
    )
}

/// `interruption < 5%`
pub(crate) fn interruption() -> Objective {
    let text = "interruption < 5%";
    objective(text, Metric::Interruption, Statistic::Rate, Op::Less, 0.05)
}

/// `tps.p05 >= 20/s`
pub(crate) fn tps_p05() -> Objective {
    let p05 = Statistic::Quantile(50_000);
    objective("tps.p05 >= 20/s", Metric::Tps, p05, Op::AtLeast, 20.0)
}

/// `ttft.mean < 1s`, a warning
pub(crate) fn ttft_mean() -> Objective {
    Objective {
        severity: Severity::Warn,
        ..objective(
            "ttft.mean < 1s",
            Metric::Ttft,
            Statistic::Mean,
            Op::Less,
            1.0,
        )
    }
}

/// `retry_success >= 95%`
pub(crate) fn retry_success() -> Objective {
    let text = "retry_success >= 95%";
    objective(
        text,
        Metric::RetrySuccess,
        Statistic::Rate,
        Op::AtLeast,
        0.95,
    )
}

/// A whole, honest answer: head after 100 ms, 21 packets of 4 characters every 20 ms from 120 ms.
pub(crate) fn good() -> Observation {
    let stretch = |start, end| Stretch {
        start: ms(start),
        end: Some(ms(end)),
    };
    Observation {
        timeline: Timeline {
            connect: Some(stretch(0, 10)),
            send: Some(stretch(10, 11)),
            head: Some(ms(100)),
            first_chunk: Some(ms(120)),
            first_event: Some(ms(120)),
            first_token: Some(ms(120)),
            last_token: Some(ms(520)),
            end_mark: Some(ms(521)),
            over: ms(522),
            ..Timeline::default()
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
        headers: Vec::new(),
        retry_after: None,
        error_code: None,
        model: Some("test-model".to_owned()),
        response_id: None,
        fingerprint: None,
        finish_reason: Some("stop".to_owned()),
        usage: Some(Usage {
            output: Some(21),
            ..Usage::default()
        }),
        sealed: Some(true),
        unmet: Vec::new(),
        own_count: None,
        words: Vec::new(),
        packets: Packets {
            count: 21,
            content_events: 21,
            chars: 84,
            first_chars: 4,
            first: Some(ms(120)),
            last: Some(ms(520)),
            gap_mean_s: Some(0.02),
            gap_m2_s2: Some(0.0019),
            longest: vec![Gap {
                at: ms(160),
                length: ms(40),
                packet: 2,
            }],
            ..Packets::default()
        },
        counts: Counts::default(),
        connection: Connection::default(),
        text: None,
    }
}

/// A whole answer whose first token came late.
pub(crate) fn slow(first_token: u64) -> Observation {
    let mut seen = good();
    let at = Some(ms(first_token));
    seen.timeline.first_event = at;
    seen.timeline.first_token = at;
    seen
}

/// A status other than 2xx.
pub(crate) fn refused(status: u16) -> Observation {
    Observation {
        timeline: Timeline {
            connect: Some(Stretch {
                start: ms(0),
                end: Some(ms(10)),
            }),
            head: Some(ms(30)),
            over: ms(31),
            ..Timeline::default()
        },
        ending: Ending::Refused,
        last_phase: Phase::Head,
        findings: vec![finding(Class::HttpError, Phase::Head)],
        parse_ok: false,
        status: Some(status),
        model: None,
        finish_reason: None,
        usage: None,
        sealed: None,
        packets: Packets::default(),
        ..good()
    }
}

/// A stream that ended before its end mark.
pub(crate) fn truncated() -> Observation {
    let mut seen = good();
    seen.timeline.end_mark = None;
    seen.ending = Ending::Truncated;
    seen.interrupted = true;
    seen.usage = None;
    seen.findings = vec![finding(Class::TruncatedNoTerminator, Phase::Stream)];
    seen
}

pub(crate) fn finding(class: Class, phase: Phase) -> Finding {
    Finding {
        class,
        phase,
        at: None,
        offset: None,
        event: None,
        detail: String::new(),
    }
}

/// A sample of one attempt.
pub(crate) fn sample(index: u64, seen: Observation) -> Sample {
    Sample {
        id: format!("{index:016x}"),
        index,
        warmup: false,
        trace_id: format!("{:032x}", index.wrapping_add(1)),
        t0_unix_ns: 1_000_000_000_u64.saturating_mul(index.saturating_add(1)),
        planned: ms(index.saturating_mul(10)),
        lag: Duration::ZERO,
        attempts: vec![Attempt {
            start: Duration::ZERO,
            backoff: None,
            observation: seen,
        }],
    }
}

/// A sample of several attempts.
pub(crate) fn retried(index: u64, attempts: Vec<Observation>) -> Sample {
    let mut sample = sample(index, good());
    sample.attempts = attempts
        .into_iter()
        .map(|observation| Attempt {
            start: Duration::ZERO,
            backoff: None,
            observation,
        })
        .collect();
    sample
}

pub(crate) fn header(objectives: Vec<Objective>, max_samples: u64) -> Header {
    Header {
        schema: SCHEMA,
        tool_version: "0.0.0".to_owned(),
        run_id: "run".to_owned(),
        started_unix_ns: 1,
        host: "host".to_owned(),
        spec_name: "spec".to_owned(),
        spec_source: "specs/spec.yaml".to_owned(),
        spec_sha256: String::new(),
        plan_digest: String::new(),
        cell_id: "cell".to_owned(),
        cell: "alpha/test-model/chat".to_owned(),
        relay: "alpha".to_owned(),
        model: "test-model".to_owned(),
        workload: "chat".to_owned(),
        base_url: "http://127.0.0.1:1/v1".to_owned(),
        protocol: Protocol::OpenaiChat,
        transport: TransportKind::Reqwest,
        stream: true,
        max_tokens: Some(128),
        prompt: Vec::new(),
        sampling: Sampling {
            seed: 1,
            rate_per_s: 100.0,
            max_samples,
            concurrency: 8,
            warmup: 0,
            max_tokens: None,
            max_duration: None,
            max_cost_usd: None,
            mode: Timing::Burst,
            duration: None,
            start_unix_ns: None,
        },
        judge: judging(),
        otel: OtelSettings::default(),
        seal_allowance_ppm: None,
        spec_cells: Some(1),
        propagation: Propagation::None,
        earlier_runs: Vec::new(),
        segment: None,
        core_digest: String::new(),
        objectives,
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

pub(crate) fn evidence(
    objectives: Vec<Objective>,
    max_samples: u64,
    samples: impl IntoIterator<Item = Sample>,
) -> Evidence {
    let mut evidence = Evidence::new(header(objectives, max_samples));
    for sample in samples {
        evidence.push(Line::Sample(Box::new(sample)));
    }
    evidence
}

pub(crate) fn close(reason: CloseReason) -> Close {
    Close {
        reason,
        at_unix_ns: 1,
        abandoned: 0,
        self_check: SelfCheck::default(),
        error: None,
    }
}
