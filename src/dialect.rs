//! How to ask in each protocol, and how to read its frames.
//!
//! Pure: no time, no sockets. A dialect turns a [`Prompt`] into a request body and a frame's data
//! into [`Signal`]s; what they mean for the attempt is the exchange's business.

use serde_json::{Map, Value};

use crate::observation::{Usage, named};
use serde::{Deserialize, Serialize};
use std::fmt;

named! {
    /// A wire protocol.
    Protocol {
        /// OpenAI chat completions.
        OpenaiChat = "openai-chat",
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

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `developer`.
    pub role: String,
    /// Text.
    pub content: String,
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
    /// A tool call: its name or a piece of its arguments.
    ToolCall,
}

/// What one frame says.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal<'a> {
    /// Identity of the answer.
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
    /// Model output.
    Delta {
        /// Kind.
        kind: DeltaKind,
        /// Choice index.
        choice: u64,
        /// Text of the piece.
        text: &'a str,
    },
    /// A choice finished.
    Finish {
        /// Choice index.
        choice: u64,
        /// Reason as sent.
        reason: &'a str,
    },
    /// Token counts.
    Usage(Usage),
    /// An error said in-band.
    Error,
    /// The end mark.
    Terminator,
    /// Nothing that matters.
    Other,
}
