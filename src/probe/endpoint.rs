//! Where a request goes and what it carries: URL, headers, proxy. Sends nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use secrecy::SecretString;
use url::{Host, Url};

use super::key;
use super::scrub::Scrub;
use crate::dialect::Protocol;
use crate::plan::{Proxy, Relay};

/// What is wrong with an address or a header of the plan; a user's mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not a URL.
    #[error("`base_url` is no URL ({0}): write it like https://relay.example/v1")]
    Url(url::ParseError),
    /// Neither http nor https.
    #[error("`base_url` must begin with http:// or https://, not {0}://")]
    Scheme(String),
    /// User name or password in the URL.
    #[error("`base_url` holds a user name or password; put the key under `api_key`")]
    UserInfo,
    /// A query or fragment in the URL.
    #[error("`base_url` holds a query or fragment, which no API path can follow")]
    Query,
    /// A header name or value that HTTP does not allow. The value is not shown.
    #[error("the header `{0}` cannot be sent")]
    Header(String),
    /// A header that is ours to set.
    #[error("the header `{0}` is set by the probe; take it out of `headers`")]
    OwnHeader(String),
    /// A proxy address that cannot be used. Shown without user and password.
    #[error("the proxy {0} is no http, https, socks5 or socks5h URL")]
    Proxy(String),
}

/// One relay's address and headers, ready for every request to it.
///
/// `Debug` shows no header values.
#[derive(Clone)]
pub struct Endpoint {
    url: Url,
    base: String,
    headers: HeaderMap,
    scrub: Arc<Scrub>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.url.as_str())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The address of `model` at `base_url`, with the headers that the relay's plan asks for.
    pub fn new(
        base_url: &str,
        relay: &Relay,
        model: &str,
        key: Option<&SecretString>,
    ) -> Result<Self, EndpointError> {
        let base = parse(base_url)?;
        let mut url = base.clone();
        let (path, query) = relay.protocol.target(model, relay.stream);
        url.set_path(&format!(
            "{}/{}",
            base.path().trim_end_matches('/'),
            path.trim_start_matches('/')
        ));
        url.set_query(query);
        // Any header of the spec may carry a credential, as the key does.
        let extra = relay.headers.values().map(|value| value.clone().into());
        let scrub = Scrub::of(key.cloned().into_iter().chain(extra));
        Ok(Self {
            url,
            base: base.as_str().trim_end_matches('/').to_owned(),
            headers: headers(relay.protocol, relay.stream, &relay.headers, key)?,
            scrub: Arc::new(scrub),
        })
    }

    /// The same by way of a proxy, which may give back its credentials as a relay may the key.
    #[must_use]
    pub fn through(mut self, proxy: Option<&Url>) -> Self {
        if let Some(proxy) = proxy {
            self.scrub = Arc::new(self.scrub.with_proxy(proxy));
        }
        self
    }

    /// Full URL of a request.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The base URL for evidence: no user info, no query, no trailing slash.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// What takes the secrets of these requests out of the answers.
    pub fn scrub(&self) -> &Arc<Scrub> {
        &self.scrub
    }

    /// The headers of every request.
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

fn parse(base_url: &str) -> Result<Url, EndpointError> {
    let url = Url::parse(base_url.trim()).map_err(EndpointError::Url)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(EndpointError::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(EndpointError::UserInfo);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(EndpointError::Query);
    }
    Ok(url)
}

