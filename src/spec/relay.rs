//! The keys of one relay, after everything it inherits is in its map.

use std::collections::{BTreeMap, BTreeSet};

use super::duration;
use super::error::SpecError;
use super::reader::{Fields, Item, Reader};
use super::simulate;
use super::tree::{Node, Value};
use crate::dialect::Protocol;
use crate::plan::{
    ConnectionMode, Endpoint, HttpVersion, KeySource, Proxy, Relay, Retry, TransportKind,
};
use crate::stream::Timeouts;

/// Keys that later versions read.
pub(super) const LATER: &[&str] = &["pricing", "tags", "regions", "redirects"];

/// Keys that hold one thing and are replaced as a whole by an heir.
pub(super) const WHOLE: &[&str] = &["api_key", "proxy"];

/// Keys that say something about one relay only and are not inherited.
pub(super) const OWN: &[&str] = &["name", "extends", "ignored"];

/// A relay with the models that are asked of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RelaySpec {
    /// The relay.
    pub(crate) relay: Relay,
    /// Models.
    pub(crate) models: Vec<String>,
    /// Why its tests are ignored.
    pub(crate) ignored: Option<String>,
}

/// Reads a relay. `own` is the map without what it inherits.
pub(super) fn read(r: &Reader<'_>, item: &Item<'_>, own: &Node) -> Option<RelaySpec> {
    let mut map = item.map(r)?;
    let name = map
        .need(r, "name", "give each relay a name: `- name: alpha`")
        .and_then(|item| name(r, &item));
    map.get(r, "extends");
    let ignored = map.get(r, "ignored").and_then(|item| item.text(r));
    let common = common(r, &mut map);
    let endpoint = endpoint(r, &mut map);
    let simulated = map.has("simulate");
    let models = if simulated && !map.has("models") {
        map.get(r, "models");
        Some(vec!["simulated".to_owned()])
    } else {
        map.need(r, "models", "list what to ask for: `models: [gpt-4o-mini]`")
            .and_then(|item| models(r, &item))
    };
    map.close(r, LATER);

    if simulated {
        for key in ["api_key", "proxy"] {
            if let Some(node) = own.child(key) {
                r.note(
                    SpecError::new(
                        node.span.clone(),
                        format!("the embedded relay has no use for `{key}`"),
                    )
                    .label("it listens on loopback and asks for nothing")
                    .help("leave it out"),
                );
            }
        }
    }
    let mut relay = Relay {
        name: name?.to_owned(),
        endpoint: endpoint?,
        ..common
    };
    if simulated {
        relay.api_key = None;
        relay.proxy = Proxy::None;
    }
    agree(r, item, &relay);
    Some(RelaySpec {
        relay,
        models: models?,
        ignored: ignored.map(str::to_owned),
    })
}

/// Reads `defaults`, where a relay's own keys have no place.
pub(super) fn read_defaults(r: &Reader<'_>, item: &Item<'_>) {
    let Some(mut map) = item.map(r) else { return };
    common(r, &mut map);
    map.get(r, "models").and_then(|item| models(r, &item));
    for key in ["name", "extends", "ignored", "base_url", "simulate"] {
        if let Some(node) = item.node.child(key) {
            r.note(
                SpecError::new(
                    node.span.clone(),
                    format!("`{key}` belongs to one relay, not to `defaults`"),
                )
                .label("all relays would share it")
                .help("write it in the relay"),
            );
            map.get(r, key_of(key));
        }
    }
    map.close(r, LATER);
}

/// The static form of a key that `defaults` refuses.
fn key_of(key: &str) -> &'static str {
    match key {
        "name" => "name",
        "extends" => "extends",
        "ignored" => "ignored",
        "base_url" => "base_url",
        _ => "simulate",
    }
}

