//! The metric catalogue: id, unit, direction, definition. One row per metric.

mod about;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::forms::named;
use crate::words;

named! {
    /// What can be promised.
    Metric {
        /// Length of name resolution.
        Dns = "dns",
        /// Length of the TCP connect.
        Connect = "connect",
        /// Length of the TLS handshake.
        Tls = "tls",
        /// t0 to the response head.
        Ttfb = "ttfb",
        /// t0 to the first event of any kind.
        FirstEvent = "first_event",
        /// t0 to the first model output.
        Ttft = "ttft",
        /// t0 to the end mark.
        Total = "total",
        /// Tokens after the first packet per second.
        Tps = "tps",
        /// Standard deviation of the gaps between packets.
        Jitter = "jitter",
        /// Longest silence after the first token.
        MaxGap = "max_gap",
        /// First attempt answered 2xx.
        HttpSuccess = "http_success",
        /// Of calls answered 2xx: valid at every layer and no error injected.
        ParseSuccess = "parse_success",
        /// Of calls whose first attempt got a 2xx head: dropped or silent before the end mark.
        Interruption = "interruption",
        /// Of calls whose first attempt failed retryably: recovered within three retries.
        RetrySuccess = "retry_success",
        /// Of all calls: a complete, valid answer within four attempts.
        SuccessIn4 = "success_in_4",
        /// Of all calls: complete, valid, `expect` met, nothing suspicious.
        Usable = "usable",
        /// Answered model is the one asked for.
        ModelMatch = "model_match",
        /// Reported usage adds up.
        UsageMatch = "usage_match",
        /// First token of the relay minus that of the trusted upstream, pair by pair.
        Overhead = "overhead",
    }
}

/// What a metric is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Tokens per second.
    PerSecond,
    /// A yes or no per sample; an objective bounds the share of yes.
    YesNo,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

impl Unit {
    /// A value in this unit, as people read it.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Seconds => words::seconds(value),
            Self::PerSecond => format!("{}/s", words::significant(value)),
            Self::YesNo => format!("{}%", words::trimmed(value * 100.0, 2)),
        }
    }
}

impl Metric {
    /// What the metric is measured in.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Dns
            | Self::Connect
            | Self::Tls
            | Self::Ttfb
            | Self::FirstEvent
            | Self::Ttft
            | Self::Total
            | Self::Jitter
            | Self::MaxGap
            | Self::Overhead => Unit::Seconds,
            Self::Tps => Unit::PerSecond,
            Self::HttpSuccess
            | Self::ParseSuccess
            | Self::Interruption
            | Self::RetrySuccess
            | Self::SuccessIn4
            | Self::Usable
            | Self::ModelMatch
            | Self::UsageMatch => Unit::YesNo,
        }
    }

    /// Which way is better.
    pub const fn direction(self) -> Direction {
        match self {
            Self::Dns
            | Self::Connect
            | Self::Tls
            | Self::Ttfb
            | Self::FirstEvent
            | Self::Ttft
            | Self::Total
            | Self::Jitter
            | Self::MaxGap
            | Self::Overhead
            | Self::Interruption => Direction::Lower,
            Self::Tps
            | Self::HttpSuccess
            | Self::ParseSuccess
            | Self::RetrySuccess
            | Self::SuccessIn4
            | Self::Usable
            | Self::ModelMatch
            | Self::UsageMatch => Direction::Higher,
        }
    }

    /// Whether it looks at the whole sample, retries included, and not at the first attempt alone.
    pub const fn is_of_whole_sample(self) -> bool {
        matches!(self, Self::RetrySuccess | Self::SuccessIn4 | Self::Usable)
    }

    /// Whether it needs a streamed answer.
    pub const fn needs_stream(self) -> bool {
        matches!(
            self,
            Self::FirstEvent
                | Self::Ttft
                | Self::Total
                | Self::Tps
                | Self::Jitter
                | Self::MaxGap
                | Self::Overhead
                | Self::Interruption
        )
    }

    /// Whether it looks at retries, and so needs `retry.max: 3`.
    pub const fn needs_retries(self) -> bool {
        matches!(self, Self::RetrySuccess | Self::SuccessIn4)
    }

    /// What it is, in one line.
    pub const fn definition(self) -> &'static str {
        match self {
            Self::Dns => "length of name resolution on a fresh connection",
            Self::Connect => "length of the TCP connect on a fresh connection",
            Self::Tls => "length of the TLS handshake on a fresh connection",
            Self::Ttfb => "from t0 to the end of the response head",
            Self::FirstEvent => "from t0 to the first event of any kind, empty ones included",
            Self::Ttft => {
                "from t0 to the first non-empty content, reasoning, refusal or tool-call delta"
            }
            Self::Total => "from t0 to the protocol's end mark",
            Self::Tps => "tokens after the first packet, per second",
            Self::Jitter => "standard deviation of the gaps between the packets of one stream",
            Self::MaxGap => "longest silence between two packets of one stream",
            Self::HttpSuccess => "share of calls whose first attempt was answered 2xx",
            Self::ParseSuccess => {
                "of calls answered 2xx, the share that is valid at every layer, no error injected"
            }
            Self::Interruption => {
                "of calls answered 2xx, the share that dropped or fell silent before the end mark"
            }
            Self::RetrySuccess => {
                "of calls whose first attempt failed retryably, the share that recovered within \
                 three retries"
            }
            Self::SuccessIn4 => "share of calls with a complete, valid answer within four attempts",
            Self::Usable => {
                "share of calls with a complete, valid answer, `expect` met, nothing suspicious"
            }
            Self::ModelMatch => "share of answers that name the model that was asked for",
            Self::UsageMatch => "share of whole answers whose reported usage adds up",
            Self::Overhead => "`ttft` of the relay minus that of the baseline, pair by pair",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_in_the_metrics_document() {
        let document = include_str!("../../docs/metrics.md");
        for metric in Metric::ALL {
            let row = document
                .lines()
                .find(|line| line.starts_with(&format!("| `{metric}` |")))
                .unwrap_or_else(|| panic!("docs/metrics.md has no row for `{metric}`"));
            let unit = match metric.unit() {
                Unit::Seconds => "s",
                Unit::PerSecond => "/s",
                Unit::YesNo => "%",
            };
            let better = match metric.direction() {
                Direction::Lower => "lower",
                Direction::Higher => "higher",
            };
            assert!(
                row.starts_with(&format!(
                    "| `{metric}` | {unit} | {better} | {} | {}",
                    metric.definition(),
                    metric.worst()
                )),
                "docs/metrics.md and the catalogue differ: {row}"
            );
        }
    }

    #[test]
    fn the_metrics_document_has_no_row_for_an_unknown_metric() {
        let document = include_str!("../../docs/metrics.md");
        let rows = document
            .lines()
            .filter(|line| line.starts_with("| `") && line.matches('|').count() == 6)
            .count();
        assert_eq!(rows, Metric::ALL.len());
    }

    #[test]
    fn values_are_shown_in_their_unit() {
        assert_eq!(Unit::YesNo.shown(0.0125), "1.25%");
        assert_eq!(Unit::YesNo.shown(1.0), "100%");
        assert_eq!(Unit::PerSecond.shown(41.26), "41.3/s");
        assert_eq!(Unit::Seconds.shown(0.0426), "42.6 ms");
    }
}
