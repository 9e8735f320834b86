//! The steps of a climb side by side: what a relay gives at so many open calls, and where it bends.
//!
//! Each step is a cell of its own, sampled in a closed loop: so many calls are open at all times,
//! and one starts when another one ends. Rules and their reasons: docs/ramp.md.

use super::question::Question;
use super::tallied::Tallied;
use crate::evidence::{CloseReason, Evidence, Line, Sample};
use crate::measure::seconds;
use crate::objective::Objective;
use crate::objective::metric::Metric;
use crate::stats::interval::{Interval, Sides, wilson, z};
use crate::stats::quantile::nearest_rank;
use crate::stats::{Tally, float};

/// Confidence of the intervals, two-sided.
pub const CONFIDENCE: f64 = 0.95;
/// A rise of throughput by no more than this share of the added streams is none.
pub const FLAT: f64 = 0.10;

/// How one promise was kept at a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The promise.
    pub objective: Objective,
    /// Share that is required, in parts per million.
    pub required_ppm: u32,
    /// Calls that kept it, of those that it is about.
    pub tally: Tally,
    /// Wilson's interval of the share, whatever the calls that were called off would have been.
    pub interval: Interval,
}

impl Kept {
    /// Whether the promise is shown to be broken.
    pub fn is_broken(&self) -> bool {
        self.interval.upper < f64::from(self.required_ppm) / 1e6
    }

    /// Whether it is about the time to the first token.
    pub fn is_of_ttft(&self) -> bool {
        self.objective.metric == Metric::Ttft
    }
}

/// What a relay gave at so many open calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Calls held open.
    pub streams: u32,
    /// Calls that ended, warm-ups aside.
    pub calls: u64,
    /// Calls that were open at the end and called off.
    pub abandoned: u64,
    /// Calls that ended with a whole answer.
    pub answers: u64,
    /// Whole answers a second; `None` without calls.
    pub answers_per_s: Option<f64>,
    /// Output tokens of whole answers a second; `None` where one of them reports none.
    pub tokens_per_s: Option<f64>,
    /// Median speed of one stream in tokens a second; `None` where no answer has one.
    pub tps: Option<f64>,
    /// Median time to the first token in seconds, infinite where half of the calls have none.
    pub ttft_p50: Option<f64>,
    /// The 95th percentile of it.
    pub ttft_p95: Option<f64>,
    /// First attempts that were answered 429.
    pub refused: u64,
    /// First attempts that were answered 500 to 599.
    pub server_errors: u64,
    /// First attempts that were answered 2xx and then broke off.
    pub interrupted: u64,
    /// The promises that gate, in spec order.
    pub kept: Vec<Kept>,
    /// Why the step ended; `None`: its process was killed.
    pub ended: Option<CloseReason>,
    /// Why the step says nothing of the relay, where that is so.
    pub invalid: Option<String>,
    /// Lag of our own that may be in any time of it, in seconds.
    pub doubt_s: Option<f64>,
}

