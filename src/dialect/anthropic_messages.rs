//! Anthropic messages: request, typed events, `message_stop`.
//!
//! Strict about what the protocol requires and blind to everything it does not name. Events have a
//! life cycle here, so a reader remembers which blocks are open; it holds no text.

mod kept;
mod wire;

use serde_json::{Map, Value, json};

use super::error::{Said, said_by, said_in};
use super::member::Text;
use super::twin::Twin;
use super::{BUDGETS, DeltaKind, Frame, Prompt, Signal, Stop, Unreadable, pruned};
use crate::observation::{Usage, Warning};

pub(super) use kept::Kept;
use wire::{
    Answer, Block, BlockKind, BlockType, Counts, Delta, DeltaType, Event, EventType, Input, Kind,
    Message, Piece,
};

/// Output budget where a request sets none: the protocol wants one from everybody.
const DEFAULT_BUDGET: u64 = 4096;

/// Most blocks that may be open, and most tool calls whose indexes are remembered.
const MAX_BLOCKS: usize = 128;

/// Path of the request, under a base URL without a version.
pub(super) fn path() -> String {
    "/v1/messages".to_owned()
}

/// Whether data is the event that ends the stream.
pub(super) fn is_end_mark(data: &str) -> bool {
    const LONGEST: usize = 4096;
    data.len() <= LONGEST
        && data.contains("message_stop")
        && serde_json::from_str::<Event<'_>>(data)
            .is_ok_and(|event| event.kind == Some(EventType(Some(Kind::MessageStop))))
}

/// Whether data is chat's end mark, which relays put behind the true one by habit.
///
/// It has no name, so that the official SDKs pass it over.
pub(super) fn is_habit(data: &str) -> bool {
    data.trim_ascii() == "[DONE]"
}

/// Most tokens that a request with these parameters lets an answer have.
pub(super) fn budget(params: &Map<String, Value>) -> u64 {
    super::budget(params).unwrap_or(DEFAULT_BUDGET)
}

/// JSON body of the request; what the prompt fixes wins over a parameter of the same name.
///
/// Common names become the protocol's own (`max_tokens`, `stop_sequences`), and messages of the
/// system and the developer its `system` text. Usage is reported without asking.
pub(super) fn body(prompt: &Prompt) -> Vec<u8> {
    let mut members = prompt.params.clone();
    for name in BUDGETS {
        members.remove(name);
    }
    members.remove("stream_options");
    members.insert("max_tokens".to_owned(), budget(&prompt.params).into());
    if let Some(stop) = members.remove("stop").filter(|stop| !stop.is_null()) {
        let sequences = match stop {
            Value::Array(_) => stop,
            one @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_)) => Value::Array(vec![one]),
        };
        members.entry("stop_sequences").or_insert_with(|| sequences);
    }
    members.insert("model".to_owned(), Value::String(prompt.model.clone()));
    let (system, turns): (Vec<_>, Vec<_>) = prompt
        .messages
        .iter()
        .partition(|message| matches!(message.role.as_str(), "system" | "developer"));
    if !system.is_empty() {
        let texts: Vec<&str> = system.iter().map(|message| &*message.content).collect();
        members.insert("system".to_owned(), Value::String(texts.join("\n\n")));
    }
    let turns = turns
        .iter()
        .map(|message| json!({"role": message.role, "content": message.content}))
        .collect();
    members.insert("messages".to_owned(), Value::Array(turns));
    members.insert("stream".to_owned(), Value::Bool(prompt.stream));
    Value::Object(members).to_string().into_bytes()
}

/// The stream's life cycle so far.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// `message_start` came, or its lack was told.
    started: bool,
    /// A stop reason came.
    finished: bool,
    /// That names are missing was told.
    unnamed: bool,
    /// An event could not be read, and may have held whatever seems to be missing since.
    lost: bool,
    /// Blocks that are open, the latest last.
    open: Vec<(u64, BlockKind)>,
    /// Index that the next block should have.
    next: u64,
    /// Indexes of the tool calls.
    calls: Vec<u64>,
    /// Latest value of each token count.
    counts: Counts,
}

/// What is wrong with an event that can be read all the same; the first fault is told.
type Flaw = Option<&'static str>;

