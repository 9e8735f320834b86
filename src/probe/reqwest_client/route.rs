//! Which stages lie between us and the relay, from the URL and the proxy alone.

use url::{Host, Url};

/// The stages of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// A name is resolved first.
    pub(super) resolves: bool,
    /// A proxy is asked for a tunnel.
    pub(super) tunnel: bool,
    /// The proxy itself is reached over TLS, before the tunnel is asked for.
    pub(super) proxy_tls: bool,
    /// Connections come from a pool.
    pub(super) pooled: bool,
}

impl Route {
    pub(super) fn new(url: &Url, proxy: Option<&Url>, pooled: bool) -> Self {
        let secure = url.scheme() == "https";
        let (resolves, tunnel, proxy_tls) = match proxy {
            None => (is_name(url), false, false),
            Some(proxy) => match proxy.scheme() {
                "socks5" => (is_name(url) || is_name(proxy), true, false),
                "socks5h" => (is_name(proxy), true, false),
                scheme => (is_name(proxy), secure, secure && scheme == "https"),
            },
        };
        Self {
            resolves,
            tunnel,
            proxy_tls,
            pooled,
        }
    }
}

/// Whether the host has to be looked up.
///
/// Hosts of schemes that the URL standard does not know (SOCKS) are kept as text even if they are
/// addresses.
fn is_name(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.parse::<std::net::Ipv4Addr>().is_err(),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(url: &str, proxy: Option<&str>) -> (bool, bool, bool) {
        let proxy = proxy.map(|text| Url::parse(text).unwrap());
        let route = Route::new(&Url::parse(url).unwrap(), proxy.as_ref(), false);
        (route.resolves, route.tunnel, route.proxy_tls)
    }

    #[test]
    fn only_names_are_resolved() {
        assert_eq!(route("http://127.0.0.1:1/", None), (false, false, false));
        assert_eq!(route("https://[::1]:1/", None), (false, false, false));
        assert_eq!(route("https://localhost:1/", None), (true, false, false));
    }

    #[test]
    fn an_http_proxy_tunnels_https_only() {
        let proxy = Some("http://127.0.0.1:3128");
        assert_eq!(route("http://relay.test/", proxy), (false, false, false));
        assert_eq!(route("https://relay.test/", proxy), (false, true, false));
        let secure = Some("https://proxy.test");
        assert_eq!(route("https://relay.test/", secure), (true, true, true));
        assert_eq!(route("http://relay.test/", secure), (true, false, false));
    }

    #[test]
    fn socks5_resolves_the_relay_here_and_socks5h_at_the_proxy() {
        let local = Some("socks5://127.0.0.1:1080");
        let remote = Some("socks5h://127.0.0.1:1080");
        assert_eq!(route("http://relay.test/", local), (true, true, false));
        assert_eq!(route("http://relay.test/", remote), (false, true, false));
        assert_eq!(route("http://127.0.0.1/", local), (false, true, false));
    }
}
