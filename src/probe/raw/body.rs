//! Decides how a response body is delimited and takes it apart: sans-IO (RFC 9112 §6.3).

use super::chunked::{Chunked, Piece};
use super::head::Parsed;
use crate::stream::FramingFault;

/// A body being read.
#[derive(Debug)]
pub(super) enum Body {
    /// Chunked transfer coding.
    Chunked(Chunked),
    /// Content-Length: what is left of it.
    Length(u64),
    /// Until the peer closes.
    UntilClose,
    /// Complete.
    Done,
}

/// What the peer's FIN means for a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtClose {
    /// The body ends here, as it should.
    End,
    /// Content-Length promised more.
    Short,
    /// The last chunk is missing.
    Cut,
}

impl Body {
    /// How the body after this head is delimited, and what is wrong with the head's say on it.
    ///
    /// With a fault the body is the best reading that RFC 9112 allows, for whoever reads on.
    pub(super) fn of(head: &Parsed, buffer: &[u8]) -> (Self, Vec<FramingFault>) {
        let mut faults = Vec::new();
        if head.status == 101 || head.status == 204 || head.status == 304 {
            return (Self::Length(0), faults);
        }
        let codings: Vec<&[u8]> = head
            .values(buffer, "transfer-encoding")
            .flat_map(items)
            .filter(|coding| !coding.is_empty())
            .collect();
        let lengths: Vec<&[u8]> = head
            .values(buffer, "content-length")
            .flat_map(items)
            .collect();
        if let Some((last, others)) = codings.split_last() {
            if !lengths.is_empty() {
                faults.push(FramingFault::TwoFramings);
            }
            let chunked = last.eq_ignore_ascii_case(b"chunked");
            // HTTP/1.0 has no transfer codings: who sends one does not say what the bytes are.
            if !chunked || !others.is_empty() || head.version == "1.0" {
                faults.push(FramingFault::UnaskedCoding);
            }
            let body = if chunked {
                Self::Chunked(Chunked::new())
            } else {
                Self::UntilClose
            };
            return (body, faults);
        }
        let Some((first, others)) = lengths.split_first() else {
            return (Self::UntilClose, faults);
        };
        let length = number(first);
        if length.is_none() || others.iter().any(|other| number(other) != length) {
            faults.push(FramingFault::BadContentLength);
            return (Self::UntilClose, faults);
        }
        (Self::Length(length.unwrap_or_default()), faults)
    }

    /// Takes the next piece off the front of `input`; `None` when it needs more bytes.
    ///
    /// An empty body ends without any input, so ask once before reading.
    pub(super) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<Piece<'a>>, FramingFault> {
        let piece = match self {
            Self::Chunked(chunked) => chunked.next(input)?,
            Self::Length(0) => Some(Piece::End),
            Self::Length(left) if !input.is_empty() => {
                let room = usize::try_from(*left).unwrap_or(usize::MAX);
                let (data, rest) = input.split_at(room.min(input.len()));
                *input = rest;
                *left -= data.len() as u64;
                Some(Piece::Data(data))
            }
            Self::UntilClose if !input.is_empty() => Some(Piece::Data(std::mem::take(input))),
            Self::Length(_) | Self::UntilClose | Self::Done => None,
        };
        if piece == Some(Piece::End) {
            *self = Self::Done;
        }
        Ok(piece)
    }

    /// What it means when the peer closes now.
    pub(super) fn at_close(&self) -> AtClose {
        match self {
            Self::Chunked(_) => AtClose::Cut,
            Self::Length(_) => AtClose::Short,
            Self::UntilClose | Self::Done => AtClose::End,
        }
    }
}

/// The members of a comma-separated list, trimmed.
fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// A Content-Length: digits only.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::head::Scan;
    use super::*;

    fn body(head: &str) -> (Body, Vec<FramingFault>) {
        let mut buffer = format!("HTTP/1.1 {head}\r\n\r\n").into_bytes();
        let parsed = Scan::default().parse(&mut buffer).unwrap().unwrap();
        Body::of(&parsed, &buffer)
    }

    fn faults(head: &str) -> Vec<FramingFault> {
        body(head).1
    }

    #[test]
    fn the_head_says_how_the_body_ends() {
        assert!(matches!(
            body("200 OK\r\nTransfer-Encoding: Chunked"),
            (Body::Chunked(_), none) if none.is_empty()
        ));
        assert!(matches!(
            body("200 OK\r\ncontent-length: 5\r\ncontent-length: 5, 5"),
            (Body::Length(5), none) if none.is_empty()
        ));
        assert!(matches!(body("200 OK\r\na: b"), (Body::UntilClose, none) if none.is_empty()));
        assert!(matches!(
            body("204 No Content\r\ntransfer-encoding: chunked"),
            (Body::Length(0), none) if none.is_empty()
        ));
    }

    #[test]
    fn both_framings_at_once_are_a_fault_and_chunked_wins() {
        let (body, faults) = body("200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9");
        assert!(matches!(body, Body::Chunked(_)));
        assert_eq!(faults, [FramingFault::TwoFramings]);
    }

    #[test]
    fn a_length_that_is_no_number_or_differs_is_a_fault() {
        for bad in [
            "content-length: -1",
            "content-length: +5",
            "content-length: 5x",
            "content-length:",
            "content-length: 5\r\ncontent-length: 6",
            "content-length: 5, 6",
            "content-length: 99999999999999999999",
        ] {
            assert_eq!(
                faults(&format!("200 OK\r\n{bad}")),
                [FramingFault::BadContentLength],
                "{bad}"
            );
        }
    }

    #[test]
    fn a_transfer_coding_that_was_not_asked_for_is_a_fault() {
        for bad in [
            "transfer-encoding: gzip, chunked",
            "transfer-encoding: chunked, chunked",
            "transfer-encoding: gzip",
        ] {
            assert_eq!(
                faults(&format!("200 OK\r\n{bad}")),
                [FramingFault::UnaskedCoding],
                "{bad}"
            );
        }
    }

    #[test]
    fn an_empty_body_ends_before_any_byte_came() {
        let (mut body, _) = body("200 OK\r\ncontent-length: 0");
        assert_eq!(body.next(&mut &b""[..]), Ok(Some(Piece::End)));
        assert_eq!(body.next(&mut &b"x"[..]), Ok(None));
    }

    #[test]
    fn bytes_beyond_the_length_stay_in_the_input() {
        let (mut body, _) = body("200 OK\r\ncontent-length: 3");
        let mut input = &b"abcdef"[..];
        assert_eq!(body.next(&mut input), Ok(Some(Piece::Data(b"abc"))));
        assert_eq!(body.next(&mut input), Ok(Some(Piece::End)));
        assert_eq!(input, b"def");
    }

    #[test]
    fn a_close_means_what_the_framing_says() {
        assert_eq!(body("200 OK\r\na: b").0.at_close(), AtClose::End);
        assert_eq!(
            body("200 OK\r\ncontent-length: 1").0.at_close(),
            AtClose::Short
        );
        assert_eq!(
            body("200 OK\r\ntransfer-encoding: chunked").0.at_close(),
            AtClose::Cut
        );
    }
}
