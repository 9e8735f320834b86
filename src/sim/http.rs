//! Reads HTTP/1 requests off a connection, within bounds.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Longest request line and headers together, and longest chunk head or trailer.
const MAX_HEAD: usize = 64 << 10;

/// Longest request body.
const MAX_BODY: usize = 16 << 20;

/// Least room offered to one read.
const READ_SIZE: usize = 4 << 10;

/// How long a connection may wait for its next request, and a request for its rest.
const READ_LIMIT: Duration = Duration::from_secs(120);

/// A request that was read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// Path without the query.
    pub(super) path: String,
    pub(super) query: String,
    /// Whether the client speaks HTTP/1.1, so that it understands chunks.
    pub(super) chunked: bool,
    pub(super) keep_alive: bool,
    pub(super) body: Vec<u8>,
}

/// Why there is no request.
#[derive(Debug)]
pub(super) enum Unread {
    /// The client has left, or says nothing.
    Gone,
    /// What came is refused with this status; the connection cannot be used further.
    Refused(u16, &'static str),
}

impl From<io::Error> for Unread {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// What has come in on one connection and was not used yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// Reads the next request, answering `Expect: 100-continue` on the way.
    pub(super) async fn request<S>(&mut self, stream: &mut S) -> Result<Request, Unread>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let head = loop {
            let blank = self.bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n'));
            let blank = blank.count();
            self.bytes.drain(..blank);
            if self
                .bytes
                .first()
                .is_some_and(|byte| !byte.is_ascii_alphabetic())
            {
                // A TLS handshake has no line end to wait for.
                return Err(Unread::Refused(400, "this is no HTTP request"));
            }
            if let Some(end) = find(&self.bytes, b"\r\n\r\n").filter(|end| *end <= MAX_HEAD) {
                let head = Head::parse(self.bytes.get(..end).unwrap_or_default())?;
                self.bytes.drain(..end + 4);
                break head;
            }
            if self.bytes.len() > MAX_HEAD {
                return Err(Unread::Refused(431, "the request head is too long"));
            }
            self.more(stream).await?;
        };
        if head.expects && self.bytes.is_empty() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            stream.flush().await?;
        }
        let body = match head.length {
            Length::Known(length) => self.exactly(stream, length).await?,
            Length::Chunked => self.chunks(stream).await?,
        };
        Ok(Request {
            method: head.method,
            path: head.path,
            query: head.query,
            chunked: head.chunked,
            keep_alive: head.keep_alive,
            body,
        })
    }

    /// Waits until the client leaves; what it sends is kept, and left unread beyond a bound.
    pub(super) async fn left<S: AsyncRead + Unpin>(&mut self, stream: &mut S) {
        while self.bytes.len() <= MAX_HEAD {
            if !matches!(stream.read_buf(&mut self.bytes).await, Ok(1..)) {
                return;
            }
        }
        std::future::pending().await
    }

    /// Waits until the client leaves; what it sends is dropped.
    pub(super) async fn drain<S: AsyncRead + Unpin>(&mut self, stream: &mut S) {
        self.bytes.clear();
        while matches!(stream.read_buf(&mut self.bytes).await, Ok(1..)) {
            self.bytes.clear();
        }
    }

    async fn more<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> Result<(), Unread> {
        self.bytes.reserve(READ_SIZE);
        match timeout(READ_LIMIT, stream.read_buf(&mut self.bytes)).await {
            Ok(Ok(1..)) => Ok(()),
            Ok(Ok(0) | Err(_)) | Err(_) => Err(Unread::Gone),
        }
    }

    async fn exactly<S>(&mut self, stream: &mut S, length: usize) -> Result<Vec<u8>, Unread>
    where
        S: AsyncRead + Unpin,
    {
        while self.bytes.len() < length {
            self.more(stream).await?;
        }
        let rest = self.bytes.split_off(length);
        Ok(std::mem::replace(&mut self.bytes, rest))
    }

    async fn line<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> Result<Vec<u8>, Unread> {
        loop {
            if let Some(end) = find(&self.bytes, b"\r\n") {
                let line = self.exactly(stream, end).await?;
                self.bytes.drain(..2);
                return Ok(line);
            }
            if self.bytes.len() > MAX_HEAD {
                return Err(Unread::Refused(400, "a chunk head is too long"));
            }
            self.more(stream).await?;
        }
    }

    async fn chunks<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> Result<Vec<u8>, Unread> {
        let mut body = Vec::new();
        loop {
            let line = self.line(stream).await?;
            let size = chunk_size(&line).ok_or(Unread::Refused(400, "a chunk has no size"))?;
            if size > MAX_BODY - body.len() {
                return Err(Unread::Refused(413, "the request body is too long"));
            }
            if size == 0 {
                break;
            }
            body.extend(self.exactly(stream, size).await?);
            if !self.line(stream).await?.is_empty() {
                return Err(Unread::Refused(400, "a chunk is longer than it says"));
            }
        }
        let mut trailers = 0;
        loop {
            let line = self.line(stream).await?;
            trailers += line.len();
            if line.is_empty() {
                return Ok(body);
            }
            if trailers > MAX_HEAD {
                return Err(Unread::Refused(431, "the trailers are too long"));
            }
        }
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

fn chunk_size(line: &[u8]) -> Option<usize> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// How the length of a request's body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Known(usize),
    Chunked,
}

