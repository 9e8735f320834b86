//! The shape of the output over time: packets, gaps, bursts. Streaming, constant memory.
//!
//! Definitions in docs/streams.md; a packet is all content events less than 1 ms after its first.

use std::cmp::Reverse;
use std::time::Duration;

use crate::expect::Detect;
use crate::observation::{Gap, Packets};

/// Content events closer than this to a packet's first event belong to it.
const MERGE: Duration = Duration::from_millis(1);

/// How many of the longest gaps are kept.
const LONGEST: usize = 16;

/// What the arrival times say about buffering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffered {
    /// Piece by piece, or too short to tell.
    No,
    /// The whole answer at once.
    OneBurst,
    /// Big blocks with long pauses between.
    Blocks,
    /// Such blocks, but too few to tell from a model that works in blocks.
    Perhaps,
}

/// A kept gap that the next longer one replaces.
#[derive(Debug, Default)]
struct Least {
    length: Duration,
    place: usize,
}

/// Collects arrival times of content events.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    detect: Detect,
    packets: Packets,
    gaps: u64,
    mean: f64,
    m2: f64,
    /// The shortest of the kept gaps, once there are as many as are kept.
    least: Least,
    last_event: Option<Duration>,
    bursts: u64,
    in_bursts: Duration,
    between_bursts: Duration,
}

impl Pacing {
    /// Nothing yet.
    pub(super) fn new(detect: &Detect) -> Self {
        Self {
            detect: detect.clone(),
            ..Self::default()
        }
    }

    /// Takes one content event.
    pub(super) fn event(&mut self, at: Duration, chars: u64) {
        let packets = &mut self.packets;
        packets.content_events += 1;
        packets.chars += chars;
        self.bursts = self.bursts.max(1);
        if let Some(before) = self.last_event {
            let silence = at.saturating_sub(before);
            if silence >= self.detect.burst_gap {
                self.bursts += 1;
                self.between_bursts += silence;
            } else {
                self.in_bursts += silence;
            }
        }
        self.last_event = Some(at);
        let Some(last) = packets.last else {
            packets.count = 1;
            packets.first = Some(at);
            packets.last = Some(at);
            packets.first_chars = chars;
            return;
        };
        let gap = at.saturating_sub(last);
        if gap < MERGE {
            if packets.count == 1 {
                packets.first_chars += chars;
            }
            return;
        }
        packets.count += 1;
        packets.last = Some(at);
        let gap = Gap {
            at,
            length: gap,
            packet: packets.count - 1,
        };
        self.gap(gap);
    }

    fn gap(&mut self, gap: Gap) {
        self.gaps += 1;
        let seconds = gap.length.as_secs_f64();
        let off = seconds - self.mean;
        self.mean += off / self.gaps as f64;
        self.m2 += off * (seconds - self.mean);
        self.keep(gap);
    }

    /// Keeps a gap if it is one of the longest; they are put in order at the end only.
    ///
    /// Thousands of streams take turns, and of each the list is cold memory: a gap that does not
    /// get into it must not touch it.
    fn keep(&mut self, gap: Gap) {
        let longest = &mut self.packets.longest;
        if longest.len() < LONGEST {
            longest.push(gap);
        } else if gap.length > self.least.length
            && let Some(place) = longest.get_mut(self.least.place)
        {
            *place = gap;
        } else {
            return;
        }
        if longest.len() == LONGEST {
            // Of equal ones the last to come is the first to go.
            let places = longest.iter().enumerate();
            let least = places.min_by_key(|(_, kept)| (kept.length, Reverse(kept.packet)));
            if let Some((place, kept)) = least {
                self.least = Least {
                    length: kept.length,
                    place,
                };
            }
        }
    }

    /// Content events so far.
    pub(super) fn events(&self) -> u64 {
        self.packets.content_events
    }

    /// Whether the answer was streamed, given its length in tokens where that is known.
    ///
    /// With `coarse`, one event ordinarily holds many tokens.
    pub(super) fn buffered(&self, tokens: Option<u64>, coarse: bool) -> Buffered {
        let (packets, detect) = (&self.packets, &self.detect);
        let tokens = tokens.unwrap_or(packets.content_events);
        if tokens < detect.least_tokens || packets.chars < detect.least_chars {
            return Buffered::No;
        }
        let spread = match (packets.first, self.last_event) {
            (Some(first), Some(last)) => last.saturating_sub(first),
            _ => return Buffered::No,
        };
        // A very fast model is no buffer: its events come one by one, a buffer's come in a heap.
        let heaped = packets.content_events >= 4 * packets.count;
        if packets.count < 2 || (spread < detect.burst_gap && heaped) {
            let few = packets.content_events < detect.heap_events && tokens < detect.heap_tokens;
            return if coarse && few {
                Buffered::No
            } else {
                Buffered::OneBurst
            };
        }
        let pauses = u32::try_from(self.bursts - 1).unwrap_or(u32::MAX);
        let blocks = self.bursts >= 2
            && packets.content_events >= 4 * detect.block_events
            && packets.content_events >= detect.block_events * self.bursts
            && self.between_bursts >= detect.block_pause * pauses
            && self.in_bursts * 20 <= self.between_bursts;
        match (blocks, self.bursts >= detect.blocks) {
            (true, true) => Buffered::Blocks,
            (true, false) => Buffered::Perhaps,
            (false, _) => Buffered::No,
        }
    }

