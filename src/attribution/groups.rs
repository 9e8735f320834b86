//! What went wrong in a cell, whatever its objectives are: failing samples grouped by who is to be
//! looked at, phase and class, with the most telling of each group.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Blame, Party, blame};
use crate::evidence::Sample;
use crate::observation::{Class, Phase};

/// Samples that a group names.
const TELLING: usize = 3;

/// Samples whose first attempts failed alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Who to look at.
    pub party: Party,
    /// Phase of the leading finding.
    pub phase: Phase,
    /// The leading class.
    pub class: Class,
    /// How many.
    pub count: u64,
    /// The most telling of them, which took longest, and its trace; then the next ones.
    pub telling: Vec<Telling>,
}

/// One sample of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling {
    /// Index of the sample.
    pub index: u64,
    /// Its trace.
    pub trace_id: String,
    /// How long its first attempt took.
    pub over: Duration,
}

/// Groups the samples of a cell, one after the other, in memory that does not grow with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    groups: BTreeMap<(Party, Phase, Class), Group>,
}

impl Groups {
    /// Takes one sample; one that does not count, or whose first attempt is fine, is in no group.
    pub fn take(&mut self, sample: &Sample) {
        let Some(first) = sample.attempts.first().filter(|_| sample.counts()) else {
            return;
        };
        let attempt = &first.observation;
        let Some(class) = attempt.class() else {
            return;
        };
        let Blame { party, phase, .. } = blame(attempt);
        let group = self
            .groups
            .entry((party, phase, class))
            .or_insert_with(|| Group {
                party,
                phase,
                class,
                count: 0,
                telling: Vec::with_capacity(TELLING + 1),
            });
        group.count += 1;
        let over = attempt.timeline.over;
        let place = group.telling.partition_point(|kept| kept.over >= over);
        if place < TELLING {
            let telling = Telling {
                index: sample.index,
                trace_id: sample.trace_id.clone(),
                over,
            };
            group.telling.insert(place, telling);
            group.telling.truncate(TELLING);
        }
    }

    /// The groups, the largest first.
    pub fn all(&self) -> Vec<&Group> {
        let mut groups: Vec<&Group> = self.groups.values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::{good, refused, sample, truncated};

    #[test]
    fn failing_samples_are_grouped_and_the_longest_are_named() {
        let mut groups = Groups::default();
        for index in 0..40 {
            let seen = match index {
                0..10 => {
                    let mut seen = truncated();
                    seen.timeline.over += Duration::from_millis(index % 7);
                    seen
                }
                10 => refused(429),
                _ => good(),
            };
            groups.take(&sample(index, seen));
        }
        let groups = groups.all();
        let counts: Vec<(Class, u64)> = groups.iter().map(|it| (it.class, it.count)).collect();
        let expected = [(Class::TruncatedNoTerminator, 10), (Class::HttpError, 1)];
        assert_eq!(counts, expected);
        let named: Vec<u64> = groups[0].telling.iter().map(|it| it.index).collect();
        assert_eq!(named, [6, 5, 4]);
        assert_eq!(groups[1].party, Party::ConcurrencyOrKey);
        assert_eq!(groups[1].telling.len(), 1);
    }

    #[test]
    fn warm_ups_are_in_no_group() {
        let mut groups = Groups::default();
        let mut warm = sample(0, truncated());
        warm.warmup = true;
        groups.take(&warm);
        assert!(groups.all().is_empty());
    }
}