impl Step {
    /// The step of a cell's evidence.
    pub fn of(evidence: &Evidence) -> Self {
        let header = &evidence.header;
        let promises: Vec<(&Objective, u32, Question)> = header
            .objectives
            .iter()
            .filter(|objective| objective.gates())
            .filter_map(|it| Some((it, it.required_ppm()?, Question::of(it)?)))
            .collect();
        let questions = promises.iter().map(|(_, _, it)| it.clone()).collect();
        let mut tallied = Tallied::new(header.clone(), header.cell.clone(), questions).with_ttft();
        for sample in &evidence.samples {
            tallied.take(&Line::Sample(Box::new(sample.clone())));
        }
        let closes = evidence.earlier.iter().chain(&evidence.close);
        let abandoned = closes.clone().map(|close| close.abandoned).sum();
        for close in closes {
            tallied.take(&Line::Close(close.clone()));
        }
        let kept = promises
            .iter()
            .zip(&tallied.counts)
            .map(|((objective, required_ppm, _), counts)| {
                // A seal that is missing is the model's doing as often as the relay's.
                let failures =
                    counts.tally.failures() - counts.unsealed.min(counts.tally.failures());
                let n = counts.tally.n() - counts.unsealed.min(counts.tally.n());
                let tally = Tally::new(n, failures).unwrap_or(counts.tally);
                let z = z(CONFIDENCE, Sides::Two);
                Kept {
                    objective: (*objective).clone(),
                    required_ppm: *required_ppm,
                    tally,
                    interval: Interval {
                        lower: wilson(tally.with_bad(abandoned), z).lower,
                        upper: wilson(tally.with_good(abandoned), z).upper,
                    },
                }
            })
            .collect();
        let calls = || evidence.samples.iter().filter(|sample| sample.counts());
        let first = |holds: fn(u16) -> bool| {
            let status = |it: &&Sample| it.attempts.first()?.observation.status;
            calls().filter(|it| status(it).is_some_and(holds)).count() as u64
        };
        let streams = header.concurrency.unwrap_or(1);
        let speed = Throughput::of(streams, &calls().collect::<Vec<_>>(), evidence);
        let speeds = calls().filter_map(|it| Metric::Tps.reading(it, &header.judge).value());
        Self {
            streams,
            calls: tallied.samples,
            abandoned,
            answers: calls().filter(|it| is_whole(it, evidence)).count() as u64,
            answers_per_s: speed.answers_per_s,
            tokens_per_s: speed.tokens_per_s,
            tps: quantile(speeds.collect(), 500_000),
            ttft_p50: quantile(tallied.ttft.clone(), 500_000),
            ttft_p95: quantile(tallied.ttft.clone(), 950_000),
            refused: first(|status| status == 429),
            server_errors: first(|status| (500..=599).contains(&status)),
            interrupted: calls()
                .filter(|it| {
                    let reading = Metric::Interruption.reading(it, &header.judge);
                    reading.value().is_some_and(|interrupted| interrupted > 0.5)
                })
                .count() as u64,
            kept,
            ended: evidence.close.as_ref().map(|close| close.reason),
            invalid: tallied.invalid(),
            doubt_s: tallied.doubt.map(seconds),
        }
    }

    /// The promise that is shown to be broken, the first one in spec order.
    pub fn broken(&self) -> Option<&Kept> {
        self.kept.iter().find(|kept| kept.is_broken())
    }

    /// Whether the step says something of the relay, and went to its planned end.
    fn is_whole(&self) -> bool {
        self.invalid.is_none()
            && self.calls > 0
            && match self.ended {
                Some(CloseReason::Budget | CloseReason::Decided | CloseReason::Limit) => true,
                Some(CloseReason::Paused | CloseReason::Interrupted | CloseReason::Failed)
                | None => false,
            }
    }
}

/// What all streams together brought a second.
struct Throughput {
    answers_per_s: Option<f64>,
    tokens_per_s: Option<f64>,
}

impl Throughput {
    /// Answers divided by the time for which the streams were open.
    ///
    /// The first call of each stream is left out where there are others: they all start at once, and
    /// what waits in a queue waits less than it will.
    fn of(streams: u32, calls: &[&Sample], evidence: &Evidence) -> Self {
        let first = |it: &&&Sample| it.index < u64::from(streams);
        let all_first = calls.iter().filter(first).count() == calls.len();
        let counted = || calls.iter().filter(|it| all_first || !first(it));
        let whole = || counted().filter(|it| is_whole(it, evidence));
        let tokens = whole().try_fold(0_u64, |sum, it| sum.checked_add(it.output_tokens()?));
        // A step of fewer calls than streams never opened all of them.
        let open = (calls.len() as u64).min(streams.into());
        let busy: f64 = counted().map(|it| length(it)).sum();
        let over = busy / float(open.max(1));
        let per_second = |count: u64| (over > 0.0).then(|| float(count) / over);
        Self {
            answers_per_s: per_second(whole().count() as u64),
            tokens_per_s: tokens.and_then(per_second),
        }
    }
}

/// From the start of a call to the end of its last attempt, in seconds.
fn length(sample: &Sample) -> f64 {
    let last = sample.attempts.last();
    last.map_or(0.0, |it| {
        seconds(it.start) + seconds(it.observation.timeline.over)
    })
}

fn is_whole(sample: &Sample, evidence: &Evidence) -> bool {
    let reading = Metric::SuccessIn4.reading(sample, &evidence.header.judge);
    reading.value().is_some_and(|whole| whole > 0.5)
}

/// The value at the nearest rank.
fn quantile(mut values: Vec<f64>, ppm: u32) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = nearest_rank(values.len() as u64, ppm)?;
    values
        .get(usize::try_from(rank).ok()?.checked_sub(1)?)
        .copied()
}

