//! Reads typed values out of the tree and notes every mistake on the way.
//!
//! A reader never stops: what cannot be read is `None`, and the note says why. An optional value
//! that is wrong may then fall back to its default, for a spec with a note is never handed out. A
//! map knows which keys were asked for, so the keys that nobody asked for are the unknown ones.

use std::cell::RefCell;
use std::ops::Range;

use super::error::SpecError;
use super::tree::{Entry, Filled, Node, Value};
use crate::objective::quantity;
use crate::words::{did_you_mean, listed};

/// Most items of a list that is combined with others or searched for duplicates.
pub(super) const MOST_ITEMS: usize = 256;

/// Most mistakes that are noted.
const MOST_NOTES: usize = 10_000;

/// Collects the mistakes of one file.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    text: &'t str,
    errors: RefCell<Vec<SpecError>>,
    /// Path of each key that was asked for.
    #[cfg(test)]
    asked: RefCell<std::collections::BTreeSet<String>>,
}

impl<'t> Reader<'t> {
    /// A reader without a mistake yet; `text` is what the spans point into.
    pub(super) const fn new(text: &'t str) -> Self {
        Self {
            text,
            errors: RefCell::new(Vec::new()),
            #[cfg(test)]
            asked: RefCell::new(std::collections::BTreeSet::new()),
        }
    }

    /// Path of each key that was asked for, there or not.
    #[cfg(test)]
    pub(super) fn asked(&self) -> std::collections::BTreeSet<String> {
        self.asked.borrow().clone()
    }

    /// Notes a mistake; past ten thousand of them nobody reads on.
    pub(super) fn note(&self, error: SpecError) {
        let mut errors = self.errors.borrow_mut();
        if errors.len() < MOST_NOTES {
            errors.push(error);
        }
    }

    /// Notes a mistake and gives nothing: for use in a value's place.
    pub(super) fn refuse<T>(&self, error: SpecError) -> Option<T> {
        self.note(error);
        None
    }

    /// The text that spans point into, secrets masked.
    pub(super) const fn text(&self) -> &'t str {
        self.text
    }

    /// The notes.
    pub(super) fn into_errors(self) -> Vec<SpecError> {
        self.errors.into_inner()
    }

    /// The source text of a span.
    pub(super) fn slice(&self, span: &Range<usize>) -> &'t str {
        self.text.get(span.clone()).unwrap_or_default()
    }
}

/// A value with its key and its path.
#[derive(Clone, Debug)]
pub(super) struct Item<'n> {
    /// The value.
    pub(super) node: &'n Node,
    /// Where its key is, or the value itself in a list.
    pub(super) key_span: Range<usize>,
    /// `sampling.rate`, `relays[0].name`.
    pub(super) path: String,
}

impl<'n> Item<'n> {
    /// Where the value is.
    pub(super) fn span(&self) -> Range<usize> {
        self.node.span.clone()
    }