/// The keys that `defaults` may hold too, read into a relay without name and place.
fn common(r: &Reader<'_>, map: &mut Fields<'_>) -> Relay {
    let tls = map.get(r, "tls");
    Relay {
        name: String::new(),
        endpoint: Endpoint::Url(String::new()),
        protocol: map
            .get(r, "protocol")
            .and_then(|item| protocol(r, &item))
            .unwrap_or(Protocol::OpenaiChat),
        stream: map
            .get(r, "stream")
            .and_then(|item| streamed(r, &item))
            .unwrap_or(true),
        connection: map
            .get(r, "connection")
            .and_then(|item| item.choice(r, ConnectionMode::ALL, ConnectionMode::as_str))
            .unwrap_or(ConnectionMode::Fresh),
        transport: map
            .get(r, "transport")
            .and_then(|item| item.choice(r, TransportKind::ALL, TransportKind::as_str))
            .unwrap_or(TransportKind::Reqwest),
        http: map
            .get(r, "http")
            .and_then(|item| item.choice(r, HttpVersion::ALL, HttpVersion::as_str))
            .unwrap_or(HttpVersion::Auto),
        proxy: map
            .get(r, "proxy")
            .and_then(|item| proxy(r, &item))
            .unwrap_or(Proxy::None),
        ca_file: tls.and_then(|item| ca_file(r, &item)),
        timeouts: map
            .get(r, "timeouts")
            .map_or_else(Timeouts::default, |item| timeouts(r, &item)),
        retry: map
            .get(r, "retry")
            .map_or_else(Retry::default, |item| retry(r, &item)),
        headers: map
            .get(r, "headers")
            .map_or_else(BTreeMap::new, |item| headers(r, &item)),
        api_key: map.get(r, "api_key").and_then(|item| api_key(r, &item)),
        required: map
            .get(r, "required")
            .and_then(|item| item.flag(r))
            .unwrap_or(false),
    }
}

/// Refuses settings that exclude each other.
fn agree(r: &Reader<'_>, item: &Item<'_>, relay: &Relay) {
    let raw = relay.transport == TransportKind::Raw;
    let simulated = matches!(relay.endpoint, Endpoint::Simulate(_));
    let conflicts = [
        (
            raw && relay.connection == ConnectionMode::Reuse,
            "connection",
            "`transport: raw` opens a connection for each attempt",
            "use `connection: fresh`, or `transport: reqwest` for a warm pool",
        ),
        (
            raw && relay.http == HttpVersion::Http2,
            "http",
            "`transport: raw` speaks HTTP/1.1 only",
            "use `transport: reqwest` for HTTP/2",
        ),
        (
            raw && relay.proxy != Proxy::None,
            "proxy",
            "`transport: raw` connects straight to the relay",
            "use `transport: reqwest` with a proxy",
        ),
        (
            simulated && relay.http == HttpVersion::Http2,
            "http",
            "the embedded relay speaks HTTP/1.1 only",
            "leave `http` out",
        ),
    ];
    for (hit, key, label, help) in conflicts {
        if hit {
            let span = item.node.child(key).unwrap_or(item.node).span.clone();
            r.note(
                SpecError::new(
                    span,
                    format!("the settings of relay `{}` exclude each other", relay.name),
                )
                .label(label)
                .help(help),
            );
        }
    }
}

/// A name that can be part of a test's name.
pub(super) fn name<'n>(r: &Reader<'_>, item: &Item<'n>) -> Option<&'n str> {
    let name = item.text(r)?;
    let fault = if name.contains('/') {
        "`/` separates the parts of a test's name"
    } else if name.chars().any(char::is_control) {
        "a control character"
    } else if name.trim() != name {
        "white space at its ends"
    } else if name.chars().count() > 64 {
        "more than 64 characters"
    } else {
        return Some(name);
    };
    r.refuse(
        SpecError::new(item.span(), format!("`{}` cannot be a name", item.path))
            .label(fault)
            .help("use letters, digits, `-`, `_` and `.`"),
    )
}

fn models(r: &Reader<'_>, item: &Item<'_>) -> Option<Vec<String>> {
    let items = item.filled_list(r, "model")?;
    let mut models: Vec<String> = Vec::new();
    for item in items {
        match item.text(r) {
            Some(model) if model.chars().any(char::is_control) || model.trim() != model => r.note(
                SpecError::new(item.span(), format!("`{}` cannot be a model", item.path))
                    .label("white space or a control character"),
            ),
            Some(model) if models.iter().any(|known| known == model) => r.note(
                SpecError::new(item.span(), format!("the model `{model}` is listed twice"))
                    .label("second time")
                    .help("remove one of the two"),
            ),
            Some(model) => models.push(model.to_owned()),
            None => {}
        }
    }
    Some(models)
}

fn protocol(r: &Reader<'_>, item: &Item<'_>) -> Option<Protocol> {
    const LATER: &[&str] = &["openai-responses", "anthropic-messages", "gemini"];
    if let Value::Text(text) = &item.node.value
        && LATER.contains(&text.as_str())
        && !Protocol::ALL.iter().any(|it| it.as_str() == text)
    {
        return r.refuse(not_yet(item, text));
    }
    item.choice(r, Protocol::ALL, Protocol::as_str)
}

