//! The two HTTP clients behind one door: a request and an exchange in, timed inputs to the exchange.
//!
//! A relay's failure is an input to the exchange, never an `Err`; an `Err` here is our own failure.

use crate::plan::TransportKind;
use crate::probe::cancel::Cancel;
use crate::probe::clock::Clock;
use crate::probe::dial::{Dial, DialError, Request};
use crate::probe::raw::RawTransport;
use crate::probe::reqwest_client::ReqwestTransport;
use crate::stream::Exchange;

/// The HTTP client of one relay.
#[derive(Debug)]
pub enum Transport {
    /// reqwest, with phase hooks.
    Reqwest(ReqwestTransport),
    /// HTTP/1.1 over a plain or TLS socket.
    Raw(RawTransport),
}

impl Transport {
    /// A client of this kind that dials as `dial` says.
    pub fn new(kind: TransportKind, dial: &Dial) -> Result<Self, DialError> {
        match kind {
            TransportKind::Reqwest => ReqwestTransport::new(dial).map(Self::Reqwest),
            TransportKind::Raw => RawTransport::new(dial).map(Self::Raw),
        }
    }

    /// Sends the request and tells the exchange everything up to its end.
    pub async fn attempt(
        &self,
        request: &Request,
        exchange: &mut Exchange,
        clock: &Clock,
        cancel: &mut Cancel,
    ) {
        match self {
            Self::Reqwest(transport) => transport.attempt(request, exchange, clock, cancel).await,
            Self::Raw(transport) => transport.attempt(request, exchange, clock, cancel).await,
        }
    }
}
