//! A raw HTTP client of the tests' own, which shares no code with the probe.

use std::net::SocketAddr;
use std::time::Duration;

use relayproof::sim::{Fault, Planned, Relay, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// How a response ended, as far as the socket shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The body was whole by its own framing; the connection was still open.
    Whole,
    /// The connection ended inside the body.
    Fin,
    /// The connection was reset inside the body.
    Reset,
    /// Nothing more came.
    Silent,
}

/// A response read off the wire.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) head: String,
    pub(crate) status: u16,
    /// The body's bytes, one item per HTTP chunk.
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) ending: Ending,
}

impl Response {
    pub(crate) fn body(&self) -> String {
        String::from_utf8(self.chunks.concat()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The data of each event.
    pub(crate) fn events(&self) -> Vec<String> {
        let body = self.body();
        assert!(body.is_empty() || body.ends_with("\n\n"), "{body:?}");
        body.split_terminator("\n\n")
            .map(|event| event.strip_prefix("data: ").unwrap().to_owned())
            .collect()
    }

    /// The text of the events that are JSON, joined.
    pub(crate) fn text(&self) -> String {
        self.events()
            .iter()
            .filter_map(|event| serde_json::from_str::<Value>(event).ok())
            .filter_map(|event| {
                let delta = &event["choices"][0]["delta"];
                delta["content"].as_str().map(str::to_owned)
            })
            .collect()
    }
}

/// Silence that counts as the end of an answer, where a stall is expected.
const SILENCE: Duration = Duration::from_millis(300);

/// Silence that no working relay keeps.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    request: &[u8],
) -> Response {
    stream.write_all(request).await.unwrap();
    respond(stream, None).await
}

/// Reads a response; with `stall` it may fall silent after so many chunks, or inside a body of
/// known length.
pub(crate) async fn respond<S: AsyncRead + Unpin>(
    stream: &mut S,
    stall: Option<usize>,
) -> Response {
    let mut input = Input {
        stream,
        bytes: Vec::new(),
        ending: None,
        patience: PATIENCE,
    };
    let head = input.until(b"\r\n\r\n").await.expect("a head");
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let lower = head.to_ascii_lowercase();
    let mut chunks = Vec::new();
    if lower.contains("transfer-encoding: chunked") {
        loop {
            if stall.is_some_and(|after| after <= chunks.len()) {
                input.patience = SILENCE;
            }
            let Some(line) = input.until(b"\r\n").await else {
                break;
            };
            let line = String::from_utf8(line).unwrap();
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            let Some(mut chunk) = input.exactly(size + 2).await else {
                break;
            };
            assert_eq!(chunk.split_off(size), b"\r\n");
            if size == 0 {
                break;
            }
            chunks.push(chunk);
        }
    } else if let Some((_, rest)) = lower.split_once("content-length: ") {
        let size = rest.lines().next().unwrap().parse().unwrap();
        if stall.is_some() {
            while input.bytes.is_empty() && input.more().await {}
            input.patience = SILENCE;
        }
        match input.exactly(size).await {
            Some(body) => chunks.push(body),
            None => chunks.push(std::mem::take(&mut input.bytes)),
        }
    } else {
        while input.more().await {}
        chunks.push(std::mem::take(&mut input.bytes));
    }
    assert!(
        input.bytes.is_empty(),
        "bytes after the body: {:?}",
        input.bytes
    );
    let ending = input.ending.unwrap_or(Ending::Whole);
    Response {
        head,
        status,
        chunks,
        ending,
    }
}

struct Input<'a, S> {
    stream: &'a mut S,
    bytes: Vec<u8>,
    ending: Option<Ending>,
    patience: Duration,
}

impl<S: AsyncRead + Unpin> Input<'_, S> {
    async fn more(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.bytes);
        let ending = match tokio::time::timeout(self.patience, read).await {
            Ok(Ok(0)) => Ending::Fin,
            Ok(Ok(_)) => return true,
            Ok(Err(_)) => Ending::Reset,
            Err(_) => Ending::Silent,
        };
        self.ending = Some(ending);
        false
    }

    async fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            let at = self.bytes.windows(mark.len()).position(|part| part == mark);
            if let Some(at) = at {
                let rest = self.bytes.split_off(at + mark.len());
                return Some(std::mem::replace(&mut self.bytes, rest));
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, size: usize) -> Option<Vec<u8>> {
        while self.bytes.len() < size {
            if !self.more().await {
                return None;
            }
        }
        let rest = self.bytes.split_off(size);
        Some(std::mem::replace(&mut self.bytes, rest))
    }
}

pub(crate) fn post(body: &Value) -> Vec<u8> {
    post_to("/v1/chat/completions", body)
}

pub(crate) fn post_to(path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: relay\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub(crate) fn chat(prompt: &str, stream: bool) -> Value {
    json!({
        "model": "test-model",
        "messages": [{"role": "user", "content": prompt}],
        "stream": stream,
    })
}

pub(crate) const SEALED: &str = "Name eight things. End your answer with `END-0123abcd`.";

/// Eight tokens, as fast as can be.
pub(crate) fn quick() -> Settings {
    Settings {
        first_token: Duration::ZERO,
        token_gap: Duration::ZERO,
        tokens: 8,
        ..Settings::default()
    }
}

pub(crate) fn always(fault: Fault) -> Settings {
    Settings {
        faults: vec![Planned {
            fault,
            share_ppm: 1_000_000,
        }],
        ..quick()
    }
}

pub(crate) async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

pub(crate) async fn ask(relay: &Relay, body: &Value) -> Response {
    exchange(&mut connect(relay.address()).await, &post(body)).await
}

/// Asks on a connection; with `stall` the relay may fall silent after the role and so many tokens.
pub(crate) async fn ask_on(stream: &mut TcpStream, body: &Value, stall: Option<usize>) -> Response {
    stream.write_all(&post(body)).await.unwrap();
    respond(stream, stall.map(|tokens| 1 + tokens)).await
}

pub(crate) fn json_of(event: &str) -> Value {
    serde_json::from_str(event).unwrap_or_else(|error| panic!("{error}: {event}"))
}
