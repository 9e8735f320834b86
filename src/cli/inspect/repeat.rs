//! A `curl` that asks what a recorded call asked.
//!
//! Evidence holds no prompt, only its length and hash: the request is made anew from the spec, where
//! that is still the one that the run read. Keys and header values are named, never shown.

use std::env;
use std::path::Path;

use crate::dialect::Protocol;
use crate::evidence::{Header, Sample};
use crate::forms::steers;
use crate::plan::{Cell, Endpoint, HttpVersion, KeySource, Plan, Proxy, Slot};
use crate::resolve::resolve;
use crate::run;
use crate::spec::{self, Spec};

/// A command that repeats a call.
pub(super) struct Repeat {
    /// What to type.
    pub(super) curl: String,
    /// What it lacks, or what to mind.
    pub(super) notes: Vec<String>,
}

/// The command for a sample.
pub(super) fn of(header: &Header, sample: &Sample) -> Repeat {
    match rebuilt(header, sample) {
        Ok((cell, slot)) => whole(header, &cell, &slot),
        Err(why) => {
            let mut curl = start(header);
            curl.push_str(&key(header.protocol, "API_KEY"));
            curl.push_str(" \\\n  --data-raw '{ … }'");
            Repeat {
                curl,
                notes: vec![format!("the body is missing, because {why}")],
            }
        }
    }
}

/// The cell and the slot that the sample was made from, made anew.
fn rebuilt(header: &Header, sample: &Sample) -> Result<(Cell, Slot), String> {
    let source = &header.spec_source;
    let text = run::read(Path::new(source))
        .map_err(|_| format!("the spec {source} cannot be read from here"))?;
    let spec = spec::parse(source, &text, &|name| env::var(name).ok())
        .map_err(|_| format!("the spec {source} cannot be read any more as it is"))?;
    if spec.sha256() != header.spec_sha256 {
        return Err(format!("the spec {source} has changed since"));
    }
    let plan = plan_of(&spec, header).ok_or_else(|| {
        format!("the spec {source} asks for something else here than in that run")
    })?;
    let cell = plan.cells.iter().find(|cell| cell.name() == header.cell);
    let cell = cell.ok_or_else(|| format!("the spec {source} has no such cell here"))?;
    let slot = cell
        .slots_of_run(&plan.sampling, &header.run_id)
        .find(|slot| slot.warmup == sample.warmup && slot.index == sample.index)
        .filter(|slot| slot.id == sample.id)
        .ok_or_else(|| format!("the spec {source} makes other samples here than in that run"))?;
    Ok((cell.clone(), slot))
}

/// The plan of the run: the spec's own, or that of one of its profiles.
fn plan_of(spec: &Spec, header: &Header) -> Option<Plan> {
    let profiles = spec.profiles().map(Some);
    std::iter::once(None)
        .chain(profiles)
        .filter_map(|profile| resolve(spec, profile).ok())
        .find(|plan| plan.digest == header.plan_digest)
}

fn whole(header: &Header, cell: &Cell, slot: &Slot) -> Repeat {
    let relay = &cell.relay;
    let mut notes = Vec::new();
    let mut curl = start(header);
    match &relay.api_key {
        Some(KeySource::Env(name)) => curl.push_str(&key(relay.protocol, name)),
        Some(KeySource::File(_) | KeySource::Command(_)) => {
            curl.push_str(&key(relay.protocol, "API_KEY"));
            notes.push("put the key into API_KEY; the spec says where it is".to_owned());
        }
        None => {}
    }
    for name in relay.headers.keys() {
        let variable = variable(name);
        curl.push_str(&format!(" \\\n  -H \"{name}: ${variable}\""));
        notes.push(format!(
            "put the spec's value of the header {name} into {variable}"
        ));
    }
    match relay.http {
        HttpVersion::Auto => {}
        HttpVersion::Http1 => curl.push_str(" --http1.1"),
        HttpVersion::Http2 => curl.push_str(" --http2"),
    }
    match &relay.proxy {
        Proxy::None => curl.push_str(" --noproxy '*'"),
        Proxy::Env => {}
        Proxy::Url(_) => {
            curl.push_str(" \\\n  --proxy \"$PROXY\"");
            notes.push("put the spec's proxy into PROXY".to_owned());
        }
    }
    if let Some(file) = &relay.ca_file {
        let base = Path::new(&header.spec_source).parent();
        let path = base.unwrap_or_else(|| Path::new("")).join(file);
        curl.push_str(&format!(
            " \\\n  --cacert {}",
            quoted(&path.display().to_string())
        ));
    }
    let body = relay.protocol.body(&cell.prompt(slot));
    let body = String::from_utf8_lossy(&body);
    curl.push_str(&format!(" \\\n  --data-raw {}", quoted(&body)));
    if matches!(relay.endpoint, Endpoint::Simulate(_)) {
        notes.push(
            "the embedded relay of that run is gone: start one with `relayproof simulate` and take \
             its address"
                .to_owned(),
        );
    }
    Repeat { curl, notes }
}

/// The command up to its own headers.
fn start(header: &Header) -> String {
    let (path, query) = header.protocol.target(&header.model, header.stream);
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    let url = format!(
        "{}/{}{query}",
        header.base_url.trim_end_matches('/'),
        path.trim_start_matches('/')
    );
    let mut curl = format!(
        "curl -sSiN {} \\\n  -H 'content-type: application/json'",
        quoted(&url)
    );
    if header.protocol == Protocol::AnthropicMessages {
        curl.push_str(" -H 'anthropic-version: 2023-06-01'");
    }
    curl
}

/// The header that carries the key, the key by the name of its variable.
fn key(protocol: Protocol, name: &str) -> String {
    let start = match protocol {
        Protocol::OpenaiChat | Protocol::OpenaiResponses => "authorization: Bearer ",
        Protocol::AnthropicMessages => "x-api-key: ",
        Protocol::Gemini => "x-goog-api-key: ",
    };
    format!(" \\\n  -H \"{start}${name}\"")
}

/// A header's name as the name of a variable.
fn variable(header: &str) -> String {
    header
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}

/// Text in single quotes, as a shell takes it. What would steer a terminal is written as JSON
/// would.
fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        if c == '\'' {
            out.push_str("'\\''");
        } else if steers(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_one_word_of_a_shell() {
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("$(id) \"`x`\""), "'$(id) \"`x`\"'");
        assert_eq!(quoted("a\u{202e}b\u{1b}"), "'a\\u202eb\\u001b'");
    }
}
