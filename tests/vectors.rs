//! Reference values of the statistics: every row of `tests/data/statistics.json`, or of the file
//! that `RELAYPROOF_VECTORS` names, to 1e-9.

#![expect(
    clippy::unwrap_used,
    reason = "a test file: a missing value is a failed test"
)]

use std::time::Duration;

use relayproof::dialect::Protocol;
use relayproof::expect::Expect;
use relayproof::measure::shape::{Limits, Shape};
use relayproof::observation::{Gap, Packets};
use relayproof::stats::Tally;
use relayproof::stats::cluster::korn_graubard;
use relayproof::stats::difference::{
    Difference, Pairs, mcnemar_exact, newcombe, newcombe_paired as paired,
};
use relayproof::stats::interval::{self, Interval, Sides};
use relayproof::stats::operating::operating;
use relayproof::stats::quantile::{nearest_rank, nearest_rank_from_top, rank_interval};
use relayproof::stats::sequential::{
    Account, Design, FAIL_RATIO, PASS_RATIO, Standing, joint_over,
};
use relayproof::stats::shift::{fisher_worse, holm, mann_whitney_worse};
use relayproof::stats::votes::Vote;
use relayproof::stats::wald::Sprt;
use relayproof::stream::{Asked, Exchange, Head, Input, Timeouts};
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

#[test]
fn every_reference_value_is_reproduced() {
    let text = match std::env::var_os("RELAYPROOF_VECTORS") {
        Some(path) => std::fs::read_to_string(path).unwrap(),
        None => include_str!("data/statistics.json").to_owned(),
    };
    check(&text);
}

/// The ends, single samples, a million samples, tails of 1e-300; the file's head says how each was
/// computed.
#[test]
fn every_extreme_value_is_reproduced() {
    check(include_str!("data/statistics-extremes.json"));
}

