//! A cap on what calls may cost, kept by reserving the worst case of each before it is sent.
//!
//! What is spent and what open calls may still cost never pass the cap together, whenever usage is
//! reported, and if it never is. Beyond that lies only what a relay charges against its own word:
//! more tokens than were asked for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cost;
use crate::evidence::Sample;
use crate::plan::{Cell, Price, budget};
use crate::stats::float;

/// US dollars in whole billionths: sums of them are exact, so that a purse that is filled again from
/// evidence holds what it held before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nano(u64);

impl Nano {
    /// The next billionth that is not less; the largest for what no number says.
    fn up(usd: f64) -> Self {
        let nano = (usd * 1e9).ceil();
        if nano.is_nan() {
            return Self(u64::MAX);
        }
        Self(crate::stats::count(nano.max(0.0)))
    }

    /// The billionths that are whole.
    fn down(usd: f64) -> Self {
        Self(crate::stats::count((usd * 1e9).floor().max(0.0)))
    }

    /// As dollars.
    pub fn usd(self) -> f64 {
        float(self.0) / 1e9
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// So many times as much.
    pub const fn times(self, many: u64) -> Self {
        Self(self.0.saturating_mul(many))
    }
}

/// What calls to a cell can cost at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tariff {
    price: Price,
    /// One attempt.
    attempt: Nano,
    /// A call, with all of its attempts.
    call: Nano,
}

impl Tariff {
    /// That of a cell; `None` where the spec says no price.
    ///
    /// The bytes of a prompt bound its tokens, and the answer has its limit. A refused attempt costs
    /// nothing; that one may cost what it can is what a relay would say that is paid for it.
    pub fn of(cell: &Cell) -> Option<Self> {
        let price = cell.price?;
        let attempt = Nano::up(budget::most_of_call(cell)?);
        let attempts = u64::from(cell.relay.retry.max).saturating_add(1);
        Some(Self {
            price,
            attempt,
            call: attempt.times(attempts),
        })
    }

    /// Most that a call can cost.
    pub const fn call(&self) -> Nano {
        self.call
    }

    /// What a call has cost: by its usage where that is known, and else what each attempt without
    /// can have cost.
    pub fn of_sample(&self, sample: &Sample) -> Nano {
        let attempts = sample.attempts.iter();
        attempts.fold(Nano::default(), |sum, attempt| {
            let known = cost::usd(attempt, &self.price).map(Nano::up);
            sum.and(known.unwrap_or(self.attempt))
        })
    }
}

/// Money for calls, shared by whoever starts them and whoever sees them end.
#[derive(Clone, Debug)]
pub struct Purse(Arc<Mutex<Money>>);

#[derive(Debug)]
struct Money {
    cap: Nano,
    spent: Nano,
    reserved: Nano,
}

impl Purse {
    /// A full one, of so many US dollars.
    pub fn new(cap_usd: f64) -> Self {
        Self(Arc::new(Mutex::new(Money {
            cap: Nano::down(cap_usd),
            spent: Nano::default(),
            reserved: Nano::default(),
        })))
    }

    /// A sum of money is valid between any two lines, so a panic elsewhere does not close it.
    fn money(&self) -> MutexGuard<'_, Money> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what was spent before.
    pub fn spend(&self, cost: Nano) {
        let mut money = self.money();
        money.spent = money.spent.and(cost);
    }

    /// Sets aside what a call can cost; `None` where that does not fit any more.
    pub fn reserve(&self, most: Nano) -> Option<Reservation> {
        let mut money = self.money();
        let all = money.spent.and(money.reserved).and(most);
        if all > money.cap {
            return None;
        }
        money.reserved = money.reserved.and(most);
        drop(money);
        Some(Reservation {
            purse: self.clone(),
            most,
            cost: most,
        })
    }

    /// What is spent, unknown costs at their worst.
    pub fn spent(&self) -> Nano {
        self.money().spent
    }

    /// What open calls may still cost.
    pub fn reserved(&self) -> Nano {
        self.money().reserved
    }

    /// What there is in all.
    pub fn cap(&self) -> Nano {
        self.money().cap
    }
}

/// A purse, and what calls to one cell take out of it.
#[derive(Clone, Debug)]
pub struct Allowance {
    /// The money.
    pub purse: Purse,
    /// What a call can cost.
    pub tariff: Tariff,
}