    /// The numbers that go into evidence.
    pub(super) fn close(mut self) -> Packets {
        if self.gaps > 0 {
            self.packets.gap_mean_s = Some(self.mean);
            self.packets.gap_m2_s2 = Some(self.m2);
        }
        let longest = &mut self.packets.longest;
        longest.sort_unstable_by_key(|gap| (Reverse(gap.length), gap.packet));
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn paced(times: impl IntoIterator<Item = Duration>) -> Pacing {
        let mut pacing = Pacing::default();
        for time in times {
            pacing.event(time, 4);
        }
        pacing
    }

    #[test]
    fn events_within_a_millisecond_of_the_first_are_one_packet() {
        let packets = paced([0, 200, 900, 1000, 1900, 2000].map(Duration::from_micros)).close();
        assert_eq!(packets.count, 3);
        assert_eq!(packets.content_events, 6);
        assert_eq!(packets.first_chars, 12);
        assert_eq!(packets.chars, 24);
        assert_eq!(packets.last, Some(at(2)));
    }

    #[test]
    fn mean_and_deviation_of_the_gaps_are_those_of_the_textbook() {
        let packets = paced([0, 10, 30, 60, 100].map(at)).close();
        let gaps = [0.010, 0.020, 0.030, 0.040];
        let mean = gaps.iter().sum::<f64>() / 4.0;
        let m2: f64 = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum();
        assert!((packets.gap_mean_s.unwrap() - mean).abs() < 1e-12);
        assert!((packets.gap_m2_s2.unwrap() - m2).abs() < 1e-12);
    }

    #[test]
    fn the_sixteen_longest_gaps_are_kept_longest_first() {
        let mut now = 0;
        let packets = paced((0..40u64).map(|step| {
            now += 2 + (step * 7) % 40;
            at(now)
        }))
        .close();
        let lengths: Vec<_> = packets.longest.iter().map(|gap| gap.length).collect();
        assert_eq!(lengths.len(), 16);
        assert!(lengths.is_sorted_by(|left, right| left >= right));
        assert_eq!(lengths[0], at(41));
        assert_eq!(lengths[15], at(26));
    }

    #[test]
    fn of_equal_gaps_the_earliest_are_kept_in_their_order() {
        let packets = paced((0..40).map(|step| at(step * 5))).close();
        let kept: Vec<_> = packets.longest.iter().map(|gap| gap.packet).collect();
        assert_eq!(kept, (1..=16).collect::<Vec<_>>());
        let late = (0..40).map(|step| at(step * 5 + if step < 30 { 0 } else { 100 }));
        let packets = paced(late).close();
        let kept: Vec<_> = packets.longest.iter().map(|gap| gap.packet).collect();
        assert_eq!(kept, [30].into_iter().chain(1..=15).collect::<Vec<_>>());
    }

    #[test]
    fn one_heap_of_tokens_is_not_streamed() {
        assert_eq!(
            paced([at(500); 64]).buffered(None, false),
            Buffered::OneBurst
        );
        assert_eq!(paced([at(500)]).buffered(Some(300), false), Buffered::No);
    }

    #[test]
    fn a_short_answer_in_one_write_is_no_buffering() {
        assert_eq!(paced([at(500); 12]).buffered(Some(12), false), Buffered::No);
    }

    #[test]
    fn a_very_fast_model_is_no_buffering() {
        let fast = (0..64).map(|step| Duration::from_micros(700 * step));
        assert_eq!(paced(fast).buffered(None, false), Buffered::No);
    }

    #[test]
    fn heaps_with_long_pauses_are_blocks_from_the_third_on() {
        let heaps = |count: u64| (0..count * 20).map(|event| at(event / 20 * 500));
        assert_eq!(paced(heaps(3)).buffered(None, false), Buffered::Blocks);
        assert_eq!(paced(heaps(2)).buffered(None, false), Buffered::Perhaps);
    }

    #[test]
    fn a_steady_stream_with_pauses_is_streamed() {
        let steady = (0..60u64).map(|event| at(event * 15 + event / 20 * 500));
        assert_eq!(paced(steady).buffered(None, false), Buffered::No);
        let slow = (0..64u64).map(|event| at(event * 250));
        assert_eq!(paced(slow).buffered(None, false), Buffered::No);
    }
}