impl Life {
    /// Reads one event.
    pub(super) fn frame(
        &mut self,
        twin: &mut Twin<Kept>,
        frame: Frame<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        let read = self.any(twin, frame, sink);
        self.lost |= read.is_err();
        read
    }

    fn any(
        &mut self,
        twin: &mut Twin<Kept>,
        frame: Frame<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        let named = Kind::named(frame.name);
        if frame.data.trim_ascii().is_empty() {
            return bare(named, frame.name, sink);
        }
        if named == Some(Kind::Error) {
            said(frame.data, sink);
            return Ok(());
        }
        if let Some(event) = twin.find(frame.data) {
            return self.event(frame, named, &event, sink);
        }
        match serde_json::from_str::<Event<'_>>(frame.data) {
            Ok(event) => {
                let read = self.event(frame, named, &event, sink);
                twin.learn(frame.data, &event);
                read
            }
            Err(error) => foreign(frame, &error, sink),
        }
    }

    fn event(
        &mut self,
        frame: Frame<'_>,
        named: Option<Kind>,
        event: &Event<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        let (kind, flaw) = match event.kind {
            Some(EventType(Some(kind))) => (kind, named_otherwise(frame.name, named, kind)),
            None if event.error.is_none() && named.is_some() => {
                (named.unwrap_or(Kind::Ping), Some("an event without a type"))
            }
            Some(EventType(None)) | None => return unknown(frame, named, sink),
        };
        match kind {
            Kind::Ping => return Ok(()),
            Kind::Error => {
                if frame.name == "message" {
                    sink(Signal::Odd(Warning::MissingEventName));
                }
                said(frame.data, sink);
                return Ok(());
            }
            Kind::MessageStart
            | Kind::BlockStart
            | Kind::BlockDelta
            | Kind::BlockStop
            | Kind::MessageDelta
            | Kind::MessageStop => {}
        }
        self.read(kind, event, flaw, sink);
        if frame.name == "message" && !self.unnamed {
            self.unnamed = true;
            sink(Signal::Odd(Warning::MissingEventName));
            sink(Signal::Flaw("events without their names"));
        }
        if let Some(said) = event.error.as_deref().filter(|said| said.real) {
            error(said, sink);
        }
        if kind == Kind::MessageStop {
            sink(Signal::Terminator);
        }
        Ok(())
    }

    /// The body has ended: what is missing by then is told by the end mark that did not come.
    #[expect(clippy::unused_self, reason = "each protocol is asked in the same way")]
    pub(super) fn end(&mut self, _sink: &mut dyn FnMut(Signal<'_>)) {}

    /// Reads an event of the message.
    fn read(
        &mut self,
        kind: Kind,
        event: &Event<'_>,
        flaw: Flaw,
        sink: &mut dyn FnMut(Signal<'_>),
    ) {
        if kind == Kind::MessageStart {
            self.start(event, flaw, sink);
            return;
        }
        // An end mark alone is an empty answer, not half a message.
        if kind == Kind::MessageStop && !self.started {
            return;
        }
        sink(Signal::Meta {
            id: None,
            model: None,
            fingerprint: None,
            role: false,
        });
        let late = self.amiss(!self.started, "an event before message_start");
        self.started = true;
        let own = match kind {
            Kind::BlockStart => self.open_block(event, sink),
            Kind::BlockDelta => self.piece(event, sink),
            Kind::BlockStop => self.close_block(event),
            Kind::MessageDelta => self.delta(event, sink),
            // Without a stop reason the open block is no fault of its own: all of the end is missing.
            Kind::MessageStop => self.amiss(
                self.finished && !self.open.is_empty(),
                "a block that is still open at the end",
            ),
            Kind::MessageStart | Kind::Ping | Kind::Error => None,
        };
        if let Some(flaw) = flaw.or(late).or(own) {
            sink(Signal::Flaw(flaw));
        }
    }

    /// A fault of the order of events, where the whole order was seen.
    fn amiss(&self, wrong: bool, detail: &'static str) -> Flaw {
        (wrong && !self.lost).then_some(detail)
    }

    fn start(&mut self, event: &Event<'_>, flaw: Flaw, sink: &mut dyn FnMut(Signal<'_>)) {
        let message = event.message.as_deref();
        sink(Signal::Meta {
            id: message.and_then(|message| text(message.id.as_ref())),
            model: message.and_then(|message| text(message.model.as_ref())),
            fingerprint: None,
            role: true,
        });
        if self.started {
            sink(Signal::Restart);
        }
        *self = Self {
            started: true,
            unnamed: self.unnamed,
            lost: self.lost,
            counts: message
                .and_then(|message| message.usage.as_deref())
                .copied()
                .unwrap_or_default(),
            ..Self::default()
        };
        let own = match message {
            None => Some("message_start without a message"),
            Some(message) => start_flaw(message),
        };
        if let Some(flaw) = flaw.or(own) {
            sink(Signal::Flaw(flaw));
        }
        if message.is_some_and(|message| message.usage.is_some()) {
            // The count of the output is provisional here.
            let begun = Counts {
                output_tokens: None,
                output_tokens_details: None,
                ..self.counts
            };
            sink(Signal::Usage(usage(&begun)));
        }
    }

    fn open_block(&mut self, event: &Event<'_>, sink: &mut dyn FnMut(Signal<'_>)) -> Flaw {
        let Some(block) = event.content_block.as_deref() else {
            return Some("content_block_start without a block");
        };
        let Some(BlockType(kind)) = block.kind else {
            return Some("a block without a type");
        };
        let index = event.index.unwrap_or(self.next);
        let again = kind == BlockKind::Call && self.calls.contains(&index);
        let place = if event.index.is_none() {
            Some("a block without an index")
        } else if index == self.next || again {
            // Two calls under one index are mixed up, which the pieces of the calls show.
            None
        } else if self.open.iter().any(|(open, _)| *open == index) {
            self.amiss(true, "a block that begins twice")
        } else {
            self.amiss(true, "a block whose index is not its place")
        };
        self.next = self.next.max(index.saturating_add(1));
        self.open.retain(|(open, _)| *open != index);
        let full = self.open.len() >= MAX_BLOCKS;
        if !full {
            self.open.push((index, kind));
        }
        if kind == BlockKind::Call && !again && self.calls.len() < MAX_BLOCKS {
            self.calls.push(index);
        }
        let own = said_in_block(index, kind, block, sink);
        place
            .or(own)
            .or_else(|| full.then_some("more than 128 blocks are open"))
    }

    fn piece(&mut self, event: &Event<'_>, sink: &mut dyn FnMut(Signal<'_>)) -> Flaw {
        let Some(delta) = &event.delta else {
            return Some("content_block_delta without a delta");
        };
        let Some(DeltaType(piece)) = delta.kind else {
            return Some("a delta without a type");
        };
        let index = event.index.unwrap_or_else(|| self.next.saturating_sub(1));
        let open = self.open.iter().rev().find(|(open, _)| *open == index);
        let fits = match open {
            None => self.amiss(true, "a delta of a block that is not open"),
            Some((_, block)) => {
                (!piece.fits(*block)).then_some("a delta that its block cannot take")
            }
        };
        let own = said_in_delta(index, piece, delta, sink);
        let place = event.index.is_none().then_some("a delta without an index");
        place.or(fits).or(own)
    }

    fn close_block(&mut self, event: &Event<'_>) -> Flaw {
        let Some(index) = event.index else {
            self.open.pop();
            return Some("the end of a block without an index");
        };
        match self.open.iter().rposition(|(open, _)| *open == index) {
            Some(at) => {
                self.open.remove(at);
                None
            }
            None => self.amiss(true, "the end of a block that is not open"),
        }
    }

    fn delta(&mut self, event: &Event<'_>, sink: &mut dyn FnMut(Signal<'_>)) -> Flaw {
        if let Some(counts) = event.usage.as_deref() {
            self.counts = merged(&self.counts, counts);
            sink(Signal::Usage(usage(&self.counts)));
        }
        let reason = event.delta.as_ref().map(|delta| delta.stop_reason.as_ref());
        if let Some(Some(Text(reason))) = reason {
            self.finished |= !reason.is_empty();
            finish(reason, sink);
        }
        match (reason, event.usage.as_deref()) {
            (None, _) => Some("message_delta without a delta"),
            (Some(_), None) => Some("message_delta without usage"),
            (Some(_), Some(counts)) => counts
                .output_tokens
                .is_none()
                .then_some("usage without output_tokens"),
        }
    }
}

