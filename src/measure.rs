//! From attempts to values: what each metric says of one sample, and whether that keeps a promise.
//!
//! Aggregates nothing and decides nothing. A failed sample is the worst value of a metric, never
//! left out; only a value that cannot exist (usage missing, too few tokens or gaps) is undefined.

pub mod cost;
pub mod purse;
pub mod shape;

use std::time::Duration;

use crate::evidence::Sample;
use crate::objective::metric::{Direction, Metric, Unit};
use crate::objective::{Objective, Op};
use crate::observation::{Class, Ending, Observation, Phase, Stretch};
use crate::plan::{Judging, Tokens};
use shape::{Limits, Shape};

/// Attempts of a call that `success_in_4` and `retry_success` look at.
const ATTEMPTS: usize = 4;
/// Statuses after which a call counts as retryable even when it was not tried again.
const RETRYABLE: [u16; 5] = [429, 500, 502, 503, 504];

/// What a metric says of one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// Its value in the metric's base unit; 1 for yes and 0 for no.
    Value(f64),
    /// A rate, and the time over which it was taken.
    Rate {
        /// Per second.
        per_second: f64,
        /// Seconds.
        over_s: f64,
    },
    /// The sample failed: worse than any value.
    Worst,
    /// As [`Reading::Worst`], for the only reason that the whole answer came in one burst; a client
    /// whose event loop lags sees that of honest relays too.
    Burst,
    /// As [`Reading::Worst`], for the only reason that a normal stop came without the seal that was
    /// asked for; a model that disobeys leaves it out too.
    Unsealed,
    /// There is no such value, through no fault that could be charged to the sample.
    Undefined,
    /// The sample is not one of those that the metric is about.
    Ineligible,
}

impl Reading {
    /// The number, where there is one.
    pub const fn value(self) -> Option<f64> {
        match self {
            Self::Value(value)
            | Self::Rate {
                per_second: value, ..
            } => Some(value),
            Self::Worst | Self::Burst | Self::Unsealed | Self::Undefined | Self::Ineligible => None,
        }
    }
}

/// What a sample means for an objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It keeps the promise.
    Good,
    /// It breaks the promise.
    Bad,
    /// It has no value; it leaves this objective, and too many of them leave it undecided.
    Undefined,
    /// The objective is not about it.
    Ineligible,
}

impl Sample {
    /// Whether it is evidence at all: warm-ups and calls that we called off are not.
    pub fn counts(&self) -> bool {
        !self.warmup
            && !self.attempts.is_empty()
            && self
                .attempts
                .iter()
                .all(|attempt| attempt.observation.ending != Ending::Cancelled)
    }
}

impl Metric {
    /// What this metric says of a sample.
    ///
    /// t0 is the start of the first attempt, so offsets of the first attempt are the values; retries
    /// matter to `retry_success`, `success_in_4` and `usable` only.
    pub fn reading(self, sample: &Sample, judging: &Judging) -> Reading {
        let Some(first) = sample.attempts.first().map(|attempt| &attempt.observation) else {
            return Reading::Undefined;
        };
        let time = &first.timeline;
        match self {
            Self::Dns => phase_length(first, Phase::Dns, time.dns),
            Self::Connect => phase_length(first, Phase::Connect, time.connect),
            Self::Tls => phase_length(first, Phase::Tls, time.tls),
            Self::Ttfb => offset(time.head),
            Self::FirstEvent => offset(time.first_event),
            Self::Ttft => offset(time.first_token),
            Self::Total => offset(time.end_mark),
            Self::Tps => shape_of(first, judging, |shape| match (shape.tps, shape.over) {
                (Some(per_second), Some(over)) => Reading::Rate {
                    per_second,
                    over_s: seconds(over),
                },
                (None, _) | (_, None) => Reading::Undefined,
            }),
            Self::Jitter => shape_of(first, judging, |shape| {
                if shape.buffered || first.has(Class::NotStreamed) {
                    Reading::Burst
                } else {
                    defined(shape.jitter_s)
                }
            }),
            Self::MaxGap => shape_of(first, judging, |shape| defined(shape.max_gap.map(seconds))),
            Self::HttpSuccess => yes(first.answered_2xx()),
            Self::ParseSuccess => of(first.answered_2xx(), || parse_success(first)),
            Self::Interruption => of(first.answered_2xx(), || first.interrupted),
            Self::RetrySuccess => of(failed_retryably(sample), || {
                within_four(sample).skip(1).any(whole_answer)
            }),
            Self::SuccessIn4 => yes(within_four(sample).any(whole_answer)),
            Self::Usable => match within_four(sample).last() {
                Some(last) if usable_but_for(last, &[]) => yes(true),
                Some(last) if usable_but_for(last, &[Class::NotStreamed]) => Reading::Burst,
                Some(last) if unsealed_only(last) => Reading::Unsealed,
                Some(_) | None => yes(false),
            },
            Self::ModelMatch => of(first.answered_2xx() && first.model.is_some(), || {
                !first.has(Class::ModelMismatch)
            }),
            Self::UsageMatch => of(first.answered_2xx() && completed(first), || {
                !first.has(Class::UsageMismatch)
            }),
            // It is of two samples: whoever has both reads it.
            Self::Overhead => Reading::Ineligible,
        }
    }
}

