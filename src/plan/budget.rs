//! What a plan can show and what it can use up: samples, tokens, time.

use std::time::Duration;

use super::{Cell, Judging, Method, Relay, Sampling, Workload};
use crate::spec::objective::Objective;
use crate::stats::interval::{self, Sides};
use crate::stats::operating;
use crate::stats::sequential::{Design, FAIL_RATIO};
use crate::stats::{Tally, count, float};

/// Chance of a false violation that a plan is computed with.
///
/// The verdict divides it among the objectives of a cell, which makes a pass a little more likely
/// than planned, never less.
const GAMMA: f64 = 0.05;

/// How many samples an objective needs, by the rule that will judge it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    required_ppm: u32,
    confidence_ppm: u32,
    rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Sequential(Design),
    Wilson { required: f64, z: f64 },
}

impl Outlook {
    /// The outlook of an objective; `None` for a mean, which nothing decides.
    pub fn of(objective: &Objective, judge: &Judging) -> Option<Self> {
        let required_ppm = objective.required_ppm()?;
        let required = f64::from(required_ppm) / 1e6;
        let confidence_ppm = objective.confidence_ppm.unwrap_or(judge.confidence_ppm);
        let confidence = f64::from(confidence_ppm) / 1e6;
        let rule = match judge.method {
            Method::Sequential => Rule::Sequential(Design::with_ratios(
                required,
                1.0 - confidence,
                GAMMA,
                judge.design_ratio,
                FAIL_RATIO,
            )?),
            Method::Wilson => Rule::Wilson {
                required,
                z: interval::z(confidence, Sides::Two),
            },
        };
        Some(Self {
            required_ppm,
            confidence_ppm,
            rule,
        })
    }

    /// Share of samples that must be good, in parts per million.
    pub const fn required_ppm(&self) -> u32 {
        self.required_ppm
    }

    /// Confidence of a pass, in parts per million.
    pub const fn confidence_ppm(&self) -> u32 {
        self.confidence_ppm
    }

    /// n₀: fewest samples that pass, when none of them fails.
    pub fn clean_samples(&self) -> u64 {
        match self.rule {
            Rule::Sequential(design) => design.pass_at(0).unwrap_or(u64::MAX),
            Rule::Wilson { required, z } => interval::wilson_min_n(required, z),
        }
    }

    /// Most failures with which `n` samples still pass; `None` when not even none does.
    pub fn tolerated(&self, n: u64) -> Option<u64> {
        match self.rule {
            Rule::Sequential(design) => {
                let fits = |failures: &u64| design.pass_at(*failures).is_some_and(|at| at <= n);
                (0..=n).take_while(fits).last()
            }
            Rule::Wilson { required, z } => {
                let fits = |failures: &u64| {
                    Tally::new(n, *failures)
                        .is_some_and(|tally| interval::wilson(tally, z).lower >= required)
                };
                (0..=n).take_while(fits).last()
            }
        }
    }

    /// Largest share that `n` samples without a failure prove, in parts per million, rounded down.
    pub fn provable_ppm(&self, n: u64) -> u32 {
        let clean = Tally::default().with_good(n);
        let share = match self.rule {
            Rule::Sequential(design) => design.lower(clean),
            Rule::Wilson { z, .. } => interval::wilson(clean, z).lower,
        };
        u32::try_from(count((share * 1e6).floor())).unwrap_or(u32::MAX)
    }

    /// True failure rates between which no number of samples decides; `None` for a single look.
    pub fn grey_zone(&self) -> Option<(f64, f64)> {
        match self.rule {
            Rule::Sequential(design) => Some(design.grey_zone()),
            Rule::Wilson { .. } => None,
        }
    }

    /// N90: fewest samples with which a relay at a fifth of the allowed failure odds passes nine
    /// times out of ten; `None` when `most` do not do.
    pub fn n90(&self, most: u64) -> Option<u64> {
        const POWER: f64 = 0.9;
        const BETTER: f64 = 5.0;
        match self.rule {
            Rule::Sequential(design) => {
                let good = operating::good_relay(design.required(), BETTER);
                operating::samples_for(&design, good, POWER, most)
            }
            Rule::Wilson { required, z } => {
                let good = operating::good_relay(required, BETTER);
                single_look(required, z, good, POWER, most)
            }
        }
    }
}

/// Fewest samples at which one look passes a relay of quality `p` with probability `power`.
///
/// For each number of failures there is a smallest n that still passes with them; power is highest
/// there, so only these need a look.
fn single_look(required: f64, z: f64, p: f64, power: f64, most: u64) -> Option<u64> {
    let mut n = interval::wilson_min_n(required, z).max(1);
    let mut failures = 0;
    while n <= most {
        let passes = Tally::new(n, failures)
            .is_some_and(|tally| interval::wilson(tally, z).lower >= required);
        if !passes {
            n += 1;
            continue;
        }
        if at_most(failures, n, 1.0 - p) >= power {
            return Some(n);
        }
        failures += 1;
    }
    None
}

