//! The metric catalogue: id, unit, direction, definition.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observation::named;

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
    }
}
