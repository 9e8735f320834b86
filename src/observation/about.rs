//! Classes and warnings in words, as the tables of `docs/streams.md` have them.

use super::{Class, Warning};

impl Class {
    /// The sign by which it is known, in Markdown.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::DnsFailure => "the name did not resolve, or the limit passed meanwhile",
            Self::ConnectRefused => {
                "the TCP connection failed, or its limit passed (a proxy's tunnel counts as \
                 connecting)"
            }
            Self::TlsFailure => "the TLS handshake failed, or its limit passed",
            Self::NoResponse => "connected and sent, and the peer ended before a response head",
            Self::HttpError => "a status other than 2xx, whatever its body",
            Self::ProtocolViolation => {
                "HTTP framing is broken, two framings, bytes after the body, a coding that was not \
                 asked for, or a body over its limit"
            }
            Self::Fake200JsonError => {
                "2xx, no object of the protocol, and what stands in the body is a JSON error"
            }
            Self::Fake200Html => "the same with a web page",
            Self::Fake200Empty => {
                "the body ended with nothing in it, only heartbeats or events without data, or only \
                 the end mark"
            }
            Self::ErrorInStream => {
                "an error object at any depth, an `error` event or field, an error text or a page \
                 as data or between events"
            }
            Self::UpstreamAbort => "a finish reason that admits a break",
            Self::ContentFiltered => "a finish reason of a filter",
            Self::ErrorAsContent => {
                "the answer, or its last piece, is worded like an error **and** there is a second \
                 sign (below)"
            }
            Self::InvalidUtf8 => "bytes that are no UTF-8 in a complete line",
            Self::JsonSplitAcrossEvents => {
                "data that is no JSON alone and is JSON joined with the next events (at most 16)"
            }
            Self::MalformedJson => {
                "data of a complete event that is no strict JSON (`NaN` is none), nor the end mark"
            }
            Self::SchemaViolation => {
                "JSON that is not the protocol's object, a required member that is missing, a wrong \
                 type, or an event over 1 MiB"
            }
            Self::StreamSplice => {
                "in mid-answer, two of: the id changes, the model's label changes, the role is \
                 announced again; ids that change more than three times are a habit and no sign"
            }
            Self::CumulativeDeltas => {
                "every delta begins with the whole one before, it grew at least twice, and the last \
                 has 8 bytes or more"
            }
            Self::ToolCallCorrupt => {
                "joined arguments are no JSON, or a call without a name or an index, two calls under \
                 one index, or a finish for tool calls and none came"
            }
            Self::DataAfterDone => "an event with data after the end mark",
            Self::DuplicateTerminator => "the end mark again after the end mark",
            Self::Stalled => {
                "no head, no first output, or no further output in time; heartbeats do not count"
            }
            Self::TruncatedNoTerminator => {
                "the body ended before the end mark; `missing-done` when a finish reason had come"
            }
            Self::SilentTruncation => "the end mark came, and no finish reason before it",
            Self::ContentAfterFinish => "output of a choice that had finished",
            Self::EmptyAnswer => {
                "a proper stream without text, reasoning, refusal, tool call or other output"
            }
            Self::UnexpectedLengthCut => {
                "cut at a length with no budget asked for, or below nine tenths of it by the \
                 relay's own count (without a count: fewer bytes of text than tokens in the budget)"
            }
            Self::ReplacementChars => "U+FFFD in the output though the bytes are UTF-8",
            Self::WrongContentType => {
                "events under another type than `text/event-stream`, or a body of lines that are no \
                 events"
            }
            Self::ModelMismatch => {
                "a label of another model; vendor prefixes, a `:variant` or a date that only one \
                 side has are no difference"
            }
            Self::UsageMismatch => {
                "usage was asked for and is missing, has no count of the output, says zero beside \
                 output, or is no sum"
            }
            Self::NotStreamed => {
                "the whole answer in one burst, big blocks with long pauses, or one JSON body"
            }
            Self::MaskedTruncation => "a normal stop without the seal that the prompt asked for",
        }
    }
}

impl Warning {
    /// What it means, in Markdown.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::BodyNotEndedAfterDone => {
                "the body stayed open for more than a second after the end mark (Gemini: for the \
                 idle limit)"
            }
            Self::MissingLastChunk => {
                "the connection was lost after the end mark, before the body's framed end"
            }
            Self::OddContentType => "an event stream whose type names a charset other than UTF-8",
            Self::UnfinishedLastEvent => {
                "the body ended inside an event; an end mark whose bytes are all there still counts"
            }
            Self::UnknownFinishReason => "a finish reason that the protocol does not know",
            Self::FinishReasonEmptyString => "the finish reason is empty text where null is meant",
            Self::FinishRepeated => "a choice was finished again, with no output in between",
            Self::EmptyEvent => "an event whose data is empty, which some clients choke on",
            Self::UnknownField => "a line that is no field of the grammar",
            Self::UnknownEvent => "an event of the relay's own",
            Self::MissingEventName => "an event without the name that the protocol gives it",
            Self::LeftOpen => {
                "the body ended while the stream's own account had an item in progress"
            }
            Self::DoneAfterCompleted => "the `[DONE]` of another protocol after the end mark",
            Self::BigBlocks => "output in two big blocks",
            Self::TextLimit => "text or tool calls beyond the limit were not checked",
        }
    }
}
