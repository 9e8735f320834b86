//! Masks what may be a secret in a spec's text, so that no error can show it.
//!
//! Lengths and line breaks are kept: every place in the text stays where it is.

use std::ops::Range;

use super::tree::{Node, Value};

/// Maps whose values are never shown.
const SECRET_KEYS: &[&str] = &["api_key", "headers"];
/// Words of this length with a digit in them are masked where the structure is unknown.
const LONG_WORD: usize = 16;

/// The text with API keys, header values, and users, passwords and queries of URLs masked.
pub(super) fn mask(text: &str, tree: &Node) -> String {
    let mut spans = Vec::new();
    collect(tree, None, &mut spans);
    spans.extend(of_urls(text));
    masked(text, spans)
}

/// The text with everything masked that could be a secret; for text that is no YAML.
pub(super) fn mask_unread(text: &str) -> String {
    let mut spans: Vec<Range<usize>> = of_urls(text).collect();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        for key in SECRET_KEYS {
            if let Some(at) = line.find(key) {
                spans.push(line_start + at + key.len()..line_start + line.len());
            }
        }
        line_start += line.len();
    }
    let mut word_start = 0;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
            continue;
        }
        let word = &text[word_start..at];
        if word.len() >= LONG_WORD && word.bytes().any(|b| b.is_ascii_digit()) {
            spans.push(word_start..at);
        }
        word_start = at + c.len_utf8();
    }
    masked(text, spans)
}

/// `under` is the secret key that the node belongs to, if any.
fn collect<'n>(node: &'n Node, under: Option<&'n str>, spans: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                let key = entry.key.as_str();
                let place = under == Some("api_key") && names_a_place(key, &entry.node);
                let below = under.or_else(|| SECRET_KEYS.iter().find(|it| **it == key).copied());
                collect(&entry.node, if place { None } else { below }, spans);
            }
        }
        Value::List(items) => {
            for item in items {
                collect(item, under, spans);
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => {
            if under.is_some() {
                spans.push(node.span.clone());
            }
        }
    }
}

/// Whether an entry of `api_key` says where a key is, and surely not the key itself.
fn names_a_place(key: &str, node: &Node) -> bool {
    let Value::Text(text) = &node.value else {
        return false;
    };
    if text.starts_with("${") && text.ends_with('}') {
        return true;
    }
    match key {
        "env" => text
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'),
        "file" => text.contains(['/', '.']),
        _ => false,
    }
}

/// User and password, and the query, of each URL in the text.
fn of_urls(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").flat_map(|(at, mark)| {
        let start = at + mark.len();
        let url = text[start..]
            .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\''))
            .next()
            .unwrap_or_default();
        let authority = url.split('/').next().unwrap_or_default();
        let user = authority.rfind('@').map(|end| start..start + end);
        let query = url
            .find('?')
            .map(|from| start + from + 1..start + url.len());
        user.into_iter().chain(query)
    })
}

fn masked(text: &str, spans: Vec<Range<usize>>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for span in spans {
        for byte in &mut bytes[span] {
            if !byte.is_ascii_whitespace() && !b"\"':{}[],".contains(byte) {
                *byte = b'*';
            }
        }
    }
    // Whole characters were replaced by ASCII, so nothing is lost here.
    String::from_utf8_lossy(&bytes).into_owned()
}
