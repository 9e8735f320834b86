//! Where a relay is and what stands between: base URL, proxy, certificates.

use crate::plan::Proxy;
use crate::spec::error::SpecError;
use crate::spec::reader::{Item, Reader};
use crate::spec::tree::Value;

/// A base URL as the official SDK takes it, without the slash at its end.
pub(super) fn base_url(r: &Reader<'_>, item: &Item<'_>) -> Option<String> {
    let url = item.text(r)?;
    let wrong = |label: &str, help: &str| {
        SpecError::new(item.span(), format!("`{}` is no base URL", item.path))
            .label(label)
            .help(help)
    };
    let Some(parts) = Parts::of(url) else {
        return r.refuse(wrong(
            "expected `http://` or `https://` and a host",
            "write it as for the official SDK: `https://relay.example/v1`",
        ));
    };
    if !matches!(parts.scheme, "http" | "https") {
        return r.refuse(wrong(
            "expected `http://` or `https://`",
            "write it as for the official SDK: `https://relay.example/v1`",
        ));
    }
    if parts.user_info {
        return r.refuse(wrong(
            "a user and password in it would be shown",
            "say where the key is with `api_key: { env: NAME }`",
        ));
    }
    if url.contains(['?', '#']) {
        return r.refuse(wrong(
            "a query or fragment has no place in it",
            "say where the key is with `api_key: { env: NAME }`",
        ));
    }
    for tail in ["/chat/completions", "/completions", "/responses"] {
        if let Some(base) = url.trim_end_matches('/').strip_suffix(tail) {
            return r.refuse(wrong(
                "this is the address of one call",
                &format!("leave the last part out: `{base}`"),
            ));
        }
    }
    Some(url.trim_end_matches('/').to_owned())
}

/// What matters of a URL.
struct Parts<'u> {
    scheme: &'u str,
    user_info: bool,
}

impl<'u> Parts<'u> {
    /// Takes a URL apart as far as mistakes show; the HTTP client has the last word.
    fn of(url: &'u str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        if url.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return None;
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        let (name, port) = match host.rfind(':') {
            Some(at) if !host.ends_with(']') => (&host[..at], &host[at + 1..]),
            _ => (host, "443"),
        };
        if name.is_empty() || port.parse::<u16>().is_err() {
            return None;
        }
        Some(Self {
            scheme,
            user_info: authority.contains('@'),
        })
    }
}

pub(super) fn proxy(r: &Reader<'_>, item: &Item<'_>) -> Option<Proxy> {
    let url = match &item.node.value {
        Value::Text(text) if text == "none" => return Some(Proxy::None),
        Value::Text(text) if text == "env" => return Some(Proxy::Env),
        Value::Map(_) => {
            let mut map = item.map(r)?;
            let url = map.need(
                r,
                "url",
                "write `proxy: { url: \"http://127.0.0.1:3128\" }`",
            );
            map.close(r, &[]);
            url?
        }
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::List(_) => {
            return r.refuse(
                SpecError::new(item.span(), format!("`{}` is no proxy setting", item.path))
                    .label("expected `none`, `env` or a map with `url`")
                    .help("write `proxy: { url: \"socks5h://127.0.0.1:1080\" }`"),
            );
        }
    };
    let text = url.text(r)?;
    let known = Parts::of(text)
        .is_some_and(|parts| matches!(parts.scheme, "http" | "https" | "socks5" | "socks5h"));
    if known {
        Some(Proxy::Url(text.to_owned()))
    } else {
        r.refuse(
            SpecError::new(url.span(), format!("`{}` is no proxy address", url.path))
                .label("expected `http://`, `https://`, `socks5://` or `socks5h://` and a host")
                .help("write it like `socks5h://127.0.0.1:1080`"),
        )
    }
}

/// The file of further trusted certificates.
pub(super) fn ca_file(r: &Reader<'_>, item: &Item<'_>) -> Option<String> {
    let mut map = item.map(r)?;
    let file = map.get(r, "ca_file").and_then(|item| item.text(r));
    map.close(r, &[]);
    file.map(str::to_owned)
}