/// A value that is known, but not to this version.
pub(super) fn not_yet(item: &Item<'_>, value: &str) -> SpecError {
    SpecError::new(
        item.span(),
        format!("this version does not support `{}: {value}` yet", item.path),
    )
    .label("known, but not built yet")
}

fn streamed(r: &Reader<'_>, item: &Item<'_>) -> Option<bool> {
    if item.flag(r)? {
        Some(true)
    } else {
        r.refuse(not_yet(item, "false").help("leave it out: answers are streamed"))
    }
}

fn endpoint(r: &Reader<'_>, map: &mut Fields<'_>) -> Option<Endpoint> {
    let url = map.get(r, "base_url");
    let simulate = map.get(r, "simulate");
    match (url, simulate) {
        (Some(url), Some(simulate)) => r.refuse(
            SpecError::new(
                simulate.key_span.clone(),
                "a relay is either embedded or elsewhere",
            )
            .label("`simulate` here")
            .also(url.key_span, "`base_url` here")
            .help("remove one of the two"),
        ),
        (Some(url), None) => base_url(r, &url).map(Endpoint::Url),
        (None, Some(item)) => simulate::read(r, &item).map(Endpoint::Simulate),
        (None, None) if map.has("base_url") || map.has("simulate") => None,
        (None, None) => r.refuse(
            SpecError::new(map.place(), "this relay has no `base_url`")
                .label("where is it?")
                .help("write `base_url: https://relay.example/v1`, or `simulate: {}` for the embedded relay"),
        ),
    }
}

/// A base URL as the official SDK takes it, without the slash at its end.
fn base_url(r: &Reader<'_>, item: &Item<'_>) -> Option<String> {
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

fn proxy(r: &Reader<'_>, item: &Item<'_>) -> Option<Proxy> {
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

fn ca_file(r: &Reader<'_>, item: &Item<'_>) -> Option<String> {
    let mut map = item.map(r)?;
    let file = map.get(r, "ca_file").and_then(|item| item.text(r));
    map.close(r, &[]);
    file.map(str::to_owned)
}

fn timeouts(r: &Reader<'_>, item: &Item<'_>) -> Timeouts {
    let mut limits = Timeouts::default();
    let Some(mut map) = item.map(r) else {
        return limits;
    };
    for (key, limit) in [
        ("dns", &mut limits.dns),
        ("connect", &mut limits.connect),
        ("tls", &mut limits.tls),
        ("headers", &mut limits.headers),
        ("first_token", &mut limits.first_token),
        ("idle", &mut limits.idle),
        ("total", &mut limits.total),
    ] {
        if let Some(read) = map
            .get(r, key)
            .and_then(|item| item.quantity(r, duration::parse))
        {
            *limit = read;
        }
    }
    map.close(r, &[]);
    limits
}

/// How often a call is tried again at most; the metrics look at four attempts.
const MOST_RETRIES: u32 = 3;

fn retry(r: &Reader<'_>, item: &Item<'_>) -> Retry {
    let usual = Retry::default();
    let Some(mut map) = item.map(r) else {
        return usual;
    };
    let when = map.get(r, "when").and_then(|item| retried(r, &item));
    let (statuses, connect) = when.unwrap_or((usual.statuses, usual.connect));
    let read = Retry {
        statuses,
        connect,
        max: map
            .get(r, "max")
            .and_then(|item| item.small(r, 0, MOST_RETRIES))
            .unwrap_or(usual.max),
        backoff: map
            .get(r, "backoff")
            .and_then(|item| item.quantity(r, duration::parse_or_zero))
            .unwrap_or(usual.backoff),
        factor: map
            .get(r, "factor")
            .and_then(|item| item.number(r, 1.0, 10.0))
            .unwrap_or(usual.factor),
        jitter: map
            .get(r, "jitter")
            .and_then(|item| item.choice(r, &["full", "none"], |word| word))
            .map_or(usual.jitter, |word| word == "full"),
        cap: map
            .get(r, "cap")
            .and_then(|item| item.quantity(r, duration::parse))
            .unwrap_or(usual.cap),
        obey_retry_after: map
            .get(r, "retry_after")
            .and_then(|item| item.choice(r, &["obey", "ignore"], |word| word))
            .map_or(usual.obey_retry_after, |word| word == "obey"),
    };
    map.close(r, &[]);
    read
}

fn retried(r: &Reader<'_>, item: &Item<'_>) -> Option<(Vec<u16>, bool)> {
    let mut statuses = Vec::new();
    let mut connect = false;
    for item in item.list(r)? {
        if item.is("connect") {
            connect = true;
            continue;
        }
        let status = if let Value::Int(status) = &item.node.value {
            u16::try_from(*status).ok()
        } else {
            None
        };
        match status {
            Some(status @ 400..=599) => statuses.push(status),
            Some(_) | None => r.note(
                SpecError::new(item.span(), format!("`{}` is nothing to retry", item.path))
                    .label("expected a status from 400 to 599, or `connect`"),
            ),
        }
    }
    statuses.sort_unstable();
    statuses.dedup();
    Some((statuses, connect))
}

/// Most headers of a relay.
const MOST_HEADERS: usize = 64;

/// Headers that carry keys; a key is never written into a spec.
const KEY_HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
];

/// Headers that are part of how a call is made.
const OUR_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn headers(r: &Reader<'_>, item: &Item<'_>) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    let Some(map) = item.map(r) else {
        return headers;
    };
    if map.free().count() > MOST_HEADERS {
        r.note(
            SpecError::new(
                item.key_span.clone(),
                format!("`{}` is too long", item.path),
            )
            .label(format!("the limit is {MOST_HEADERS} headers"))
            .help("servers refuse requests with so many"),
        );
        return headers;
    }
    let mut written = BTreeSet::new();
    for (entry, item) in map.free() {
        let name = entry.key.to_ascii_lowercase();
        if !written.insert(&entry.key) {
            // The very same key twice is noted for the whole tree.
            continue;
        }
        let refusal = if name.is_empty() || !name.bytes().all(is_token) {
            Some((
                "no header can have this name",
                "use letters, digits and `-`",
            ))
        } else if KEY_HEADERS.contains(&name.as_str()) {
            Some((
                "this header holds a key, and a key is never written into a spec",
                "say where the key is with `api_key: { env: NAME }`",
            ))
        } else if OUR_HEADERS.contains(&name.as_str()) {
            Some(("this header is part of how a call is made", "leave it out"))
        } else if headers.contains_key(&name) {
            Some((
                "the same header in another spelling",
                "remove one of the two",
            ))
        } else {
            None
        };
        if let Some((label, help)) = refusal {
            r.note(
                SpecError::new(
                    entry.key_span.clone(),
                    format!("`{}` cannot be a header of a spec", entry.key),
                )
                .label(label)
                .help(help),
            );
            continue;
        }
        match item.text(r) {
            Some(value) if value.bytes().all(|b| (0x20..0x7f).contains(&b)) => {
                headers.insert(name, value.to_owned());
            }
            Some(_) => r.note(
                SpecError::new(item.span(), format!("`{}` is no header value", item.path))
                    .label("a character that is not printable ASCII"),
            ),
            None => {}
        }
    }
    headers
}