/// Where a climb bends.
#[derive(Clone, Debug, PartialEq)]
pub struct Knee {
    /// The most streams that the relay was seen to carry; `None`: not even the first step.
    pub streams: Option<u32>,
    /// What came at the next step.
    pub bend: Bend,
}

/// What shows that a relay carries no more.
#[derive(Clone, Debug, PartialEq)]
pub enum Bend {
    /// A promise is shown to be broken.
    Broken {
        /// Streams of the step at which it was.
        at: u32,
        /// The promise.
        kept: Kept,
    },
    /// More streams bring no more answers.
    Flat {
        /// Streams of the step at which they did not.
        at: u32,
        /// By what share throughput rose from the step before, below 0 where it fell.
        rise: f64,
        /// By what share streams did.
        more: f64,
    },
}

/// The knee of a climb: the last step before the first one at which a promise is shown to be broken,
/// or at which throughput rose by no more than a tenth of what streams did. `None`: not reached.
///
/// Steps that were cut short or spoilt on our side show no rise and no lack of it; a broken promise
/// they show all the same, where the probe itself was well.
pub fn knee(steps: &[Step]) -> Option<Knee> {
    let mut before: Option<&Step> = None;
    for step in steps.iter().filter(|step| step.invalid.is_none()) {
        let streams = before.map(|before| before.streams);
        if let Some(kept) = step.broken() {
            let (at, kept) = (step.streams, kept.clone());
            return Some(Knee {
                streams,
                bend: Bend::Broken { at, kept },
            });
        }
        if !step.is_whole() {
            continue;
        }
        if let Some(bend) = before.and_then(|before| flat(before, step)) {
            return Some(Knee { streams, bend });
        }
        before = Some(step);
    }
    None
}