/// Reads an event without data: a heartbeat, or an event that lost all it had to say.
fn bare(
    named: Option<Kind>,
    name: &str,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
    match named {
        Some(Kind::Ping) => Ok(()),
        Some(Kind::Error) => {
            sink(Signal::Error {
                code: None,
                message: None,
            });
            Ok(())
        }
        Some(
            Kind::MessageStart
            | Kind::BlockStart
            | Kind::BlockDelta
            | Kind::BlockStop
            | Kind::MessageDelta
            | Kind::MessageStop,
        ) => Err(Unreadable::Shape("an event without its data")),
        None => {
            if name == "message" {
                sink(Signal::Odd(Warning::EmptyEvent));
            }
            Ok(())
        }
    }
}

/// Whether an event's name is not its type; that names are missing is told once, elsewhere.
fn named_otherwise(name: &str, named: Option<Kind>, kind: Kind) -> Flaw {
    (name != "message" && named != Some(kind)).then_some("an event whose name is not its type")
}

/// The first fault of the message that a stream begins with.
fn start_flaw(message: &Message<'_>) -> Flaw {
    let is = |text: &Option<Text<'_>>, wanted: &str| {
        text.as_ref().is_some_and(|Text(text)| text == wanted)
    };
    let counts = message.usage.as_deref();
    if message.id.is_none() {
        Some("a message without an id")
    } else if !is(&message.kind, "message") {
        Some("a message without its type")
    } else if !is(&message.role, "assistant") {
        Some("a message without the role assistant")
    } else if message.model.is_none() {
        Some("a message without a model")
    } else if message.content.is_none() {
        Some("a message without content")
    } else if message
        .content
        .as_ref()
        .is_some_and(|list| !list.is_empty())
    {
        Some("content in message_start")
    } else {
        counts_flaw(counts)
    }
}

