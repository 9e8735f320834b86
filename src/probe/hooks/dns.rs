//! Name resolution by the system, and the wrapper that notes it.

use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::{ADDRESSES, What, on_link};

/// The system's resolver.
#[derive(Debug)]
pub(crate) struct SystemLookup;

impl Resolve for SystemLookup {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // Port zero: the caller puts the URL's port in its place.
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// A resolver that is watched.
#[derive(Debug)]
pub(crate) struct WatchedLookup<R>(pub(crate) R);

impl<R: Resolve> Resolve for WatchedLookup<R> {
    fn resolve(&self, name: Name) -> Resolving {
        // A SOCKS5 connect passes the target through here even if it is an address already.
        if let Ok(address) = name.as_str().trim_matches(['[', ']']).parse::<IpAddr>() {
            let found = std::iter::once(SocketAddr::new(address, 0));
            return Box::pin(async move { Ok(Box::new(found) as Addrs) });
        }
        on_link(|link| link.note(What::Resolving(name.as_str().to_owned())));
        let lookup = self.0.resolve(name);
        Box::pin(async move {
            let found = lookup.await.map(Vec::from_iter);
            on_link(|link| {
                link.note(match &found {
                    Ok(found) if !found.is_empty() => {
                        What::Resolved(found.iter().take(ADDRESSES).copied().collect())
                    }
                    _ => What::Unresolved,
                });
            });
            Ok(Box::new(found?.into_iter()) as Addrs)
        })
    }
}
