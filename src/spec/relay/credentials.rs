//! Request headers, and where the API key is. A key itself is refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::KeySource;
use crate::spec::error::SpecError;
use crate::spec::reader::{Item, Reader};
use crate::spec::tree::Value;

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

/// Further headers, names in lower case.
pub(super) fn headers(r: &Reader<'_>, item: &Item<'_>) -> BTreeMap<String, String> {
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
                    .label("a character that is not printable ASCII")
                    .help("remove it, or encode it as the relay expects it"),
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

/// Where the key is.
pub(super) fn api_key(r: &Reader<'_>, item: &Item<'_>) -> Option<KeySource> {
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
