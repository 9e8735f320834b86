//! What a plan can show and what it can use up: samples, tokens, time.

use std::time::Duration;

use super::{Cell, Judging, Method, Mode, Relay, Sampling, Workload};
use crate::objective::metric::Metric;
use crate::objective::{Objective, Severity, Statistic};
use crate::stats::interval::{self, Sides};
use crate::stats::look::Look;
use crate::stats::operating;
use crate::stats::sequential::{Design, FAIL_RATIO};
use crate::stats::{Tally, count, float};

/// Chance of a false violation that a plan is computed with.
///
/// The verdict divides it among the objectives of a cell, which makes a pass a little more likely
/// than planned, never less.
const GAMMA: f64 = 0.05;

/// Most steps of a recursion that a forecast takes: a second, about.
const MOST_STEPS: u64 = 200_000_000;

/// How much better than promised a relay is that a plan is made for: its failure odds are one fifth
/// of the allowed ones.
pub const BETTER: f64 = 5.0;

/// Whether an objective fails its cell, and so takes its part of the chance of a false violation.
pub fn fails_cell(objective: &Objective) -> bool {
    objective.severity == Severity::Gate && objective.statistic != Statistic::Mean
}

/// Accounts among which the chance of a false violation of a cell is split: one for each objective
/// that fails the cell, and one for the missing seals of a `usable` one.
pub fn accounts(objectives: &[Objective], seal_allowance_ppm: Option<u32>) -> u32 {
    let seals = seal_allowance_ppm.is_some_and(|ppm| ppm > 0);
    let all = objectives.iter().filter(|it| fails_cell(it));
    all.map(|it| 1 + u32::from(seals && it.metric == Metric::Usable))
        .sum()
}

/// How many samples an objective needs, by the rule that will judge it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    required_ppm: u32,
    confidence_ppm: u32,
    rule: Rule,
    guard: bool,
    futility: bool,
}

/// What becomes of a relay whose samples are good with a fixed probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// That probability.
    pub share: f64,
    /// Probability of a pass.
    pub pass: f64,
    /// Probability of a violation.
    pub violated: f64,
    /// Expected number of samples.
    pub samples: f64,
}

/// What can be said of several objectives that are judged by the same samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Together {
    /// Lower bound of the probability that all of them pass, however they depend on each other.
    pub pass: f64,
    /// Lower bound of the expected number of samples: that of the objective that takes longest.
    pub samples: f64,
}

impl Together {
    /// Sums up the forecasts of the objectives that a cell waits for.
    pub fn of(forecasts: impl IntoIterator<Item = Forecast>) -> Option<Self> {
        let mut together = None;
        for forecast in forecasts {
            let so_far = together.get_or_insert(Self {
                pass: 1.0,
                samples: 0.0,
            });
            so_far.pass = (so_far.pass - (1.0 - forecast.pass)).max(0.0);
            so_far.samples = forecast.samples.max(so_far.samples);
        }
        together
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Sequential(Design),
    Look { required: f64, look: Look },
}

impl Outlook {
    /// The outlook of an objective; `None` for a mean, which nothing decides.
    pub fn of(objective: &Objective, judge: &Judging) -> Option<Self> {
        Self::among(objective, judge, 1)
    }

    /// [`Outlook::of`], where the chance of a false violation is split among so many accounts.
    pub fn among(objective: &Objective, judge: &Judging, accounts: u32) -> Option<Self> {
        let gamma = GAMMA / f64::from(accounts.max(1));
        let required_ppm = objective.required_ppm()?;
        let required = f64::from(required_ppm) / 1e6;
        let confidence_ppm = objective.confidence_ppm.unwrap_or(judge.confidence_ppm);
        let confidence = f64::from(confidence_ppm) / 1e6;
        let alpha = f64::from(1_000_000_u32.saturating_sub(confidence_ppm)) / 1e6;
        let rule = match judge.method {
            Method::Sequential => Rule::Sequential(Design::with_ratios(
                required,
                alpha,
                gamma,
                judge.design_ratio,
                FAIL_RATIO,
            )?),
            Method::Wilson => Rule::Look {
                required,
                look: Look::Wilson {
                    z: interval::z(confidence, Sides::Two),
                },
            },
            Method::Exact => Rule::Look {
                required,
                look: Look::Exact { alpha, gamma },
            },
        };
        Some(Self {
            required_ppm,
            confidence_ppm,
            rule,
            guard: judge.mode == Mode::Guard,
            futility: judge.futility && judge.mode != Mode::Guard,
        })
    }