impl Objective {
    /// What a sample means for this objective.
    pub fn outcome(&self, sample: &Sample, judging: &Judging) -> Outcome {
        self.outcome_of(self.metric.reading(sample, judging))
    }

    /// What a reading of this objective's metric means for it.
    pub fn outcome_of(&self, reading: Reading) -> Outcome {
        let good = match reading {
            Reading::Undefined => return Outcome::Undefined,
            Reading::Ineligible => return Outcome::Ineligible,
            Reading::Worst | Reading::Burst | Reading::Unsealed => false,
            Reading::Value(value)
            | Reading::Rate {
                per_second: value, ..
            } => match (self.metric.unit(), self.metric.direction()) {
                (Unit::YesNo, Direction::Higher) => value > 0.5,
                (Unit::YesNo, Direction::Lower) => value < 0.5,
                (Unit::Seconds | Unit::PerSecond, _) => self.op.holds(value, self.bound),
            },
        };
        if good { Outcome::Good } else { Outcome::Bad }
    }
}

impl Op {
    /// Whether `value OP bound`.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::AtMost => value <= bound,
            Self::More => value > bound,
            Self::AtLeast => value >= bound,
        }
    }
}

/// Seconds as the nearest floating-point number, so that 1.123 s equals a bound written `1.123s`.
pub(crate) fn seconds(at: Duration) -> f64 {
    float(u64::try_from(at.as_micros()).unwrap_or(u64::MAX)) / 1e6
}

/// The shape of a whole stream; a stream that broke off is the worst in every respect.
fn shape_of(
    first: &Observation,
    judging: &Judging,
    reading: impl FnOnce(Shape) -> Reading,
) -> Reading {
    if !completed(first) {
        return Reading::Worst;
    }
    let tokens = match judging.tokens {
        Tokens::Usage => first.usage.and_then(|usage| {
            shape::answer_tokens(usage.output?, usage.reasoning, first.packets.reasoning)
        }),
        Tokens::Events => Some(first.packets.content_events),
    };
    reading(Shape::of(&first.packets, tokens, Limits::default()))
}

fn defined(value: Option<f64>) -> Reading {
    value.map_or(Reading::Undefined, Reading::Value)
}

/// Counts as floating point; exact below 2⁵³.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of one stream stay far below 2^53"
)]
const fn float(count: u64) -> f64 {
    count as f64
}

fn offset(at: Option<Duration>) -> Reading {
    at.map_or(Reading::Worst, |at| Reading::Value(seconds(at)))
}

fn yes(holds: bool) -> Reading {
    Reading::Value(if holds { 1.0 } else { 0.0 })
}

fn of(eligible: bool, holds: impl FnOnce() -> bool) -> Reading {
    if eligible {
        yes(holds())
    } else {
        Reading::Ineligible
    }
}

/// Length of a connection phase.
///
/// A phase that never began because the attempt had ended before it is the worst value; one that a
/// connection does not have (a reused one, an IP literal, plain HTTP) is none of its business.
fn phase_length(first: &Observation, phase: Phase, stretch: Option<Stretch>) -> Reading {
    match stretch {
        Some(stretch) => offset(stretch.length()),
        None if first.connection.reused != Some(true) && first.last_phase < phase => Reading::Worst,
        None => Reading::Ineligible,
    }
}

