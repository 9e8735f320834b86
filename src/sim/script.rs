//! One response as timed writes of exact bytes, and the way the connection ends.
//!
//! Knows HTTP's framing only; what the bytes mean is none of its business.

use std::time::Duration;

/// How the length of the body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// One HTTP chunk per write.
    Chunked,
    /// `Content-Length` with this value, whether or not so many bytes follow.
    Length(usize),
    /// The body ends with the connection (HTTP/1.0).
    UntilClose,
}

/// What happens to the connection after the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It stays usable for another request.
    Reuse,
    /// It is closed in order (FIN).
    Fin,
    /// It is reset (RST).
    Rst,
    /// It stays open and silent until the client leaves.
    Hang,
}

/// A response that is ready to be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    status: u16,
    framing: Framing,
    wire: Vec<u8>,
    writes: Vec<Due>,
    first_token: Option<usize>,
    end: End,
}

/// One planned write: when, and where its bytes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    at: Duration,
    end: usize,
}

impl Script {
    /// Starts with a status line and headers, written at `at`.
    pub(super) fn open(
        at: Duration,
        status: u16,
        framing: Framing,
        headers: &[(&str, &str)],
    ) -> Self {
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        match framing {
            Framing::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
            Framing::Length(length) => head.push_str(&format!("content-length: {length}\r\n")),
            Framing::UntilClose => {}
        }
        head.push_str("\r\n");
        let mut script = Self::blank(status, framing);
        script.raw(at, head.as_bytes());
        script
    }

    /// Nothing yet, a head neither; the status is for the record.
    pub(super) fn blank(status: u16, framing: Framing) -> Self {
        Self {
            status,
            framing,
            wire: Vec::new(),
            writes: Vec::new(),
            first_token: None,
            end: End::Fin,
        }
    }

    /// A whole response with a known length.
    pub(super) fn whole(
        at: Duration,
        status: u16,
        headers: &[(&str, &str)],
        body: &[u8],
        end: End,
    ) -> Self {
        let mut script = Self::open(at, status, Framing::Length(body.len()), headers);
        script.send(at, body);
        script.finish(at, end);
        script
    }

    /// Adds one write of body bytes; nothing when there are none.
    pub(super) fn send(&mut self, at: Duration, body: &[u8]) {
        if body.is_empty() {
            return;
        }
        match self.framing {
            Framing::Chunked => {
                self.wire
                    .extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
                self.wire.extend_from_slice(body);
                self.raw(at, b"\r\n");
            }
            Framing::Length(_) | Framing::UntilClose => self.raw(at, body),
        }
    }

    /// Says that the latest write is the first to carry model output.
    pub(super) fn mark_first_token(&mut self) {
        if self.first_token.is_none() {
            self.first_token = self.writes.len().checked_sub(1);
        }
    }

    /// Ends the body as its framing asks, then the connection.
    pub(super) fn finish(&mut self, at: Duration, end: End) {
        match self.framing {
            Framing::Chunked => {
                self.raw(at, b"0\r\n\r\n");
                self.end = end;
            }
            Framing::Length(_) => self.end = end,
            Framing::UntilClose => self.end = End::Fin,
        }
    }

    /// Ends the connection with the body unfinished.
    pub(super) fn break_off(&mut self, end: End) {
        self.end = end;
    }

    /// Adds one write of bytes as they are; nothing when there are none.
    pub(super) fn raw(&mut self, at: Duration, bytes: &[u8]) {
        self.wire.extend_from_slice(bytes);
        let end = self.wire.len();
        if self.writes.last().map_or(0, |last| last.end) < end {
            self.writes.push(Due { at, end });
        }
    }

    /// Bytes of all writes.
    pub(super) fn size(&self) -> usize {
        self.wire.len()
    }

    /// Each write's offset and bytes, in order.
    pub(super) fn writes(&self) -> impl Iterator<Item = (Duration, &[u8])> {
        let mut start = 0;
        self.writes.iter().map(move |due| {
            let bytes = self.wire.get(start..due.end).unwrap_or_default();
            start = due.end;
            (due.at, bytes)
        })
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// Index of the write that carries the first model output.
    pub(super) fn first_token(&self) -> Option<usize> {
        self.first_token
    }

    pub(super) fn end(&self) -> End {
        self.end
    }
}

/// Reason phrase of a status code.
pub(super) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        529 => "Overloaded",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    fn wire(script: &Script) -> String {
        script
            .writes()
            .map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned())
            .collect::<Vec<_>>()
            .join("|")
    }

    #[test]
    fn each_send_is_one_chunk_and_one_write() {
        let mut script = Script::open(ZERO, 200, Framing::Chunked, &[("a", "b")]);
        script.send(ZERO, b"hello");
        script.mark_first_token();
        script.send(ZERO, b"");
        script.send(ZERO, b"0123456789abcdef");
        script.finish(ZERO, End::Reuse);
        assert_eq!(
            wire(&script),
            "HTTP/1.1 200 OK\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n|5\r\nhello\r\n|\
             10\r\n0123456789abcdef\r\n|0\r\n\r\n"
        );
        assert_eq!(script.first_token(), Some(1));
        assert_eq!(script.end(), End::Reuse);
    }

    #[test]
    fn a_body_broken_off_has_no_last_chunk() {
        let mut script = Script::open(ZERO, 200, Framing::Chunked, &[]);
        script.send(ZERO, b"hello");
        script.break_off(End::Rst);
        assert!(wire(&script).ends_with("5\r\nhello\r\n"));
        assert_eq!(script.end(), End::Rst);
    }

    #[test]
    fn without_a_told_length_the_end_of_the_body_is_the_end_of_the_connection() {
        let mut script = Script::open(ZERO, 200, Framing::UntilClose, &[]);
        script.send(ZERO, b"hello");
        script.finish(ZERO, End::Reuse);
        assert_eq!(wire(&script), "HTTP/1.1 200 OK\r\n\r\n|hello");
        assert_eq!(script.end(), End::Fin);
    }
}