    /// Whether the value is this word.
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(&self.node.value, Value::Text(text) if text == word)
    }

    /// The value as written, for a message; never one that came from the environment.
    pub(super) fn shown(&self, r: &Reader<'_>) -> String {
        if let Some(Filled::Env(name)) = &self.node.filled {
            return format!("the value of `{name}` in the environment");
        }
        let written = r.slice(&self.node.span).lines().next().unwrap_or_default();
        if written.is_empty() || written.chars().count() > 60 {
            self.node.kind().to_owned()
        } else {
            format!("`{}`", written.trim())
        }
    }

    fn wrong_type<T>(&self, r: &Reader<'_>, wanted: &str) -> Option<T> {
        r.refuse(
            SpecError::new(self.span(), format!("`{}` must be {wanted}", self.path))
                .label(format!("found {}", self.node.kind())),
        )
    }

    /// Text, not empty.
    pub(super) fn text(&self, r: &Reader<'_>) -> Option<&'n str> {
        match &self.node.value {
            Value::Text(text) if text.trim().is_empty() => r.refuse(
                SpecError::new(self.span(), format!("`{}` is empty", self.path))
                    .label("expected text")
                    .help("write a text here, or remove the key"),
            ),
            Value::Text(text) => Some(text),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => r.refuse(
                SpecError::new(self.span(), format!("`{}` must be text", self.path))
                    .label(format!("found {}", self.node.kind()))
                    .help(format!(
                        "quote it: `\"{}\"`",
                        r.slice(&self.node.span).trim()
                    )),
            ),
            Value::Null | Value::List(_) | Value::Map(_) => self.wrong_type(r, "text"),
        }
    }

    /// Interpolated text, which may be read as any type.
    fn loose(&self) -> Option<&'n str> {
        match (&self.node.value, &self.node.filled) {
            (Value::Text(text), Some(_)) => Some(text.trim()),
            _ => None,
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, r: &Reader<'_>) -> Option<bool> {
        let read = if let Value::Bool(it) = &self.node.value {
            Some(*it)
        } else {
            self.loose().and_then(|text| text.parse().ok())
        };
        read.or_else(|| self.wrong_type(r, "`true` or `false`"))
    }

    /// A whole number within bounds.
    pub(super) fn whole(&self, r: &Reader<'_>, min: u64, max: u64) -> Option<u64> {
        let wanted = format!("a whole number from {min} to {max}");
        let read = if let Value::Int(it) = &self.node.value {
            Some(*it)
        } else {
            self.loose().and_then(|text| text.parse().ok())
        };
        let Some(it) = read else {
            return self.wrong_type(r, &wanted);
        };
        match u64::try_from(it) {
            Ok(it) if (min..=max).contains(&it) => Some(it),
            Ok(_) | Err(_) => r.refuse(
                SpecError::new(self.span(), format!("`{}` is out of bounds", self.path))
                    .label(format!("expected {wanted}")),
            ),
        }
    }

    /// [`Item::whole`] for smaller numbers.
    pub(super) fn small(&self, r: &Reader<'_>, min: u32, max: u32) -> Option<u32> {
        let it = self.whole(r, min.into(), max.into())?;
        u32::try_from(it).ok()
    }

    /// A number within bounds.
    pub(super) fn number(&self, r: &Reader<'_>, min: f64, max: f64) -> Option<f64> {
        let wanted = format!("a number from {min} to {max}");
        let read = match &self.node.value {
            Value::Int(it) => Some(i32::try_from(*it).map_or(f64::INFINITY, f64::from)),
            Value::Float(it) => Some(*it),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => {
                self.loose().and_then(|text| text.parse().ok())
            }
        };
        let Some(it) = read else {
            return self.wrong_type(r, &wanted);
        };
        if (min..=max).contains(&it) {
            Some(it)
        } else {
            r.refuse(
                SpecError::new(self.span(), format!("`{}` is out of bounds", self.path))
                    .label(format!("expected {wanted}")),
            )
        }
    }

    /// A value with a unit; a bare number is refused with the forms that would do.
    pub(super) fn quantity<T>(
        &self,
        r: &Reader<'_>,
        parse: fn(&str) -> Result<T, quantity::Wrong>,
    ) -> Option<T> {
        let written = match &self.node.value {
            Value::Text(text) => text.as_str(),
            Value::Int(_) | Value::Float(_) => r.slice(&self.node.span).trim(),
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => "",
        };
        match parse(written) {
            Ok(it) => Some(it),
            Err(wrong) => r.refuse(
                SpecError::new(
                    self.span(),
                    format!("`{}` must be {}", self.path, wrong.wanted),
                )
                .label(format!("found {}: {}", self.shown(r), wrong.why))
                .help(wrong.way_out),
            ),
        }
    }

    /// One of a closed set of words.
    pub(super) fn choice<T: Copy>(
        &self,
        r: &Reader<'_>,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Option<T> {
        let names = || all.iter().map(|it| name(*it));
        // `http: 2` and `http: 1.1` are numbers to YAML and words to us.
        let written = match &self.node.value {
            Value::Text(text) => text.as_str(),
            Value::Int(_) | Value::Float(_) | Value::Bool(_) => r.slice(&self.node.span).trim(),
            Value::Null | Value::List(_) | Value::Map(_) => {
                return self.wrong_type(r, &format!("one of {}", listed(names())));
            }
        };
        if let Some(found) = all.iter().find(|it| name(**it) == written) {
            return Some(*found);
        }
        let error = SpecError::new(
            self.span(),
            format!("`{}` cannot be {}", self.path, self.shown(r)),
        )
        .label(format!("expected one of {}", listed(names())));
        r.refuse(match did_you_mean(written, names()) {
            Some(name) => error.help(format!("did you mean `{name}`?")),
            None => error,
        })
    }

    /// The items of a list, without those whose placeholders were refused.
    pub(super) fn list(&self, r: &Reader<'_>) -> Option<Vec<Self>> {
        let Value::List(nodes) = &self.node.value else {
            let error = SpecError::new(self.span(), format!("`{}` must be a list", self.path))
                .label(format!("found {}", self.node.kind()));
            return r.refuse(match self.node.value {
                Value::Text(_) => error.help("put it in brackets: `[ … ]`"),
                Value::Null
                | Value::Bool(_)
                | Value::Int(_)
                | Value::Float(_)
                | Value::List(_)
                | Value::Map(_) => error,
            });
        };
        Some(
            nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| node.filled != Some(Filled::Failed))
                .map(|(i, node)| Item {
                    node,
                    key_span: node.span.clone(),
                    path: format!("{}[{i}]", self.path),
                })
                .collect(),
        )
    }

    /// A list with at least one item and not absurdly many.
    pub(super) fn filled_list(&self, r: &Reader<'_>, of: &str) -> Option<Vec<Self>> {
        let items = self.list(r)?;
        if items.len() > MOST_ITEMS {
            return r.refuse(
                SpecError::new(
                    self.key_span.clone(),
                    format!("`{}` is too long", self.path),
                )
                .label(format!("{} items; the limit is {MOST_ITEMS}", items.len()))
                .help("split the spec"),
            );
        }
        if matches!(&self.node.value, Value::List(nodes) if nodes.is_empty()) {
            return r.refuse(
                SpecError::new(self.span(), format!("`{}` is empty", self.path))
                    .label(format!("expected at least one {of}"))
                    .help("put one in it"),
            );
        }
        Some(items)
    }

    /// A list of texts; a lone text is a list of one.
    pub(super) fn texts(&self, r: &Reader<'_>) -> Option<Vec<String>> {
        if matches!(self.node.value, Value::Text(_)) {
            return self.text(r).map(|text| vec![text.to_owned()]);
        }
        let items = self.list(r)?;
        let texts: Vec<_> = items.iter().map(|item| item.text(r)).collect();
        texts
            .into_iter()
            .map(|text| text.map(str::to_owned))
            .collect()
    }

    /// The keys of a map.
    pub(super) fn map(&self, r: &Reader<'_>) -> Option<Fields<'n>> {
        let Value::Map(entries) = &self.node.value else {
            return self.wrong_type(r, "a map");
        };
        Some(Fields {
            path: self.path.clone(),
            place: self.key_span.clone(),
            entries,
            asked: Vec::new(),
        })
    }
}