fn flat(before: &Step, step: &Step) -> Option<Bend> {
    let more = f64::from(step.streams) / f64::from(before.streams) - 1.0;
    let rise = step.answers_per_s? / before.answers_per_s.filter(|it| *it > 0.0)? - 1.0;
    (more > 0.0 && rise <= FLAT * more).then_some(Bend::Flat {
        at: step.streams,
        rise,
        more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;
    use crate::observation::Observation;
    use std::time::Duration;

    fn evidence(streams: u32, seen: impl IntoIterator<Item = Observation>) -> Evidence {
        let mut header = header(vec![ttft_p95(), parse_success()], 40);
        header.concurrency = Some(streams);
        let mut evidence = Evidence::new(header);
        for (index, seen) in (0..).zip(seen) {
            evidence.push(Line::Sample(Box::new(sample(index, seen))));
        }
        evidence.push(Line::Close(close(CloseReason::Budget)));
        evidence
    }

    /// An honest answer that takes so many times 522 ms in all, most of it before the first token.
    fn queued(times: u32) -> Observation {
        let mut seen = good();
        let wait = seen.timeline.over.saturating_mul(times - 1);
        let time = &mut seen.timeline;
        let later = |at: &mut Option<Duration>| *at = at.map(|at| at + wait);
        later(&mut time.first_event);
        later(&mut time.first_token);
        later(&mut time.last_token);
        later(&mut time.end_mark);
        time.over += wait;
        seen
    }

    /// A relay that answers eight calls at a time and lets the others wait.
    fn step(streams: u32) -> Step {
        let times = streams.div_ceil(8);
        Step::of(&evidence(streams, vec![queued(times); 40]))
    }

    #[test]
    fn throughput_is_that_of_the_streams_while_they_were_open() {
        let one = step(1);
        assert_eq!((one.streams, one.calls, one.answers), (1, 40, 40));
        assert!((one.answers_per_s.unwrap() - 1.0 / 0.522).abs() < 1e-9);
        assert!((one.tokens_per_s.unwrap() - 21.0 / 0.522).abs() < 1e-9);
        assert_eq!((one.ttft_p50, one.ttft_p95), (Some(0.12), Some(0.12)));
        let eight = step(8);
        assert!((eight.answers_per_s.unwrap() - 8.0 / 0.522).abs() < 1e-9);
        // Twice the streams, each of them half as fast.
        let sixteen = step(16);
        assert!((sixteen.answers_per_s.unwrap() - 8.0 / 0.522).abs() < 1e-9);
        assert_eq!(sixteen.ttft_p50, Some(0.642));
        // Forty calls cannot keep a hundred streams open.
        let hundred = Step::of(&evidence(100, vec![good(); 40]));
        assert!((hundred.answers_per_s.unwrap() - 40.0 / 0.522).abs() < 1e-9);
    }

    #[test]
    fn the_first_call_of_each_stream_does_not_count_for_throughput() {
        // Sixteen at once at a relay that carries eight: the first eight find no queue.
        let seen = vec![queued(1); 8].into_iter().chain(vec![queued(2); 56]);
        let step = Step::of(&evidence(16, seen));
        assert!((step.answers_per_s.unwrap() - 8.0 / 0.522).abs() < 1e-9);
        assert_eq!((step.calls, step.answers), (64, 64));
    }

    #[test]
    fn the_knee_is_the_last_step_that_brought_more_answers() {
        let steps: Vec<Step> = [1, 2, 4, 8, 16].map(step).into();
        assert_eq!(knee(&steps[..4]), None, "eight are carried");
        let knee = knee(&steps).unwrap();
        assert_eq!(knee.streams, Some(8));
        let Bend::Flat { at, rise, more } = knee.bend else {
            panic!("{knee:?}");
        };
        assert_eq!((at, more), (16, 1.0));
        assert!(rise.abs() < 1e-9, "{rise}");
        // A tenth of the added streams, not of the throughput: from 8 to 12 streams a rise of 4 %
        // is none, and one of 6 % is one.
        let scaled = |by: f64| Step {
            streams: 12,
            answers_per_s: step(8).answers_per_s.map(|it| it * by),
            ..step(8)
        };
        assert!(super::knee(&[step(8), scaled(1.04)]).is_some());
        assert_eq!(super::knee(&[step(8), scaled(1.06)]), None);
    }

    #[test]
    fn a_promise_is_broken_when_the_whole_interval_is_below_it() {
        // Of 40 calls, 36 within the limit leave 95 % possible, and 34 do not.
        let of = |bad: usize| {
            let seen = vec![good(); 40 - bad].into_iter();
            Step::of(&evidence(4, seen.chain(vec![slow(2000); bad])))
        };
        assert_eq!(of(4).broken(), None);
        let at = step;
        let step = of(6);
        let kept = step.broken().unwrap();
        assert!(kept.is_of_ttft());
        assert_eq!((kept.tally.n(), kept.tally.failures()), (40, 6));
        assert!(kept.interval.upper < 0.95 && kept.interval.lower > 0.70);
        let first = knee(&[of(6)]).unwrap();
        assert_eq!(first.streams, None, "not even the first step");
        let second = knee(&[at(2), of(6)]).unwrap();
        assert_eq!(second.streams, Some(2));
        assert!(matches!(second.bend, Bend::Broken { at: 4, .. }));
    }

    #[test]
    fn calls_that_were_called_off_may_have_been_good_or_bad() {
        let mut cut = evidence(4, vec![slow(2000); 3]);
        if let Some(close) = &mut cut.close {
            close.abandoned = 60;
            close.reason = CloseReason::Limit;
        }
        let step = Step::of(&cut);
        assert_eq!(step.abandoned, 60);
        assert_eq!(step.broken(), None, "{:?}", step.kept[0].interval);
        assert!(step.kept[0].interval.lower < 0.01);
    }

    #[test]
    fn refusals_are_counted_and_break_the_promise_of_the_first_token() {
        let seen = vec![good(); 20]
            .into_iter()
            .chain(vec![refused(429); 15])
            .chain(vec![refused(503); 3])
            .chain(vec![truncated(); 2]);
        let step = Step::of(&evidence(16, seen));
        assert_eq!(
            (step.refused, step.server_errors, step.interrupted),
            (15, 3, 2)
        );
        assert_eq!(step.answers, 20);
        assert_eq!(step.ttft_p95, Some(f64::INFINITY));
        assert!(step.broken().is_some());
    }

    #[test]
    fn what_is_our_own_fault_bends_nothing() {
        let mut ill = step(16);
        ill.invalid = Some("clock".to_owned());
        assert_eq!(knee(&[step(8), ill]), None);
        let mut cut = step(16);
        cut.ended = Some(CloseReason::Interrupted);
        assert_eq!(knee(&[step(8), cut]), None);
        assert_eq!(knee(&[]), None);
        assert_eq!(Step::of(&evidence(8, [])).answers_per_s, None);
    }
}
