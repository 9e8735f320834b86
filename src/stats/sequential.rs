//! The rule that may look after every sample: two accounts that bet against each other's claim.
//!
//! The pass account grows when the share of good samples is above the required one, the fail
//! account when it is below. Whatever the moment of stopping, a relay at or below the required
//! share passes with probability at most α, and one at or above it fails with at most γ (Ville's
//! inequality). Thresholds are computed once per number of failures and then compared as integers.

use super::interval::Interval;
use super::{Tally, count, float};

/// Odds ratio of the relay that the fail account bets on.
pub const FAIL_RATIO: f64 = 3.0;
/// Odds ratio of the relay that the pass account bets on, where nothing else is asked for.
pub const PASS_RATIO: f64 = 5.0;
/// Keeps a threshold that is a whole number from being pushed up or down by rounding.
const SLACK: f64 = 1e-9;

/// What is claimed, and the errors that are allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    required: f64,
    pass_ratio: f64,
    fail_ratio: f64,
    /// What a good sample adds to the pass account.
    a: f64,
    /// What a good sample takes from the fail account.
    b: f64,
    /// What the pass account must reach, ln(1/α).
    pass_goal: f64,
    /// What the fail account must reach, ln(1/γ).
    fail_goal: f64,
}

impl Design {
    /// A rule with the usual ratios.
    ///
    /// `required` is the share that must be good, `alpha` the chance of a false pass and `gamma`
    /// that of a false fail; `None` where one is not strictly between 0 and 1.
    pub fn new(required: f64, alpha: f64, gamma: f64) -> Option<Self> {
        Self::with_ratios(required, alpha, gamma, PASS_RATIO, FAIL_RATIO)
    }

    /// A rule with stated ratios, each above 1.
    ///
    /// An infinite `pass_ratio` is the zero-failure design: the fewest samples, and no failure
    /// allowed.
    pub fn with_ratios(
        required: f64,
        alpha: f64,
        gamma: f64,
        pass_ratio: f64,
        fail_ratio: f64,
    ) -> Option<Self> {
        let inside = |share: f64| share > 0.0 && share < 1.0;
        let fine = inside(required)
            && inside(alpha)
            && inside(gamma)
            && pass_ratio > 1.0
            && fail_ratio > 1.0
            && fail_ratio.is_finite();
        fine.then(|| Self {
            required,
            pass_ratio,
            fail_ratio,
            a: -(required + (1.0 - required) / pass_ratio).ln(),
            b: (required + (1.0 - required) * fail_ratio).ln(),
            pass_goal: -alpha.ln(),
            fail_goal: -gamma.ln(),
        })
    }

    /// The share that must be good.
    pub const fn required(&self) -> f64 {
        self.required
    }

    /// What a good sample adds to the pass account.
    pub const fn a(&self) -> f64 {
        self.a
    }

    /// What a good sample takes from the fail account.
    pub const fn b(&self) -> f64 {
        self.b
    }

    /// True failure rates between which the accounts drift to neither end.
    pub fn grey_zone(&self) -> (f64, f64) {
        (self.a / self.pass_ratio.ln(), self.b / self.fail_ratio.ln())
    }

    /// Fewest samples that pass with this many failures; `None` when no number does.
    pub fn pass_at(&self, failures: u64) -> Option<u64> {
        self.pass_at_cost(self.pass_cost(failures))
    }

    /// [`Design::pass_at`] where the failures took `cost` from the pass account.
    pub(super) fn pass_at_cost(&self, cost: f64) -> Option<u64> {
        let at = ((self.pass_goal + cost) / self.a - SLACK).ceil();
        at.is_finite().then(|| count(at))
    }

    /// Most samples that fail with this many failures; 0 when no number does.
    pub fn fail_until(&self, failures: u64) -> u64 {
        let until = self.fail_until_gain(self.fail_gain(failures));
        if until < failures { 0 } else { until }
    }

    /// [`Design::fail_until`] where the failures added `gain` to the fail account.
    pub(super) fn fail_until_gain(&self, gain: f64) -> u64 {
        count(((gain - self.fail_goal) / self.b + SLACK).floor())
    }

    /// [`Design::pass_at`] for 0, 1, 2, … failures, as far as `n_max` samples allow.
    pub fn pass_ladder(&self, n_max: u64) -> Vec<u64> {
        (0..)
            .map_while(|failures| self.pass_at(failures))
            .take_while(|&at| at <= n_max)
            .collect()
    }

    /// What `failures` failures take from the pass account.
    fn pass_cost(&self, failures: u64) -> f64 {
        // Without a failure nothing is paid, also where a failure costs everything.
        if failures == 0 {
            0.0
        } else {
            float(failures) * self.pass_ratio.ln()
        }
    }