impl Allowance {
    /// Sets aside what one more call can cost; `None` where that does not fit any more.
    pub fn reserve(&self) -> Option<Reservation> {
        self.purse.reserve(self.tariff.call())
    }

    /// Takes out what earlier calls have cost, and so many more that were sent and are not on
    /// record.
    pub fn spend<'s>(&self, samples: impl IntoIterator<Item = &'s Sample>, lost: u64) {
        for sample in samples {
            self.purse.spend(self.tariff.of_sample(sample));
        }
        self.purse.spend(self.tariff.call().times(lost));
    }
}

/// Money set aside for one call. Dropped without a word it counts as spent: the call may have been
/// sent.
#[derive(Debug)]
#[must_use = "what is dropped is spent"]
pub struct Reservation {
    purse: Purse,
    most: Nano,
    cost: Nano,
}

impl Reservation {
    /// The call has ended, and cost this.
    pub fn settle(mut self, cost: Nano) {
        self.cost = cost;
    }

    /// The call was never sent.
    pub fn give_back(self) {
        self.settle(Nano::default());
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut money = self.purse.money();
        money.reserved = money.reserved.less(self.most);
        money.spent = money.spent.and(self.cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;
    use crate::observation::{Observation, Usage};

    const PRICE: Price = Price {
        input: 1.0,
        cached_input: None,
        output: 2.0,
        multiplier: 1.0,
        fx: None,
    };

    fn tariff() -> Tariff {
        Tariff {
            price: PRICE,
            attempt: Nano::up(0.25),
            call: Nano::up(1.0),
        }
    }

    fn usd(amount: f64) -> Nano {
        Nano::up(amount)
    }

    #[test]
    fn what_is_spent_and_reserved_never_passes_the_cap() {
        let purse = Purse::new(1.0);
        let open: Vec<Reservation> = (0..5).filter_map(|_| purse.reserve(usd(0.3))).collect();
        assert_eq!(open.len(), 3);
        assert_eq!(purse.reserved(), usd(0.9));
        let mut open = open.into_iter();
        // Known to be cheap: room for others.
        open.next().unwrap().settle(usd(0.01));
        let _more = purse.reserve(usd(0.39)).unwrap();
        assert!(purse.reserve(usd(0.000_000_001)).is_none());
        // Never known: all of it is gone.
        drop(open.next());
        assert_eq!(purse.spent(), usd(0.31));
        open.next().unwrap().give_back();
        assert_eq!(purse.spent().and(purse.reserved()), usd(0.70));
        assert!(purse.reserve(usd(0.31)).is_none());
        assert!(purse.reserve(usd(0.30)).is_some());
    }

    #[test]
    fn an_attempt_of_unknown_cost_counts_with_what_it_can_cost() {
        let known = Observation {
            usage: Some(Usage {
                input: Some(100_000),
                output: Some(0),
                ..Usage::default()
            }),
            ..good()
        };
        let silent = || Observation {
            usage: None,
            ..good()
        };
        let tariff = tariff();
        assert_eq!(tariff.of_sample(&sample(0, known.clone())), usd(0.1));
        assert_eq!(tariff.of_sample(&sample(0, silent())), usd(0.25));
        assert_eq!(tariff.of_sample(&sample(0, refused(429))), usd(0.0));
        let mixed = retried(0, vec![silent(), refused(500), known]);
        assert_eq!(tariff.of_sample(&mixed), usd(0.35));
    }

    #[test]
    fn a_purse_that_is_filled_again_from_what_was_spent_holds_what_it_held() {
        let (one, again) = (Purse::new(0.3), Purse::new(0.3));
        let costs = [0.1, 0.07, 0.000_000_3, 0.02].map(usd);
        for cost in costs {
            one.reserve(usd(0.1)).unwrap().settle(cost);
        }
        for cost in costs.into_iter().rev() {
            again.spend(cost);
        }
        assert_eq!(one.spent(), again.spent());
        let left = one.cap().less(one.spent());
        let all_of_it = again.reserve(left);
        assert!(all_of_it.is_some() && again.reserve(Nano(1)).is_none());
    }

    #[test]
    fn what_no_number_says_fits_nowhere() {
        assert_eq!(Nano::up(f64::NAN), Nano(u64::MAX));
        assert_eq!(Nano::up(f64::INFINITY), Nano(u64::MAX));
        assert!(Purse::new(1e6).reserve(Nano(u64::MAX)).is_none());
        assert_eq!(Nano::up(-1.0), Nano(0));
    }
}
