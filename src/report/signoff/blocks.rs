//! The eleven parts of the document as headings, sentences and tables, for any form that has these.

mod doubts;
mod money;
mod observed;
mod origin;
mod outcome;
mod sampled;

pub(in crate::report) use self::outcome::paired;
use crate::forms::steers;
use crate::report::signoff::gathered::Latency;
use crate::report::signoff::rows::Row;
use crate::report::signoff::{DayFailures, SignOff};
use crate::verdict::Overall;

/// One of the eleven parts.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// Its heading.
    pub title: &'static str,
    /// What is in it.
    pub blocks: Vec<Block<'a>>,
}

/// A piece of a part.
#[derive(Clone, Debug)]
pub enum Block<'a> {
    /// A heading below that of the part.
    Heading(String),
    /// A paragraph.
    Text(Vec<Inline>),
    /// Points, one below the other.
    List(Vec<Vec<Inline>>),
    /// A table: what its columns are, and each row with what its verdict is, where it has one.
    Table {
        /// The columns.
        columns: Vec<Column>,
        /// The rows, a cell for each column.
        rows: Vec<(Option<Mark>, Vec<Vec<Inline>>)>,
    },
    /// Lines to sign on.
    Signatures(&'a [String]),
    /// Something to draw, where a form can; the tables say the same.
    Picture(Picture<'a>),
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// Whether it holds numbers.
    pub is_number: bool,
}

/// A stretch of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inline {
    /// Words.
    Text(String),
    /// A name, as it is.
    Code(String),
    /// Words that lead somewhere.
    Link {
        /// The words.
        text: String,
        /// Where to.
        url: String,
    },
    /// What a verdict is.
    Mark(Mark, String),
    /// Words on a line of their own that matter less.
    Small(String),
}

/// What a verdict is, for a sign beside its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Met.
    Pass,
    /// Not met, and a warning only.
    Warning,
    /// Violated.
    Violated,
    /// Open.
    Open,
    /// Nothing was measured.
    Nothing,
    /// It decides nothing here.
    Noted,
}

/// Something to draw.
#[derive(Clone, Copy, Debug)]
pub enum Picture<'a> {
    /// How values are spread, and the first token by hour.
    Latency(&'a Latency),
    /// Failures of one relay by day and party.
    Days(&'a str, &'a [DayFailures]),
}

/// The eleven parts, in their order.
pub fn parts(document: &SignOff) -> Vec<Part<'_>> {
    let part = |title, blocks| Part { title, blocks };
    vec![
        part("Verdict", outcome::verdict(document)),
        part("Objectives", outcome::objectives(document)),
        part("Planned and taken samples", sampled::coverage(document)),
        part("Failures by whom to look at", observed::failures(document)),
        part("Latency by hour of the day", observed::latency(document)),
        part("Signals of authenticity", doubts::signals(document)),
        part("Cost", money::cost(document)),
        part("Exclusions and overrides", doubts::exceptions(document)),
        part("Provenance", origin::provenance(document)),
        part(
            "Failed samples by the relay's own ids",
            origin::requests(document),
        ),
        part("What was not tested", doubts::untested(document)),
    ]
}

fn text(words: impl Into<String>) -> Inline {
    Inline::Text(shown(words.into()))
}

fn code(name: impl Into<String>) -> Inline {
    Inline::Code(shown(name.into()))
}

fn small(words: impl Into<String>) -> Inline {
    Inline::Small(shown(words.into()))
}

/// A text, names that a relay gave among it, without what would steer a terminal or turn the text
/// beside it around.
fn shown(text: String) -> String {
    if text.chars().any(steers) {
        let kept = |c| {
            if steers(c) {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        };
        text.chars().map(kept).collect()
    } else {
        text
    }
}

fn say(words: impl Into<String>) -> Block<'static> {
    Block::Text(cell(words))
}

const fn words_of(title: &'static str) -> Column {
    Column {
        title,
        is_number: false,
    }
}

const fn number(title: &'static str) -> Column {
    Column {
        title,
        is_number: true,
    }
}

/// Words, with what stands between backticks as names.
fn cell(words: impl Into<String>) -> Vec<Inline> {
    let words = words.into();
    // Backticks that are not in pairs are of somebody else, and mean nothing.
    if words.matches('`').count() % 2 != 0 {
        return vec![text(words)];
    }
    let parts = words.split('`').enumerate();
    parts
        .filter(|(_, part)| !part.is_empty())
        .map(|(index, part)| {
            if index % 2 == 0 {
                text(part)
            } else {
                code(part)
            }
        })
        .collect()
}

fn plain(columns: Vec<Column>, rows: Vec<Vec<Vec<Inline>>>) -> Block<'static> {
    let rows = rows.into_iter().map(|row| (None, row)).collect();
    Block::Table { columns, rows }
}

impl Mark {
    /// What something comes to.
    pub const fn of(overall: Overall) -> Self {
        match overall {
            Overall::Pass => Self::Pass,
            Overall::Violated => Self::Violated,
            Overall::Inconclusive => Self::Open,
            Overall::Nothing => Self::Nothing,
        }
    }

    /// What a row is.
    pub fn of_row(row: &Row) -> Self {
        if row.comes_to != Overall::Pass {
            Self::of(row.comes_to)
        } else if row.decision == "pass" {
            Self::Pass
        } else if row.is_warning {
            Self::Warning
        } else {
            Self::Noted
        }
    }
}