    /// What `failures` failures add to the fail account.
    fn fail_gain(&self, failures: u64) -> f64 {
        float(failures) * self.fail_ratio.ln()
    }

    /// Odds ratio of the relay that the pass account bets on.
    pub const fn pass_ratio(&self) -> f64 {
        self.pass_ratio
    }

    /// Odds ratio of the relay that the fail account bets on.
    pub const fn fail_ratio(&self) -> f64 {
        self.fail_ratio
    }

    /// Logarithm of the pass account.
    pub fn log_pass(&self, tally: Tally) -> f64 {
        float(tally.n()) * self.a - self.pass_cost(tally.failures())
    }

    /// Logarithm of the fail account.
    pub fn log_fail(&self, tally: Tally) -> f64 {
        self.fail_gain(tally.failures()) - float(tally.n()) * self.b
    }

    /// Lower bound of the share of good samples: the largest share that these counts would pass.
    pub fn lower(&self, tally: Tally) -> f64 {
        self.lower_at_cost(tally.n(), self.pass_cost(tally.failures()))
    }

    /// [`Design::lower`] where the failures took `cost` from the pass account.
    pub(super) fn lower_at_cost(&self, n: u64, cost: f64) -> f64 {
        if n == 0 {
            return 0.0;
        }
        let spent = (self.pass_goal + cost) / float(n);
        let rest = 1.0 / self.pass_ratio;
        (((-spent).exp() - rest) / (1.0 - rest)).clamp(0.0, 1.0)
    }

    /// Upper bound of the share of good samples: the smallest share that these counts would fail.
    pub fn upper(&self, tally: Tally) -> f64 {
        self.upper_at_gain(tally.n(), self.fail_gain(tally.failures()))
    }

    /// [`Design::upper`] where the failures added `gain` to the fail account.
    pub(super) fn upper_at_gain(&self, n: u64, gain: f64) -> f64 {
        if n == 0 {
            return 1.0;
        }
        let gained = (gain - self.fail_goal) / float(n);
        (1.0 - gained.exp_m1().max(0.0) / (self.fail_ratio - 1.0)).clamp(0.0, 1.0)
    }

    /// Both bounds.
    pub fn bounds(&self, tally: Tally) -> Interval {
        Interval {
            lower: self.lower(tally),
            upper: self.upper(tally),
        }
    }

    /// Largest share that `n` samples without a failure prove.
    pub fn max_provable(&self, n: u64) -> f64 {
        self.lower(Tally::default().with_good(n))
    }
}

/// Where an account stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Neither end is reached.
    Open,
    /// Shown to be above the required share.
    Pass,
    /// Shown to be below it.
    Fail,
    /// A pass is out of reach with the samples that are left.
    CannotPass,
}

/// The counts of one claim, kept beside the integer thresholds that they are compared with.
///
/// Slots that were planned and never answered count as bad for the pass account and as good for
/// the fail account: nothing is known of them, so they may help neither claim.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    design: Design,
    tally: Tally,
    missing: u64,
    pass_at: Option<u64>,
    fail_until: u64,
}

impl Account {
    /// An account without samples.
    pub fn new(design: Design) -> Self {
        let mut account = Self {
            design,
            tally: Tally::default(),
            missing: 0,
            pass_at: None,
            fail_until: 0,
        };
        account.look_up();
        account
    }

    /// The rule.
    pub const fn design(&self) -> &Design {
        &self.design
    }

    /// What was counted.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Slots that were never answered.
    pub const fn missing(&self) -> u64 {
        self.missing
    }

    /// Counts one sample.
    pub fn step(&mut self, good: bool) {
        self.tally = self.tally.with(good);
        // Thresholds depend on the failures only.
        if !good {
            self.look_up();
        }
    }

    /// Counts slots that were never answered.
    pub fn miss(&mut self, slots: u64) {
        self.missing = self.missing.saturating_add(slots);
        self.look_up();
    }

    fn look_up(&mut self) {
        self.pass_at = self.design.pass_at(self.pessimistic().failures());
        self.fail_until = self.design.fail_until(self.tally.failures());
    }

    /// Where the account stands; `n_max` is the most samples it can ever count, `None` to leave
    /// futility aside.
    pub fn standing(&self, n_max: Option<u64>) -> Standing {
        let n = self.tally.n().saturating_add(self.missing);
        if self.pass_at.is_some_and(|at| n >= at) {
            Standing::Pass
        } else if self.fail_until > 0 && n <= self.fail_until {
            Standing::Fail
        } else if n_max.is_some_and(|most| self.pass_at.is_none_or(|at| at > most)) {
            Standing::CannotPass
        } else {
            Standing::Open
        }
    }

