//! The second account of `usable`: normal stops without the seal that was asked for.
//!
//! A model that disobeys leaves the seal out, and so does a relay that cuts answers off and invents
//! their end. Up to the allowance it may be the model: such a sample is neither good nor bad. This
//! account shows when there are more, and only that; it never speaks for a pass.

use super::{NAMED_FAILURES, Seals};
use crate::stats::sequential::{Account, Design, FAIL_RATIO, PASS_RATIO, Standing};

/// Normal stops, counted.
#[derive(Clone, Debug)]
pub(super) struct SealAccount {
    account: Account,
    allowance_ppm: u32,
    unsealed: Vec<u64>,
}

impl SealAccount {
    /// An account without samples; `None` where every missing seal counts, or no number of them
    /// would.
    pub(super) fn new(allowance_ppm: u32, gamma: f64) -> Option<Self> {
        let required = 1.0 - f64::from(allowance_ppm) / 1e6;
        // Nothing is claimed by a pass, so any alpha does.
        let design = Design::with_ratios(required, gamma, gamma, PASS_RATIO, FAIL_RATIO)?;
        Some(Self {
            account: Account::new(design),
            allowance_ppm,
            unsealed: Vec::new(),
        })
    }

    /// Takes one normal stop.
    pub(super) fn take(&mut self, index: u64, sealed: bool) {
        self.account.step(sealed);
        if !sealed && self.unsealed.len() < NAMED_FAILURES {
            self.unsealed.push(index);
        }
    }

    /// Takes slots that were never answered.
    pub(super) fn miss(&mut self, slots: u64) {
        self.account.miss(slots);
    }

    /// Whether more seals are missing than is allowed.
    pub(super) fn is_violated(&self) -> bool {
        self.account.standing(None) == Standing::Fail
    }

    /// The first samples without their seal.
    pub(super) fn unsealed(&self) -> &[u64] {
        &self.unsealed
    }

    /// For the verdict.
    pub(super) fn summary(&self) -> Seals {
        let tally = self.account.tally();
        Seals {
            stops: tally.n(),
            unsealed: tally.failures(),
            allowance_ppm: self.allowance_ppm,
            violated: self.is_violated(),
        }
    }

    /// How many there are, in words; `None` where there is none.
    pub(super) fn words(&self) -> Option<String> {
        let Seals {
            stops,
            unsealed,
            allowance_ppm,
            ..
        } = self.summary();
        let rate = self
            .account
            .tally()
            .share()
            .map(|good| 100.0 * (1.0 - good))?;
        let allowed = f64::from(allowance_ppm) / 1e4;
        (unsealed > 0).then(|| {
            format!(
                "{unsealed} of {stops} normal stops without the seal ({rate:.1}%, {allowed}% allowed)"
            )
        })
    }
}
