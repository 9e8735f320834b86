//! The mistakes of a spec and how they are shown: file, line, column, the line itself, a way out.
//!
//! Holds the text with everything that may be a secret already masked.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::forms::steers;

/// One mistake of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    title: String,
    span: Range<usize>,
    label: String,
    also: Vec<(Range<usize>, String)>,
    help: Vec<String>,
}

impl SpecError {
    /// A mistake at these bytes of the text.
    pub(crate) fn new(span: Range<usize>, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            span,
            label: String::new(),
            also: Vec::new(),
            help: Vec::new(),
        }
    }

    /// What stands beside the caret.
    #[must_use]
    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Another place that has to do with it.
    #[must_use]
    pub(crate) fn also(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.also.push((span, label.into()));
        self
    }

    /// A way out.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Whether the other is this mistake, found once more by an heir of the value: only the path
    /// differs.
    fn is_found_again(&self, other: &Self) -> bool {
        self.span == other.span
            && self.label == other.label
            && without_owner(&self.title) == without_owner(&other.title)
    }

    /// What is wrong, in one line.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Bytes of the text that it is about.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }
}

/// Every mistake of one spec file, in the order of the text; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct SpecErrors {
    source: String,
    text: String,
    errors: Vec<SpecError>,
    /// Mistakes beyond those that are kept.
    further: usize,
}

/// Most mistakes that are kept: past this, a file is not what its reader takes it for.
const MOST: usize = 100;

impl SpecErrors {
    /// Collects mistakes; `text` has its secrets masked.
    pub(crate) fn new(source: &str, text: String, mut errors: Vec<SpecError>) -> Self {
        let text = tamed(text);
        for error in &mut errors {
            error.title = tamed(std::mem::take(&mut error.title));
            error.label = tamed(std::mem::take(&mut error.label));
        }
        errors.sort_by_key(|error| (error.span.start, error.span.end));
        let mut further = 0;
        let mut distinct: Vec<SpecError> = Vec::with_capacity(errors.len());
        for error in errors {
            let known = distinct.iter().any(|other| other.is_found_again(&error));
            if known {
                continue;
            }
            if distinct.len() < MOST {
                distinct.push(error);
            } else {
                further += 1;
            }
        }
        Self {
            source: source.to_owned(),
            text,
            errors: distinct,
            further,
        }
    }

    /// The mistakes, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &SpecError> {
        self.errors.iter()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.errors.len() + self.further
    }

    /// Path of the spec, as given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Line and column of a mistake, both from 1, the column in characters.
    pub fn position(&self, error: &SpecError) -> (u32, u32) {
        position(&self.text, error.span.start)
    }

    /// All mistakes as compilers show them, for a terminal or a log.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut shown: Vec<String> = self
            .errors
            .iter()
            .map(|error| renderer.render(&[self.report(error)]))
            .collect();
        if self.further > 0 {
            shown.push(format!("… and {} further mistakes", self.further));
        }
        let mut text = shown.join("\n\n");
        text.push('\n');
        text
    }

    fn report<'a>(&'a self, error: &'a SpecError) -> Group<'a> {
        let help = error
            .help
            .iter()
            .map(|help| Level::HELP.message(help.as_str()));
        let title = Level::ERROR.primary_title(error.title.as_str());
        if error.label.is_empty() && error.span.is_empty() {
            // About the file as a whole: no line is to blame.
            let origin = Origin::path(self.source.as_str());
            return title.element(origin).elements(help);
        }
        let primary = AnnotationKind::Primary
            .span(self.visible(&error.span))
            .label(error.label.as_str());
        let also = error.also.iter().map(|(span, label)| {
            AnnotationKind::Context
                .span(self.visible(span))
                .label(label.as_str())
        });
        let snippet = Snippet::source(self.text.as_str())
            .path(self.source.as_str())
            .annotation(primary)
            .annotations(also);
        title.element(snippet).elements(help)
    }

    /// The first line of a span, without the white space at its end, on character borders.
    fn visible(&self, span: &Range<usize>) -> Range<usize> {
        let start = char_start(&self.text, span.start);
        let end = char_start(&self.text, span.end.max(start));
        let line = self.text[start..end].lines().next().unwrap_or_default();
        start..start + line.trim_end().len()
    }
}

/// The text without characters that steer a terminal and that the renderer would leave in: each is
/// replaced by one of the same length, so that every place stays where it is.
fn tamed(text: String) -> String {
    if !text.chars().any(|c| steers(c) && !c.is_ascii()) {
        return text;
    }
    text.chars()
        .map(|c| match c.len_utf8() {
            2 if steers(c) => '·',
            3 if steers(c) => char::REPLACEMENT_CHARACTER,
            _ => c,
        })
        .collect()
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            let (line, column) = self.position(error);
            let gap = if i == 0 { "" } else { "\n" };
            write!(f, "{gap}{}:{line}:{column}: {}", self.source, error.title)?;
            if !error.label.is_empty() {
                write!(f, ": {}", error.label)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpecErrors")
            .field("source", &self.source)
            .field("errors", &self.errors)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for SpecErrors {}

/// A title without the relay, or `defaults`, at the start of its path.
fn without_owner(title: &str) -> String {
    let Some((before, path)) = title.split_once('`') else {
        return title.to_owned();
    };
    let tail = path.strip_prefix("defaults.").or_else(|| {
        let (index, tail) = path.strip_prefix("relays[")?.split_once("].")?;
        index.bytes().all(|b| b.is_ascii_digit()).then_some(tail)
    });
    format!("{before}`{}", tail.unwrap_or(path))
}

/// The start of the character that a byte offset falls into, or the end of the text.
pub(crate) fn char_start(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Line and column of a byte offset, both from 1, the column in characters.
pub(crate) fn position(text: &str, offset: usize) -> (u32, u32) {
    let before = &text[..char_start(text, offset)];
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    (
        u32::try_from(line).unwrap_or(u32::MAX),
        u32::try_from(column).unwrap_or(u32::MAX),
    )
}