/// A map being read.
#[derive(Debug)]
pub(super) struct Fields<'n> {
    path: String,
    place: Range<usize>,
    entries: &'n [Entry],
    asked: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Path of a key of this map.
    pub(super) fn path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// Where the map is shown when something is missing in it.
    pub(super) fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Every entry, for maps whose keys are free.
    pub(super) fn free(&self) -> impl Iterator<Item = (&'n Entry, Item<'n>)> + use<'n, '_> {
        self.entries.iter().map(|entry| (entry, self.item(entry)))
    }

    fn item(&self, entry: &'n Entry) -> Item<'n> {
        Item {
            node: &entry.node,
            key_span: entry.key_span.clone(),
            path: self.path(&entry.key),
        }
    }

    /// Whether a key is there, with a value or without.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    #[cfg_attr(
        not(test),
        expect(unused_variables, reason = "tests look at what was asked")
    )]
    fn ask(&mut self, r: &Reader<'_>, key: &'static str) {
        self.asked.push(key);
        #[cfg(test)]
        r.asked.borrow_mut().insert(self.path(key));
    }

    /// Where a key is written that belongs to another place; nothing more is said of it then.
    pub(super) fn misplaced(&mut self, key: &'static str) -> Option<Range<usize>> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        self.asked.push(key);
        Some(entry.key_span.clone())
    }

    /// The value of a key that may be missing.
    pub(super) fn get(&mut self, r: &Reader<'_>, key: &'static str) -> Option<Item<'n>> {
        self.ask(r, key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        if entry.node.filled == Some(Filled::Failed) {
            return None;
        }
        if entry.node.value == Value::Null {
            return r.refuse(
                SpecError::new(
                    entry.key_span.clone(),
                    format!("`{}` has no value", self.path(key)),
                )
                .label("nothing stands behind this key")
                .help("write a value, or leave the line out"),
            );
        }
        Some(self.item(entry))
    }

    /// The value of a key that must be there; `help` says what to write.
    pub(super) fn need(
        &mut self,
        r: &Reader<'_>,
        key: &'static str,
        help: &str,
    ) -> Option<Item<'n>> {
        if !self.has(key) {
            self.ask(r, key);
            // A misspelt key is one mistake, not a missing and an unknown one.
            let misspelt = |entry: &Entry| did_you_mean(&entry.key, [key]).is_some();
            if self.entries.iter().any(misspelt) {
                return None;
            }
            let title = if self.path.is_empty() {
                format!("this spec has no `{key}`")
            } else {
                format!("`{}` has no `{key}`", self.path)
            };
            return r.refuse(
                SpecError::new(self.place(), title)
                    .label(format!("`{key}` is missing here"))
                    .help(help),
            );
        }
        self.get(r, key)
    }

    /// Refuses what was not asked for; keys in `later` are known, but not to this version.
    pub(super) fn close(self, r: &Reader<'_>, later: &[&str]) {
        for entry in self.entries {
            let key = entry.key.as_str();
            if self.asked.contains(&key) {
                continue;
            }
            let path = self.path(key);
            if later.contains(&key) {
                r.note(
                    SpecError::new(
                        entry.key_span.clone(),
                        format!("this version does not support `{path}` yet"),
                    )
                    .label("nothing would read it")
                    .help("leave it out"),
                );
                continue;
            }
            let error = SpecError::new(entry.key_span.clone(), format!("unknown key `{path}`"));
            r.note(match did_you_mean(key, self.asked.iter().copied()) {
                Some(name) => error
                    .label("no such key")
                    .help(format!("did you mean `{name}`?")),
                None => error.label("no such key").help(format!(
                    "the keys here are {}",
                    listed(self.asked.iter().copied())
                )),
            });
        }
    }
}

/// Notes the second of each pair of equal keys, in the whole tree.
pub(super) fn refuse_duplicates(r: &Reader<'_>, node: &Node) {
    match &node.value {
        Value::Map(entries) => {
            let mut seen = std::collections::HashMap::new();
            for entry in entries {
                if let Some(first) = seen.get(entry.key.as_str()) {
                    r.note(
                        SpecError::new(
                            entry.key_span.clone(),
                            format!("the key `{}` is there twice", entry.key),
                        )
                        .label("second time")
                        .also(Range::clone(first), "first time")
                        .help("remove one of the two"),
                    );
                } else {
                    seen.insert(entry.key.as_str(), entry.key_span.clone());
                }
                refuse_duplicates(r, &entry.node);
            }
        }
        Value::List(items) => items.iter().for_each(|item| refuse_duplicates(r, item)),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => {}
    }
}
