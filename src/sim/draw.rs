//! Which request a fault hits: decided by its body and the seed, never by the order of arrival.

use std::collections::{HashMap, VecDeque};

use sha2::{Digest, Sha256};

use super::fault::{Fault, Planned};

const WHOLE_PPM: u32 = 1_000_000;

/// Bodies whose tries are remembered; the oldest is forgotten first.
const MAX_TRIED: usize = 65_536;

/// The planned faults as consecutive ranges of one uniform draw per request body.
#[derive(Debug)]
pub(super) struct Draw {
    seed: u64,
    planned: Vec<Planned>,
}

impl Draw {
    /// Refuses shares that add up to more than all requests.
    pub(super) fn new(seed: u64, planned: Vec<Planned>) -> Result<Self, String> {
        let sum: u64 = planned.iter().map(|p| u64::from(p.share_ppm)).sum();
        if sum > u64::from(WHOLE_PPM) {
            return Err(format!(
                "the shares of the faults add up to {}%",
                sum as f64 / 1e4
            ));
        }
        Ok(Self { seed, planned })
    }

    /// Identity of a body under this seed: the same bytes always draw the same.
    pub(super) fn key(&self, body: &[u8]) -> u64 {
        let digest = Sha256::new()
            .chain_update(self.seed.to_le_bytes())
            .chain_update(body)
            .finalize();
        digest
            .iter()
            .take(8)
            .fold(0, |key, byte| key << 8 | u64::from(*byte))
    }

    /// The fault that hits the body with this key.
    pub(super) fn fault(&self, key: u64) -> Option<&Fault> {
        let ticket = (u128::from(key) * u128::from(WHOLE_PPM)) >> 64;
        let mut below = 0u128;
        self.planned.iter().find_map(|planned| {
            below += u128::from(planned.share_ppm);
            (ticket < below).then_some(&planned.fault)
        })
    }
}

/// How often each body has been asked, for faults that end after some tries.
#[derive(Debug, Default)]
pub(super) struct Tries {
    counts: HashMap<u64, u32>,
    order: VecDeque<u64>,
}

impl Tries {
    /// Counts one more try and returns how many came before it.
    pub(super) fn count(&mut self, key: u64) -> u32 {
        if let Some(count) = self.counts.get_mut(&key) {
            let before = *count;
            *count = count.saturating_add(1);
            return before;
        }
        if self.order.len() >= MAX_TRIED
            && let Some(oldest) = self.order.pop_front()
        {
            self.counts.remove(&oldest);
        }
        self.order.push_back(key);
        self.counts.insert(key, 1);
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(shares: &[u32]) -> Vec<Planned> {
        shares
            .iter()
            .zip([Fault::Buffer, Fault::WrongModel])
            .map(|(&share_ppm, fault)| Planned { fault, share_ppm })
            .collect()
    }

    #[test]
    fn ranges_are_consecutive_and_end_at_their_share() {
        let draw = Draw::new(0, planned(&[250_000, 250_000])).unwrap();
        let quarter = 1u64 << 62;
        assert_eq!(draw.fault(0), Some(&Fault::Buffer));
        assert_eq!(draw.fault(quarter - 1), Some(&Fault::Buffer));
        assert_eq!(draw.fault(quarter), Some(&Fault::WrongModel));
        assert_eq!(draw.fault(2 * quarter), None);
        assert_eq!(draw.fault(u64::MAX), None);
    }

    #[test]
    fn a_full_share_hits_every_key_and_a_zero_share_none() {
        let all = Draw::new(0, planned(&[1_000_000])).unwrap();
        let none = Draw::new(0, planned(&[0])).unwrap();
        for key in [0, 1, u64::MAX] {
            assert_eq!(all.fault(key), Some(&Fault::Buffer));
            assert_eq!(none.fault(key), None);
        }
    }

    #[test]
    fn more_than_all_requests_is_refused() {
        assert!(Draw::new(0, planned(&[600_000, 400_001])).is_err());
        assert!(Draw::new(0, planned(&[600_000, 400_000])).is_ok());
    }

    #[test]
    fn another_seed_draws_otherwise() {
        let key = |seed| Draw::new(seed, Vec::new()).unwrap().key(b"body");
        assert_eq!(key(1), key(1));
        assert_ne!(key(1), key(2));
    }

    #[test]
    fn tries_are_counted_by_body_and_bounded() {
        let mut tries = Tries::default();
        assert_eq!((tries.count(7), tries.count(7), tries.count(8)), (0, 1, 0));
        for key in 0..2 * MAX_TRIED as u64 {
            tries.count(key + 100);
        }
        assert!(tries.counts.len() <= MAX_TRIED);
        assert_eq!(tries.counts.len(), tries.order.len());
    }
}
