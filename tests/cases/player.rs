//! Plays a case as the raw transport would report it: bytes on the wire at their virtual time, HTTP
//! taken off, timed inputs to an exchange. No sockets, no clock.

#![expect(
    clippy::unwrap_used,
    reason = "a case that cannot be read or played fails its test"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use relayproof::dialect::Protocol;
use relayproof::expect::Expect;
use relayproof::observation::{Loss, Observation, Phase};
use relayproof::stream::{Asked, Exchange, FramingFault, Head, Input, Timeouts};
use serde::Deserialize;

/// One case file.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) protocol: String,
    pub(crate) transport: Option<String>,
    #[serde(default)]
    pub(crate) request: Request,
    #[serde(default)]
    pub(crate) response: Response,
    pub(crate) expect: Expected,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Request {
    pub(crate) model: Option<String>,
    #[serde(default)]
    pub(crate) include_usage: bool,
    pub(crate) max_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Response {
    pub(crate) status: Option<u16>,
    pub(crate) framing: Option<String>,
    pub(crate) content_length: Option<u64>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) before: Vec<Step>,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) send: Option<String>,
    pub(crate) send_hex: Option<String>,
    pub(crate) raw: Option<String>,
    pub(crate) raw_hex: Option<String>,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) close: Option<String>,
    pub(crate) repeat: Option<Repeat>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Repeat {
    pub(crate) times: usize,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Expected {
    pub(crate) outcome: String,
    #[serde(default)]
    pub(crate) warn: Vec<String>,
    pub(crate) parse_ok: bool,
    pub(crate) interrupted: bool,
    pub(crate) content: String,
    pub(crate) first_token_step: Option<usize>,
    pub(crate) attribution: String,
    #[serde(default)]
    pub(crate) events: Vec<ExpectedEvent>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct ExpectedEvent {
    #[serde(rename = "type")]
    pub(crate) name: String,
    pub(crate) data: String,
    pub(crate) id: String,
}

/// Every case of the corpus, in order.
pub(crate) fn corpus() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "yaml"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
        })
        .collect()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The steps with repeats unrolled, each with its index in the file.
fn flatten(steps: &[Step]) -> Vec<(usize, Step)> {
    let mut flat = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        match &step.repeat {
            Some(repeat) => {
                for _ in 0..repeat.times {
                    flat.extend(repeat.steps.iter().cloned().map(|step| (index, step)));
                }
            }
            None => flat.push((index, step.clone())),
        }
    }
    flat
}

impl Step {
    /// Body bytes of the step.
    pub(crate) fn body(&self) -> Option<Vec<u8>> {
        match (&self.send, &self.send_hex) {
            (Some(text), _) => Some(text.clone().into_bytes()),
            (_, Some(text)) => Some(hex(text)),
            _ => None,
        }
    }

    fn wire(&self, chunked: bool) -> Option<Vec<u8>> {
        if let Some(raw) = &self.raw {
            return Some(raw.clone().into_bytes());
        }
        if let Some(raw) = &self.raw_hex {
            return Some(hex(raw));
        }
        let body = self.body()?;
        if !chunked {
            return Some(body);
        }
        let mut wire = format!("{:x}\r\n", body.len()).into_bytes();
        wire.extend_from_slice(&body);
        wire.extend_from_slice(b"\r\n");
        Some(wire)
    }
}

impl Case {
    pub(crate) fn asked(&self) -> Asked {
        Asked {
            protocol: self.protocol(),
            stream: true,
            model: self
                .request
                .model
                .clone()
                .unwrap_or_else(|| "test-model".to_owned()),
            max_tokens: self.request.max_tokens,
            usage: self.request.include_usage,
            seal: None,
            request_bytes: 100,
            expect: Expect::default(),
            keep_text: true,
        }
    }

    /// The protocol that is spoken; a raw case is read as a chat.
    pub(crate) fn protocol(&self) -> Protocol {
        let named = |protocol: &&Protocol| protocol.as_str() == self.protocol;
        let mut known = Protocol::ALL.iter().filter(named);
        known.next().copied().unwrap_or(Protocol::OpenaiChat)
    }

