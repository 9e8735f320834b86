//! What is asked: messages, request members, and what an answer must be like.

use serde_json::{Map, Number};

use super::error::SpecError;
use super::expect;
use super::reader::{Item, Reader};
use super::relay;
use super::tree::{Node, Value};
use crate::dialect::{self, Message};
use crate::expect::Expect;
use crate::plan::Workload;
use crate::words::did_you_mean;

/// Placeholders of a message.
pub(crate) const PLACEHOLDERS: &[&str] = &["nonce", "seal", "index"];
/// Roles of a message.
pub(crate) const ROLES: &[&str] = &["system", "developer", "user", "assistant"];
/// Output budget where a workload sets none.
pub(crate) const MAX_TOKENS: u64 = 128;

/// The workload of a spec that names none: unique text, checkable to its end.
pub(super) fn built_in() -> Workload {
    Workload {
        name: "default".to_owned(),
        messages: vec![Message {
            role: "user".to_owned(),
            content: "Request {{nonce}}. Describe a walk along a windy coast in about sixty \
                      words of plain prose. End your answer with `{{seal}}`."
                .to_owned(),
        }],
        params: Map::from_iter([("max_tokens".to_owned(), MAX_TOKENS.into())]),
        expect: Expect::default(),
        calibration: None,
        concurrency: None,
    }
}

/// Name of the workload whose answers are compared with the trusted upstream's.
pub(super) const CALIBRATION: &str = "calibration";

/// One fixed prompt with many likely answers: what a model says first is its own.
pub(crate) fn calibration(samples: u64) -> Workload {
    Workload {
        name: CALIBRATION.to_owned(),
        messages: vec![Message {
            role: "user".to_owned(),
            content: "Write the first two sentences of a story about a lighthouse. Begin at once, \
                      without a title."
                .to_owned(),
        }],
        params: Map::from_iter([
            ("max_tokens".to_owned(), 60.into()),
            ("temperature".to_owned(), 1.into()),
        ]),
        expect: Expect::default(),
        calibration: Some(samples),
        concurrency: None,
    }
}

/// Most calls that a workload may hold open.
pub(crate) const MOST_STREAMS: u32 = 10_000;

/// Reads one workload.
pub(super) fn read(r: &Reader<'_>, item: &Item<'_>) -> Option<Workload> {
    let mut map = item.map(r)?;
    let name = map
        .need(r, "name", "give each workload a name: `- name: chat`")
        .and_then(|item| relay::name(r, &item));
    let messages = map
        .need(
            r,
            "messages",
            "say what to ask: `messages: [{ role: user, content: \"{{nonce}} …\" }]`",
        )
        .and_then(|item| messages(r, &item));
    let mut params = map
        .get(r, "params")
        .and_then(|item| params(r, &item))
        .unwrap_or_default();
    let conditions = map.get(r, "expect");
    let expect = conditions
        .as_ref()
        .and_then(|item| expect::read(r, item))
        .unwrap_or_default();
    let unasked = messages
        .as_ref()
        .is_some_and(|all| !all.iter().any(Message::asks_for_seal))
        && expect.shape.is_none();
    if let Some(conditions) = conditions.filter(|_| unasked) {
        refuse_idle_allowance(r, &conditions);
    }
    let concurrency = map
        .get(r, "concurrency")
        .and_then(|item| item.small(r, 1, MOST_STREAMS));
    map.close(r, &["messages_file", "weight", "tags"]);
    if dialect::BUDGETS
        .iter()
        .all(|name| !params.contains_key(*name))
    {
        params.insert("max_tokens".to_owned(), MAX_TOKENS.into());
    }
    Some(Workload {
        name: name?.to_owned(),
        messages: messages?,
        params,
        expect,
        calibration: None,
        concurrency,
    })
}

fn messages(r: &Reader<'_>, item: &Item<'_>) -> Option<Vec<Message>> {
    let items = item.filled_list(r, "message")?;
    let read: Vec<_> = items.iter().map(|item| message(r, item)).collect();
    read.into_iter().collect()
}

fn message(r: &Reader<'_>, item: &Item<'_>) -> Option<Message> {
    let mut map = item.map(r)?;
    let role = map
        .need(r, "role", "write `role: user`")
        .and_then(|item| item.choice(r, ROLES, |it| it));
    let content = map
        .need(r, "content", "write `content: \"…\"`")
        .and_then(|item| template(r, &item));
    map.close(r, &[]);
    Some(Message {
        role: role?.to_owned(),
        content: content?.to_owned(),
    })
}

