//! How to ask in each protocol, and how to read its frames.
//!
//! Pure: no time, no sockets, no memory of earlier frames beyond what a protocol's life cycle needs.
//! A dialect turns a [`Prompt`] into a request body and a frame into [`Signal`]s; what they mean
//! for the attempt is the exchange's business.

mod anthropic_messages;
mod error;
mod foreign;
mod gemini;
mod member;
pub mod openai_chat;
mod openai_responses;
mod pruned;
mod twin;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::forms::named;
use crate::observation::{Usage, Warning};

use twin::Twin;

named! {
    /// A wire protocol.
    Protocol {
        /// OpenAI chat completions.
        OpenaiChat = "openai-chat",
        /// OpenAI responses.
        OpenaiResponses = "openai-responses",
        /// Anthropic messages.
        AnthropicMessages = "anthropic-messages",
        /// Gemini `generateContent` and `streamGenerateContent`.
        Gemini = "gemini",
    }
}

impl Protocol {
    /// Path of the request, to be appended to the base URL, and its query.
    pub fn target(self, model: &str, stream: bool) -> (String, Option<&'static str>) {
        match self {
            Self::OpenaiChat => (openai_chat::path(), None),
            Self::OpenaiResponses => (openai_responses::path(), None),
            Self::AnthropicMessages => (anthropic_messages::path(), None),
            Self::Gemini => gemini::target(model, stream),
        }
    }

    /// Whether the base URL holds the API's version, as the official SDK has it, and not the path.
    pub fn has_version_in_base(self) -> bool {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses => true,
            Self::AnthropicMessages | Self::Gemini => false,
        }
    }

    /// JSON body of the request.
    pub fn body(self, prompt: &Prompt) -> Vec<u8> {
        match self {
            Self::OpenaiChat => openai_chat::body(prompt),
            Self::OpenaiResponses => openai_responses::body(prompt),
            Self::AnthropicMessages => anthropic_messages::body(prompt),
            Self::Gemini => gemini::body(prompt),
        }
    }

    /// Most tokens that a request with these parameters lets an answer have, a budget that the
    /// protocol wants from everybody included.
    pub fn budget(self, params: &Map<String, Value>) -> Option<u64> {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses | Self::Gemini => budget(params),
            Self::AnthropicMessages => Some(anthropic_messages::budget(params)),
        }
    }

    /// Whether services put many tokens into one event as a rule.
    pub fn groups_tokens(self) -> bool {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses | Self::AnthropicMessages => false,
            Self::Gemini => true,
        }
    }

    /// A reader for one stream.
    pub fn reader(self) -> Reader {
        Reader(match self {
            Self::OpenaiChat => State::OpenaiChat(Box::default()),
            Self::OpenaiResponses => State::OpenaiResponses(Box::default(), Box::default()),
            Self::AnthropicMessages => State::AnthropicMessages(Box::default(), Box::default()),
            Self::Gemini => State::Gemini(Box::default(), Box::default()),
        })
    }
}

/// What to ask.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Model name.
    pub model: String,
    /// Messages, placeholders filled in.
    pub messages: Vec<Message>,
    /// Further request members (`max_tokens`, `temperature`, …).
    pub params: Map<String, Value>,
    /// Whether to stream.
    pub stream: bool,
    /// Whether to ask for usage.
    pub usage: bool,
}

/// Request members that bound an answer, whatever the protocol calls it; each protocol asks with
/// the name of its own.
pub const BUDGETS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// Most tokens that an answer may have; the largest where several of the members are set.
pub fn budget(params: &Map<String, Value>) -> Option<u64> {
    let set = BUDGETS
        .iter()
        .filter_map(|name| params.get(*name)?.as_u64());
    set.max()
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `developer`.
    pub role: String,
    /// Text.
    pub content: String,
}

/// One event of the stream, as far as a dialect reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Event type; `message` where the stream named none.
    pub name: &'a str,
    /// Data.
    pub data: &'a str,
}

