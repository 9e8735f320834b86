//! What carries results to stdout: a reader who has gone, and text that must not steer a terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use serde_json::Value;

use crate::forms::steers;
use crate::report::json::harmless;

/// Stdout, with a reader who may leave (`relayproof … | head`).
///
/// That is nobody's failure and changes no verdict: what is written afterwards goes nowhere, and
/// the exit code stays what it would have been.
pub(super) struct Results<W> {
    inner: W,
    unread: bool,
}

impl<W: Write> Results<W> {
    pub(super) const fn new(inner: W) -> Self {
        Self {
            inner,
            unread: false,
        }
    }

    fn unless_unread<T>(&mut self, result: io::Result<T>, nothing: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.unread = true;
                Ok(nothing)
            }
            result => result,
        }
    }
}

impl<W: Write> Write for Results<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unread {
            return Ok(bytes.len());
        }
        let written = self.inner.write(bytes);
        self.unless_unread(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unread {
            return Ok(());
        }
        let flushed = self.inner.flush();
        self.unless_unread(flushed, ())
    }
}

/// Writes one JSON document in which no character of a relay's can steer a terminal.
pub(super) fn json(document: &Value, out: &mut dyn Write) -> io::Result<()> {
    let text = serde_json::to_string_pretty(document)?;
    out.write_all(harmless(&text).as_bytes())
}

/// Text of a relay as a terminal may have it: what would steer it is replaced.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| matches!(c, '\n' | '\t') || !steers(c);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars();
    shown
        .map(|c| if harmless(c) { c } else { '\u{FFFD}' })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Takes a few bytes, then says that nobody reads them.
    struct Pipe(Vec<u8>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.len() >= 4 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.0.extend_from_slice(&bytes[..1]);
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_who_leaves_is_no_error_and_gets_nothing_more() {
        let mut results = Results::new(Pipe(Vec::new()));
        results.write_all(b"verdict").unwrap();
        results.write_all(b"more").unwrap();
        results.flush().unwrap();
        assert_eq!(results.inner.0, b"verd");
    }

    #[test]
    fn any_other_failure_to_write_is_told() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = Results::new(Full).write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn json_says_the_same_without_a_character_that_steers() {
        let hostile = "a\u{1b}[2J\u{9b}31m\u{7f}\u{202e}b\n\té";
        let document = json!({ "content": hostile, hostile: [1] });
        let mut out = Vec::new();
        json(&document, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.chars().all(|c| c == '\n' || !steers(c)), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    }

    #[test]
    fn printed_text_keeps_its_lines_and_loses_what_steers() {
        assert_eq!(printable("a\tb\n"), "a\tb\n");
        assert_eq!(
            printable("\u{1b}[31mred\r\u{202e}"),
            "\u{FFFD}[31mred\u{FFFD}\u{FFFD}"
        );
    }
}
