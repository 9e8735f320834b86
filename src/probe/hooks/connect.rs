//! The connector layer: start, end and abandonment of each connect future.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connection, HttpInfo};
use tower_layer::Layer;
use tower_service::Service;

use super::{Ends, LINK, Link, What};

/// Connections whose facts are kept for the requests that reuse them.
const KNOWN: usize = 4096;

/// Facts of the pool's connections, by our address and the peer's.
///
/// A pair comes back only after its connection is gone, and then the newer facts replace the older.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<(SocketAddr, SocketAddr), Ends>>);

impl Known {
    /// The facts of the connection between these two addresses.
    pub(crate) fn between(&self, addresses: (SocketAddr, SocketAddr)) -> Option<Ends> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&addresses)
            .copied()
    }

    fn keep(&self, ends: Ends) {
        let Some(addresses) = ends.addresses else {
            return;
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN {
            // Facts of live connections are lost with the rest; they are shown as unknown then.
            known.clear();
        }
        known.insert(addresses, ends);
    }
}

/// Layer that notes what becomes of each connection.
#[derive(Clone, Debug)]
pub(crate) struct WatchConnects(pub(crate) Arc<Known>);

impl<S> Layer<S> for WatchConnects {
    type Service = WatchedConnect<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WatchedConnect {
            inner,
            known: Arc::clone(&self.0),
        }
    }
}

/// A connector that is watched.
#[derive(Clone)]
pub(crate) struct WatchedConnect<S> {
    inner: S,
    known: Arc<Known>,
}

impl<S> fmt::Debug for WatchedConnect<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedConnect").finish_non_exhaustive()
    }
}

impl<S, R> Service<R> for WatchedConnect<S>
where
    S: Service<R>,
    S::Response: Connection,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Some(link) = Link::begin() else {
            return Box::pin(self.inner.call(request));
        };
        link.note(What::Connecting);
        let known = Arc::clone(&self.known);
        let inner = LINK.sync_scope(Arc::clone(&link), || self.inner.call(request));
        let mut open = Open(Some(Arc::clone(&link)));
        Box::pin(LINK.scope(link, async move {
            let result = inner.await;
            if let Some(link) = open.0.take() {
                match &result {
                    Ok(connection) => {
                        let ends = ends(connection, link.tls());
                        known.keep(ends);
                        link.note(What::Connected(ends));
                    }
                    Err(_) => link.note(What::Failed),
                }
            }
            result
        }))
    }
}

/// Notes a connect future that is dropped before it ends.
struct Open(Option<Arc<Link>>);

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            link.note(What::Dropped);
        }
    }
}

fn ends(connection: &impl Connection, tls: Option<&'static str>) -> Ends {
    let connected = connection.connected();
    let mut extras = http::Extensions::new();
    connected.get_extras(&mut extras);
    Ends {
        addresses: extras
            .get::<HttpInfo>()
            .map(|info| (info.local_addr(), info.remote_addr())),
        h2: connected.is_negotiated_h2(),
        tls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_of_a_connection_replace_those_of_an_older_one_on_the_same_ports() {
        let known = Known::default();
        let pair = (
            SocketAddr::from(([127, 0, 0, 1], 40_000)),
            SocketAddr::from(([127, 0, 0, 1], 443)),
        );
        let ends = |tls| Ends {
            addresses: Some(pair),
            h2: false,
            tls,
        };
        known.keep(ends(Some("1.2")));
        known.keep(ends(Some("1.3")));
        assert_eq!(known.between(pair), Some(ends(Some("1.3"))));
    }

    #[test]
    fn the_facts_of_connections_are_bounded() {
        let known = Known::default();
        for port in 0..=u16::MAX {
            known.keep(Ends {
                addresses: Some((
                    SocketAddr::from(([127, 0, 0, 1], port)),
                    SocketAddr::from(([127, 0, 0, 1], 443)),
                )),
                h2: false,
                tls: None,
            });
        }
        assert!(known.0.lock().unwrap().len() <= KNOWN);
    }
}