fn check(text: &str) {
    let file: Value = serde_json::from_str(text).unwrap();
    let rows = file["rows"].as_array().unwrap();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for row in rows {
        let row = Row(row);
        let kind = row.text("kind");
        let mismatches = match kind {
            "wilson" => wilson(row),
            "clopper_pearson" => clopper_pearson(row),
            "quantile_ranks" => quantile_ranks(row),
            "min_n" => min_n(row),
            "max_provable_slo" => max_provable(row),
            "seq_plan" => seq_plan(row),
            "seq_bounds" => seq_bounds(row),
            "seq_oc" => seq_oc(row),
            "seq_verdict" => seq_verdict(row),
            "joint_verdict" => joint_verdict(row),
            "stream_metrics" => stream_metrics(row),
            "norm_quantile" => row.near("z", Some(interval::normal_quantile(row.number("p")))),
            "newcombe_diff" => newcombe_diff(row),
            "newcombe_paired" => newcombe_paired(row),
            "mcnemar_exact" => {
                row.tail("p_two_sided", mcnemar_exact(row.whole("b"), row.whole("c")))
            }
            "fisher_worse" => fisher(row),
            "mann_whitney_worse" => mann_whitney(row),
            "holm" => holm_adjusted(row),
            "bucket_vote" => bucket_vote(row),
            "wald_sprt" => wald_sprt(row),
            "korn_graubard" => clustered(row),
            unknown => vec![format!("no check for kind {unknown}")],
        };
        checked += 1;
        let id = row.0["id"].as_str().unwrap_or(kind);
        wrong.extend(
            mismatches
                .iter()
                .map(|mismatch| format!("{id}: {mismatch}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 0, "the file holds no row");
}

/// One row of the file.
#[derive(Clone, Copy)]
struct Row<'a>(&'a Value);

type Mismatches = Vec<String>;

impl<'a> Row<'a> {
    fn text(self, name: &str) -> &'a str {
        self.0[name].as_str().unwrap()
    }

    fn number(self, name: &str) -> f64 {
        self.0[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name} in {}", self.0))
    }

    fn whole(self, name: &str) -> u64 {
        self.0[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name} in {}", self.0))
    }

    fn ppm(self, name: &str) -> u32 {
        u32::try_from(self.whole(name)).unwrap()
    }

    fn flag(self, name: &str) -> bool {
        self.0[name].as_bool().unwrap()
    }

    fn list(self, name: &str) -> &'a [Value] {
        self.0[name].as_array().unwrap()
    }

    fn wholes(self, name: &str) -> Vec<u64> {
        self.list(name)
            .iter()
            .map(|v| v.as_u64().unwrap())
            .collect()
    }

    fn sides(self) -> Sides {
        match self.text("sides") {
            "one" => Sides::One,
            "two" => Sides::Two,
            other => panic!("sides {other}"),
        }
    }

    /// The named number, where `null` is `None`.
    fn near(self, name: &str, found: Option<f64>) -> Mismatches {
        let expected = self.0[name].as_f64();
        let fine = match (expected, found) {
            // Of a number of samples the digits count, not the places behind the point.
            (Some(expected), Some(found)) => {
                (expected - found).abs() <= TOLERANCE * expected.abs().max(1.0)
            }
            (None, None) => true,
            _ => false,
        };
        mismatch(name, fine, &expected, &found)
    }

    /// A probability, of which the leading digits count however small it is.
    fn tail(self, name: &str, found: f64) -> Mismatches {
        let expected = self.number(name);
        let fine = (expected - found).abs() <= TOLERANCE * expected.abs();
        mismatch(name, fine, &expected, &found)
    }

    fn same<T: PartialEq + std::fmt::Debug>(self, name: &str, expected: T, found: T) -> Mismatches {
        mismatch(name, expected == found, &expected, &found)
    }

    fn rank(self, name: &str, found: Option<u64>) -> Mismatches {
        self.same(name, self.0[name].as_u64(), found)
    }

    fn bounds(self, found: Interval) -> Mismatches {
        [
            self.near("lower", Some(found.lower)),
            self.near("upper", Some(found.upper)),
        ]
        .concat()
    }
}

fn mismatch(
    name: &str,
    fine: bool,
    expected: &dyn std::fmt::Debug,
    found: &dyn std::fmt::Debug,
) -> Mismatches {
    if fine {
        Vec::new()
    } else {
        vec![format!("{name} is {found:?}, should be {expected:?}")]
    }
}

fn tally(good: u64, n: u64) -> Tally {
    Tally::new(n, n - good).unwrap()
}

fn wilson(row: Row<'_>) -> Mismatches {
    let z = interval::z(row.number("confidence"), row.sides());
    let found = interval::wilson(tally(row.whole("k"), row.whole("n")), z);
    [row.near("z", Some(z)), row.bounds(found)].concat()
}

fn clopper_pearson(row: Row<'_>) -> Mismatches {
    row.bounds(interval::clopper_pearson(
        tally(row.whole("k"), row.whole("n")),
        row.number("confidence"),
        row.sides(),
    ))
}

fn quantile_ranks(row: Row<'_>) -> Mismatches {
    let (n, ppm) = (row.whole("n"), row.ppm("q_ppm"));
    let between = |sides| rank_interval(n, ppm, row.number("confidence"), sides);
    let (one, two) = (between(Sides::One), between(Sides::Two));
    [
        row.rank("nearest", nearest_rank(n, ppm)),
        row.rank("nearest_from_top", nearest_rank_from_top(n, ppm)),
        row.rank("lcb_one", one.lower),
        row.rank("ucb_one", one.upper),
        row.rank("lcb_two", two.lower),
        row.rank("ucb_two", two.upper),
    ]
    .concat()
}

fn min_n(row: Row<'_>) -> Mismatches {
    let (required, confidence) = (row.number("slo"), row.number("confidence"));
    let design = Design::new(required, 1.0 - confidence, 0.05).unwrap();
    let wilson = |sides| interval::wilson_min_n(required, interval::z(confidence, sides));
    [
        row.rank(
            "exact_zero_failures",
            Some(interval::exact_min_n(required, confidence)),
        ),
        row.rank("seq_r5", design.pass_at(0)),
        row.rank("wilson_one_sided", Some(wilson(Sides::One))),
        row.rank("wilson_two_sided", Some(wilson(Sides::Two))),
    ]
    .concat()
}

fn max_provable(row: Row<'_>) -> Mismatches {
    let (n, confidence) = (row.whole("n"), row.number("confidence"));
    // What is provable does not depend on what is required.
    let design = Design::with_ratios(
        0.5,
        1.0 - confidence,
        0.05,
        row.number("r_pass"),
        FAIL_RATIO,
    )
    .unwrap();
    [
        row.near("exact", Some(interval::exact_max_provable(n, confidence))),
        row.near("seq", Some(design.max_provable(n))),
    ]
    .concat()
}

fn design(row: Row<'_>) -> Design {
    // Rows of bounds have no γ of their own: the same 5 % as everywhere.
    let gamma = row.0["gamma"].as_f64().unwrap_or(0.05);
    Design::with_ratios(
        row.number("slo"),
        row.number("alpha"),
        gamma,
        row.number("r_pass"),
        row.number("r_fail"),
    )
    .unwrap()
}

fn seq_plan(row: Row<'_>) -> Mismatches {
    let (design, n_max) = (design(row), row.whole("n_max"));
    let expected = row.wholes("fail_ladder");
    let found: Vec<u64> = (0..expected.len() as u64)
        .map(|failures| design.fail_until(failures).min(n_max))
        .collect();
    [
        row.near("a", Some(design.a())),
        row.near("b", Some(design.b())),
        row.same(
            "pass_ladder",
            row.wholes("pass_ladder"),
            design.pass_ladder(n_max),
        ),
        row.same("fail_ladder", expected, found),
    ]
    .concat()
}

fn seq_bounds(row: Row<'_>) -> Mismatches {
    // γ of the upper bound is α in these rows, where none is given.
    let alpha = row.number("alpha");
    let gamma = row.0["gamma"].as_f64().unwrap_or(alpha);
    let design = Design::with_ratios(
        row.number("slo"),
        alpha,
        gamma,
        row.number("r_pass"),
        row.number("r_fail"),
    )
    .unwrap();
    let counts = Tally::new(row.whole("n"), row.whole("failures")).unwrap();
    [
        row.near("log_e_pass", Some(design.log_pass(counts))),
        row.near("log_e_fail", Some(design.log_fail(counts))),
        row.near("lcb", Some(design.lower(counts))),
        row.near("ucb", Some(design.upper(counts))),
    ]
    .concat()
}

fn seq_oc(row: Row<'_>) -> Mismatches {
    let found = operating(
        &design(row),
        row.whole("n_max"),
        row.flag("futility"),
        row.number("p"),
    );
    [
        row.near("p_pass", Some(found.pass)),
        row.near("p_fail", Some(found.fail)),
        row.near("p_cannot_pass", Some(found.cannot_pass)),
        row.near("p_budget", Some(found.budget)),
        row.near("expected_n", Some(found.expected_n)),
    ]
    .concat()
}

/// One claim walked sample by sample, frozen once it is closed.
struct Walk {
    account: Account,
    failures: Vec<u64>,
    standing: Standing,
}

impl Walk {
    fn new(design: Design, failures: &Value) -> Self {
        Self {
            account: Account::new(design),
            failures: serde_json::from_value(failures.clone()).unwrap(),
            standing: Standing::Open,
        }
    }

    fn step(&mut self, n: u64, n_max: Option<u64>) {
        if self.standing == Standing::Open {
            self.account.step(!self.failures.contains(&n));
            self.standing = self.account.standing(n_max);
        }
    }

    fn name(&self, at_budget: bool) -> &'static str {
        match self.standing {
            Standing::Pass => "PASS",
            Standing::Fail => "FAIL",
            Standing::CannotPass => "CANNOT_PASS",
            Standing::Open if at_budget => "BUDGET",
            Standing::Open => "OPEN",
        }
    }
}

