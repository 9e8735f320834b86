//! Whose fault: an ordered table of rules over observations, order is meaning.

pub mod cell;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observation::{Observation, Phase, named};

named! {
    /// Who to look at.
    Party {
        /// Nobody: the answer is fine.
        None = "none",
        /// The relay's edge.
        RelayGateway = "relay-gateway",
        /// Concurrency limits, the key, or its balance.
        ConcurrencyOrKey = "concurrency-or-key",
        /// The relay's stream-rewriting middleware.
        RelayMiddleware = "relay-middleware",
        /// The model service behind the relay.
        Upstream = "upstream",
        /// The network between us and the relay.
        Network = "network",
        /// Our side: URL, model, key, TLS settings.
        Client = "client",
    }
}

/// Who a failed attempt points at, in which phase, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blame {
    /// Who.
    pub party: Party,
    /// Where.
    pub phase: Phase,
    /// Name of the rule.
    pub rule: &'static str,
}

/// SHIM until the rule table is merged.
pub fn blame(seen: &Observation) -> Blame {
    Blame {
        party: if seen.class().is_some() {
            Party::RelayMiddleware
        } else {
            Party::None
        },
        phase: seen.last_phase,
        rule: "shim",
    }
}
