//! A stream case: one response written down in a file, to be played to the byte and in its time.
//!
//! Reads the file strictly and turns it into a script. What a reader is to make of the bytes stands
//! in the same file and is none of the relay's business, but for the write of the first token.

mod file;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::script::{End, Framing, Script, reason};
use file::{Close, File, How, Place, Response, Step, Transport};

/// Largest file that is read.
const MAX_FILE: u64 = 4 << 20;

/// Most bytes that one case puts on the wire, repeats written out.
const MAX_WIRE: usize = 16 << 20;

/// Most writes and waits of one case, repeats written out.
const MAX_STEPS: usize = 200_000;

/// Longest time that the waits of one case may take together.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Longest id.
const MAX_ID: usize = 128;

/// A protocol's name, and what its clients' base URL ends with.
const PROTOCOLS: [(&str, &str); 5] = [
    ("openai-chat", "/v1"),
    ("openai-responses", "/v1"),
    ("anthropic-messages", ""),
    ("gemini", ""),
    ("raw-sse", ""),
];

/// One case, ready to be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    id: String,
    protocol: &'static str,
    path: &'static str,
    reach: Reach,
}

/// How far a client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// To this answer.
    Answer(Arc<Script>),
    /// To a port where nothing listens.
    Refused,
    /// To a name that does not exist.
    NoSuchName,
    /// To a port that speaks plain HTTP, asked for TLS.
    PlainPort,
}

impl Case {
    /// Reads one case; `file` is the name that mistakes are reported under.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn parse(file: &Path, text: &str) -> Result<Self, CaseError> {
        let wrong = |mistake: Mistake| CaseError {
            file: file.to_owned(),
            place: mistake.place,
            why: mistake.why,
        };
        case(file::read(text).map_err(wrong)?).map_err(wrong)
    }

    /// Reads a file, or every `.yaml` file of a folder in the order of their names.
    ///
    /// # Errors
    /// What a file could not be read for, the first mistake in one, or that a folder has none.
    pub fn load(path: &Path) -> Result<Vec<Self>, CaseError> {
        let unreadable = |path: &Path, error: &io::Error| CaseError {
            file: path.to_owned(),
            place: None,
            why: error.to_string(),
        };
        let mut files = vec![path.to_owned()];
        if path.is_dir() {
            let entries = fs::read_dir(path).and_then(|entries| {
                let paths = entries.map(|entry| entry.map(|entry| entry.path()));
                paths.collect::<io::Result<Vec<PathBuf>>>()
            });
            files = entries.map_err(|error| unreadable(path, &error))?;
            files.retain(|file| file.extension().is_some_and(|end| end == "yaml"));
            files.sort();
            if files.is_empty() {
                let why = io::Error::other("no .yaml file in this folder");
                return Err(unreadable(path, &why));
            }
        }
        let read = |file: &PathBuf| {
            let size = fs::metadata(file).map(|about| about.len());
            let size = size.map_err(|error| unreadable(file, &error))?;
            if size > MAX_FILE {
                let why = io::Error::other("too large for a case; the limit is 4 MiB");
                return Err(unreadable(file, &why));
            }
            let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
            Self::parse(file, &text)
        };
        files.iter().map(read).collect()
    }

    /// The case's name, unique among those that one relay plays.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The protocol of the answer, `raw-sse` for event streams of no protocol.
    pub fn protocol(&self) -> &str {
        self.protocol
    }

    /// What the base URL of the protocol's clients ends with.
    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }
}

/// What is wrong with a case file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseError {
    file: PathBuf,
    place: Option<Place>,
    why: String,
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(place) = self.place {
            write!(f, ":{}:{}", place.line, place.column)?;
        }
        write!(f, ": {}", self.why)
    }
}

impl std::error::Error for CaseError {}

/// What is wrong, and where in the text.
struct Mistake {
    place: Option<Place>,
    why: String,
}

impl Mistake {
    fn at(place: Place, why: impl Into<String>) -> Self {
        Self {
            place: Some(place),
            why: why.into(),
        }
    }
}