fn seq_verdict(row: Row<'_>) -> Mismatches {
    let n_max = row.whole("n_max");
    let futility = row.flag("futility").then_some(n_max);
    let mut walk = Walk::new(design(row), &row.0["failure_positions"]);
    let mut n = 0;
    while n < n_max && walk.standing == Standing::Open {
        n += 1;
        walk.step(n, futility);
    }
    [
        row.same("verdict", row.text("verdict"), walk.name(true)),
        row.same("n_stop", row.whole("n_stop"), n),
    ]
    .concat()
}

fn joint_verdict(row: Row<'_>) -> Mismatches {
    let n_max = row.whole("n_max");
    let (alpha, gamma) = (row.number("alpha"), row.number("gamma_each"));
    let mut walks: Vec<Walk> = row
        .list("slos")
        .iter()
        .zip(row.list("failure_positions"))
        .map(|(required, failures)| {
            let required = required.as_f64().unwrap();
            let design = Design::with_ratios(required, alpha, gamma, PASS_RATIO, FAIL_RATIO);
            Walk::new(design.unwrap(), failures)
        })
        .collect();
    let mut n = 0;
    while n < n_max && !joint_over(walks.iter().map(|walk| walk.standing), true) {
        n += 1;
        walks.iter_mut().for_each(|walk| walk.step(n, Some(n_max)));
    }
    let names: Vec<&str> = walks.iter().map(|walk| walk.name(n == n_max)).collect();
    let overall = if names.contains(&"FAIL") {
        "FAIL"
    } else if names.iter().all(|name| *name == "PASS") {
        "PASS"
    } else {
        "INCONCLUSIVE"
    };
    let expected: Vec<&str> = row
        .list("verdicts")
        .iter()
        .map(|v| v.as_str().unwrap())
        .collect();
    [
        row.same("verdicts", expected, names),
        row.same("overall", row.text("overall"), overall),
        row.same("n_stop", row.whole("n_stop"), n),
    ]
    .concat()
}

