//! Lines that stand outside of any event, and what a body is that consists of nothing else.

use super::notes::Spot;
use super::wording;
use crate::dialect::{self, Reader, SaidError};

/// Most bytes that are gathered.
const MAX_BYTES: usize = 64 << 10;

/// What stands outside of events.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing but blank lines.
    Nothing,
    /// A JSON error.
    JsonError(SaidError),
    /// A web page.
    Page,
    /// Plain words that say an error.
    ErrorText,
    /// One JSON object that looks like a whole answer.
    Answer,
    /// Lines of JSON, or one JSON value of another kind.
    Json,
    /// Other text.
    Text,
}

/// Gathers lines that are no fields.
#[derive(Debug, Default)]
pub(super) struct Outside {
    text: String,
    first: Option<Spot>,
}

impl Outside {
    /// Takes one line.
    pub(super) fn line(&mut self, spot: Spot, line: &str) {
        self.first.get_or_insert(spot);
        if self.text.len() + line.len() < MAX_BYTES {
            self.text.push_str(line);
            self.text.push('\n');
        } else {
            let room = MAX_BYTES.saturating_sub(self.text.len());
            self.text.push_str(super::clean::cut(line, room));
        }
    }

    /// Where the first such line was.
    pub(super) fn first(&self) -> Option<Spot> {
        self.first
    }

    /// The text gathered.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What it is, to a reader of the protocol that was asked for.
    pub(super) fn kind(&self, reader: &Reader) -> Kind {
        kind(&self.text, reader)
    }
}

/// What a text is that should have been a stream or an answer.
pub(super) fn kind(text: &str, reader: &Reader) -> Kind {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Kind::Nothing;
    }
    if wording::is_page(text) {
        return Kind::Page;
    }
    let whole = dialect::error_in(text);
    let first_line = text.lines().next().unwrap_or_default();
    if let Some(error) = whole.or_else(|| dialect::error_in(first_line)) {
        return Kind::JsonError(error);
    }
    if text.starts_with(['{', '[']) {
        // Cut short by the limit, a long answer still shows what it is.
        let answer = text.lines().count() == 1 || is_json(text);
        return if answer && reader.is_answer(text) {
            Kind::Answer
        } else if is_json(text) || is_json(first_line) {
            Kind::Json
        } else if wording::is_error_line(text) {
            Kind::ErrorText
        } else {
            Kind::Text
        };
    }
    if wording::is_error_line(text) || wording::spoken(text).is_some() {
        return Kind::ErrorText;
    }
    Kind::Text
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Protocol;

    #[test]
    fn a_body_that_is_no_stream_is_told_by_its_text() {
        let reader = Protocol::OpenaiChat.reader();
        let kind = |text| kind(text, &reader);
        assert_eq!(kind(" \n\n"), Kind::Nothing);
        assert_eq!(kind("<!DOCTYPE html>\n<html>"), Kind::Page);
        assert!(matches!(
            kind("{\n \"error\": {\n  \"code\": \"x\"\n }\n}\n"),
            Kind::JsonError(_)
        ));
        assert!(matches!(
            kind("{\"error\":\"x\"}\n{\"a\":1}\n"),
            Kind::JsonError(_)
        ));
        assert_eq!(kind("{\"id\":\"x\",\"choices\":[]}"), Kind::Answer);
        assert_eq!(kind("{\"done\":false}\n{\"done\":true}\n"), Kind::Json);
        assert_eq!(kind("upstream request timeout"), Kind::ErrorText);
        assert_eq!(kind("Hello there"), Kind::Text);
    }
}