/// Probability of at most `most` failures in `n` samples that fail with probability `q`.
fn at_most(most: u64, n: u64, q: f64) -> f64 {
    let odds = q / (1.0 - q);
    let mut term = (float(n) * (-q).ln_1p()).exp();
    let mut sum = term;
    for k in 0..most {
        term *= float(n - k) / float(k + 1) * odds;
        sum += term;
    }
    sum
}

/// Tokens that a call adds beyond its texts, for each message: role and separators.
const MESSAGE_TOKENS: u64 = 8;

/// Most tokens of one call, prompt and answer.
///
/// A token of text is at least one byte long, so the bytes of a prompt bound its tokens. Only one
/// attempt of a call can produce output: what is tried again was answered by an error status or
/// not at all.
pub fn tokens_per_call(workload: &Workload) -> u64 {
    let prompt: u64 = workload
        .messages
        .iter()
        .map(|message| {
            let text = super::schedule::longest(&message.content);
            MESSAGE_TOKENS + text
        })
        .sum();
    let answer = workload.max_tokens().unwrap_or(0);
    let answers = workload.params.get("n").and_then(serde_json::Value::as_u64);
    prompt.saturating_add(answer.saturating_mul(answers.unwrap_or(1)))
}

/// Most tokens of one call to each cell.
pub(super) fn tokens_per_round(cells: &[Cell]) -> u64 {
    cells.iter().fold(0, |sum: u64, cell| {
        sum.saturating_add(tokens_per_call(&cell.workload))
    })
}

/// Most tokens of all calls to a cell.
pub fn tokens_of(cell: &Cell, sampling: &Sampling) -> u64 {
    let calls = sampling.max_samples + u64::from(sampling.warmup);
    tokens_per_call(&cell.workload).saturating_mul(calls)
}

/// When the last call of a cell starts, from the start of its sampling.
pub fn last_start(cell: &Cell, sampling: &Sampling) -> Duration {
    cell.slots(sampling)
        .last()
        .map_or(Duration::ZERO, |slot| slot.start)
}

/// Longest that a cell can take: its last start and a call that uses up every limit, or the cell's
/// own limit where that comes first.
pub fn longest_cell(cell: &Cell, sampling: &Sampling) -> Duration {
    let longest = last_start(cell, sampling).saturating_add(longest_call(&cell.relay));
    sampling
        .max_duration
        .map_or(longest, |limit| limit.min(longest))
}

/// Longest that one call can take: all its attempts to their limit, and the waits between them.
pub fn longest_call(relay: &Relay) -> Duration {
    let attempts = relay.retry.max.saturating_add(1);
    // A relay may ask for up to a minute before each retry.
    let wait = if relay.retry.obey_retry_after {
        relay.retry.cap.max(Duration::from_secs(60))
    } else {
        relay.retry.cap
    };
    relay
        .timeouts
        .total
        .saturating_mul(attempts)
        .saturating_add(wait.saturating_mul(relay.retry.max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Mode, OnInconclusive, Stop, Tokens};

    fn outlook(text: &str, method: Method) -> Outlook {
        let judge = Judging {
            method,
            confidence_ppm: 950_000,
            mode: Mode::Prove,
            on_inconclusive: OnInconclusive::Fail,
            stop: Stop::All,
            design_ratio: 5.0,
            futility: true,
            tokens: Tokens::Usage,
        };
        Outlook::of(&Objective::parse(text).unwrap(), &judge).unwrap()
    }

    #[test]
    fn the_sequential_rule_asks_for_the_published_numbers() {
        for (text, n0, n90) in [
            ("ttft.p95 < 1.5s", 74, 232),
            ("tps.p05 >= 20/s", 74, 232),
            ("parse_success >= 99%", 373, 1175),
            ("interruption < 1%", 373, 1175),
            ("http_success >= 99.9%", 3744, 9777),
        ] {
            let outlook = outlook(text, Method::Sequential);
            assert_eq!(outlook.clean_samples(), n0, "{text}");
            assert_eq!(outlook.n90(MOST), Some(n90), "{text}");
        }
    }

    #[test]
    fn a_single_look_asks_for_a_fixed_number() {
        let p95 = outlook("ttft.p95 < 1.5s", Method::Wilson);
        assert_eq!(p95.clean_samples(), 73);
        assert_eq!(p95.n90(MOST), Some(202));
        let p99 = outlook("parse_success >= 99%", Method::Wilson);
        assert_eq!(p99.clean_samples(), 381);
        assert_eq!(p99.n90(MOST), Some(1025));
    }

    #[test]
    fn tolerated_failures_follow_the_ladder() {
        let p95 = outlook("ttft.p95 < 1.5s", Method::Sequential);
        for (n, failures) in [
            (73, None),
            (74, Some(0)),
            (112, Some(0)),
            (113, Some(1)),
            (232, Some(4)),
        ] {
            assert_eq!(p95.tolerated(n), failures, "{n}");
        }
    }

    #[test]
    fn forty_clean_samples_prove_at_most_ninety_percent() {
        let p95 = outlook("ttft.p95 < 1.5s", Method::Sequential);
        assert_eq!(p95.provable_ppm(40) / 1000, 909);
    }

    const MOST: u64 = 1_000_000;
}