    /// Whether it would fail if the next samples were failures, at most so many of them.
    pub fn fails_within(&self, failures: u64) -> bool {
        let n = self.tally.n().saturating_add(self.missing);
        (1..=failures).any(|more| {
            let until = self.design.fail_until(self.tally.failures() + more);
            until > 0 && n + more <= until
        })
    }

    /// Whether the samples alone would pass, if nothing were missing.
    pub fn would_pass_without_gaps(&self) -> bool {
        self.design
            .pass_at(self.tally.failures())
            .is_some_and(|at| self.tally.n() >= at)
    }

    /// Further samples without a failure that would make it pass; `None` when no number would.
    pub fn further_clean(&self) -> Option<u64> {
        let n = self.tally.n().saturating_add(self.missing);
        Some(self.pass_at?.saturating_sub(n))
    }

    /// Bounds that hold whatever the missing slots would have been.
    pub fn bounds(&self) -> Interval {
        Interval {
            lower: self.design.lower(self.pessimistic()),
            upper: self.design.upper(self.tally.with_good(self.missing)),
        }
    }

    fn pessimistic(&self) -> Tally {
        self.tally.with_bad(self.missing)
    }
}

/// Whether sampling for several claims at once is over: every one is closed, or, where the first
/// bad news ends it, one has failed or can no longer pass.
pub fn joint_over(standings: impl IntoIterator<Item = Standing>, stop_at_first: bool) -> bool {
    let mut all_closed = true;
    for standing in standings {
        match standing {
            Standing::Open => all_closed = false,
            Standing::Pass => {}
            Standing::Fail | Standing::CannotPass if stop_at_first => return true,
            Standing::Fail | Standing::CannotPass => {}
        }
    }
    all_closed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(required: f64) -> Design {
        Design::new(required, 0.05, 0.05).unwrap()
    }

    #[test]
    fn a_99_percent_objective_passes_at_373_clean_samples() {
        assert_eq!(design(0.99).pass_ladder(975), [373, 574, 774, 975]);
    }

    #[test]
    fn one_of_anything_impossible_is_no_design() {
        for (required, alpha, gamma) in [
            (1.0, 0.05, 0.05),
            (0.0, 0.05, 0.05),
            (0.9, 0.0, 0.05),
            (0.9, 0.05, 1.0),
            (f64::NAN, 0.05, 0.05),
        ] {
            assert_eq!(Design::new(required, alpha, gamma), None);
        }
        assert_eq!(Design::with_ratios(0.9, 0.05, 0.05, 1.0, 3.0), None);
    }

    #[test]
    fn the_zero_failure_design_needs_299_samples_at_99_percent_and_allows_no_failure() {
        let design = Design::with_ratios(0.99, 0.05, 0.05, f64::INFINITY, 3.0).unwrap();
        assert_eq!(design.pass_at(0), Some(299));
        assert_eq!(design.pass_at(1), None);
        let lower = design.lower(Tally::new(299, 0).unwrap());
        assert!((0.99..0.9901).contains(&lower), "{lower}");
        assert_eq!(design.lower(Tally::new(9999, 1).unwrap()), 0.0);
    }

    #[test]
    fn the_grey_zone_of_a_99_percent_objective_is_half_a_percent_to_1_8_percent() {
        let (from, to) = design(0.99).grey_zone();
        assert!((0.00495..0.00505).contains(&from), "{from}");
        assert!((0.0179..0.0181).contains(&to), "{to}");
    }

    #[test]
    fn nothing_counted_decides_nothing() {
        let account = Account::new(design(0.95));
        assert_eq!(account.standing(Some(74)), Standing::Open);
        assert_eq!(account.standing(Some(73)), Standing::CannotPass);
    }

    #[test]
    fn a_missing_slot_is_a_failure_for_a_pass_and_none_for_a_violation() {
        let mut account = Account::new(design(0.95));
        (0..74).for_each(|_| account.step(true));
        account.miss(1);
        assert_eq!(account.standing(None), Standing::Open);
        assert!(account.would_pass_without_gaps());
        assert_eq!(account.further_clean(), Some(113 - 75));
        assert!(account.bounds().lower < 0.95);

        let mut account = Account::new(design(0.95));
        account.miss(1);
        (0..3).for_each(|_| account.step(false));
        assert_eq!(account.standing(None), Standing::Open);
        account.step(false);
        assert_eq!(account.standing(None), Standing::Fail);
    }

    #[test]
    fn the_first_bad_news_ends_a_joint_run_only_where_it_is_asked_to() {
        use Standing::{CannotPass, Fail, Open, Pass};
        assert!(joint_over([Open, Fail], true));
        assert!(joint_over([Open, CannotPass], true));
        assert!(!joint_over([Open, Fail], false));
        assert!(joint_over([Pass, Fail, CannotPass], false));
        assert!(!joint_over([Pass, Open], true));
    }
}