/// Whether a byte may be part of a header's name.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn api_key(r: &Reader<'_>, item: &Item<'_>) -> Option<KeySource> {
    const HELP: &str =
        "say where it is: `{ env: NAME }`, `{ file: path }` or `{ command: [program, argument] }`";
    if !matches!(item.node.value, Value::Map(_)) {
        return r.refuse(
            SpecError::new(item.span(), "an API key is never written into a spec")
                .label("a literal key")
                .help(HELP),
        );
    }
    let mut map = item.map(r)?;
    let env = map.get(r, "env");
    let file = map.get(r, "file");
    let command = map.get(r, "command");
    let given = [&env, &file, &command].into_iter().flatten().count();
    if given > 1 {
        map.close(r, &[]);
        return r.refuse(
            SpecError::new(item.key_span.clone(), "an API key has one source")
                .label(format!("{given} sources"))
                .help(HELP),
        );
    }
    if map.free().next().is_none() {
        r.note(
            SpecError::new(
                item.key_span.clone(),
                format!("`{}` names no source", item.path),
            )
            .label("where is the key?")
            .help(HELP),
        );
    }
    map.close(r, &[]);
    if let Some(item) = env {
        return env_name(r, &item).map(KeySource::Env);
    }
    if let Some(item) = file {
        return item.text(r).map(|path| KeySource::File(path.to_owned()));
    }
    let item = command?;
    item.filled_list(r, "word")?;
    item.texts(r).map(KeySource::Command)
}

fn env_name(r: &Reader<'_>, item: &Item<'_>) -> Option<String> {
    let name = item.text(r)?;
    let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.len() <= 128;
    if word {
        Some(name.to_owned())
    } else {
        r.refuse(
            SpecError::new(
                item.span(),
                format!("`{}` is no variable's name", item.path),
            )
            .label("expected letters, digits and `_`")
            .help("name the variable that holds the key: `api_key: { env: ALPHA_KEY }`"),
        )
    }
}