fn case(file: File) -> Result<Case, Mistake> {
    let id = file.id.value;
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let dots = id.bytes().all(|byte| byte == b'.');
    if id.is_empty() || id.len() > MAX_ID || dots || !id.bytes().all(usable) {
        return Err(Mistake::at(
            file.id.place,
            "an id is 1 to 128 letters, digits, `-`, `_` and `.`, as it is part of a URL",
        ));
    }
    if is_own_path(&id) {
        return Err(Mistake::at(
            file.id.place,
            "the relay's own answers are under this name",
        ));
    }
    let known = PROTOCOLS
        .iter()
        .find(|(name, _)| *name == file.protocol.value);
    let Some((protocol, path)) = known else {
        let names = PROTOCOLS.map(|(name, _)| name).join(", ");
        return Err(Mistake::at(
            file.protocol.place,
            format!("no protocol of this name; known are {names}"),
        ));
    };
    let reach = match (file.transport, file.response) {
        (Some(transport), None) => match transport.value {
            Transport::Refused => Reach::Refused,
            Transport::Dns => Reach::NoSuchName,
            Transport::TlsPlaintext => Reach::PlainPort,
        },
        (None, Some(response)) => {
            let first_token = file.expect.and_then(|expect| expect.first_token_step);
            Reach::Answer(Arc::new(answer(&response, first_token)?))
        }
        (Some(transport), Some(_)) => {
            return Err(Mistake::at(
                transport.place,
                "a client that fails at the transport gets no `response`",
            ));
        }
        (None, None) => {
            return Err(Mistake {
                place: None,
                why: "neither `response` nor `transport`: nothing to play".to_owned(),
            });
        }
    };
    Ok(Case {
        id,
        protocol,
        path,
        reach,
    })
}

/// Whether a path's first segment leads to the relay's own answers.
pub(super) fn is_own_path(segment: &str) -> bool {
    matches!(segment, "v1" | "v1beta")
}

fn answer(response: &Response, first_token: Option<usize>) -> Result<Script, Mistake> {
    let framing = match response.framing {
        How::Chunked => Framing::Chunked,
        How::Length => Framing::Length(0),
        How::Eof | How::Raw => Framing::UntilClose,
    };
    let mut writing = Writing {
        script: Script::blank(response.status, framing),
        at: Duration::ZERO,
        steps: 0,
        first_token: None,
    };
    if let Some(close) = writing.run(&response.before, true)? {
        writing.script.break_off(match close {
            // Without a head nobody could know where a next answer begins.
            Close::Clean | Close::Fin => End::Fin,
            Close::Rst => End::Rst,
            Close::Hang => End::Hang,
        });
        return Ok(writing.script);
    }
    if response.framing != How::Raw {
        let head = head(response)?;
        writing.script.raw(writing.at, &head);
    }
    writing.first_token = first_token;
    match writing.run(&response.steps, false)? {
        Some(Close::Clean) => {
            let end = if leaves(response) {
                End::Fin
            } else {
                End::Reuse
            };
            writing.script.finish(writing.at, end);
        }
        Some(close) => writing.script.break_off(end_of(close)),
        None if response.framing == How::Length && !leaves(response) => {
            writing.script.break_off(End::Reuse);
        }
        None => writing.script.break_off(End::Fin),
    }
    Ok(writing.script)
}

const fn end_of(close: Close) -> End {
    match close {
        Close::Clean => End::Reuse,
        Close::Fin => End::Fin,
        Close::Rst => End::Rst,
        Close::Hang => End::Hang,
    }
}

/// A script being written, step by step.
struct Writing {
    script: Script,
    at: Duration,
    steps: usize,
    /// The step whose write is to be marked.
    first_token: Option<usize>,
}

impl Writing {
    /// Writes the steps out; how they close, where they do.
    fn run(&mut self, steps: &[Step], before: bool) -> Result<Option<Close>, Mistake> {
        for (index, step) in steps.iter().enumerate() {
            let mark = self.first_token == Some(index);
            let close = match &step.value {
                file::Action::Repeat(repeat) => {
                    for _ in 0..repeat.times {
                        for step in &repeat.steps {
                            if self.step(step, before, mark)?.is_some() {
                                return Err(Mistake::at(
                                    step.place,
                                    "a `close` inside a repetition",
                                ));
                            }
                        }
                    }
                    None
                }
                file::Action::Send(_)
                | file::Action::Raw(_)
                | file::Action::Wait(_)
                | file::Action::Close(_) => self.step(step, before, mark)?,
            };
            if close.is_some() {
                return match steps.get(index + 1) {
                    None => Ok(close),
                    Some(next) => Err(Mistake::at(next.place, "nothing can follow a `close`")),
                };
            }
        }
        Ok(None)
    }