    fn framing(&self) -> &str {
        self.response.framing.as_deref().unwrap_or("chunked")
    }

    /// Body bytes of all `send` steps.
    pub(crate) fn body(&self) -> Vec<u8> {
        let steps = flatten(&self.response.steps);
        steps
            .iter()
            .filter_map(|(_, step)| step.body())
            .flatten()
            .collect()
    }

    fn head_bytes(&self) -> Vec<u8> {
        let response = &self.response;
        let mut head = format!("HTTP/1.1 {} Status\r\n", response.status.unwrap_or(200));
        for (name, value) in &response.headers {
            head += &format!("{name}: {value}\r\n");
        }
        match self.framing() {
            "chunked" => head += "transfer-encoding: chunked\r\n",
            "length" => {
                let whole = || self.body().len() as u64;
                let length = response.content_length.unwrap_or_else(whole);
                head += &format!("content-length: {length}\r\n");
            }
            _ => {}
        }
        head += "\r\n";
        head.into_bytes()
    }
}

pub(crate) fn timeouts() -> Timeouts {
    Timeouts {
        first_token: Duration::from_secs(2),
        idle: Duration::from_secs(2),
        total: Duration::from_secs(10),
        ..Timeouts::default()
    }
}

/// What playing a case gave.
pub(crate) struct Played {
    pub(crate) observation: Observation,
    /// Time of the write of each step.
    pub(crate) written: BTreeMap<usize, Duration>,
}