/// Kind of model output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaKind {
    /// Visible text.
    Content,
    /// Reasoning text.
    Reasoning,
    /// Refusal text.
    Refusal,
    /// Output that is none of these: code, an image, a piece of an argument, free text for a tool.
    Other,
}

/// What a finish reason means, whatever the protocol calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model was done.
    Natural,
    /// The output budget was used up.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// A filter cut or replaced the answer.
    Filter,
    /// The generation broke.
    Abort,
    /// A reason that the protocol does not know.
    Unknown,
}

/// What one frame says; one frame can say several things.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal<'a> {
    /// Identity of the answer; comes first of a frame's signals.
    Meta {
        /// Response id.
        id: Option<&'a str>,
        /// Answered model.
        model: Option<&'a str>,
        /// Fingerprint.
        fingerprint: Option<&'a str>,
        /// Whether a role was announced (a generation starts).
        role: bool,
    },
    /// Model output; `text` may be empty, which is no output.
    Delta {
        /// Kind.
        kind: DeltaKind,
        /// Choice index.
        choice: u64,
        /// Text of the piece.
        text: &'a str,
    },
    /// A piece of a tool call.
    ToolCall {
        /// Choice index.
        choice: u64,
        /// Index of the call; `None` where the relay left it out.
        index: Option<u64>,
        /// Id, on the first piece.
        id: Option<&'a str>,
        /// Name, on the first piece.
        name: Option<&'a str>,
        /// Piece of the arguments.
        arguments: &'a str,
    },
    /// A choice finished.
    Finish {
        /// Choice index.
        choice: u64,
        /// What it means.
        stop: Stop,
        /// Reason as sent.
        reason: &'a str,
    },
    /// Token counts; a later report replaces an earlier one.
    Usage(Usage),
    /// An error said in-band.
    Error {
        /// Code or type, as sent.
        code: Option<&'a str>,
        /// Wording; to be classified, never kept.
        message: Option<&'a str>,
    },
    /// A fault of the frame's shape that does not keep the rest of it from being read.
    Flaw(&'static str),
    /// Calls of tools that are mixed up, where the pieces alone do not show it.
    CallFault(&'static str),
    /// Odd, but no fault.
    Odd(Warning),
    /// The end mark.
    Terminator,
    /// A second answer begins inside the first one, in so many words.
    Restart,
}

/// An error said inside a JSON text that is no frame: a body, or a line outside any frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidError {
    /// Code or type, as sent.
    pub code: Option<String>,
    /// Wording; to be classified, never kept.
    pub message: Option<String>,
}

/// The error that a JSON text says, in any of the shapes that APIs use; `None` for anything else.
pub fn error_in(json: &str) -> Option<SaidError> {
    let said = error::said_in(&pruned::value(json).ok()?)?;
    Some(SaidError {
        code: said.code.map(Into::into),
        message: said.message.map(Into::into),
    })
}

/// Why a frame could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The data is no strict JSON.
    NotJson,
    /// Valid JSON, not the protocol's object; in our own words.
    Shape(&'static str),
}

/// Reads the frames of one stream, or the body of one answer that was not streamed.
#[derive(Debug)]
pub struct Reader(State);

/// What a protocol has to remember from frame to frame: its life cycle, if it has one, and the
/// frame that later ones resemble, which changes nothing of what is read.
#[derive(Debug)]
enum State {
    /// No life cycle.
    OpenaiChat(Box<Twin<openai_chat::Kept>>),
    /// Items and parts that are open.
    OpenaiResponses(
        Box<openai_responses::Life>,
        Box<Twin<openai_responses::Kept>>,
    ),
    /// The message and its blocks.
    AnthropicMessages(
        Box<anthropic_messages::Life>,
        Box<Twin<anthropic_messages::Kept>>,
    ),
    /// The finish that the body's end makes final.
    Gemini(Box<gemini::Life>, Box<Twin<gemini::Kept>>),
}

impl Reader {
    /// The same reader without its shortcut: every frame is parsed.
    #[cfg(test)]
    fn parsing(mut self) -> Self {
        match &mut self.0 {
            State::OpenaiChat(twin) => **twin = Twin::off(),
            State::OpenaiResponses(_, twin) => **twin = Twin::off(),
            State::AnthropicMessages(_, twin) => **twin = Twin::off(),
            State::Gemini(_, twin) => **twin = Twin::off(),
        }
        self
    }

