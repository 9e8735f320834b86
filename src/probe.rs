//! Drives the samples of a cell: pacing, attempts, retries, cancellation. The only clock.
//!
//! Knows plans, dialects and exchanges; never objectives or verdicts.

pub mod call;
pub mod cancel;
pub mod clock;
pub mod count;
pub(crate) mod descriptors;
pub mod dial;
pub mod drive;
pub mod endpoint;
pub mod health;
pub mod hooks;
pub mod key;
mod pace;
mod propagation;
pub mod raw;
pub mod reqwest_client;
mod retry;
pub mod scrub;
mod self_check;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod transport;
mod want;
mod words;

use std::future::Future;

use self::cancel::Cancel;
use self::clock::Clock;
use self::dial::Request;
use self::transport::Transport;
use crate::stream::Exchange;

/// Something that makes attempts: the HTTP client, or a test's stand-in for it.
pub trait Attempts: Send + Sync + 'static {
    /// Makes one attempt and tells the exchange everything that happens, until it is over.
    fn attempt(
        &self,
        request: &Request,
        exchange: &mut Exchange,
        clock: &Clock,
        cancel: &mut Cancel,
    ) -> impl Future<Output = ()> + Send;
}

impl Attempts for Transport {
    async fn attempt(
        &self,
        request: &Request,
        exchange: &mut Exchange,
        clock: &Clock,
        cancel: &mut Cancel,
    ) {
        Self::attempt(self, request, exchange, clock, cancel).await;
    }
}