/// Plays one case.
pub(crate) fn play(case: &Case) -> Played {
    let mut player = Player {
        exchange: Exchange::new(case.asked(), timeouts()),
        now: Duration::from_micros(1),
        wire: Vec::new(),
        state: Reading::Head,
        written: BTreeMap::new(),
    };
    player.connect(case.transport.as_deref());
    if case.transport.is_none() {
        let ended = player.run(&case.response.before, false, usize::MAX);
        if !ended {
            if case.framing() != "raw" {
                player.read(&case.head_bytes());
            }
            let chunked = case.framing() == "chunked";
            if !player.run(&case.response.steps, chunked, 0) {
                player.close("fin");
            }
        }
    }
    Played {
        observation: player.exchange.finish(),
        written: player.written,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Reading {
    Head,
    Chunked,
    Length(u64),
    ToEnd,
    Done,
}

struct Player {
    exchange: Exchange,
    now: Duration,
    wire: Vec<u8>,
    state: Reading,
    written: BTreeMap<usize, Duration>,
}

impl Player {
    fn tell(&mut self, input: Input<'_>) {
        self.now += Duration::from_micros(1);
        self.exchange.handle(self.now, input);
    }

    fn connect(&mut self, transport: Option<&str>) {
        if transport == Some("dns") {
            self.tell(Input::Enter(Phase::Dns));
            self.tell(Input::Lost(Loss::Dns));
            return;
        }
        self.tell(Input::Enter(Phase::Connect));
        if transport == Some("refused") {
            self.tell(Input::Lost(Loss::Refused));
            return;
        }
        self.tell(Input::Leave(Phase::Connect));
        if transport == Some("tls-plaintext") {
            self.tell(Input::Enter(Phase::Tls));
            self.tell(Input::Lost(Loss::Tls));
            return;
        }
        self.tell(Input::Enter(Phase::Send));
        self.tell(Input::Leave(Phase::Send));
    }

    /// Lets time pass, deadlines included.
    fn pass(&mut self, length: Duration) {
        let until = self.now + length;
        while let Some((due, _)) = self.exchange.deadline()
            && due <= until
        {
            self.now = self.now.max(due);
            self.exchange.handle(self.now, Input::Deadline);
        }
        self.now = until;
    }

    /// Runs steps; true when they ended the response.
    fn run(&mut self, steps: &[Step], chunked: bool, base: usize) -> bool {
        for (index, step) in flatten(steps) {
            if let Some(wait) = step.wait_ms {
                self.pass(Duration::from_millis(wait));
            } else if let Some(how) = &step.close {
                if how == "clean" && chunked {
                    self.read(b"0\r\n\r\n");
                } else if how != "clean" {
                    self.close(how);
                }
                return true;
            } else if let Some(wire) = step.wire(chunked) {
                self.read(&wire);
                if base == 0 {
                    self.written.entry(index).or_insert(self.now);
                }
            }
        }
        false
    }

    fn close(&mut self, how: &str) {
        match how {
            "rst" => self.tell(Input::Lost(Loss::Reset)),
            "hang" => self.pass(Duration::from_secs(60)),
            _ if self.state == Reading::ToEnd => self.tell(Input::BodyEnd),
            _ => self.tell(Input::Lost(Loss::Closed)),
        }
    }

    /// One read of the socket; all its inputs have one time.
    fn read(&mut self, bytes: &[u8]) {
        self.now += Duration::from_micros(1);
        if self.wire.is_empty() && self.state == Reading::Head {
            self.exchange.handle(self.now, Input::FirstByte);
        }
        self.wire.extend_from_slice(bytes);
        while !self.exchange.is_over() && self.advance() {}
    }

    /// Takes the next piece of HTTP off the wire; false when more bytes are needed.
    fn advance(&mut self) -> bool {
        let now = self.now;
        match self.state {
            Reading::Done => return false,
            Reading::Head => {
                let Some(end) = find(&self.wire, b"\r\n\r\n") else {
                    return false;
                };
                let head: Vec<u8> = self.wire.drain(..end + 4).collect();
                self.head(&String::from_utf8(head).unwrap());
            }
            Reading::ToEnd => {
                if self.wire.is_empty() {
                    return false;
                }
                let body = std::mem::take(&mut self.wire);
                self.exchange.handle(now, Input::Body(&body));
            }
            Reading::Length(left) => {
                if self.wire.is_empty() && left > 0 {
                    return false;
                }
                let length = self.wire.len().min(usize::try_from(left).unwrap());
                let body: Vec<u8> = self.wire.drain(..length).collect();
                self.exchange.handle(now, Input::Body(&body));
                let left = left - length as u64;
                self.state = Reading::Length(left);
                if left == 0 {
                    if !self.wire.is_empty() {
                        let fault = FramingFault::BytesAfterBody;
                        self.exchange.handle(now, Input::Framing(fault));
                    }
                    self.exchange.handle(now, Input::BodyEnd);
                    self.state = Reading::Done;
                }
            }
            Reading::Chunked => {
                let Some(line) = find(&self.wire, b"\r\n") else {
                    return false;
                };
                let text = String::from_utf8_lossy(&self.wire[..line]).into_owned();
                let size = text.split(';').next().unwrap().trim();
                let Ok(size) = usize::from_str_radix(size, 16) else {
                    let fault = FramingFault::BadChunkSize;
                    self.exchange.handle(now, Input::Framing(fault));
                    return false;
                };
                let start = line + 2;
                if size == 0 {
                    let trailers = &self.wire[start..];
                    if !trailers.starts_with(b"\r\n") && find(trailers, b"\r\n\r\n").is_none() {
                        return false;
                    }
                    self.exchange.handle(now, Input::BodyEnd);
                    self.state = Reading::Done;
                } else if self.wire.len() < start + size + 2 {
                    return false;
                } else {
                    let chunk: Vec<u8> = self.wire.drain(..start + size + 2).collect();
                    let body = &chunk[start..start + size];
                    self.exchange.handle(now, Input::Body(body));
                }
            }
        }
        true
    }

    fn head(&mut self, text: &str) {
        let mut lines = text.split("\r\n");
        let status = lines
            .next()
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect();
        let value = |wanted: &str| {
            let found = headers.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str())
        };
        if status >= 200 {
            self.state = match (value("transfer-encoding"), value("content-length")) {
                (Some("chunked"), _) => Reading::Chunked,
                (_, Some(length)) => Reading::Length(length.parse().unwrap()),
                _ => Reading::ToEnd,
            };
        }
        let head = Head {
            status,
            version: "1.1",
            headers: headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes()))
                .collect(),
        };
        self.exchange.handle(self.now, Input::Head(head));
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