impl Row<'_> {
    fn difference(self, found: Option<Difference>) -> Mismatches {
        [
            self.near("diff", found.map(|found| found.estimate)),
            self.near("lower", found.map(|found| found.lower)),
            self.near("upper", found.map(|found| found.upper)),
        ]
        .concat()
    }

    fn z(self) -> f64 {
        interval::z(self.number("confidence"), Sides::Two)
    }
}

fn newcombe_diff(row: Row<'_>) -> Mismatches {
    let one = tally(row.whole("k1"), row.whole("n1"));
    let other = tally(row.whole("k2"), row.whole("n2"));
    row.difference(newcombe(one, other, row.z()))
}

fn newcombe_paired(row: Row<'_>) -> Mismatches {
    let pairs = Pairs {
        both: row.whole("n11"),
        only_a: row.whole("n12"),
        only_b: row.whole("n21"),
        neither: row.whole("n22"),
    };
    row.difference(paired(pairs, row.z()))
}

fn fisher(row: Row<'_>) -> Mismatches {
    let old = tally(row.whole("k_base"), row.whole("n_base"));
    let new = tally(row.whole("k_new"), row.whole("n_new"));
    row.tail("p_one_sided", fisher_worse(old, new))
}

fn mann_whitney(row: Row<'_>) -> Mismatches {
    let values = |name| -> Vec<f64> {
        // A failed sample is null.
        let worst = |value: &Value| value.as_f64().unwrap_or(f64::INFINITY);
        row.list(name).iter().map(worst).collect()
    };
    let found = mann_whitney_worse(&values("base"), &values("new"));
    [
        row.near("u_new", found.map(|found| found.u)),
        // All values equal: there is no finite z.
        row.near("z", found.map(|found| found.z).filter(|z| z.is_finite())),
        row.tail("p_one_sided", found.map_or(f64::NAN, |found| found.p)),
        row.near("prob_new_greater", found.map(|found| found.effect)),
    ]
    .concat()
}

fn holm_adjusted(row: Row<'_>) -> Mismatches {
    let numbers = |name| -> Vec<f64> {
        let number = |value: &Value| value.as_f64().unwrap();
        row.list(name).iter().map(number).collect()
    };
    let (expected, found) = (numbers("adjusted"), holm(&numbers("p")));
    let close = |(one, other): (&f64, &f64)| (one - other).abs() <= TOLERANCE;
    let fine = expected.len() == found.len() && expected.iter().zip(&found).all(close);
    mismatch("adjusted", fine, &expected, &found)
}

fn bucket_vote(row: Row<'_>) -> Mismatches {
    let vote = Vote::new(row.whole("samples"), row.whole("failures")).unwrap();
    let for_pass = vote.failures_for_pass(row.number("r_pass"));
    let for_fail = vote.failures_for_fail(row.number("r_fail"));
    [
        row.near("f_eff_pass", Some(for_pass)),
        row.near("f_eff_fail", Some(for_fail)),
    ]
    .concat()
}

fn wald_sprt(row: Row<'_>) -> Mismatches {
    let [bad, good, alpha, beta] =
        ["p_bad", "p_good", "alpha", "beta"].map(|name| row.number(name));
    let test = Sprt::new(bad, good, alpha, beta).unwrap();
    [
        row.near("log_upper", Some(test.log_upper())),
        row.near("log_lower", Some(test.log_lower())),
        row.near("per_success", Some(test.per_success())),
        row.near("per_failure", Some(test.per_failure())),
        row.rank("n_pass_zero_failures", Some(test.accept_at())),
        row.near("failures_slope", Some(test.slope())),
        row.near("pass_intercept", Some(test.accept_intercept())),
        row.near("reject_intercept", Some(test.reject_intercept())),
    ]
    .concat()
}

fn clustered(row: Row<'_>) -> Mismatches {
    let clusters: Vec<Tally> = row
        .list("buckets_samples_successes")
        .iter()
        .map(|pair| tally(pair[1].as_u64().unwrap(), pair[0].as_u64().unwrap()))
        .collect();
    let found = korn_graubard(&clusters, row.number("confidence")).unwrap();
    [
        row.near("p_hat", Some(found.share)),
        row.near("deff", Some(found.design_effect)),
        row.near("n_eff_df_adjusted", Some(found.effective_n)),
        row.bounds(found.interval),
    ]
    .concat()
}

/// From the definition, and again from what the exchange accumulates of a real stream.
fn stream_metrics(row: Row<'_>) -> Mismatches {
    [
        shape_matches(row, &packets(row)),
        shape_matches(row, &streamed(row)),
    ]
    .concat()
}