    /// Share of good samples of a relay whose failure odds are a fifth of the allowed ones.
    pub fn good_share(&self) -> f64 {
        operating::good_relay(f64::from(self.required_ppm) / 1e6, BETTER)
    }

    /// What becomes of a relay that is good with probability `share`, with at most `most` samples;
    /// `None` where that takes too long to compute.
    pub fn forecast(&self, share: f64, most: u64) -> Option<Forecast> {
        let (pass, violated, samples, open) = match self.rule {
            Rule::Sequential(design) => {
                let failures = self.tolerated(most).unwrap_or(0) + 1;
                if failures.saturating_mul(most) > MOST_STEPS {
                    return None;
                }
                let oc = operating::operating(&design, most, self.futility, share);
                (oc.pass, oc.fail, oc.expected_n, oc.budget)
            }
            Rule::Look { required, look } => {
                let (pass, violated) = look.power(most, required, share);
                (pass, violated, float(most), 1.0 - pass - violated)
            }
        };
        Some(Forecast {
            share,
            pass: if self.guard { pass + open } else { pass },
            violated,
            samples,
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
            Rule::Look { required, look } => look.min_n(required),
        }
    }

    /// Most failures with which `n` samples still pass; `None` when not even none does.
    pub fn tolerated(&self, n: u64) -> Option<u64> {
        match self.rule {
            Rule::Sequential(design) => {
                let fits = |failures: &u64| design.pass_at(*failures).is_some_and(|at| at <= n);
                (0..=n).take_while(fits).last()
            }
            Rule::Look { required, look } => look.tolerated(n, required),
        }
    }

    /// Largest share that `n` samples without a failure prove, in parts per million, rounded down.
    pub fn provable_ppm(&self, n: u64) -> u32 {
        let clean = Tally::default().with_good(n);
        let share = match self.rule {
            Rule::Sequential(design) => design.lower(clean),
            Rule::Look { look, .. } => look.bounds(clean).lower,
        };
        u32::try_from(count((share * 1e6).floor())).unwrap_or(u32::MAX)
    }

    /// True failure rates between which no number of samples decides; `None` for a single look.
    pub fn grey_zone(&self) -> Option<(f64, f64)> {
        match self.rule {
            Rule::Sequential(design) => Some(design.grey_zone()),
            Rule::Look { .. } => None,
        }
    }

    /// N90: fewest samples with which a relay at a fifth of the allowed failure odds passes nine
    /// times out of ten; `None` when `most` do not do.
    ///
    /// Where no failure is allowed, no number makes that more likely than the first that can pass,
    /// which then is meant.
    pub fn n90(&self, most: u64) -> Option<u64> {
        const POWER: f64 = 0.9;
        match self.rule {
            Rule::Sequential(design) if design.pass_at(1).is_none() => {
                design.pass_at(0).filter(|n0| *n0 <= most)
            }
            Rule::Sequential(design) => {
                let good = operating::good_relay(design.required(), BETTER);
                operating::samples_for(&design, good, POWER, most)
            }
            Rule::Look { required, look } => {
                let good = operating::good_relay(required, BETTER);
                look.samples_for(required, good, POWER, most)
            }
        }
    }
}

/// Tokens that a call adds beyond its texts, for each message: role and separators.
const MESSAGE_TOKENS: u64 = 8;

/// Most tokens of one call, prompt and answer.
///
/// A token of text is at least one byte long, so the bytes of a prompt bound its tokens. Only one
/// attempt of a call can produce output: what is tried again was answered by an error status or
/// not at all.
pub fn tokens_per_call(workload: &Workload) -> u64 {
    let (prompt, answer) = parts_of_call(workload);
    prompt.saturating_add(answer)
}

/// [`tokens_per_call`], of the prompt and of the answer.
fn parts_of_call(workload: &Workload) -> (u64, u64) {
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
    (prompt, answer.saturating_mul(answers.unwrap_or(1)))
}

/// Most that so many calls to a cell cost, in US dollars; `None` where the spec has no price.
pub fn cost_of(cell: &Cell, calls: u64) -> Option<f64> {
    let (prompt, answer) = parts_of_call(&cell.workload);
    let all = |tokens: u64| tokens.saturating_mul(calls);
    cell.price.as_ref()?.usd(all(prompt), 0, all(answer))
}

/// Most that one attempt of a call to a cell costs, in US dollars, whatever of its prompt comes from
/// a cache; `None` where the spec has no price.
pub fn most_of_call(cell: &Cell) -> Option<f64> {
    let (prompt, answer) = parts_of_call(&cell.workload);
    let price = cell.price.as_ref()?;
    let (fresh, cached) = (
        price.usd(prompt, 0, answer)?,
        price.usd(prompt, prompt, answer)?,
    );
    Some(fresh.max(cached))
}

/// Most tokens of so many calls to a cell.
pub fn tokens_of(cell: &Cell, calls: u64) -> u64 {
    tokens_per_call(&cell.workload).saturating_mul(calls)
}

/// When the last call of a cell starts, from the start of its sampling.
///
/// Where calls are held open instead of started at a rate, that is at the latest.
pub fn last_start(cell: &Cell, sampling: &Sampling) -> Duration {
    if let Some(streams) = cell.workload.concurrency {
        let calls = sampling.max_samples + u64::from(sampling.warmup);
        let rounds = calls.div_ceil(u64::from(streams.max(1))).saturating_sub(1);
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        return longest_call(&cell.relay).saturating_mul(rounds);
    }
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
    use crate::plan::{OnInconclusive, Scope, Stop, Tokens, USUAL_BUCKET, USUAL_MIN_DAYS};

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
            scope: Scope::Run,
            bucket: USUAL_BUCKET,
            min_days: USUAL_MIN_DAYS,
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
    fn the_exact_look_asks_for_less_than_the_others() {
        let p95 = outlook("ttft.p95 < 1.5s", Method::Exact);
        assert_eq!(p95.clean_samples(), 59);
        let p99 = outlook("parse_success >= 99%", Method::Exact);
        assert_eq!(p99.clean_samples(), 299);
        assert_eq!(p99.tolerated(773), Some(3));
        assert_eq!(p99.provable_ppm(40), 927_842);
    }

    #[test]
    fn a_forecast_says_what_the_table_of_the_rule_says() {
        let p99 = outlook("parse_success >= 99%", Method::Sequential);
        let good = p99.forecast(0.998, 1175).unwrap();
        assert!((good.pass - 0.940).abs() < 5e-4, "{good:?}");
        assert!((good.samples - 570.0).abs() < 0.5, "{good:?}");
        let bad = p99.forecast(0.90, 1175).unwrap();
        assert!(bad.pass < 1e-6 && bad.violated > 0.9, "{bad:?}");
        assert!((bad.samples - 39.0).abs() < 0.5, "{bad:?}");
        let flawless = p99.forecast(1.0, 1175).unwrap();
        assert_eq!((flawless.pass, flawless.samples), (1.0, 373.0));
        let look = outlook("parse_success >= 99%", Method::Exact);
        let fixed = look.forecast(0.998, 773).unwrap();
        assert!((fixed.pass - 0.929).abs() < 5e-4, "{fixed:?}");
        assert_eq!(fixed.samples, 773.0);
    }

    #[test]
    fn together_objectives_pass_no_more_often_and_take_no_fewer_samples() {
        let one = |pass, samples| Forecast {
            share: 0.99,
            pass,
            violated: 0.0,
            samples,
        };
        let together = Together::of([one(0.9, 500.0), one(0.8, 70.0)]).unwrap();
        assert!((together.pass - 0.7).abs() < 1e-12);
        assert_eq!(together.samples, 500.0);
        assert_eq!(
            Together::of([one(0.4, 1.0), one(0.4, 1.0)]).unwrap().pass,
            0.0
        );
        assert_eq!(Together::of([]), None);
    }

    #[test]
    fn missing_seals_take_a_part_of_the_chance_of_a_false_violation() {
        let objectives =
            ["ttft.p95 < 1.5s", "usable >= 99%"].map(|text| Objective::parse(text).unwrap());
        assert_eq!(accounts(&objectives, None), 2);
        assert_eq!(accounts(&objectives, Some(0)), 2);
        assert_eq!(accounts(&objectives, Some(20_000)), 3);
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
