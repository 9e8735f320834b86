//! Whether a failed attempt is tried again, and after how long. Pure: waits for nothing.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::evidence::Backoff;
use crate::forms::at_us;
use crate::observation::{Ending, Observation, Phase};
use crate::plan::Retry;

/// Longest `Retry-After` that is waited for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The wait before the next attempt, or `None` when the sample ends with this one.
///
/// `tried` counts the attempts so far, this one included; `sample_id` seeds the jitter, so the same
/// plan waits the same times. Nothing is tried again once model output arrived: the caller of a
/// real client would have shown it. A relay that asks for more than a minute is not asked again:
/// coming back sooner would break its word, and waiting would hold the run.
pub(super) fn next(
    retry: &Retry,
    tried: u32,
    observation: &Observation,
    sample_id: &str,
) -> Option<Backoff> {
    if tried > retry.max || !is_retryable(retry, observation) {
        return None;
    }
    let asked = observation.retry_after.filter(|_| retry.obey_retry_after);
    let length = match asked {
        Some(asked) if asked > MAX_RETRY_AFTER => return None,
        Some(asked) => asked,
        None => backoff(retry, tried, sample_id),
    };
    Some(Backoff {
        length: at_us(length),
        retry_after: observation.retry_after,
    })
}

fn is_retryable(retry: &Retry, observation: &Observation) -> bool {
    if observation.timeline.first_token.is_some() || observation.ending == Ending::Cancelled {
        return false;
    }
    match observation.status {
        Some(status) => retry.statuses.contains(&status),
        None => retry.connect && observation.last_phase <= Phase::Tls,
    }
}

/// `backoff * factor^(tried - 1)`, at most `cap`; with jitter a random part of that.
fn backoff(retry: &Retry, tried: u32, sample_id: &str) -> Duration {
    let growth = retry
        .factor
        .max(1.0)
        .powf(f64::from(tried.saturating_sub(1)));
    let wished = retry.backoff.as_secs_f64() * growth;
    // Not a number and infinity end at the cap too.
    let full = Duration::try_from_secs_f64(wished)
        .unwrap_or(retry.cap)
        .min(retry.cap);
    if retry.jitter {
        full.mul_f64(share(sample_id, tried))
    } else {
        full
    }
}

/// A number from 0 up to 1, the same for the same sample and try.
fn share(sample_id: &str, tried: u32) -> f64 {
    let mut hash = Sha256::new();
    hash.update(b"jitter|");
    hash.update(sample_id.as_bytes());
    hash.update(tried.to_be_bytes());
    let bits = hash
        .finalize()
        .iter()
        .take(4)
        .fold(0u32, |bits, byte| (bits << 8) | u32::from(*byte));
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{observation, retry};

    fn refused(status: u16) -> Observation {
        Observation {
            status: Some(status),
            ending: Ending::Refused,
            last_phase: Phase::End,
            ..observation()
        }
    }

    fn wait(retry: &Retry, tried: u32, seen: &Observation) -> Option<u128> {
        next(retry, tried, seen, "sample").map(|backoff| backoff.length.as_millis())
    }

    #[test]
    fn waits_grow_by_the_factor_up_to_the_cap_and_end_with_the_tries() {
        let retry = retry();
        let waits: Vec<_> = (1..=8)
            .map(|tried| wait(&retry, tried, &refused(503)))
            .collect();
        let expected = [500, 1000, 2000, 4000, 8000, 8000, 8000].map(Some);
        assert_eq!(waits[..7], expected);
        assert_eq!(waits[7], None);
    }

    #[test]
    fn jitter_draws_a_part_of_the_wait_that_depends_on_sample_and_try() {
        let retry = Retry {
            jitter: true,
            ..retry()
        };
        let drawn: Vec<_> = (0..400)
            .filter_map(|id| next(&retry, 1, &refused(503), &id.to_string()))
            .map(|backoff| backoff.length.as_secs_f64() / 0.5)
            .collect();
        assert!(drawn.iter().all(|share| (0.0..1.0).contains(share)));
        let mean = drawn.iter().sum::<f64>() / 400.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
        assert_eq!(
            next(&retry, 1, &refused(503), "7"),
            next(&retry, 1, &refused(503), "7")
        );
        assert_ne!(share("7", 1), share("7", 2));
    }

    #[test]
    fn only_listed_statuses_are_tried_again() {
        assert!(wait(&retry(), 1, &refused(429)).is_some());
        assert_eq!(wait(&retry(), 1, &refused(401)), None);
        assert_eq!(wait(&retry(), 1, &refused(200)), None);
    }

    #[test]
    fn a_failure_to_connect_is_tried_again_only_where_the_plan_says_so() {
        let unreachable = |phase| Observation {
            ending: Ending::Unreachable,
            last_phase: phase,
            ..observation()
        };
        assert!(wait(&retry(), 1, &unreachable(Phase::Connect)).is_some());
        assert_eq!(wait(&retry(), 1, &unreachable(Phase::Wait)), None);
        let never = Retry {
            connect: false,
            ..retry()
        };
        assert_eq!(wait(&never, 1, &unreachable(Phase::Connect)), None);
    }

    #[test]
    fn nothing_is_tried_again_after_the_first_token() {
        let mut seen = refused(503);
        seen.timeline.first_token = Some(Duration::from_millis(9));
        assert_eq!(wait(&retry(), 1, &seen), None);
    }

    #[test]
    fn retry_after_is_obeyed_up_to_a_minute() {
        let asks = |seconds| Observation {
            retry_after: Some(Duration::from_secs(seconds)),
            ..refused(429)
        };
        assert_eq!(wait(&retry(), 1, &asks(17)), Some(17_000));
        assert_eq!(wait(&retry(), 1, &asks(0)), Some(0));
        assert_eq!(wait(&retry(), 1, &asks(61)), None);
        let deaf = Retry {
            obey_retry_after: false,
            ..retry()
        };
        assert_eq!(wait(&deaf, 1, &asks(17)), Some(500));
    }

    #[test]
    fn absurd_settings_do_not_panic() {
        for factor in [f64::INFINITY, f64::NAN, -3.0, 1e300] {
            let retry = Retry {
                factor,
                max: u32::MAX,
                ..retry()
            };
            let length = backoff(&retry, u32::MAX, "sample");
            assert!(length <= retry.cap, "{factor}");
        }
    }
}
