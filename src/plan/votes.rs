//! How many votes a soak can give an objective.

use std::time::Duration;

use super::Sampling;
use super::window::{Calendar, Day, UTC, Window};
use crate::objective::Objective;
use crate::objective::metric::Metric;
use crate::stats::{count, float};

/// Nanoseconds.
const MINUTE: u64 = 60_000_000_000;

/// The stretches of time of a soak in a window, and how many of them vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Votes {
    /// At most so many: one for each stretch, and no more than there are samples.
    pub most: u64,
    /// So many are to be expected: a stretch into which no slot falls does not vote.
    pub expected: u64,
    /// Days of the window that are seen.
    pub days: u32,
}

impl Votes {
    /// The votes of all regions together on an objective, which may be about a window, or about
    /// pairs: `pair_ppm` of the samples have the other half of one. `None` where the samples are not
    /// spread, or the window's zone is not known.
    pub fn of(
        objective: &Objective,
        sampling: &Sampling,
        bucket: Duration,
        windows: &[Window],
        pair_ppm: u32,
    ) -> Option<Self> {
        let duration = sampling.duration?;
        let samples = if objective.metric == Metric::Overhead {
            let pairs = u128::from(sampling.max_samples) * u128::from(pair_ppm);
            u64::try_from(pairs.div_ceil(1_000_000)).unwrap_or(u64::MAX)
        } else {
            sampling.max_samples
        };
        let name = objective.window.as_deref();
        let window = name.and_then(|name| windows.iter().find(|it| it.name == name));
        let calendar = match window {
            Some(window) => Calendar::of(window)?,
            None => Calendar::days(UTC)?,
        };
        // Without a beginning any will do: what it moves is one vote more or less.
        let start = sampling.start_unix_ns.unwrap_or(0);
        let (mut all, mut inside, mut days, mut last) = (0, 0, 0, None);
        // Windows and offsets of zones change at whole minutes, and calendars take their time.
        let mut known: Option<(u64, Option<Day>)> = None;
        let mut at = Duration::ZERO;
        while at < duration {
            all += 1;
            let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
            let moment = start.saturating_add(nanos);
            let minute = moment / MINUTE;
            let day = match known {
                Some((of, day)) if of == minute => day,
                _ => calendar.day(moment),
            };
            known = Some((minute, day));
            if let Some(day) = day {
                inside += 1;
                days += u32::from(last != Some(day));
                last = Some(day);
            }
            at += bucket;
        }
        // Samples fall anywhere in the soak.
        let empty = (1.0 - 1.0 / float(all)).powf(float(samples));
        Some(Self {
            most: inside.min(samples),
            expected: count((float(inside) * (1.0 - empty)).round()),
            days,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Timing;

    const WEEK: Duration = Duration::from_secs(7 * 86_400);
    const BUCKET: Duration = Duration::from_secs(600);

    fn week(max_samples: u64) -> Sampling {
        Sampling {
            seed: 1,
            rate_per_s: 1.0,
            max_samples,
            concurrency: 1,
            warmup: 0,
            max_tokens: None,
            max_duration: None,
            max_cost_usd: None,
            mode: Timing::Soak,
            duration: Some(WEEK),
            start_unix_ns: None,
        }
    }

    fn peak() -> Window {
        Window {
            name: "peak".to_owned(),
            daily: Some("21:00-01:00".parse().unwrap()),
            zone: UTC.to_owned(),
        }
    }

    fn votes(text: &str, window: Option<&str>, sampling: &Sampling) -> Option<Votes> {
        let objective = Objective {
            window: window.map(str::to_owned),
            ..Objective::parse(text).unwrap()
        };
        Votes::of(&objective, sampling, BUCKET, &[peak()], 200_000)
    }

    #[test]
    fn a_week_of_ten_minutes_has_the_votes_of_the_table() {
        let many = votes("usable >= 95%", None, &week(100_000)).unwrap();
        assert_eq!((many.most, many.expected, many.days), (1008, 1008, 7));
        let evenings = votes("usable >= 95%", Some("peak"), &week(100_000)).unwrap();
        assert_eq!((evenings.most, evenings.expected), (168, 168));
    }

    #[test]
    fn few_samples_are_few_votes() {
        let one_each = votes("usable >= 95%", None, &week(1008)).unwrap();
        // 1 - 1/e of them.
        assert_eq!((one_each.most, one_each.expected), (1008, 637));
        let few = votes("usable >= 95%", None, &week(50)).unwrap();
        assert_eq!((few.most, few.expected), (50, 49));
        // A fifth of them is paired.
        let pairs = votes("overhead.p50 < 300ms", None, &week(50)).unwrap();
        assert_eq!((pairs.most, pairs.expected), (10, 10));
    }

    #[test]
    fn samples_that_are_not_spread_have_no_votes() {
        let now = Sampling {
            duration: None,
            ..week(50)
        };
        assert_eq!(votes("usable >= 95%", None, &now), None);
    }

    #[test]
    fn a_vote_each_second_is_counted_as_its_minute_is() {
        let objective = Objective {
            window: Some("peak".to_owned()),
            ..Objective::parse("usable >= 95%").unwrap()
        };
        let sampling = Sampling {
            duration: Some(Duration::from_secs(86_400)),
            ..week(1_000_000)
        };
        let second = Duration::from_secs(1);
        let votes = Votes::of(&objective, &sampling, second, &[peak()], 0).unwrap();
        assert_eq!(votes.most, 4 * 3600);
    }
}