/// An exchange whose answer has begun.
fn opened() -> Exchange {
    let asked = Asked {
        protocol: Protocol::OpenaiChat,
        stream: true,
        model: String::new(),
        max_tokens: None,
        usage: false,
        seal: None,
        request_bytes: 0,
        expect: Expect::default(),
        keep_text: false,
    };
    let mut exchange = Exchange::new(asked, Timeouts::default());
    let head = Head {
        status: 200,
        version: "1.1",
        headers: vec![("content-type", b"text/event-stream")],
    };
    exchange.handle(Duration::ZERO, Input::Head(head));
    exchange
}

/// Plays the events of a row to an exchange, offsets counted from the sending.
fn streamed(row: Row<'_>) -> Packets {
    let mut exchange = opened();
    for event in row.list("events_ms_chars") {
        let at = millis(event[0].as_f64().unwrap() - row.number("send_ms"));
        let text = "x".repeat(usize::try_from(event[1].as_u64().unwrap()).unwrap());
        let data = serde_json::json!({
            "id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}],
        });
        exchange.handle(at, Input::Body(format!("data: {data}\n\n").as_bytes()));
    }
    exchange.handle(Duration::from_secs(60), Input::BodyEnd);
    exchange.finish().packets
}

fn shape_matches(row: Row<'_>, packets: &Packets) -> Mismatches {
    let limits = Limits {
        min_tokens: row.whole("min_tokens"),
        min_gaps: row.whole("min_gaps"),
        min_span: millis(row.number("min_span_ms")),
    };
    let tokens = row.0["completion_tokens"].as_u64();
    let shape = Shape::of(packets, tokens, limits);
    let in_ms = |at: Duration| at.as_secs_f64() * 1e3;
    // A buffered stream has no speed of its own.
    let decode = shape.tps.filter(|_| !shape.buffered);
    [
        row.near("ttft_ms", packets.first.map(in_ms)),
        row.rank("packets", Some(packets.count)),
        row.same("buffered", row.flag("buffered"), shape.buffered),
        row.near("tps_e2e", shape.tps_e2e),
        row.near("tps_decode", decode),
        row.near("tps", shape.tps),
        row.near("jitter_sd_ms", shape.jitter_s.map(|s| s * 1e3)),
        row.near("max_gap_ms", shape.max_gap.map(in_ms)),
    ]
    .concat()
}

#[test]
fn only_reasoning_that_was_streamed_counts_toward_the_speed() {
    let shown = |delta: &str| {
        let mut exchange = opened();
        let data = serde_json::json!({
            "id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": {delta: "hm"}, "finish_reason": null}],
        });
        let body = format!("data: {data}\n\n");
        exchange.handle(millis(10.0), Input::Body(body.as_bytes()));
        exchange.handle(millis(20.0), Input::BodyEnd);
        exchange.finish().packets.reasoning
    };
    assert!(shown("reasoning_content"));
    assert!(!shown("content"));
}

fn millis(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

/// Merges content events into packets, from the definition.
fn packets(row: Row<'_>) -> Packets {
    let (sent, merge) = (row.number("send_ms"), row.number("merge_ms"));
    let mut merged: Vec<(f64, u64)> = Vec::new();
    for event in row.list("events_ms_chars") {
        let (at, chars) = (
            event[0].as_f64().unwrap() - sent,
            event[1].as_u64().unwrap(),
        );
        match merged.last_mut() {
            _ if chars == 0 => {}
            Some((first, sum)) if at - *first < merge => *sum += chars,
            _ => merged.push((at, chars)),
        }
    }
    let gaps: Vec<f64> = merged.windows(2).map(|w| (w[1].0 - w[0].0) / 1e3).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let longest = gaps.iter().copied().reduce(f64::max);
    Packets {
        count: merged.len() as u64,
        chars: merged.iter().map(|(_, chars)| chars).sum(),
        first_chars: merged.first().map_or(0, |(_, chars)| *chars),
        first: merged.first().map(|(at, _)| millis(*at)),
        last: merged.last().map(|(at, _)| millis(*at)),
        gap_mean_s: (!gaps.is_empty()).then_some(mean),
        gap_m2_s2: (!gaps.is_empty()).then(|| gaps.iter().map(|g| (g - mean).powi(2)).sum()),
        longest: longest
            .map(|length| Gap {
                at: Duration::ZERO,
                length: Duration::from_secs_f64(length),
                packet: 1,
            })
            .into_iter()
            .collect(),
        ..Packets::default()
    }
}
