//! The shape of one stream over time: speed, jitter, longest gap, from its packets.
//!
//! Formulas only; which reading follows from them is decided in [`super`].

use std::time::Duration;

use super::{float, seconds};
use crate::observation::Packets;

/// What a stream must have before its shape says anything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Fewest tokens for a speed.
    pub min_tokens: u64,
    /// Fewest gaps for a jitter: with fewer, the standard deviation comes out far too small.
    pub min_gaps: u64,
    /// A stream of enough tokens that took less than this was held back and sent in one burst.
    pub min_span: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_tokens: 16,
            min_gaps: 16,
            min_span: Duration::from_millis(50),
        }
    }
}

/// The shape of one stream; `None` is undefined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The answer was held back and sent in one burst.
    pub buffered: bool,
    /// Tokens after the first packet per second; of a buffered stream, [`Shape::tps_e2e`].
    pub tps: Option<f64>,
    /// The time over which [`Shape::tps`] was taken.
    pub over: Option<Duration>,
    /// All tokens over the time from t0 to the last packet.
    pub tps_e2e: Option<f64>,
    /// Standard deviation of the gaps, seconds.
    pub jitter_s: Option<f64>,
    /// Longest gap.
    pub max_gap: Option<Duration>,
}

/// Tokens of the answer that were streamed: reasoning that was reported but never shown is not
/// part of the stream.
pub fn answer_tokens(output: u64, reasoning: Option<u64>, reasoning_streamed: bool) -> Option<u64> {
    if reasoning_streamed {
        Some(output)
    } else {
        // More reasoning than output does not add up, so there is no count to go by.
        output.checked_sub(reasoning.unwrap_or(0))
    }
}

impl Shape {
    /// The shape of a stream that brought `tokens` tokens (`None`: nobody knows).
    pub fn of(packets: &Packets, tokens: Option<u64>, limits: Limits) -> Self {
        let enough = tokens.filter(|&tokens| tokens >= limits.min_tokens);
        let span = match (packets.first, packets.last) {
            (Some(first), Some(last)) if packets.count >= 2 => Some(last.saturating_sub(first)),
            _ => None,
        };
        let buffered =
            enough.is_some() && packets.count >= 1 && span.is_none_or(|s| s < limits.min_span);
        let tps_e2e = rate(tokens.map(float), packets.last);
        let later_share = later_share(packets);
        let tps = if buffered {
            tps_e2e
        } else {
            rate(
                enough.and_then(|tokens| Some(float(tokens) * later_share?)),
                span,
            )
        };
        let gaps = packets.count.saturating_sub(1);
        let jitter_s = packets
            .gap_m2_s2
            .filter(|_| gaps >= limits.min_gaps.max(2))
            .map(|m2| (m2.max(0.0) / float(gaps - 1)).sqrt());
        Self {
            buffered,
            tps,
            over: if buffered { packets.last } else { span },
            tps_e2e,
            jitter_s,
            max_gap: packets.longest.first().map(|gap| gap.length),
        }
    }
}

/// Share of the characters that came after the first packet.
fn later_share(packets: &Packets) -> Option<f64> {
    let later = packets.chars.checked_sub(packets.first_chars)?;
    (packets.chars > 0).then(|| float(later) / float(packets.chars))
}

fn rate(tokens: Option<f64>, span: Option<Duration>) -> Option<f64> {
    let span = span.filter(|span| !span.is_zero())?;
    Some(tokens? / seconds(span))
}