fn headers(
    protocol: Protocol,
    stream: bool,
    extra: &BTreeMap<String, String>,
    key: Option<&SecretString>,
) -> Result<HeaderMap, EndpointError> {
    let mut headers = HeaderMap::new();
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("relayproof/", env!("CARGO_PKG_VERSION"))),
    );
    let accept = if stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if protocol == Protocol::AnthropicMessages {
        headers.insert(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static("2023-06-01"),
        );
    }
    for (name, value) in extra {
        let refused = || EndpointError::Header(name.clone());
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
        if OWN.contains(&parsed.as_str()) {
            return Err(EndpointError::OwnHeader(name.clone()));
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| refused())?;
        // Any of them may carry a credential.
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    if let Some(key) = key {
        let (name, value) = match protocol {
            Protocol::OpenaiChat | Protocol::OpenaiResponses => {
                (AUTHORIZATION, key::header("Bearer ", key))
            }
            Protocol::AnthropicMessages => {
                (HeaderName::from_static("x-api-key"), key::header("", key))
            }
            Protocol::Gemini => (
                HeaderName::from_static("x-goog-api-key"),
                key::header("", key),
            ),
        };
        let value = value.ok_or_else(|| EndpointError::Header(name.to_string()))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Headers that describe the connection, the framing or the coding: the transport's to set.
const OWN: [&str; 8] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The proxy for `url`: as the plan says, or as the environment says where the plan asks it.
///
/// `env` gives a variable's value. Read are `HTTPS_PROXY` or `HTTP_PROXY` by scheme, then
/// `ALL_PROXY`, each in lower case first, and `NO_PROXY`.
pub fn proxy(
    setting: &Proxy,
    url: &Url,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Url>, EndpointError> {
    let from_env = |name: &str| {
        [name.to_ascii_lowercase(), name.to_owned()]
            .iter()
            .find_map(|name| env(name).filter(|value| !value.trim().is_empty()))
    };
    let address = match setting {
        Proxy::None => return Ok(None),
        Proxy::Url(address) => address.clone(),
        Proxy::Env => {
            let name = if url.scheme() == "https" {
                "HTTPS_PROXY"
            } else {
                "HTTP_PROXY"
            };
            let Some(address) = from_env(name).or_else(|| from_env("ALL_PROXY")) else {
                return Ok(None);
            };
            if from_env("NO_PROXY").is_some_and(|list| is_exempt(url, &list)) {
                return Ok(None);
            }
            address
        }
    };
    proxy_url(address.trim()).map(Some)
}

fn proxy_url(address: &str) -> Result<Url, EndpointError> {
    // `127.0.0.1:3128` is what many environments hold.
    let full = if address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    };
    Url::parse(&full)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https" | "socks5" | "socks5h"))
        .filter(|url| url.host_str().is_some_and(|host| !host.is_empty()))
        .ok_or_else(|| {
            let shown = address.rsplit('@').next().unwrap_or_default();
            EndpointError::Proxy(shown.to_owned())
        })
}

/// Whether a `NO_PROXY` list names the URL's host: a name and everything below it, an address, a
/// network (`10.0.0.0/8`), each with an optional port, or `*`.
fn is_exempt(url: &Url, list: &str) -> bool {
    list.split([',', ' '])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .any(|entry| entry == "*" || names(entry, url))
}

fn names(entry: &str, url: &Url) -> bool {
    let address = match url.host() {
        Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
        Some(Host::Domain(_)) | None => None,
    };
    if let Some(address) = address {
        if let Some((network, bits)) = entry.split_once('/') {
            return network.parse().is_ok_and(|network| {
                bits.parse()
                    .is_ok_and(|bits| contains(network, bits, address))
            });
        }
        if let Ok(named) = entry.trim_matches(['[', ']']).parse::<IpAddr>() {
            return named == address;
        }
    }
    let (name, port) = match entry.rsplit_once(':') {
        // More than one colon: an address without a port, unless it stands in brackets.
        Some((name, _)) if name.contains(':') && !name.ends_with(']') => (entry, None),
        Some((name, port)) => (name, port.parse::<u16>().ok()),
        None => (entry, None),
    };
    if port.is_some() && port != url.port_or_known_default() {
        return false;
    }
    let name = name
        .trim_start_matches("*.")
        .trim_start_matches('.')
        .trim_matches(['[', ']'])
        .to_ascii_lowercase();
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    !name.is_empty()
        && host
            .strip_suffix(name.as_str())
            .is_some_and(|front| front.is_empty() || (address.is_none() && front.ends_with('.')))
}

/// Whether the first `bits` of both addresses agree.
fn contains(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    let (network, address, width) = match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
    };
    match u32::checked_sub(width, bits) {
        // A shift by the whole width is no shift in Rust.
        Some(shift) => {
            network.checked_shr(shift).unwrap_or_default()
                == address.checked_shr(shift).unwrap_or_default()
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::relay;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn through(setting: &Proxy, to: &str, vars: &[(&str, &str)]) -> Option<String> {
        let env = |name: &str| {
            vars.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        proxy(setting, &url(to), &env)
            .unwrap()
            .map(|found| found.to_string())
    }

    #[test]
    fn the_path_of_the_protocol_follows_that_of_the_base() {
        for (base, url, shown) in [
            (
                "https://relay.example/v1",
                "https://relay.example/v1/chat/completions",
                "https://relay.example/v1",
            ),
            (
                "http://relay.example:8080/team%20a/v1/",
                "http://relay.example:8080/team%20a/v1/chat/completions",
                "http://relay.example:8080/team%20a/v1",
            ),
            (
                "http://127.0.0.1",
                "http://127.0.0.1/chat/completions",
                "http://127.0.0.1",
            ),
        ] {
            let endpoint = Endpoint::new(base, &relay(), "test-model", None).unwrap();
            assert_eq!((endpoint.url().as_str(), endpoint.base()), (url, shown));
        }
    }

    #[test]
    fn nothing_of_an_endpoint_shows_its_key() {
        let key = SecretString::from("sk-canary");
        let endpoint = Endpoint::new("http://relay.example/v1", &relay(), "m", Some(&key)).unwrap();
        assert_eq!(endpoint.headers()["authorization"], "Bearer sk-canary");
        assert!(!format!("{endpoint:?}").contains("canary"));
    }

    #[test]
    fn a_base_url_that_would_lose_something_is_refused() {
        assert_eq!(
            parse("ftp://relay.example"),
            Err(EndpointError::Scheme("ftp".to_owned()))
        );
        assert_eq!(
            parse("https://user:pw@relay.example/v1"),
            Err(EndpointError::UserInfo)
        );
        assert_eq!(
            parse("https://relay.example/v1?key=a"),
            Err(EndpointError::Query)
        );
        assert_eq!(
            parse("https://relay.example/v1#a"),
            Err(EndpointError::Query)
        );
        assert!(matches!(
            parse("relay.example/v1"),
            Err(EndpointError::Url(_))
        ));
        let shown = parse("https://user:hunter2@relay.example")
            .unwrap_err()
            .to_string();
        assert!(!shown.contains("hunter2"));
    }

    #[test]
    fn headers_of_the_plan_are_sent_and_not_shown() {
        let extra = BTreeMap::from([("X-Tenant".to_owned(), "qa-canary".to_owned())]);
        let key = SecretString::from("sk-canary");
        let headers = headers(Protocol::OpenaiChat, true, &extra, Some(&key)).unwrap();
        assert_eq!(headers["x-tenant"], "qa-canary");
        assert_eq!(headers[AUTHORIZATION], "Bearer sk-canary");
        assert_eq!(headers[ACCEPT], "text/event-stream");
        assert_eq!(headers[CONTENT_TYPE], "application/json");
        assert!(!format!("{headers:?}").contains("canary"));
    }

    #[test]
    fn a_header_that_cannot_be_sent_or_is_ours_is_refused() {
        let refused = |name: &str, value: &str| {
            let extra = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            headers(Protocol::OpenaiChat, true, &extra, None).unwrap_err()
        };
        assert_eq!(refused("x y", "a"), EndpointError::Header("x y".to_owned()));
        assert_eq!(
            refused("x-a", "canary\r\nhost: b"),
            EndpointError::Header("x-a".to_owned())
        );
        assert_eq!(
            refused("Content-Length", "5"),
            EndpointError::OwnHeader("Content-Length".to_owned())
        );
    }

    #[test]
    fn the_proxy_is_the_one_that_the_plan_names() {
        let vars = [("HTTPS_PROXY", "http://env.example:1")];
        let to = "https://relay.example";
        assert_eq!(through(&Proxy::None, to, &vars), None);
        let named = Proxy::Url("socks5h://127.0.0.1:1080".to_owned());
        assert_eq!(
            through(&named, to, &vars).as_deref(),
            Some("socks5h://127.0.0.1:1080")
        );
    }

    #[test]
    fn the_environment_is_read_by_scheme_and_lower_case_wins() {
        let vars = [
            ("HTTP_PROXY", "plain.example:1"),
            ("HTTPS_PROXY", "http://upper.example:2"),
            ("https_proxy", "http://lower.example:3"),
        ];
        let proxied = |to| through(&Proxy::Env, to, &vars);
        assert_eq!(
            proxied("https://relay.example").as_deref(),
            Some("http://lower.example:3/")
        );
        assert_eq!(
            proxied("http://relay.example").as_deref(),
            Some("http://plain.example:1/")
        );
        let all = [("http_proxy", " "), ("ALL_PROXY", "socks5://all.example:4")];
        assert_eq!(
            through(&Proxy::Env, "http://relay.example", &all).as_deref(),
            Some("socks5://all.example:4")
        );
        assert_eq!(through(&Proxy::Env, "http://relay.example", &[]), None);
    }

    #[test]
    fn no_proxy_names_hosts_domains_addresses_and_networks() {
        let exempt = |to: &str, list: &str| is_exempt(&url(to), list);
        assert!(exempt(
            "https://relay.example",
            "other.example, relay.example"
        ));
        assert!(exempt("https://eu.relay.example", "relay.example"));
        assert!(exempt("https://eu.relay.example", ".Relay.example"));
        assert!(exempt("https://eu.relay.example", "*.relay.example"));
        assert!(!exempt("https://notrelay.example", "relay.example"));
        assert!(exempt("https://relay.example", "*"));
        assert!(exempt("http://127.0.0.1:8080", "127.0.0.1"));
        assert!(exempt("http://127.0.0.1:8080", "127.0.0.1:8080"));
        assert!(!exempt("http://127.0.0.1:8080", "127.0.0.1:80"));
        assert!(exempt("http://10.1.2.3", "10.0.0.0/8"));
        assert!(!exempt("http://11.1.2.3", "10.0.0.0/8"));
        assert!(exempt("http://11.1.2.3", "0.0.0.0/0"));
        assert!(!exempt("http://10.1.2.3", "10.0.0.0/40"));
        assert!(exempt("http://[::1]:80", "::1"));
        assert!(exempt("http://[fd00::1]", "fd00::/8"));
        assert!(exempt("https://relay.example", "relay.example:443"));
        assert!(!exempt("https://relay.example", "relay.example:8443"));
        assert!(!exempt("https://relay.example", "., ,"));
        assert!(!exempt("http://127.0.0.1", "0.0.1"));
    }

    #[test]
    fn a_bad_proxy_is_shown_without_its_password() {
        let setting = Proxy::Url("gopher://user:hunter2@proxy.example".to_owned());
        let error = proxy(&setting, &url("https://relay.example"), &|_| None).unwrap_err();
        assert!(error.to_string().contains("proxy.example"));
        assert!(!error.to_string().contains("hunter2"));
    }
}
