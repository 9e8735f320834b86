//! `${vars.NAME}` and `${env.NAME:-default}` in the tree's texts.
//!
//! Not in keys, and never below `api_key`: what is filled in here may be shown and hashed.
//! `$${…}` writes a literal `${…}`.

use std::collections::BTreeMap;

use super::error::SpecError;
use super::reader::Reader;
use super::tree::{Filled, Node, Value};
use crate::words::{did_you_mean, listed};

/// Looks up an environment variable.
pub(super) type Env<'e> = &'e dyn Fn(&str) -> Option<String>;

/// Longest text that filling in may make.
const MAX_FILLED: usize = 1 << 20;

/// Fills in every placeholder of the tree.
pub(super) fn fill(r: &Reader<'_>, tree: &mut Node, env: Env<'_>) {
    let mut vars = BTreeMap::new();
    let nothing = BTreeMap::new();
    if let Value::Map(entries) = &mut tree.value
        && let Some(entry) = entries.iter_mut().find(|entry| entry.key == "vars")
    {
        // A variable may take from the environment, not from another variable.
        walk(
            r,
            &mut entry.node,
            &Scope {
                vars: &nothing,
                env,
            },
        );
        vars = variables(r, &entry.node);
    }
    let scope = Scope { vars: &vars, env };
    if let Value::Map(entries) = &mut tree.value {
        for entry in entries.iter_mut().filter(|entry| entry.key != "vars") {
            walk_entry(r, &entry.key, &mut entry.node, &scope);
        }
    }
}

struct Scope<'s> {
    vars: &'s BTreeMap<String, (String, Option<Filled>)>,
    env: Env<'s>,
}

/// The values under `vars`, as text.
fn variables(r: &Reader<'_>, node: &Node) -> BTreeMap<String, (String, Option<Filled>)> {
    let mut vars = BTreeMap::new();
    let Value::Map(entries) = &node.value else {
        r.note(
            SpecError::new(node.span.clone(), "`vars` must be a map")
                .label(format!("expected a map, found {}", node.kind())),
        );
        return vars;
    };
    for entry in entries {
        let text = match &entry.node.value {
            Value::Text(text) => text.clone(),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                r.slice(&entry.node.span).trim().to_owned()
            }
            Value::Null | Value::List(_) | Value::Map(_) => {
                r.note(
                    SpecError::new(
                        entry.node.span.clone(),
                        format!("`vars.{}` must be a single value", entry.key),
                    )
                    .label(format!(
                        "expected text or a number, found {}",
                        entry.node.kind()
                    )),
                );
                continue;
            }
        };
        vars.entry(entry.key.clone())
            .or_insert_with(|| (text, entry.node.filled.clone()));
    }
    vars
}

fn walk_entry(r: &Reader<'_>, key: &str, node: &mut Node, scope: &Scope<'_>) {
    if key == "api_key" {
        refuse_below(r, node);
    } else {
        walk(r, node, scope);
    }
}

fn walk(r: &Reader<'_>, node: &mut Node, scope: &Scope<'_>) {
    match &mut node.value {
        Value::Map(entries) => {
            for entry in entries {
                walk_entry(r, &entry.key, &mut entry.node, scope);
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| walk(r, item, scope)),
        Value::Text(text) if text.contains("${") => {
            match filled(r, text, node.span.clone(), scope) {
                Some((filled, from)) => {
                    *text = filled;
                    node.filled = from;
                }
                None => node.filled = Some(Filled::Failed),
            }
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => {}
    }
}

/// A key's place is written out: what is filled in may be shown.
fn refuse_below(r: &Reader<'_>, node: &Node) {
    match &node.value {
        Value::Map(entries) => entries
            .iter()
            .for_each(|entry| refuse_below(r, &entry.node)),
        Value::List(items) => items.iter().for_each(|item| refuse_below(r, item)),
        Value::Text(text) if text.contains("${env.") || text.contains("${vars.") => r.note(
            SpecError::new(node.span.clone(), "nothing is filled in inside `api_key`")
                .label("a value that is filled in may be shown, and a key never is")
                .help("name the variable: `api_key: { env: NAME }`"),
        ),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => {}
    }
}

/// The text with its placeholders filled in; `None` when that cannot be done.
fn filled(
    r: &Reader<'_>,
    text: &str,
    span: std::ops::Range<usize>,
    scope: &Scope<'_>,
) -> Option<(String, Option<Filled>)> {
    let mut out = String::with_capacity(text.len());
    let mut from = None;
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let Some(len) = rest[at..].find('}') else {
            return r.refuse(
                SpecError::new(span, "a placeholder is not closed")
                    .label("`${` without `}`")
                    .help("write `${vars.NAME}`, or `$${` for the characters themselves"),
            );
        };
        let inside = &rest[at + 2..at + len];
        let (value, source) = lookup(r, inside, &span, scope)?;
        if out.len() + value.len() > MAX_FILLED {
            return r.refuse(
                SpecError::new(span, "this text grows beyond 1 MiB")
                    .label("after filling in its placeholders"),
            );
        }
        out.push_str(&value);
        if from.is_none() || from == Some(Filled::Vars) {
            from = Some(source);
        }
        rest = &rest[at + len + 1..];
    }
    out.push_str(rest);
    Some((out, from))
}

fn lookup(
    r: &Reader<'_>,
    inside: &str,
    span: &std::ops::Range<usize>,
    scope: &Scope<'_>,
) -> Option<(String, Filled)> {
    if let Some(name) = inside.strip_prefix("vars.") {
        if let Some((value, source)) = scope.vars.get(name) {
            if *source == Some(Filled::Failed) {
                return None;
            }
            return Some((value.clone(), source.clone().unwrap_or(Filled::Vars)));
        }
        let names = || scope.vars.keys().map(String::as_str);
        let error = SpecError::new(span.clone(), format!("there is no variable `{name}`"))
            .label("not in `vars`");
        return r.refuse(match did_you_mean(name, names()) {
            Some(near) => error.help(format!("did you mean `${{vars.{near}}}`?")),
            None if scope.vars.is_empty() => {
                error.help(format!("define it: `vars: {{ {name}: … }}`"))
            }
            None => error.help(format!("the variables here are {}", listed(names()))),
        });
    }
    if let Some(name) = inside.strip_prefix("env.") {
        let (name, default) = match name.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (name, None),
        };
        // As in a shell, `:-` also stands in for an empty variable.
        let value = (scope.env)(name).filter(|value| !value.is_empty() || default.is_none());
        return match (value, default) {
            (Some(value), _) => Some((value, Filled::Env(name.to_owned()))),
            (None, Some(default)) => Some((default.to_owned(), Filled::Vars)),
            (None, None) => r.refuse(
                SpecError::new(
                    span.clone(),
                    format!("the environment variable `{name}` is not set"),
                )
                .label("needed here")
                .help(format!(
                    "set it, or give a default: `${{env.{name}:-default}}`"
                )),
            ),
        };
    }
    r.refuse(
        SpecError::new(span.clone(), format!("unknown placeholder `${{{inside}}}`"))
            .label("expected `${vars.NAME}` or `${env.NAME}`")
            .help("write `$${` for the characters themselves"),
    )
}
