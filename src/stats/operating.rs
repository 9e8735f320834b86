//! How the sequential rule behaves for a relay of known quality, by exact recursion.
//!
//! The state after n samples is the number of failures so far; undecided probability mass moves
//! one sample at a time and leaves at the rule's thresholds. No simulation, no approximation.

use std::collections::VecDeque;

use super::sequential::Design;

/// What the rule does to a relay whose samples are good with a fixed probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operating {
    /// Probability of a pass.
    pub pass: f64,
    /// Probability of a fail.
    pub fail: f64,
    /// Probability of being closed because a pass is out of reach.
    pub cannot_pass: f64,
    /// Probability of using up the budget.
    pub budget: f64,
    /// Expected number of samples.
    pub expected_n: f64,
}

/// Operating characteristics of `design` with at most `n_max` samples, for a relay that is good
/// with probability `p`.
pub fn operating(design: &Design, n_max: u64, futility: bool, p: f64) -> Operating {
    let mut walk = Walk::new(design, p);
    let mut result = Operating {
        pass: 0.0,
        fail: 0.0,
        cannot_pass: 0.0,
        budget: 0.0,
        expected_n: 0.0,
    };
    for n in 1..=n_max {
        result.expected_n += walk.open();
        let (pass, fail) = walk.step(n);
        result.pass += pass;
        result.fail += fail;
        if futility {
            result.cannot_pass += walk.close_hopeless(n_max);
        }
        if walk.mass.is_empty() {
            return result;
        }
    }
    result.budget = walk.open();
    result
}

/// Fewest samples with which a relay that is good with probability `p` passes with probability
/// `power`; `None` when `most` samples do not do.
pub fn samples_for(design: &Design, p: f64, power: f64, most: u64) -> Option<u64> {
    let mut walk = Walk::new(design, p);
    let mut passed = 0.0;
    for n in 1..=most {
        passed += walk.step(n).0;
        if passed >= power {
            return Some(n);
        }
        walk.close_hopeless(most);
        // What is still open is all that can be added.
        if passed + walk.open() < power {
            return None;
        }
    }
    None
}

/// Share of good samples of a relay whose failure odds are one `ratio`-th of the allowed ones.
pub fn good_relay(required: f64, ratio: f64) -> f64 {
    let odds = (1.0 - required) / required / ratio;
    1.0 / (1.0 + odds)
}

/// N90: fewest samples with which a relay at a fifth of the allowed failure odds passes nine times
/// out of ten; `None` when ten million do not do.
pub fn n90(design: &Design) -> Option<u64> {
    samples_for(design, good_relay(design.required(), 5.0), 0.9, 10_000_000)
}

/// Undecided probability mass by number of failures.
struct Walk<'a> {
    design: &'a Design,
    p: f64,
    /// Failures of the first entry of `mass`.
    fewest: u64,
    mass: VecDeque<Cell>,
}

struct Cell {
    mass: f64,
    pass_at: Option<u64>,
    fail_until: u64,
}

impl<'a> Walk<'a> {
    fn new(design: &'a Design, p: f64) -> Self {
        let mut walk = Self {
            design,
            p,
            fewest: 0,
            mass: VecDeque::new(),
        };
        let start = walk.cell(0, 1.0);
        walk.mass.push_back(start);
        walk
    }

    fn cell(&self, failures: u64, mass: f64) -> Cell {
        Cell {
            mass,
            pass_at: self.design.pass_at(failures),
            fail_until: self.design.fail_until(failures),
        }
    }

    fn open(&self) -> f64 {
        self.mass.iter().map(|cell| cell.mass).sum()
    }

    /// Draws the n-th sample; what passed and what failed with it.
    fn step(&mut self, n: u64) -> (f64, f64) {
        let Some(most) = self.mass.back().map(|last| last.mass * (1.0 - self.p)) else {
            return (0.0, 0.0);
        };
        let failures = self.fewest + self.mass.len() as u64;
        for i in (1..self.mass.len()).rev() {
            self.mass[i].mass = self.mass[i].mass * self.p + self.mass[i - 1].mass * (1.0 - self.p);
        }
        self.mass[0].mass *= self.p;
        let last = self.cell(failures, most);
        self.mass.push_back(last);

        // Few failures pass and many fail, so mass leaves at the two ends only.
        let mut pass = 0.0;
        while let Some(cell) = self.mass.front()
            && cell.pass_at.is_some_and(|at| n >= at)
        {
            pass += cell.mass;
            self.mass.pop_front();
            self.fewest += 1;
        }
        let mut fail = 0.0;
        while let Some(cell) = self.mass.back()
            && n <= cell.fail_until
        {
            fail += cell.mass;
            self.mass.pop_back();
        }
        (pass, fail)
    }

    /// Takes out what can no longer pass within `n_max` samples.
    fn close_hopeless(&mut self, n_max: u64) -> f64 {
        let mut closed = 0.0;
        while let Some(cell) = self.mass.back()
            && cell.pass_at.is_none_or(|at| at > n_max)
        {
            closed += cell.mass;
            self.mass.pop_back();
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_table_is_reproduced() {
        let rows = [
            (0.90, 36, 75, 114),
            (0.95, 74, 153, 232),
            (0.98, 186, 386, 585),
            (0.99, 373, 774, 1175),
            (0.995, 748, 1551, 2354),
            (0.999, 3744, 7766, 9777),
        ];
        for (required, n0, n80, n90_expected) in rows {
            let design = Design::new(required, 0.05, 0.05).unwrap();
            let good = good_relay(required, 5.0);
            assert_eq!(design.pass_at(0), Some(n0), "{required}");
            assert_eq!(
                samples_for(&design, good, 0.8, 100_000),
                Some(n80),
                "{required}"
            );
            assert_eq!(n90(&design), Some(n90_expected), "{required}");
        }
    }

    #[test]
    fn a_design_without_failures_never_reaches_ninety_percent_power() {
        let design = Design::with_ratios(0.99, 0.05, 0.05, f64::INFINITY, 3.0).unwrap();
        assert_eq!(n90(&design), None);
    }
}