fn counts_flaw(counts: Option<&Counts>) -> Flaw {
    match counts {
        None => Some("a message without usage"),
        Some(counts) if counts.input_tokens.is_none() || counts.output_tokens.is_none() => {
            Some("usage without input_tokens or output_tokens")
        }
        Some(_) => None,
    }
}

/// Says what a block holds at its start, or as a whole; the first fault is given back.
fn said_in_block(
    index: u64,
    kind: BlockKind,
    block: &Block<'_>,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Flaw {
    let mut output = |kind, text: &Option<Text<'_>>| match text {
        Some(Text(text)) => {
            delta(kind, text, sink);
            None
        }
        None => Some("a block without its text"),
    };
    match kind {
        BlockKind::Text => output(DeltaKind::Content, &block.text),
        BlockKind::Thinking => output(DeltaKind::Reasoning, &block.thinking),
        BlockKind::Redacted => output(DeltaKind::Reasoning, &block.data),
        BlockKind::Call => {
            sink(Signal::ToolCall {
                choice: 0,
                index: Some(index),
                id: text(block.id.as_ref()),
                name: text(block.name.as_ref()),
                arguments: "",
            });
            if block.id.is_none() {
                Some("a tool call without an id")
            } else {
                (block.input != Some(Input::Object)).then_some("a tool call without its input")
            }
        }
        BlockKind::Result => None,
        BlockKind::Other => {
            sink(Signal::Odd(Warning::UnknownEvent));
            None
        }
    }
}

/// Says what a delta holds; the first fault is given back.
fn said_in_delta(
    index: u64,
    piece: Piece,
    said: &Delta<'_>,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Flaw {
    let held = match piece {
        Piece::Text => said.text.as_ref(),
        Piece::Thinking => said.thinking.as_ref(),
        Piece::InputJson => said.partial_json.as_ref(),
        Piece::Signature => {
            return said
                .signature
                .is_none()
                .then_some("a delta without its signature");
        }
        Piece::Citations => {
            return said
                .citation
                .is_none()
                .then_some("a delta without its citation");
        }
        Piece::Other => {
            sink(Signal::Odd(Warning::UnknownEvent));
            return None;
        }
    };
    let Some(Text(held)) = held else {
        return Some("a delta without its text");
    };
    match piece {
        Piece::Text => delta(DeltaKind::Content, held, sink),
        Piece::Thinking => delta(DeltaKind::Reasoning, held, sink),
        Piece::InputJson | Piece::Signature | Piece::Citations | Piece::Other => {
            sink(Signal::ToolCall {
                choice: 0,
                index: Some(index),
                id: None,
                name: None,
                arguments: held,
            });
        }
    }
    None
}

