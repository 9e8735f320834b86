#![cfg(feature = "sim")]
//! What the embedded relay puts on the wire, seen by a raw client of the tests' own.

use std::net::SocketAddr;
use std::time::Duration;

use relayproof::sim::{Fault, Params, Planned, Relay, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// How a response ended, as far as the socket shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
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
struct Response {
    head: String,
    status: u16,
    /// The body's bytes, one item per HTTP chunk.
    chunks: Vec<Vec<u8>>,
    ending: Ending,
}

impl Response {
    fn body(&self) -> String {
        String::from_utf8(self.chunks.concat()).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The data of each event.
    fn events(&self) -> Vec<String> {
        let body = self.body();
        assert!(body.is_empty() || body.ends_with("\n\n"), "{body:?}");
        body.split_terminator("\n\n")
            .map(|event| event.strip_prefix("data: ").unwrap().to_owned())
            .collect()
    }

    /// The text of the events that are JSON, joined.
    fn text(&self) -> String {
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

/// Silence after which the relay is taken to send nothing more.
const SILENCE: Duration = Duration::from_millis(400);

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, request: &[u8]) -> Response {
    stream.write_all(request).await.unwrap();
    respond(stream).await
}

async fn respond<S: AsyncRead + Unpin>(stream: &mut S) -> Response {
    let mut input = Input {
        stream,
        bytes: Vec::new(),
        ending: None,
    };
    let head = input.until(b"\r\n\r\n").await.expect("a head");
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let lower = head.to_ascii_lowercase();
    let mut chunks = Vec::new();
    if lower.contains("transfer-encoding: chunked") {
        while let Some(line) = input.until(b"\r\n").await {
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
}

impl<S: AsyncRead + Unpin> Input<'_, S> {
    async fn more(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.bytes);
        let ending = match tokio::time::timeout(SILENCE, read).await {
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

fn post(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: relay\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn chat(prompt: &str, stream: bool) -> Value {
    json!({
        "model": "test-model",
        "messages": [{"role": "user", "content": prompt}],
        "stream": stream,
    })
}

const SEALED: &str = "Name eight things. End your answer with `END-0123abcd`.";

/// Eight tokens, as fast as can be.
fn quick() -> Settings {
    Settings {
        first_token: Duration::ZERO,
        token_gap: Duration::ZERO,
        tokens: 8,
        ..Settings::default()
    }
}

fn always(fault: Fault) -> Settings {
    Settings {
        faults: vec![Planned {
            fault,
            share_ppm: 1_000_000,
        }],
        ..quick()
    }
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

async fn ask(relay: &Relay, body: &Value) -> Response {
    exchange(&mut connect(relay.address()).await, &post(body)).await
}

#[tokio::test]
async fn an_honest_stream_has_role_tokens_finish_usage_and_end_mark() {
    let relay = Relay::start(quick()).await.unwrap();
    let mut body = chat(SEALED, true);
    body["stream_options"] = json!({"include_usage": true});
    let response = ask(&relay, &body).await;

    assert_eq!((response.status, response.ending), (200, Ending::Whole));
    assert_eq!(
        response.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    let events = response.events();
    assert_eq!(response.chunks.len(), events.len(), "one event per chunk");
    assert_eq!(events.len(), 1 + 8 + 1 + 1 + 1);
    assert_eq!(events.last().unwrap(), "[DONE]");
    let events: Vec<Value> = events[..11]
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    for event in &events {
        assert_eq!(event["object"], "chat.completion.chunk");
        assert_eq!(event["model"], "test-model");
        assert_eq!(event["id"], events[0]["id"]);
        assert!(event["created"].as_u64().unwrap() > 1_600_000_000);
    }
    assert_eq!(
        events[0]["choices"][0]["delta"],
        json!({"role": "assistant", "content": ""})
    );
    for event in &events[..10] {
        assert_eq!(event["usage"], Value::Null);
        let finish = &event["choices"][0]["finish_reason"];
        assert_eq!(finish.is_null(), event != &events[9]);
    }
    assert_eq!(events[9]["choices"][0]["finish_reason"], "stop");
    assert_eq!(events[10]["choices"], json!([]));
    assert_eq!(
        events[10]["usage"],
        json!({"prompt_tokens": 8, "completion_tokens": 8, "total_tokens": 16})
    );
    assert!(response.text().ends_with(" END-0123abcd"));
    relay.stop().await;
}

#[tokio::test]
async fn an_honest_answer_without_a_stream_is_one_json_object() {
    let relay = Relay::start(quick()).await.unwrap();
    let response = ask(&relay, &chat(SEALED, false)).await;
    assert_eq!((response.status, response.ending), (200, Ending::Whole));
    assert_eq!(response.header("content-type"), Some("application/json"));
    let answer: Value = serde_json::from_str(&response.body()).unwrap();
    assert_eq!(answer["object"], "chat.completion");
    let choice = &answer["choices"][0];
    let text = choice["message"]["content"].as_str().unwrap();
    assert!(text.ends_with(" END-0123abcd"));
    assert_eq!(text.split(' ').count(), 8);
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(answer["usage"]["completion_tokens"], 8);
}

#[tokio::test]
async fn a_token_limit_below_the_answer_ends_it_with_length_and_without_the_seal() {
    let relay = Relay::start(quick()).await.unwrap();
    for name in ["max_tokens", "max_completion_tokens"] {
        let mut body = chat(SEALED, false);
        body[name] = json!(3);
        let answer: Value = serde_json::from_str(&ask(&relay, &body).await.body()).unwrap();
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "length");
        assert_eq!(
            choice["message"]["content"]
                .as_str()
                .unwrap()
                .split(' ')
                .count(),
            3
        );
        assert_eq!(answer["usage"]["completion_tokens"], 3);
    }
}
