//! The relay and the trusted upstream, asked the same at the same time: whose failures they are.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::forms::named;
use crate::measure::Outcome;
use crate::objective::Objective;
use crate::plan::Judging;
use crate::stats::Tally;
use crate::stats::difference::{Pairs, mcnemar_exact, newcombe_paired};
use crate::stats::interval::{Sides, z};
use crate::stats::sequential::{Design, FAIL_RATIO, PASS_RATIO};

/// Chance of a false finding.
const ALPHA: f64 = 0.05;
/// Failures that a relay may add and still be called no part of it.
const MARGIN: f64 = 0.01;
/// Bets of the account that may be looked at on any day: on a pair that only the relay failed, and
/// on one that only the upstream failed.
const BETS: (f64, f64) = (1.8, 0.2);

named! {
    /// What pairs say of the relay.
    Finding {
        /// It fails where the upstream does not.
        RelayAddsFailures = "relay_adds_failures",
        /// It adds next to nothing to what the upstream does.
        NotTheRelay = "not_the_relay",
        /// It adds next to nothing, and the upstream breaks the promise itself.
        UpstreamDown = "upstream_down",
        /// The pairs are too few to say.
        Undetermined = "undetermined",
    }
}

/// Pairs of one objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Pairs.
    pub pairs: u64,
    /// Failures of the relay only.
    pub relay_only: u64,
    /// Failures of the upstream only.
    pub upstream_only: u64,
    /// Failures of both.
    pub both: u64,
    /// Pairs of which a side has no value.
    pub unusable: u64,
    /// Two-sided p of the exact test of McNemar.
    pub p: f64,
    /// Observed share of failures of the relay less that of the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<f64>,
    /// Lower bound of that, 95% for both bounds (Newcombe's for pairs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_lower: Option<f64>,
    /// Upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_upper: Option<f64>,
    /// What that comes to.
    pub finding: Finding,
}

/// Pairs, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Twins {
    neither: u64,
    relay_only: u64,
    upstream_only: u64,
    both: u64,
    unusable: u64,
}

impl Twins {
    pub(super) const fn take(&mut self, relay_is_good: bool, upstream: Outcome) {
        match (relay_is_good, upstream) {
            (true, Outcome::Good) => self.neither += 1,
            (false, Outcome::Good) => self.relay_only += 1,
            (true, Outcome::Bad) => self.upstream_only += 1,
            (false, Outcome::Bad) => self.both += 1,
            (_, Outcome::Undefined | Outcome::Ineligible) => self.unusable += 1,
        }
    }

    pub(super) const fn with(mut self, other: &Self) -> Self {
        self.neither += other.neither;
        self.relay_only += other.relay_only;
        self.upstream_only += other.upstream_only;
        self.both += other.both;
        self.unusable += other.unusable;
        self
    }

    pub(super) fn finding(
        &self,
        objective: &Objective,
        judging: &Judging,
        is_final: bool,
    ) -> Beside {
        let pairs = Pairs {
            both: self.neither,
            only_a: self.upstream_only,
            only_b: self.relay_only,
            neither: self.both,
        };
        let difference = newcombe_paired(pairs, z(1.0 - ALPHA, Sides::Two));
        let p = mcnemar_exact(self.relay_only, self.upstream_only);
        // One test at the end; on the days before, an account that may be looked at any time.
        let adds = if is_final {
            p <= ALPHA && self.relay_only > self.upstream_only
        } else {
            let count = crate::stats::float;
            let account =
                count(self.relay_only) * BETS.0.ln() + count(self.upstream_only) * BETS.1.ln();
            account >= -ALPHA.ln()
        };
        let added_upper = difference.map(|it| -it.lower);
        let finding = if adds {
            Finding::RelayAddsFailures
        } else if added_upper.is_none_or(|upper| upper > MARGIN) {
            Finding::Undetermined
        } else if self.upstream_violates(objective, judging) {
            Finding::UpstreamDown
        } else {
            Finding::NotTheRelay
        };
        Beside {
            pairs: pairs.n().unwrap_or(0),
            relay_only: self.relay_only,
            upstream_only: self.upstream_only,
            both: self.both,
            unusable: self.unusable,
            p,
            added: difference.map(|it| -it.estimate),
            added_lower: difference.map(|it| -it.upper),
            added_upper,
            finding,
        }
    }

    /// Whether the upstream's own half of the pairs breaks the promise.
    fn upstream_violates(&self, objective: &Objective, judging: &Judging) -> bool {
        let Some(ppm) = objective.required_ppm() else {
            return false;
        };
        let confidence = objective.confidence_ppm.unwrap_or(judging.confidence_ppm);
        let alpha = 1.0 - f64::from(confidence) / 1e6;
        let required = f64::from(ppm) / 1e6;
        let design = Design::with_ratios(required, alpha, ALPHA, PASS_RATIO, FAIL_RATIO);
        let failures = self.upstream_only + self.both;
        let tally = Tally::new(self.neither + self.relay_only + failures, failures);
        design
            .zip(tally)
            .is_some_and(|(design, tally)| failures > 0 && tally.n() <= design.fail_until(failures))
    }
}