fn delta(kind: DeltaKind, text: &str, sink: &mut dyn FnMut(Signal<'_>)) {
    if !text.is_empty() {
        sink(Signal::Delta {
            kind,
            choice: 0,
            text,
        });
    }
}

fn text<'a>(text: Option<&'a Text<'_>>) -> Option<&'a str> {
    text.map(|text| &*text.0).filter(|text| !text.is_empty())
}

fn finish(reason: &str, sink: &mut dyn FnMut(Signal<'_>)) {
    if reason.is_empty() {
        sink(Signal::Odd(Warning::FinishReasonEmptyString));
        return;
    }
    let stop = match stop(reason) {
        Some(stop) => stop,
        None => {
            sink(Signal::Odd(Warning::UnknownFinishReason));
            leaked(reason)
        }
    };
    sink(Signal::Finish {
        choice: 0,
        stop,
        reason,
    });
}

/// What a reason of the protocol means.
fn stop(reason: &str) -> Option<Stop> {
    Some(match reason {
        // A turn that is paused can be taken up again; the model was not cut off.
        "end_turn" | "stop_sequence" | "pause_turn" => Stop::Natural,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "tool_use" => Stop::ToolCalls,
        "refusal" => Stop::Filter,
        _ => return None,
    })
}

/// What a reason means that the protocol does not have: other providers' words, which relays leak.
fn leaked(reason: &str) -> Stop {
    match reason.to_ascii_lowercase().as_str() {
        "stop" | "eos" => Stop::Natural,
        "length" => Stop::Length,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "content_filter"
        | "content_filtered"
        | "safety"
        | "sensitive"
        | "recitation"
        | "blocklist"
        | "prohibited_content"
        | "spii"
        | "guardrail_intervened" => Stop::Filter,
        "abort"
        | "aborted"
        | "error"
        | "cancelled"
        | "canceled"
        | "failed"
        | "timeout"
        | "network_error"
        | "malformed_function_call"
        | "malformed_model_output"
        | "malformed_tool_use"
        | "engine_error"
        | "server_error"
        | "interrupted" => Stop::Abort,
        _ => Stop::Unknown,
    }
}

/// The counts after a report, in which what is absent keeps its value.
fn merged(before: &Counts, report: &Counts) -> Counts {
    Counts {
        input_tokens: report.input_tokens.or(before.input_tokens),
        // The count of the beginning is provisional and never the final one.
        output_tokens: report.output_tokens,
        cache_creation_input_tokens: report
            .cache_creation_input_tokens
            .or(before.cache_creation_input_tokens),
        cache_read_input_tokens: report
            .cache_read_input_tokens
            .or(before.cache_read_input_tokens),
        output_tokens_details: report.output_tokens_details,
    }
}

/// The report in common terms: what was read from a cache or written to one is input, too.
fn usage(counts: &Counts) -> Usage {
    let cached = counts.cache_read_input_tokens;
    let beside = [cached, counts.cache_creation_input_tokens];
    let beside = beside.into_iter().flatten().fold(0, u64::saturating_add);
    Usage {
        input: counts
            .input_tokens
            .map(|input| input.saturating_add(beside)),
        output: counts.output_tokens,
        reasoning: counts
            .output_tokens_details
            .and_then(|details| details.thinking_tokens),
        cached_input: cached,
        total: None,
    }
}

fn error(said: &Said<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
    sink(Signal::Error {
        code: said.code.as_deref(),
        message: said.message.as_deref(),
    });
}

/// Says the error that an event of that name or type holds, whatever its shape.
fn said(data: &str, sink: &mut dyn FnMut(Signal<'_>)) {
    match pruned::value(data) {
        Ok(value) => error(&said_by(&value), sink),
        Err(_) => sink(Signal::Error {
            code: None,
            message: Some(data),
        }),
    }
}

/// Reads JSON whose type the protocol does not name: an error, an event to come, or a fault.
fn unknown(
    frame: Frame<'_>,
    named: Option<Kind>,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
    let value = pruned::value(frame.data)?;
    if let Some(said) = said_in(&value) {
        error(&said, sink);
        return Ok(());
    }
    match (named, value.get("type").and_then(Value::as_str)) {
        (Some(Kind::Ping), _) => Ok(()),
        (Some(_), _) => Err(Unreadable::Shape("an event whose name is not its type")),
        (None, Some("message")) => Err(Unreadable::Shape("a whole message in place of events")),
        (None, None) if frame.name == "message" => Err(Unreadable::Shape("no type")),
        (None, _) => {
            sink(Signal::Odd(Warning::UnknownEvent));
            Ok(())
        }
    }
}

/// Data that is no event: broken JSON, an error, an event to come, or a fault.
fn foreign(
    frame: Frame<'_>,
    fault: &serde_json::Error,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
    if is_habit(frame.data) {
        return Err(Unreadable::Shape("the end mark of another protocol"));
    }
    let value = pruned::value(frame.data)?;
    let named = Kind::named(frame.name);
    let typed = value.get("type").and_then(Value::as_str);
    let known = typed
        .or_else(|| named.map(|_| frame.name))
        .and_then(Kind::named);
    match known {
        None => unknown(frame, named, sink),
        Some(Kind::Ping) => Ok(()),
        Some(Kind::Error) => {
            error(&said_by(&value), sink);
            Ok(())
        }
        Some(
            Kind::MessageStart
            | Kind::BlockStart
            | Kind::BlockDelta
            | Kind::BlockStop
            | Kind::MessageDelta
            | Kind::MessageStop,
        ) => Err(Unreadable::Shape(reason(&value, fault))),
    }
}

/// Names the fault of a JSON value that could not be read, without any of its content.
fn reason(value: &Value, fault: &serde_json::Error) -> &'static str {
    if !value.is_object() {
        "no JSON object"
    } else if fault.to_string().starts_with("duplicate field") {
        "a member comes twice"
    } else if fault.to_string().starts_with("a list of too many") {
        "a list of too many items"
    } else {
        "a member has the wrong type"
    }
}

/// Reads a whole answer that was not streamed.
pub(super) fn answer(body: &str, sink: &mut dyn FnMut(Signal<'_>)) -> Result<(), Unreadable> {
    let whole = match serde_json::from_str::<Answer<'_>>(body) {
        Ok(whole) => whole,
        Err(fault) => {
            let value = pruned::value(body)?;
            let Some(said) = said_in(&value) else {
                return Err(Unreadable::Shape(reason(&value, &fault)));
            };
            error(&said, sink);
            return Ok(());
        }
    };
    let Some(content) = &whole.content else {
        let value = pruned::value(body).unwrap_or(Value::Null);
        let Some(said) = said_in(&value) else {
            return Err(Unreadable::Shape("no content"));
        };
        error(&said, sink);
        return Ok(());
    };
    sink(Signal::Meta {
        id: text(whole.id.as_ref()),
        model: text(whole.model.as_ref()),
        fingerprint: None,
        role: true,
    });
    let is = |text: &Option<Text<'_>>, wanted: &str| {
        text.as_ref().is_some_and(|Text(text)| text == wanted)
    };
    let named = whole.id.is_some() && whole.model.is_some();
    let mut flaw = if !named || !is(&whole.kind, "message") || !is(&whole.role, "assistant") {
        Some("a required member is missing")
    } else {
        counts_flaw(whole.usage.as_deref())
    };
    for (index, block) in (0..).zip(content.iter()) {
        let own = match block.kind {
            Some(BlockType(kind)) => said_in_block(index, kind, block, sink),
            None => Some("a block without a type"),
        };
        flaw = flaw.or(own);
    }
    if let Some(flaw) = flaw {
        sink(Signal::Flaw(flaw));
    }
    if let Some(said) = whole.error.as_deref().filter(|said| said.real) {
        error(said, sink);
    }
    if let Some(Text(reason)) = &whole.stop_reason {
        finish(reason, sink);
    }
    if let Some(counts) = whole.usage.as_deref() {
        sink(Signal::Usage(usage(counts)));
    }
    sink(Signal::Terminator);
    Ok(())
}

#[cfg(test)]
mod tests;