/// A text whose placeholders are all known.
fn template<'n>(r: &Reader<'_>, item: &Item<'n>) -> Option<&'n str> {
    let text = item.text(r)?;
    for (at, _) in text.match_indices("{{") {
        let inside = text[at + 2..].split("}}").next().unwrap_or_default();
        if PLACEHOLDERS.contains(&inside) {
            continue;
        }
        let shown: String = inside.chars().take(20).collect();
        let error = SpecError::new(
            item.span(),
            format!("unknown placeholder `{{{{{shown}}}}}`"),
        )
        .label("in this text");
        return r.refuse(
            match did_you_mean(inside.trim(), PLACEHOLDERS.iter().copied()) {
                Some(near) => error.help(format!("did you mean `{{{{{near}}}}}`?")),
                None => error.help("there are `{{nonce}}`, `{{seal}}` and `{{index}}`"),
            },
        );
    }
    Some(text)
}

/// Request members that relayproof sets itself.
pub(crate) const OURS: &[&str] = &["model", "messages", "stream", "stream_options"];

fn params(r: &Reader<'_>, item: &Item<'_>) -> Option<Map<String, serde_json::Value>> {
    let map = item.map(r)?;
    let mut params = Map::new();
    for (entry, item) in map.free() {
        let key = entry.key.as_str();
        if OURS.contains(&key) {
            r.note(
                SpecError::new(
                    entry.key_span.clone(),
                    format!("`{}` is set by relayproof", item.path),
                )
                .label("not a parameter of a workload")
                .help("leave it out"),
            );
            continue;
        }
        // What bounds an answer bounds the worst case of a plan.
        let value = if key == "n" || dialect::BUDGETS.contains(&key) {
            item.whole(r, 1, 1_000_000).map(serde_json::Value::from)
        } else {
            json(r, item.node, &item.path)
        };
        if let Some(value) = value {
            params.insert(entry.key.clone(), value);
        }
    }
    Some(params)
}

/// A free value as JSON; interpolated text that reads as a number or a truth value becomes one.
fn json(r: &Reader<'_>, node: &Node, path: &str) -> Option<serde_json::Value> {
    use serde_json::Value as Json;
    Some(match &node.value {
        Value::Null => Json::Null,
        Value::Bool(it) => Json::Bool(*it),
        Value::Int(it) => match (u64::try_from(*it), i64::try_from(*it)) {
            (Ok(it), _) => it.into(),
            (_, Ok(it)) => it.into(),
            (Err(_), Err(_)) => {
                return r.refuse(
                    SpecError::new(node.span.clone(), format!("`{path}` is too large"))
                        .label("expected a number of 64 bits"),
                );
            }
        },
        Value::Float(it) => Number::from_f64(*it).map_or(Json::Null, Json::Number),
        Value::Text(text) if node.filled.is_some() => {
            let trimmed = text.trim();
            let whole = trimmed.parse::<i64>().ok().map(Json::from);
            let real = || {
                let read = trimmed.parse().ok().and_then(Number::from_f64);
                read.map(Json::Number)
            };
            let flag = || trimmed.parse::<bool>().ok().map(Json::Bool);
            whole
                .or_else(real)
                .or_else(flag)
                .unwrap_or_else(|| Json::String(text.clone()))
        }
        Value::Text(text) => Json::String(text.clone()),
        Value::List(items) => {
            let read: Vec<_> = items.iter().map(|item| json(r, item, path)).collect();
            Json::Array(read.into_iter().collect::<Option<_>>()?)
        }
        Value::Map(entries) => {
            let mut map = Map::new();
            for entry in entries {
                let path = format!("{path}.{}", entry.key);
                map.insert(entry.key.clone(), json(r, &entry.node, &path)?);
            }
            Json::Object(map)
        }
    })
}

/// Refuses an allowance for seals that nobody asks for.
fn refuse_idle_allowance(r: &Reader<'_>, expect: &Item<'_>) {
    if let Value::Map(entries) = &expect.node.value
        && let Some(entry) = entries.iter().find(|entry| entry.key == "seal_allowance")
    {
        r.note(
            SpecError::new(
                entry.key_span.clone(),
                "no message of this workload asks for a seal",
            )
            .label("nothing to allow")
            .help("put `{{seal}}` in a message, like: End your answer with `{{seal}}`."),
        );
    }
}
