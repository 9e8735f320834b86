//! What a spec may hold, as one table: source of the JSON Schema for editors and of the reference
//! in `docs/spec.md`.
//!
//! The reader does not look at it. Closed sets of words are taken from where the reader takes them,
//! and tests hold the rest together: the keys that the reader asks for are the keys of this table,
//! and the defaults of this table, written out, change no plan.

mod json;
mod pattern;
mod reference;
mod tables;
#[cfg(test)]
mod tests;

pub use json::document;
pub use reference::{objectives, table};

/// A map of a spec.
#[derive(Debug)]
pub(crate) struct Table {
    /// Where it stands: `relays[].timeouts`.
    pub(crate) place: &'static str,
    /// What it is, in one line.
    pub(crate) about: &'static str,
    /// Its keys, in the order of the reference; groups may be shared.
    pub(crate) keys: &'static [&'static [Key]],
    /// How many of its keys may be there.
    pub(crate) size: Size,
}

/// How many keys of a map may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Any number.
    Any,
    /// At least one.
    Some,
    /// Exactly one.
    One,
}

/// A key of a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// As written.
    pub(crate) name: &'static str,
    /// What may stand behind it.
    pub(crate) kind: Kind,
    /// Whether it must be there.
    pub(crate) must: bool,
    /// What counts where it is not there, in Markdown; a lone code span is a value.
    pub(crate) usual: &'static str,
    /// What it means, in Markdown.
    pub(crate) meaning: &'static str,
    /// What may stand behind it in the words of the reference, where those of the kind do not do.
    pub(crate) shown: &'static str,
    /// An example, as JSON.
    pub(crate) example: &'static str,
}

/// What may stand somewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// This whole number, written out.
    Exactly(u64),
    /// `true`, and nothing else yet.
    True,
    /// `true` or `false`.
    Flag,
    /// A whole number within bounds.
    Whole(u64, u64),
    /// A number within bounds.
    Number(f64, f64),
    /// Text that is not empty.
    Text,
    /// Text in which nothing is filled in.
    Plain,
    /// Name of an environment variable, in which nothing is filled in.
    Variable,
    /// Part of a test's name.
    Name,
    /// A base URL.
    Url,
    /// A proxy's URL.
    ProxyUrl,
    /// Address of a trace.
    TraceUrl,
    /// One of a closed set.
    Words(fn() -> Vec<&'static str>),
    /// `1.5s`.
    Duration,
    /// `1.5s`, or zero.
    DurationOrZero,
    /// `120/min`.
    Rate,
    /// `99.5%`.
    Share,
    /// `25 USD`.
    Money,
    /// `21:00-01:00`.
    Daily,
    /// `2026-12-01T00:00:00Z`.
    Moment,
    /// `8M`.
    Count,
    /// `ttft.p95 < 1.5s`; a mean only where it may warn.
    Objective {
        /// Whether a mean will do.
        mean: bool,
    },
    /// A status to retry, or `connect`.
    Retried,
    /// Text, a number or a truth value.
    Single,
    /// A text, or a list of them.
    Texts,
    /// A list of 1 to 256 items.
    List(&'static Self),
    /// A list of texts in which nothing is filled in.
    Command,
    /// A list of any length.
    Anything(&'static Self),
    /// A map.
    Map(&'static Table),
    /// A map with keys of the user's own.
    MapOf(&'static Self, u64),
    /// Members of a request.
    Params,
    /// A fault of the embedded relay, with its share and parameters.
    Fault,
    /// One of several.
    Either(&'static [Self]),
}

impl Table {
    /// Its keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.keys.iter().flat_map(|group| group.iter())
    }
}

impl Key {
    /// A key that may be missing.
    const fn new(name: &'static str, kind: Kind, meaning: &'static str) -> Self {
        Self {
            name,
            kind,
            must: false,
            usual: "",
            meaning,
            shown: "",
            example: "",
        }
    }

    /// The same, required.
    const fn must(self) -> Self {
        Self { must: true, ..self }
    }

    const fn usual(self, usual: &'static str) -> Self {
        Self { usual, ..self }
    }

    const fn shown(self, shown: &'static str) -> Self {
        Self { shown, ..self }
    }

    const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }
}

/// The one value inside of a lone code span, as it would be read.
pub(crate) fn lone_value(markdown: &str) -> Option<serde_json::Value> {
    let inside = markdown.strip_prefix('`')?.strip_suffix('`')?;
    if inside.contains('`') || inside.starts_with(['[', '{']) {
        return None;
    }
    Some(serde_json::from_str(inside).unwrap_or_else(|_| inside.into()))
}

/// Every map of a spec, in the order of the reference.
pub(crate) fn all() -> &'static [&'static Table] {
    tables::ALL
}
