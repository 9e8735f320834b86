//! Reasons and rules in words, as the tables of `docs/verdicts.md` have them.

use super::Inconclusive;
use crate::plan::Method;

impl Inconclusive {
    /// What it means, in Markdown.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Budget => "all planned samples are used",
            Self::CannotPass => "a pass is out of reach within the plan",
            Self::StoppedEarly => {
                "a limit, Ctrl-C, a killed process, or the decision of the other objectives came \
                 first"
            }
            Self::InvalidRun => "the probe was not fit to measure; says nothing of the relay",
            Self::UndefinedMetric => "more than 10 % of the samples have no value",
            Self::MissingSlots => "it would pass, but not if the missing slots had failed",
            Self::NoData => "no sample counted",
            Self::Bursty => "failures come in bursts; reserved for campaigns",
            Self::BaselineDown => "the trusted upstream failed too; reserved for baselines",
        }
    }

    /// What to do about it.
    pub const fn way_out(self) -> &'static str {
        match self {
            Self::Budget | Self::StoppedEarly | Self::CannotPass => {
                "raise `sampling.max_samples` and go on: `relayproof run SPEC --continue RUN`"
            }
            Self::InvalidRun => "run again when the machine has less to do",
            Self::UndefinedMetric => {
                "ask for longer answers, or count events: `judge.tokens: events`"
            }
            Self::MissingSlots => "go on with the run: `relayproof run SPEC --continue RUN`",
            Self::NoData => "see why no call came through: `relayproof probe URL`",
            Self::Bursty => "sample over the hours that matter",
            Self::BaselineDown => "run again when the upstream is well",
        }
    }
}

/// How a method decides, in Markdown.
pub const fn rule_of(method: Method) -> &'static str {
    match method {
        Method::Sequential => {
            "looks after every sample: pass as soon as n·a − f·ln r ≥ ln(1/α), violated as soon as \
             f·ln s − n·b ≥ ln(1/γ), with a = −ln(p + (1 − p) / r) and b = ln(p + (1 − p) · s)"
        }
        Method::Wilson => {
            "looks once, when all planned samples are in: pass when the lower end of Wilson's score \
             interval reaches the required share, violated when the upper end is below it"
        }
        Method::Exact => {
            "looks once, when all planned samples are in, at the bounds of Clopper and Pearson, \
             which is to make two binomial tests"
        }
    }
}

/// When to take a method, and when not.
pub const fn advice_on(method: Method) -> &'static str {
    match method {
        Method::Sequential => {
            "may stop at any time and go on later; a pass at 95 % takes 74 clean samples, at 99 % \
             373"
        }
        Method::Wilson => {
            "every relay costs all samples, and to look earlier would pass a relay at its limit \
             several times as often as it says"
        }
        Method::Exact => {
            "needs the fewest clean samples (59 at 95 %, 299 at 99 %), and every relay costs all of \
             them"
        }
    }
}
