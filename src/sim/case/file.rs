//! The form of a case file: which members it may have, and where each step stands.

use std::time::Duration;

use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_yaml::{Options, Spanned};

use super::Mistake;

/// Deepest nesting of a case; a step of a repetition is seven levels down.
const MAX_DEPTH: usize = 16;

/// Most values of a case.
const MAX_NODES: usize = 500_000;

/// Most times that steps are repeated.
const MAX_TIMES: u64 = 1_000_000;

/// A line and a column, both from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Place {
    fn of(location: serde_yaml::Location) -> Self {
        Self {
            line: location.line().max(1),
            column: location.column().max(1),
        }
    }
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Placed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(from)?;
        Ok(Self {
            place: Place::of(spanned.referenced),
            value: spanned.value,
        })
    }
}

/// A case as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) id: Placed<String>,
    pub(super) protocol: Placed<String>,
    #[serde(default)]
    pub(super) transport: Option<Placed<Transport>>,
    #[serde(default)]
    pub(super) response: Option<Response>,
    #[serde(default)]
    pub(super) expect: Option<Expect>,
    #[serde(default, rename = "source")]
    _source: IgnoredAny,
    #[serde(default, rename = "also_see")]
    _also_see: IgnoredAny,
    #[serde(default, rename = "summary")]
    _summary: IgnoredAny,
    #[serde(default, rename = "request")]
    _request: IgnoredAny,
    #[serde(default, rename = "sdk")]
    _sdk: IgnoredAny,
}

/// Where a client fails before HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Transport {
    Refused,
    Dns,
    TlsPlaintext,
}

/// What a reader is to find; the relay takes only the write of the first token from it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Expect {
    #[serde(default)]
    pub(super) first_token_step: Option<usize>,
}

/// The response.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Response {
    #[serde(default = "ok")]
    pub(super) status: u16,
    #[serde(default)]
    pub(super) reason: Option<String>,
    #[serde(default)]
    pub(super) framing: How,
    #[serde(default)]
    pub(super) content_length: Option<u64>,
    #[serde(default, deserialize_with = "lines")]
    pub(super) headers: Vec<Line>,
    #[serde(default)]
    pub(super) before: Vec<Step>,
    pub(super) steps: Vec<Step>,
}

const fn ok() -> u16 {
    200
}

/// How the length of the body is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum How {
    #[default]
    Chunked,
    Length,
    Eof,
    Raw,
}

/// One header line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) name: Placed<String>,
    pub(super) value: String,
}

/// A value of a header line, or those of several lines of one name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Values {
    Text(String),
    Number(u64),
    Several(Vec<Self>),
}

impl Values {
    fn into_lines(self, name: &Placed<String>, lines: &mut Vec<Line>) {
        let mut line = |value| {
            lines.push(Line {
                name: name.clone(),
                value,
            });
        };
        match self {
            Self::Text(text) => line(text),
            Self::Number(number) => line(number.to_string()),
            Self::Several(values) => {
                for value in values {
                    value.into_lines(name, lines);
                }
            }
        }
    }
}

/// Header lines in the order of the text.
fn lines<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Line>, D::Error> {
    struct Lines;

    impl<'de> Visitor<'de> for Lines {
        type Value = Vec<Line>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a map of header names to values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut lines = Vec::new();
            while let Some((name, values)) = from.next_entry::<Placed<String>, Values>()? {
                values.into_lines(&name, &mut lines);
            }
            Ok(lines)
        }
    }

    from.deserialize_map(Lines)
}

/// A step and where it stands.
pub(super) type Step = Placed<Action>;

/// What one step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Body bytes, in one chunk where the body is chunked.
    Send(Vec<u8>),
    /// Bytes that are put on the wire as they are.
    Raw(Vec<u8>),
    Wait(Duration),
    Repeat(Repeat),
    Close(Close),
}

/// An action as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written {
    Send(String),
    SendHex(Hex),
    Raw(String),
    RawHex(Hex),
    WaitMs(u64),
    Repeat(Repeat),
    Close(Close),
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(match Written::deserialize(from)? {
            Written::Send(text) => Self::Send(text.into_bytes()),
            Written::SendHex(Hex(bytes)) => Self::Send(bytes),
            Written::Raw(text) => Self::Raw(text.into_bytes()),
            Written::RawHex(Hex(bytes)) => Self::Raw(bytes),
            Written::WaitMs(ms) => Self::Wait(Duration::from_millis(ms)),
            Written::Repeat(repeat) if repeat.times > MAX_TIMES => {
                return Err(D::Error::custom("more than 1,000,000 repetitions"));
            }
            Written::Repeat(repeat) => Self::Repeat(repeat),
            Written::Close(close) => Self::Close(close),
        })
    }
}

/// Steps that are done several times.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Repeat {
    pub(super) times: u64,
    pub(super) steps: Vec<Step>,
}

/// How the response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Close {
    /// As the framing asks; the connection stays usable.
    Clean,
    /// FIN, whether or not the body was through.
    Fin,
    /// RST.
    Rst,
    /// Silence on an open connection.
    Hang,
}

/// Bytes in hex digits.
struct Hex(Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let pairs = text.as_bytes().chunks(2).map(|pair| {
            let [high, low] = pair else { return None };
            u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
        });
        let bytes: Option<Vec<u8>> = pairs.collect();
        bytes.map(Self).ok_or_else(|| {
            de::Error::invalid_value(de::Unexpected::Str("…"), &"pairs of hex digits")
        })
    }
}

/// Reads the text; the first mistake ends the reading.
pub(super) fn read(text: &str) -> Result<File, Mistake> {
    let options: Options = serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_documents: 1,
        },
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: MAX_DEPTH,
        },
        strict_booleans: true,
        with_snippet: false,
    };
    serde_yaml::from_str_with_options(text, options).map_err(|error: serde_yaml::Error| {
        let mut why = error.without_snippet().to_string();
        if let Some(end) = why.find(" at line ") {
            why.truncate(end);
        }
        Mistake {
            place: error.location().map(Place::of),
            why,
        }
    })
}
