//! What relays take from `defaults` and from each other, and profiles from their spec.
//!
//! Nearest wins, maps merge, lists are replaced; all on the tree, so that every inherited value
//! still knows where it was written.

use super::error::SpecError;
use super::reader::Reader;
use super::relay::{OWN, WHOLE};
use super::tree::{Entry, Node, Value};
use crate::words::{did_you_mean, listed};

/// Most relays that extend one another in a row.
const DEEPEST: usize = 8;

/// `over` on top of `base`.
pub(super) fn overlay(base: &Node, over: &Node) -> Node {
    let (Value::Map(below), Value::Map(above)) = (&base.value, &over.value) else {
        return over.clone();
    };
    let mut entries: Vec<Entry> = below.clone();
    for entry in above {
        match entries.iter_mut().find(|known| known.key == entry.key) {
            Some(known) if WHOLE.contains(&entry.key.as_str()) => *known = entry.clone(),
            Some(known) => {
                *known = Entry {
                    node: overlay(&known.node, &entry.node),
                    ..entry.clone()
                };
            }
            None => entries.push(entry.clone()),
        }
    }
    Node {
        value: Value::Map(entries),
        ..over.clone()
    }
}

/// A relay with everything it inherits from `defaults` and from others of `relays`.
pub(super) fn relay(
    r: &Reader<'_>,
    defaults: Option<&Node>,
    relays: &[Node],
    relay: &Node,
) -> Node {
    let chain = ancestry(r, relays, relay);
    let mut merged = defaults.map_or_else(
        || Node {
            value: Value::Map(Vec::new()),
            ..relay.clone()
        },
        |node| Node {
            span: relay.span.clone(),
            ..node.clone()
        },
    );
    for heir in chain.iter().rev() {
        let own = std::ptr::eq(*heir, relay);
        merged = overlay(&rid(&merged, heir, own), heir);
    }
    merged
}

/// The relay, the one it extends, the one that one extends, and so on.
fn ancestry<'n>(r: &Reader<'_>, relays: &'n [Node], relay: &'n Node) -> Vec<&'n Node> {
    let mut chain = vec![relay];
    while let Some(parent) = chain.last().and_then(|heir| parent(r, heir, relays)) {
        let mistake = if chain.iter().any(|known| std::ptr::eq(*known, parent)) {
            Some((
                "relays that extend each other have no end",
                "leads back to this relay".to_owned(),
                "let one of them stand on its own",
            ))
        } else if chain.len() == DEEPEST {
            Some((
                "this relay inherits from too many others",
                format!("more than {DEEPEST}, one from another"),
                "move what they share to `defaults`",
            ))
        } else {
            None
        };
        if let Some((title, label, help)) = mistake {
            let span = relay.child("extends").unwrap_or(relay).span.clone();
            r.note(SpecError::new(span, title).label(label).help(help));
            break;
        }
        chain.push(parent);
    }
    chain
}

/// What an heir does not take over: names, and the other place where it has one of its own.
fn rid(base: &Node, heir: &Node, own: bool) -> Node {
    let Value::Map(entries) = &base.value else {
        return base.clone();
    };
    let replaced = match (heir.child("base_url"), heir.child("simulate")) {
        (Some(_), None) => Some("simulate"),
        (None, Some(_)) => Some("base_url"),
        _ => None,
    };
    let kept = entries
        .iter()
        .filter(|entry| {
            let key = entry.key.as_str();
            !(own && OWN.contains(&key)) && Some(key) != replaced
        })
        .cloned()
        .collect();
    Node {
        value: Value::Map(kept),
        ..base.clone()
    }
}

/// The relay that this one extends.
fn parent<'n>(r: &Reader<'_>, heir: &Node, relays: &'n [Node]) -> Option<&'n Node> {
    let extends = heir.child("extends")?;
    let Value::Text(wanted) = &extends.value else {
        return r.refuse(
            SpecError::new(
                extends.span.clone(),
                "`extends` must be the name of a relay",
            )
            .label(format!("expected text, found {}", extends.kind())),
        );
    };
    let name = |node: &'n Node| match node.child("name").map(|name| &name.value) {
        Some(Value::Text(name)) => Some(name.as_str()),
        _ => None,
    };
    let found = relays.iter().find(|relay| name(relay) == Some(wanted));
    found.or_else(|| {
        let names = || relays.iter().filter_map(name);
        let error = SpecError::new(
            extends.span.clone(),
            format!("there is no relay `{wanted}`"),
        )
        .label("no relay of this name");
        r.refuse(match did_you_mean(wanted, names()) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.help(format!("the relays are {}", listed(names()))),
        })
    })
}
