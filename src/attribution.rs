//! Whose fault: an ordered table of rules over observations, order is meaning.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observation::named;

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