    /// Reads one frame; nothing is signalled from a frame that is unreadable.
    pub fn frame(
        &mut self,
        frame: Frame<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        match &mut self.0 {
            State::OpenaiChat(twin) => openai_chat::frame(twin, frame, sink),
            State::OpenaiResponses(life, twin) => life.frame(twin, frame, sink),
            State::AnthropicMessages(life, twin) => life.frame(twin, frame, sink),
            State::Gemini(life, twin) => life.frame(twin, frame, sink),
        }
    }

    /// The body has ended: signals what only its end makes certain.
    pub fn end(&mut self, sink: &mut dyn FnMut(Signal<'_>)) {
        match &mut self.0 {
            State::OpenaiChat(_) => {}
            State::OpenaiResponses(life, _) => life.end(sink),
            State::AnthropicMessages(life, _) => life.end(sink),
            State::Gemini(life, _) => life.end(sink),
        }
    }

    /// Reads a whole answer that was not streamed; its end is the end mark.
    pub fn answer(
        &mut self,
        body: &str,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        match &self.0 {
            State::OpenaiChat(_) => openai_chat::answer(body, sink),
            State::OpenaiResponses(..) => openai_responses::answer(body, sink),
            State::AnthropicMessages(..) => anthropic_messages::answer(body, sink),
            State::Gemini(..) => gemini::answer(body, sink),
        }
    }

    /// Whether data that never got its blank line is nevertheless the whole end mark.
    pub fn is_end_mark(&self, data: &str) -> bool {
        match &self.0 {
            State::OpenaiChat(_) => openai_chat::is_end_mark(data),
            State::OpenaiResponses(..) => openai_responses::is_end_mark(data),
            State::AnthropicMessages(..) => anthropic_messages::is_end_mark(data),
            State::Gemini(..) => false,
        }
    }

    /// Whether data after the end mark is another protocol's end mark, sent by habit.
    pub fn is_habit(&self, data: &str) -> bool {
        match &self.0 {
            State::OpenaiResponses(..) => openai_responses::is_habit(data),
            State::AnthropicMessages(..) => anthropic_messages::is_habit(data),
            State::OpenaiChat(_) | State::Gemini(..) => false,
        }
    }

    /// Whether the end mark is a member of an ordinary event, after which more events may come:
    /// the stream is whole at the last one, and only the body's end says which that was.
    pub fn goes_on_after_end(&self) -> bool {
        match &self.0 {
            State::OpenaiChat(_) | State::OpenaiResponses(..) | State::AnthropicMessages(..) => {
                false
            }
            State::Gemini(..) => true,
        }
    }

    /// Whether something has begun and has not ended, so that an end mark before it was none.
    pub fn is_open(&self) -> bool {
        match &self.0 {
            State::OpenaiChat(_) | State::OpenaiResponses(..) | State::AnthropicMessages(..) => {
                false
            }
            State::Gemini(life, _) => life.is_open(),
        }
    }

    /// Whether end marks came in event after event, so that nothing but the body's proper end shows
    /// that the last of them was one.
    pub fn ends_with_body(&self) -> bool {
        match &self.0 {
            State::OpenaiChat(_) | State::OpenaiResponses(..) | State::AnthropicMessages(..) => {
                false
            }
            State::Gemini(life, _) => life.ends_with_body(),
        }
    }

    /// Whether a JSON text that should have been a stream is this protocol's whole answer.
    pub fn is_answer(&self, json: &str) -> bool {
        let member = match &self.0 {
            State::OpenaiChat(_) => "\"choices\"",
            State::OpenaiResponses(..) => "\"output\"",
            State::AnthropicMessages(..) => "\"content\"",
            // An array is how this protocol streams where nobody asked for events.
            State::Gemini(..) if !json.trim_start().starts_with('{') => return false,
            State::Gemini(..) => "\"candidates\"",
        };
        json.contains(member)
    }
}
