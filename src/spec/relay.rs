//! The keys of one relay, after everything it inherits is in its map.

mod address;
mod credentials;
mod limits;
mod pricing;

use std::collections::BTreeMap;

use super::error::SpecError;
use super::reader::{Fields, Item, Reader};
use super::simulate;
use super::tree::{Node, Value};
use crate::dialect::Protocol;
use crate::forms::steers;
use crate::plan::{
    ConnectionMode, Endpoint, HttpVersion, Price, Propagation, Proxy, Relay, Retry, TransportKind,
};
use crate::stream::Timeouts;

/// Keys that later versions read.
pub(super) const LATER: &[&str] = &["tags", "redirects"];

/// Keys that hold one thing and are replaced as a whole by an heir.
pub(super) const WHOLE: &[&str] = &["api_key", "proxy"];

/// Keys that say something about one relay only and are not inherited.
pub(super) const OWN: &[&str] = &["name", "extends", "ignored", "pricing", "regions"];

/// A relay with the models that are asked of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RelaySpec {
    /// The relay.
    pub(crate) relay: Relay,
    /// Models.
    pub(crate) models: Vec<String>,
    /// Why its tests are ignored.
    pub(crate) ignored: Option<String>,
    /// What it charges, by model.
    pub(crate) pricing: BTreeMap<String, Price>,
    /// The regions from which it is sampled; empty: from all.
    pub(crate) regions: Vec<String>,
}

/// Reads a relay. `own` is the map without what it inherits.
pub(super) fn read(r: &Reader<'_>, item: &Item<'_>, own: &Node) -> Option<RelaySpec> {
    let mut map = item.map(r)?;
    map.get(r, "extends");
    let regions = map.get(r, "regions").map(|item| regions(r, &item));
    let regions = match regions {
        Some(read) => read?,
        None => Vec::new(),
    };
    let ignored = map.get(r, "ignored").and_then(|item| item.text(r));
    let read = one(r, item, map, own, true)?;
    Some(RelaySpec {
        regions,
        ignored: ignored.map(str::to_owned),
        ..read
    })
}

/// Reads the trusted upstream. `own` is the map without what it inherits.
pub(super) fn read_baseline(r: &Reader<'_>, item: &Item<'_>, own: &Node) -> Option<RelaySpec> {
    let mut map = item.map(r)?;
    map.get(r, "pair");
    map.get(r, "calibration");
    one(r, item, map, own, false)
}

/// Reads what a relay and the trusted upstream have in common; only a relay has to name its models.
fn one(
    r: &Reader<'_>,
    item: &Item<'_>,
    mut map: Fields<'_>,
    own: &Node,
    names_models: bool,
) -> Option<RelaySpec> {
    let name = map
        .need(r, "name", "give each relay a name: `- name: alpha`")
        .and_then(|item| name(r, &item));
    let common = common(r, &mut map);
    let endpoint = endpoint(r, &mut map);
    let simulated = map.has("simulate");
    let models = if simulated && !map.has("models") {
        map.get(r, "models");
        Some(vec!["simulated".to_owned()])
    } else if !names_models && !map.has("models") {
        map.get(r, "models");
        Some(Vec::new())
    } else {
        map.need(r, "models", "list what to ask for: `models: [gpt-4o-mini]`")
            .and_then(|item| models(r, &item))
    };
    let pricing = map
        .get(r, "pricing")
        .map(|item| pricing::read(r, &item, models.as_deref().filter(|all| !all.is_empty())));
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
        ignored: None,
        pricing: pricing.unwrap_or_default(),
        regions: Vec::new(),
    })
}

/// Names of the regions of a relay.
fn regions(r: &Reader<'_>, item: &Item<'_>) -> Option<Vec<String>> {
    let items = item.filled_list(r, "region")?;
    let names = items.iter().map(|item| name(r, item).map(str::to_owned));
    names.collect()
}

/// Reads `defaults`, where a relay's own keys have no place.
pub(super) fn read_defaults(r: &Reader<'_>, item: &Item<'_>) {
    let Some(mut map) = item.map(r) else { return };
    common(r, &mut map);
    map.get(r, "models").and_then(|item| models(r, &item));
    for key in [
        "name", "extends", "ignored", "pricing", "regions", "base_url", "simulate",
    ] {
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
        "pricing" => "pricing",
        "regions" => "regions",
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
            .and_then(|item| address::proxy(r, &item))
            .unwrap_or(Proxy::None),
        ca_file: tls.and_then(|item| address::ca_file(r, &item)),
        timeouts: map
            .get(r, "timeouts")
            .map_or_else(Timeouts::default, |item| limits::timeouts(r, &item)),
        retry: map
            .get(r, "retry")
            .map_or_else(Retry::default, |item| limits::retry(r, &item)),
        headers: map
            .get(r, "headers")
            .map_or_else(BTreeMap::new, |item| credentials::headers(r, &item)),
        api_key: map
            .get(r, "api_key")
            .and_then(|item| credentials::api_key(r, &item)),
        propagate: map
            .get(r, "propagate")
            .and_then(|item| item.choice(r, Propagation::ALL, Propagation::as_str))
            .unwrap_or_default(),
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
            relay.propagate == Propagation::RequestId && relay.headers.contains_key("x-request-id"),
            "propagate",
            "`headers` sets `x-request-id` already",
            "leave one of the two out",
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
    } else if name.chars().any(steers) {
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
            Some(model) if model.chars().any(steers) || model.trim() != model => r.note(
                SpecError::new(item.span(), format!("`{}` cannot be a model", item.path))
                    .label("white space at its ends or a control character")
                    .help("write the model as the relay lists it"),
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
        (Some(url), None) => address::base_url(r, &url).map(Endpoint::Url),
        (None, Some(item)) => simulate::read(r, &item).map(Endpoint::Simulate),
        (None, None) if map.has("base_url") || map.has("simulate") => None,
        (None, None) => r.refuse(
            SpecError::new(map.place(), "this relay has no `base_url`")
                .label("where is it?")
                .help("write `base_url: https://relay.example/v1`, or `simulate: {}` for the embedded relay"),
        ),
    }
}