/// Request line and the headers that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Head {
    method: String,
    path: String,
    query: String,
    chunked: bool,
    keep_alive: bool,
    expects: bool,
    length: Length,
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Self, Unread> {
        let bad = |why| Unread::Refused(400, why);
        let text = std::str::from_utf8(bytes).map_err(|_| bad("the request head is not text"))?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(bad("the request line has not three words"));
        };
        let chunked = match version {
            "HTTP/1.1" => true,
            "HTTP/1.0" => false,
            _ => {
                return Err(Unread::Refused(
                    505,
                    "only HTTP/1.0 and HTTP/1.1 are spoken",
                ));
            }
        };
        let mut head = Self {
            method: method.to_owned(),
            path: path_of(target).to_owned(),
            query: query_of(target).to_owned(),
            chunked,
            keep_alive: chunked,
            expects: false,
            length: Length::Known(0),
        };
        let mut length = None;
        let mut coded = false;
        for line in lines {
            let (name, value) = line
                .split_once(':')
                .filter(|(name, _)| !name.is_empty() && !name.contains([' ', '\t']))
                .ok_or_else(|| bad("a header line is malformed"))?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                let known = digits(value).ok_or_else(|| bad("the content length is no number"))?;
                if length
                    .replace(known)
                    .is_some_and(|earlier| earlier != known)
                {
                    return Err(bad("two content lengths differ"));
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                if !value.eq_ignore_ascii_case("chunked") || coded {
                    return Err(Unread::Refused(501, "this transfer coding is not known"));
                }
                coded = true;
            } else if name.eq_ignore_ascii_case("connection") {
                for option in value.split(',').map(str::trim) {
                    if option.eq_ignore_ascii_case("close") {
                        head.keep_alive = false;
                    } else if option.eq_ignore_ascii_case("keep-alive") && !chunked {
                        head.keep_alive = true;
                    }
                }
            } else if name.eq_ignore_ascii_case("expect") {
                head.expects = value.eq_ignore_ascii_case("100-continue");
            }
        }
        head.length = match (length, coded) {
            (Some(_), true) => return Err(bad("the body's length is told in two ways")),
            (None, true) => Length::Chunked,
            (Some(known), false) if known > MAX_BODY => {
                return Err(Unread::Refused(413, "the request body is too long"));
            }
            (known, false) => Length::Known(known.unwrap_or(0)),
        };
        Ok(head)
    }
}

fn digits(value: &str) -> Option<usize> {
    value
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| value.parse().ok())?
}

/// Path of a request target, also of the absolute form that proxies are asked in.
fn path_of(target: &str) -> &str {
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
        None => target,
    };
    path.split(['?', '#']).next().unwrap_or_default()
}

/// Query of a request target, without the question mark.
fn query_of(target: &str) -> &str {
    let target = target.split('#').next().unwrap_or_default();
    target.split_once('?').map_or("", |(_, query)| query)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Result<Head, u16> {
        Head::parse(head.as_bytes()).map_err(|unread| match unread {
            Unread::Refused(status, _) => status,
            Unread::Gone => 0,
        })
    }

    #[test]
    fn the_query_and_the_authority_are_no_part_of_the_path() {
        let head = parse("GET /v1/models?a=/b?c#d HTTP/1.1").unwrap();
        assert_eq!((&*head.path, &*head.query), ("/v1/models", "a=/b?c"));
        assert_eq!(parse("GET http://h:1/v1/x HTTP/1.1").unwrap().path, "/v1/x");
        assert_eq!(parse("GET http://h:1 HTTP/1.1").unwrap().path, "/");
    }

    #[test]
    fn http_1_0_closes_unless_asked_to_keep() {
        assert!(!parse("GET / HTTP/1.0").unwrap().keep_alive);
        assert!(
            parse("GET / HTTP/1.0\r\nConnection: Keep-Alive")
                .unwrap()
                .keep_alive
        );
        assert!(
            !parse("GET / HTTP/1.1\r\nconnection: te, close")
                .unwrap()
                .keep_alive
        );
    }

    #[test]
    fn an_ambiguous_or_malformed_head_is_refused() {
        for (head, status) in [
            ("GET /", 400),
            ("GET / HTTP/2", 505),
            ("GET / HTTP/1.1\r\nno colon", 400),
            ("GET / HTTP/1.1\r\na b: c", 400),
            ("POST / HTTP/1.1\r\ncontent-length: +1", 400),
            (
                "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2",
                400,
            ),
            (
                "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked",
                400,
            ),
            ("POST / HTTP/1.1\r\ntransfer-encoding: gzip", 501),
            ("POST / HTTP/1.1\r\ncontent-length: 16777217", 413),
        ] {
            assert_eq!(parse(head).unwrap_err(), status, "{head}");
        }
    }

    #[tokio::test]
    async fn a_handshake_at_a_plain_port_is_refused_at_its_first_byte() {
        let (mut client, mut server) = tokio::io::duplex(16);
        client.write_all(b"\x16\x03\x01").await.unwrap();
        let refused = Inbox::default().request(&mut server).await;
        assert!(matches!(refused, Err(Unread::Refused(400, _))));
    }

    #[tokio::test]
    async fn a_chunked_body_is_joined_and_the_next_request_is_kept() {
        let wire = b"\r\nPOST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n\
                     3;x=y\r\nabc\r\n1\r\nd\r\n0\r\ntrailer: 1\r\n\r\n\
                     GET /b HTTP/1.1\r\n\r\n";
        let (mut client, mut server) = tokio::io::duplex(16);
        let write = async { client.write_all(wire).await.unwrap() };
        let read = async {
            let mut inbox = Inbox::default();
            let first = inbox.request(&mut server).await.unwrap();
            let second = inbox.request(&mut server).await.unwrap();
            (first, second)
        };
        let ((), (first, second)) = tokio::join!(write, read);
        assert_eq!(
            (first.path.as_str(), first.body.as_slice()),
            ("/a", &b"abcd"[..])
        );
        assert_eq!(second.path, "/b");
    }
}