    fn step(&mut self, step: &Step, before: bool, mark: bool) -> Result<Option<Close>, Mistake> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Mistake::at(step.place, "more than 200,000 steps"));
        }
        match &step.value {
            file::Action::Send(_) if before => {
                return Err(Mistake::at(
                    step.place,
                    "no body comes before the head; bytes of an interim response are `raw`",
                ));
            }
            file::Action::Send(bytes) => self.script.send(self.at, bytes),
            file::Action::Raw(bytes) => self.script.raw(self.at, bytes),
            file::Action::Wait(time) => {
                self.at = self.at.saturating_add(*time);
                if self.at > MAX_WAIT {
                    return Err(Mistake::at(step.place, "the waits are longer than an hour"));
                }
                return Ok(None);
            }
            file::Action::Close(close) => return Ok(Some(*close)),
            file::Action::Repeat(_) => {
                return Err(Mistake::at(step.place, "a repetition inside a repetition"));
            }
        }
        if self.script.size() > MAX_WIRE {
            return Err(Mistake::at(step.place, "more than 16 MiB on the wire"));
        }
        if mark {
            self.script.mark_first_token();
        }
        Ok(None)
    }
}

/// Whether the head says that the connection ends with the response.
fn leaves(response: &Response) -> bool {
    let closes = |name: &str, value: &str| {
        name.eq_ignore_ascii_case("connection") && value.trim().eq_ignore_ascii_case("close")
    };
    let mut lines = response.headers.iter();
    lines.any(|line| closes(&line.name.value, &line.value))
}

fn head(response: &Response) -> Result<Vec<u8>, Mistake> {
    let status = response.status;
    let phrase = response
        .reason
        .as_deref()
        .unwrap_or_else(|| reason(status))
        .to_owned();
    let mut head = format!("HTTP/1.1 {status} {phrase}\r\n").into_bytes();
    for line in &response.headers {
        let (name, value) = (&line.name.value, &line.value);
        let text = format!("{name}: {value}");
        let bytes: Option<Vec<u8>> = text
            .chars()
            .map(|c| u8::try_from(c).ok().filter(|byte| !b"\r\n".contains(byte)))
            .collect();
        let Some(bytes) = bytes else {
            return Err(Mistake::at(
                line.name.place,
                "a header line is Latin-1 without a line break; other bytes need `framing: raw`",
            ));
        };
        head.extend(bytes);
        head.extend(b"\r\n");
    }
    let named = |wanted: &str| {
        let mut lines = response.headers.iter();
        lines.any(|line| line.name.value.eq_ignore_ascii_case(wanted))
    };
    match response.framing {
        How::Chunked if !named("transfer-encoding") => {
            head.extend(b"transfer-encoding: chunked\r\n");
        }
        How::Length if !named("content-length") => {
            let length = match response.content_length {
                Some(length) => length,
                None => body_length(&response.steps),
            };
            head.extend(format!("content-length: {length}\r\n").bytes());
        }
        How::Eof if !named("connection") => head.extend(b"connection: close\r\n"),
        How::Chunked | How::Length | How::Eof | How::Raw => {}
    }
    head.extend(b"\r\n");
    Ok(head)
}

/// Body bytes of all `send` steps.
fn body_length(steps: &[Step]) -> u64 {
    let length = |step: &Step| match &step.value {
        file::Action::Send(bytes) => bytes.len() as u64,
        file::Action::Repeat(repeat) => body_length(&repeat.steps).saturating_mul(repeat.times),
        file::Action::Raw(_) | file::Action::Wait(_) | file::Action::Close(_) => 0,
    };
    steps.iter().map(length).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