fn within_four(sample: &Sample) -> impl Iterator<Item = &Observation> {
    sample
        .attempts
        .iter()
        .take(ATTEMPTS)
        .map(|attempt| &attempt.observation)
}

fn failed_retryably(sample: &Sample) -> bool {
    sample.attempts.len() > 1
        || sample.attempts.first().is_some_and(|first| {
            first
                .observation
                .status
                .is_some_and(|status| RETRYABLE.contains(&status))
        })
}

fn completed(attempt: &Observation) -> bool {
    attempt.ending == Ending::Completed && !attempt.interrupted
}

fn parse_success(attempt: &Observation) -> bool {
    attempt.parse_ok
        && !attempt
            .findings
            .iter()
            .any(|finding| is_injected_error(finding.class))
}

/// Whether a class is an error dressed up as an answer.
fn is_injected_error(class: Class) -> bool {
    matches!(
        class,
        Class::ErrorAsContent
            | Class::ErrorInStream
            | Class::Fake200JsonError
            | Class::Fake200Html
            | Class::Fake200Empty
    )
}

/// Whether an attempt brought a complete, valid answer.
fn whole_answer(attempt: &Observation) -> bool {
    attempt.answered_2xx()
        && completed(attempt)
        && parse_success(attempt)
        && attempt
            .findings
            .iter()
            .all(|finding| is_only_suspicious(finding.class))
}

/// Whether an attempt brought an answer that can be relied on, if findings of some classes are
/// overlooked.
fn usable_but_for(attempt: &Observation, overlooked: &[Class]) -> bool {
    whole_answer(attempt)
        && attempt
            .findings
            .iter()
            .all(|finding| overlooked.contains(&finding.class))
        && attempt.unmet.is_empty()
        && attempt.sealed != Some(false)
}

/// Whether nothing is wrong with an attempt but that its normal stop lacks the seal.
fn unsealed_only(attempt: &Observation) -> bool {
    whole_answer(attempt)
        && attempt.has(Class::MaskedTruncation)
        && attempt
            .findings
            .iter()
            .all(|finding| finding.class == Class::MaskedTruncation)
        && attempt.unmet.is_empty()
}

/// Whether the answer of a sample, where it claims to have come to its normal end, has its seal;
/// `None` where it claims no such thing, or no seal was asked for.
pub fn sealed(sample: &Sample) -> Option<bool> {
    let last = within_four(sample)
        .last()
        .filter(|last| whole_answer(last))?;
    if last.has(Class::MaskedTruncation) {
        Some(false)
    } else {
        last.sealed.filter(|sealed| *sealed)
    }
}

/// Whether an answer with this finding is still whole, though not above suspicion.
const fn is_only_suspicious(class: Class) -> bool {
    match class {
        Class::WrongContentType
        | Class::DuplicateTerminator
        | Class::ReplacementChars
        | Class::ModelMismatch
        | Class::UsageMismatch
        | Class::NotStreamed
        | Class::MaskedTruncation => true,
        Class::DnsFailure
        | Class::ConnectRefused
        | Class::TlsFailure
        | Class::NoResponse
        | Class::HttpError
        | Class::ProtocolViolation
        | Class::Fake200JsonError
        | Class::Fake200Html
        | Class::Fake200Empty
        | Class::ErrorInStream
        | Class::UpstreamAbort
        | Class::InvalidUtf8
        | Class::JsonSplitAcrossEvents
        | Class::MalformedJson
        | Class::SchemaViolation
        | Class::StreamSplice
        | Class::Stalled
        | Class::TruncatedNoTerminator
        | Class::SilentTruncation
        | Class::ErrorAsContent
        | Class::ContentFiltered
        | Class::DataAfterDone
        | Class::ContentAfterFinish
        | Class::ToolCallCorrupt
        | Class::UnexpectedLengthCut
        | Class::CumulativeDeltas
        | Class::EmptyAnswer => false,
    }
}

#[cfg(test)]
mod tests;
