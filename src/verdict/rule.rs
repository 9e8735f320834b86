//! The rules by which an objective is judged, behind one set of counts.

use crate::objective::{Objective, Statistic};
use crate::plan::{Judging, Method};
use crate::stats::Tally;
use crate::stats::interval::{self, Interval, Sides};
use crate::stats::look::Look;
use crate::stats::sequential::{Account, Design, FAIL_RATIO};

/// Chance of a false violation of all gating objectives of a cell together.
pub(super) const GAMMA: f64 = 0.05;

/// A rule and what it has counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// Looks after every sample.
    Sequential(Account),
    /// One look at the end.
    Look {
        required: f64,
        look: Look,
        tally: Tally,
        missing: u64,
    },
    /// No share and no bounds: the observed mean against the limit.
    Mean { tally: Tally, missing: u64 },
    /// Nothing can show it: all or nothing is promised, or the settings make no rule.
    Unprovable { tally: Tally, missing: u64 },
}

impl Rule {
    /// The rule of an objective without samples, and in words. `gating` is the number of
    /// objectives among which the chance of a false violation is split.
    pub(super) fn new(
        objective: &Objective,
        judging: &Judging,
        max_samples: u64,
        gating: u32,
    ) -> (Self, String) {
        let (tally, missing) = (Tally::default(), 0);
        let unprovable = |why: &str| (Self::Unprovable { tally, missing }, why.to_owned());
        if objective.statistic == Statistic::Mean {
            let words = "mean of the values, without bounds".to_owned();
            return (Self::Mean { tally, missing }, words);
        }
        let Some(required) = objective
            .required_ppm()
            .filter(|ppm| (1..1_000_000).contains(ppm))
            .map(|ppm| f64::from(ppm) / 1e6)
        else {
            return unprovable("no number of samples shows all or nothing");
        };
        let confidence_ppm = objective.confidence_ppm.unwrap_or(judging.confidence_ppm);
        let percent = f64::from(confidence_ppm) / 1e4;
        let alpha = f64::from(1_000_000_u32.saturating_sub(confidence_ppm)) / 1e6;
        let gamma = GAMMA / f64::from(gating.max(1));
        match judging.method {
            Method::Sequential => {
                let ratio = judging.design_ratio;
                let Some(design) = Design::with_ratios(required, alpha, gamma, ratio, FAIL_RATIO)
                else {
                    return unprovable("no rule has these settings");
                };
                let ratios = if ratio.is_finite() {
                    format!("ratios {ratio} and {FAIL_RATIO}")
                } else {
                    format!("no failure allowed, ratio {FAIL_RATIO}")
                };
                let words = format!(
                    "sequential, {percent}% (alpha {}, gamma {}, {ratios})",
                    rounded(alpha),
                    rounded(gamma),
                );
                (Self::Sequential(Account::new(design)), words)
            }
            Method::Wilson => {
                let z = interval::z(f64::from(confidence_ppm) / 1e6, Sides::Two);
                let look = Look::Wilson { z };
                let words =
                    format!("wilson, {percent}% (z {z:.6}), one look at {max_samples} samples");
                let rule = Self::Look {
                    required,
                    look,
                    tally,
                    missing,
                };
                (rule, words)
            }
            Method::Exact => {
                let look = Look::Exact { alpha, gamma };
                let words = format!(
                    "exact, {percent}% (Clopper-Pearson, alpha {}, gamma {}), one look at \
                     {max_samples} samples",
                    rounded(alpha),
                    rounded(gamma),
                );
                let rule = Self::Look {
                    required,
                    look,
                    tally,
                    missing,
                };
                (rule, words)
            }
        }
    }

    /// Counts one sample.
    pub(super) fn step(&mut self, good: bool) {
        match self {
            Self::Sequential(account) => account.step(good),
            Self::Look { tally, .. }
            | Self::Mean { tally, .. }
            | Self::Unprovable { tally, .. } => *tally = tally.with(good),
        }
    }

    /// Counts slots that were never answered.
    pub(super) fn miss(&mut self, slots: u64) {
        match self {
            Self::Sequential(account) => account.miss(slots),
            Self::Look { missing, .. }
            | Self::Mean { missing, .. }
            | Self::Unprovable { missing, .. } => {
                *missing = missing.saturating_add(slots);
            }
        }
    }

    pub(super) const fn tally(&self) -> Tally {
        match self {
            Self::Sequential(account) => account.tally(),
            Self::Look { tally, .. }
            | Self::Mean { tally, .. }
            | Self::Unprovable { tally, .. } => *tally,
        }
    }

    pub(super) const fn missing(&self) -> u64 {
        match self {
            Self::Sequential(account) => account.missing(),
            Self::Look { missing, .. }
            | Self::Mean { missing, .. }
            | Self::Unprovable { missing, .. } => *missing,
        }
    }

    pub(super) fn required(&self) -> f64 {
        match self {
            Self::Sequential(account) => account.design().required(),
            Self::Look { required, .. } => *required,
            Self::Mean { .. } | Self::Unprovable { .. } => 0.0,
        }
    }

    /// Bounds that hold whatever the missing slots would have been.
    pub(super) fn bounds(&self) -> Interval {
        match self {
            Self::Sequential(account) => account.bounds(),
            Self::Look {
                look,
                tally,
                missing,
                ..
            } => Interval {
                lower: look.bounds(tally.with_bad(*missing)).lower,
                upper: look.bounds(tally.with_good(*missing)).upper,
            },
            Self::Mean { .. } | Self::Unprovable { .. } => Interval::UNKNOWN,
        }
    }
}

/// At most four decimals; what is too small for them stays as it is.
fn rounded(share: f64) -> f64 {
    let rounded = (share * 1e4).round() / 1e4;
    if share < 1e-3 { share } else { rounded }
}
