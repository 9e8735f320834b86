//! What samples cost, computed from the usage that the relay reports.
//!
//! What is not known is left out and counted, never taken for 0. What is estimated, because the
//! relay reported no usage, is never added to what is known.

use super::completed;
use crate::evidence::{Attempt, Sample};
use crate::observation::Phase;
use crate::plan::Price;

/// What one sample cost, in US dollars, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Charge {
    /// By the usage that the relay reported, or nothing where nothing can have been charged.
    Known(f64),
    /// By tokens that were counted on our side with the model's own tokenizer. A count of
    /// characters is no estimate: it may be off by a factor.
    Estimated(f64),
    /// Nobody can tell.
    Unknown,
}

impl From<Option<f64>> for Charge {
    fn from(known: Option<f64>) -> Self {
        known.map_or(Self::Unknown, Self::Known)
    }
}

/// What several samples cost together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// US dollars of the samples whose cost is known.
    pub usd: f64,
    /// Samples whose cost is known.
    pub known: u64,
    /// US dollars of the samples whose cost is estimated; not in [`Cost::usd`].
    pub estimated_usd: f64,
    /// Samples whose cost is estimated.
    pub estimated: u64,
    /// Samples whose cost is neither.
    pub unknown: u64,
}

impl Cost {
    /// Counts one more sample.
    pub fn add(&mut self, sample: impl Into<Charge>) {
        match sample.into() {
            Charge::Known(usd) => {
                self.usd += usd;
                self.known += 1;
            }
            Charge::Estimated(usd) => {
                self.estimated_usd += usd;
                self.estimated += 1;
            }
            Charge::Unknown => self.unknown += 1,
        }
    }
}

impl Sample {
    /// What the call cost, all its attempts together; `None` when one of them may have cost
    /// something that nobody can tell.
    pub fn usd(&self, price: &Price) -> Option<f64> {
        self.attempts
            .iter()
            .map(|attempt| usd(attempt, price))
            .sum()
    }

    /// What the call cost, estimated where it is not known: an attempt without usage by our own
    /// count of its tokens, where there is one. The prompt's count leaves out what a protocol puts
    /// around the texts, and the answer's what was not to be seen.
    pub fn charge(&self, price: &Price) -> Charge {
        if let Some(known) = self.usd(price) {
            return Charge::Known(known);
        }
        let estimated = |attempt: &Attempt| {
            usd(attempt, price).or_else(|| {
                let own = attempt.observation.own_count?;
                price.usd(own.prompt, 0, own.answer)
            })
        };
        let sum: Option<f64> = self.attempts.iter().map(estimated).sum();
        sum.map_or(Charge::Unknown, Charge::Estimated)
    }

    /// Tokens of the answer that the last attempt reports, reasoning included.
    pub fn output_tokens(&self) -> Option<u64> {
        self.attempts.last()?.observation.usage?.output
    }
}

/// What one attempt cost: by its usage, and nothing where no request was sent or it was refused.
///
/// The usage of an answer that broke off may be an early report, as some protocols send one with
/// their first event, so it does not say what was charged.
pub(super) fn usd(attempt: &Attempt, price: &Price) -> Option<f64> {
    let seen = &attempt.observation;
    if let Some(usage) = seen.usage {
        if !completed(seen) {
            return None;
        }
        return price.usd(usage.input?, usage.cached_input.unwrap_or(0), usage.output?);
    }
    let unsent = seen.last_phase < Phase::Send;
    let refused = seen.status.is_some() && !seen.answered_2xx();
    (unsent || refused).then_some(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;
    use crate::observation::{Observation, OwnCount, Usage};

    const PRICE: Price = Price {
        input: 1.0,
        cached_input: Some(0.5),
        output: 2.0,
        multiplier: 1.0,
        fx: None,
    };

    fn answered(input: Option<u64>, cached: Option<u64>, output: Option<u64>) -> Observation {
        Observation {
            usage: Some(Usage {
                input,
                output,
                cached_input: cached,
                ..Usage::default()
            }),
            ..good()
        }
    }

    fn micro_dollars(sample: &Sample) -> Option<f64> {
        sample.usd(&PRICE).map(|usd| (usd * 1e6).round())
    }

    #[test]
    fn a_sample_costs_what_its_usage_says() {
        let seen = answered(Some(100), Some(40), Some(10));
        assert_eq!(micro_dollars(&sample(0, seen)), Some(100.0));
    }

    #[test]
    fn an_answer_without_usage_has_no_known_cost() {
        for (input, output) in [(None, Some(1)), (Some(1), None), (None, None)] {
            assert_eq!(
                sample(0, answered(input, None, output)).usd(&PRICE),
                None,
                "{input:?} {output:?}"
            );
        }
        assert_eq!(sample(0, truncated()).usd(&PRICE), None);
        let early = Observation {
            usage: answered(Some(100), None, Some(1)).usage,
            ..truncated()
        };
        assert_eq!(sample(0, early).usd(&PRICE), None, "an early report");
        // More cached tokens than there were.
        assert_eq!(
            sample(0, answered(Some(1), Some(2), Some(1))).usd(&PRICE),
            None
        );
    }

    #[test]
    fn a_refusal_costs_nothing_and_its_retry_what_it_says() {
        let whole = || answered(Some(100), None, Some(10));
        let both = retried(0, vec![refused(429), whole()]);
        assert_eq!(micro_dollars(&both), Some(120.0));
        assert_eq!(micro_dollars(&sample(0, refused(503))), Some(0.0));
        let lost = Observation {
            status: None,
            last_phase: Phase::Wait,
            ..refused(503)
        };
        assert_eq!(sample(0, lost.clone()).usd(&PRICE), None, "sent, then lost");
        let unsent = Observation {
            last_phase: Phase::Connect,
            ..lost
        };
        assert_eq!(micro_dollars(&sample(0, unsent)), Some(0.0));
        let cut = retried(0, vec![truncated(), whole()]);
        assert_eq!(cut.usd(&PRICE), None, "one unknown part makes all unknown");
    }

    #[test]
    fn what_is_not_known_is_estimated_by_our_own_count_where_there_is_one() {
        let known = answered(Some(100), None, Some(10));
        let silent = |own_count| Observation {
            usage: None,
            own_count,
            ..good()
        };
        let counted = silent(Some(OwnCount {
            prompt: 90,
            answer: 10,
        }));
        let charge = |sample: Sample| sample.charge(&PRICE);
        assert!(matches!(charge(sample(0, known.clone())), Charge::Known(_)));
        let Charge::Estimated(usd) = charge(retried(0, vec![counted.clone(), known])) else {
            panic!("one part of it is no more than an estimate");
        };
        assert_eq!((usd * 1e6).round(), 90.0 + 20.0 + 120.0);
        assert_eq!(charge(sample(0, silent(None))), Charge::Unknown);
        let mixed = retried(0, vec![counted, silent(None)]);
        assert_eq!(charge(mixed), Charge::Unknown);
    }

    #[test]
    fn what_is_unknown_is_counted_and_adds_nothing() {
        let mut cost = Cost::default();
        for sample in [Some(0.5), None, Some(0.0)] {
            cost.add(sample);
        }
        assert_eq!((cost.usd, cost.known, cost.unknown), (0.5, 2, 1));
        // An estimate is never sold as known.
        cost.add(Charge::Estimated(0.25));
        assert_eq!((cost.usd, cost.known, cost.unknown), (0.5, 2, 1));
        assert_eq!((cost.estimated_usd, cost.estimated), (0.25, 1));
    }
}
