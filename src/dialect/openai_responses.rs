//! OpenAI responses: typed events, `response.completed`.
//!
//! Strict about what the protocol requires and blind to everything it does not name.

mod answer;
mod flaws;
mod kept;
mod life;
mod request;
mod said;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::Value;

use super::error::{Said, said_by, said_in};
use super::member::Loose;
use super::twin::Twin;
use super::{DeltaKind, Frame, Signal, Stop, Unreadable, pruned};
use crate::observation::Warning;

pub(super) use answer::answer;
use flaws::{flaw, missing, reason};
pub(super) use kept::Kept;
use life::{Cycle, Fault, ItemKind, PartKind, Place, Words, words_of};
pub(super) use request::{body, path};
use said::{
    End, call, delta_kind, ended, ending, error_of, item_kind, loose, meta, piece, text, usage,
    whole,
};
use wire::{Event, Kind, Name, Response};

/// Whether data is an event that ends the stream.
pub(super) fn is_end_mark(data: &str) -> bool {
    serde_json::from_str::<Name>(data).is_ok_and(|name| name.kind.is_last())
}

/// Whether data is chat's end mark, which relays put behind the true one by habit.
pub(super) fn is_habit(data: &str) -> bool {
    data.trim_ascii() == "[DONE]"
}

/// The stream's life cycle so far.
#[derive(Debug, Default)]
pub(super) struct Life {
    cycle: Cycle,
    /// Flaws that were signalled; each is said once.
    told: Vec<&'static str>,
    /// The last event has come.
    ended: bool,
}

impl Life {
    /// Reads one event.
    pub(super) fn frame(
        &mut self,
        twin: &mut Twin<Kept>,
        frame: Frame<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        let read = self.any(twin, frame, sink);
        if read.is_err() {
            self.cycle.skip();
        }
        read
    }

    fn any(
        &mut self,
        twin: &mut Twin<Kept>,
        frame: Frame<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        if let Some(event) = twin.find(frame.data) {
            return self.event(frame, &event, sink);
        }
        if is_habit(frame.data) {
            sink(Signal::Odd(Warning::UnknownEvent));
            return Ok(());
        }
        if frame.data.trim_ascii().is_empty() {
            if frame.name == "error" {
                sink(error_of(&Said::default()));
            } else if frame.name == "message" {
                sink(Signal::Odd(Warning::EmptyEvent));
            }
            return Ok(());
        }
        match serde_json::from_str::<Event<'_>>(frame.data) {
            Ok(event) => {
                let read = self.event(frame, &event, sink);
                twin.learn(frame.data, &event);
                read
            }
            Err(error) => self.foreign(frame, Some(&error), sink),
        }
    }

    /// The body has ended; what is still open was let go of.
    pub(super) fn end(&mut self, sink: &mut dyn FnMut(Signal<'_>)) {
        if !self.ended && self.cycle.open_item().is_some() {
            sink(Signal::Odd(Warning::LeftOpen));
        }
    }

    fn event(
        &mut self,
        frame: Frame<'_>,
        event: &Event<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        let named = match frame.name {
            "message" => None,
            name => Some(Kind::of(name)),
        };
        let kind = match (event.kind, named) {
            (Some(kind), _) => kind,
            (None, Some(kind)) if !matches!(kind, Kind::Unknown | Kind::Error) => kind,
            (None, _) => return self.foreign(frame, None, sink),
        };
        if matches!(kind, Kind::Unknown | Kind::Error) || frame.name == "error" {
            self.number(event, false, sink);
            return self.foreign(frame, None, sink);
        }
        if let Some(missing) = missing(kind, event) {
            return Err(Unreadable::Shape(missing));
        }
        match event.response.as_deref() {
            Some(response) => meta(response, kind == Kind::Created, sink),
            None => sink(Signal::Meta {
                id: None,
                model: None,
                fingerprint: None,
                role: false,
            }),
        }
        if event.kind.is_none() {
            self.flaw("an event without a type", sink);
        } else if named.is_some_and(|named| named != kind) {
            self.flaw("an event's name is not its type", sink);
        }
        match (&event.response, kind) {
            (Some(response), Kind::Created) => {
                if self.cycle.begin(text(response.id.as_ref())) {
                    sink(Signal::Restart);
                }
            }
            _ => {
                let early = self.cycle.goes_on();
                self.fault(early, sink);
            }
        }
        self.number(event, true, sink);
        if let Some(said) = event.error.as_deref().filter(|said| said.real) {
            sink(error_of(said));
        }
        self.say(kind, event, sink);
        Ok(())
    }

    /// Says what a known event says, whose payload is there.
    fn say(&mut self, kind: Kind, event: &Event<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
        let place = Place {
            item: event.output_index,
            id: text(event.item_id.as_ref()),
            part: event.content_index,
        };
        let summary = Place {
            part: event.summary_index,
            ..place
        };
        let delta = whole(event.delta.as_ref());
        let words = whole(event.text.as_ref());
        match kind {
            Kind::TextDelta => self.delta(place, PartKind::Text, delta, sink),
            Kind::RefusalDelta => self.delta(place, PartKind::Refusal, delta, sink),
            Kind::ReasoningDelta => self.delta(place, PartKind::Reasoning, delta, sink),
            Kind::SummaryDelta => self.delta(summary, PartKind::Summary, delta, sink),
            Kind::TextDone => self.stated(place, PartKind::Text, words, sink),
            Kind::RefusalDone => {
                let words = whole(event.refusal.as_ref());
                self.stated(place, PartKind::Refusal, words, sink);
            }
            Kind::ReasoningDone => self.stated(place, PartKind::Reasoning, words, sink),
            Kind::SummaryDone => self.stated(summary, PartKind::Summary, words, sink),
            Kind::PartAdded => self.part(place, event, true, sink),
            Kind::PartDone => self.part(place, event, false, sink),
            Kind::SummaryPartAdded => self.part(summary, event, true, sink),
            Kind::SummaryPartDone => self.part(summary, event, false, sink),
            Kind::ItemAdded => self.item_added(event, sink),
            Kind::ItemDone => self.item_done(event, sink),
            Kind::ArgumentsDelta => {
                let fault = self.cycle.add_words(place, delta);
                self.fault(fault, sink);
                sink(call(place.item, None, None, delta));
            }
            Kind::ArgumentsDone => {
                let words = whole(event.arguments.as_ref());
                let (heard, fault) = self.cycle.state_words(place, words);
                self.fault(fault, sink);
                if heard == Words::New {
                    sink(call(place.item, None, None, words));
                }
            }
            Kind::InputDelta => {
                let fault = self.cycle.add_words(place, delta);
                self.fault(fault, sink);
                piece(DeltaKind::Other, delta, sink);
            }
            Kind::InputDone => {
                let words = whole(event.input.as_ref());
                let (heard, fault) = self.cycle.state_words(place, words);
                self.fault(fault, sink);
                if heard == Words::New {
                    piece(DeltaKind::Other, words, sink);
                }
            }
            Kind::HostedDelta => piece(DeltaKind::Other, delta, sink),
            Kind::Created | Kind::Queued | Kind::InProgress => {
                if let Some(response) = event.response.as_deref() {
                    self.response(response, sink);
                    usage(response.usage.as_ref(), sink);
                }
            }
            Kind::Completed | Kind::Incomplete | Kind::Failed => {
                self.ended = true;
                match event.response.as_deref() {
                    Some(response) => self.last(kind, response, sink),
                    None => {
                        self.flaw("a final event without a response", sink);
                        ending(kind, None, None, self.cycle.has_calls(), sink);
                    }
                }
                sink(Signal::Terminator);
            }
            Kind::Aside | Kind::Unknown | Kind::Error => {}
        }
    }

    fn delta(
        &mut self,
        place: Place<'_>,
        kind: PartKind,
        delta: &str,
        sink: &mut dyn FnMut(Signal<'_>),
    ) {
        let fault = self.cycle.add_text(place, kind, delta);
        self.fault(fault, sink);
        piece(delta_kind(kind), delta, sink);
    }

    fn stated(
        &mut self,
        place: Place<'_>,
        kind: PartKind,
        words: &str,
        sink: &mut dyn FnMut(Signal<'_>),
    ) {
        let fault = self.cycle.state_text(place, kind, words);
        self.fault(fault, sink);
    }

    fn part(
        &mut self,
        place: Place<'_>,
        event: &Event<'_>,
        added: bool,
        sink: &mut dyn FnMut(Signal<'_>),
    ) {
        let Some(part) = event.part.as_deref() else {
            return;
        };
        let unfit = match part.kind.0.as_deref() {
            None => Some("a part without a type"),
            Some("output_text" | "reasoning_text" | "summary_text") if part.text.0.is_none() => {
                Some("a part without its text")
            }
            Some("refusal") if part.refusal.0.is_none() => Some("a part without its text"),
            Some("output_text") if part.annotations.is_none() => Some("a part without annotations"),
            Some(_) => None,
        };
        if let Some(unfit) = unfit {
            self.flaw(unfit, sink);
        }
        let Some((kind, words)) = words_of(part) else {
            return;
        };
        let fault = if added {
            self.cycle.add_part(place, kind)
        } else {
            self.cycle.end_part(place, kind, words)
        };
        self.fault(fault, sink);
    }

    fn item_added(&mut self, event: &Event<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
        let Some(item) = event.item.as_deref() else {
            return;
        };
        let kind = item_kind(item);
        let id = item.id.0.as_deref();
        let fault = self.cycle.add_item(event.output_index, kind, id);
        self.fault(fault, sink);
        self.item_members(kind, item, sink);
        if matches!(kind, ItemKind::Function | ItemKind::Custom) {
            let (id, name) = (loose(&item.call_id), loose(&item.name));
            sink(call(event.output_index, id, name, ""));
        }
    }

    fn item_done(&mut self, event: &Event<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
        let Some(item) = event.item.as_deref() else {
            return;
        };
        let kind = item_kind(item);
        let (heard, fault) = self.cycle.end_item(event.output_index, item);
        self.fault(fault, sink);
        self.item_members(kind, item, sink);
        if heard == Words::New {
            match kind {
                ItemKind::Function => {
                    let words = item.arguments.0.as_deref().unwrap_or_default();
                    sink(call(event.output_index, None, None, words));
                }
                ItemKind::Custom => {
                    let words = item.input.0.as_deref().unwrap_or_default();
                    piece(DeltaKind::Other, words, sink);
                }
                ItemKind::Message | ItemKind::Reasoning | ItemKind::Other => {}
            }
        }
    }

    /// What the protocol requires of an item.
    fn item_members(
        &mut self,
        kind: ItemKind,
        item: &wire::Item<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) {
        let there = |member: &Loose<'_>| member.0.is_some();
        let whole = there(&item.kind)
            && match kind {
                ItemKind::Message => {
                    there(&item.id)
                        && there(&item.role)
                        && there(&item.status)
                        && item.content.is_some()
                }
                ItemKind::Reasoning => there(&item.id) && item.summary.is_some(),
                ItemKind::Function => {
                    there(&item.call_id) && there(&item.name) && there(&item.arguments)
                }
                ItemKind::Custom => there(&item.call_id) && there(&item.name) && there(&item.input),
                ItemKind::Other => true,
            };
        if !whole {
            self.flaw("an item without a required member", sink);
        }
    }

    /// What the protocol requires of a response, and the error that one may hold.
    fn response(&mut self, response: &Response<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
        if let Some(flaw) = flaw(response) {
            self.flaw(flaw, sink);
        }
        if let Some(said) = response.error.as_deref().filter(|said| said.real) {
            sink(error_of(said));
        }
    }

    /// Takes the response that ends the stream.
    fn last(&mut self, kind: Kind, response: &Response<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
        let status = text(response.status.as_ref());
        // What an error cut off has no final words, and need not say more than why.
        if kind != Kind::Failed {
            if let Some(flaw) = flaw(response) {
                self.flaw(flaw, sink);
            }
            let stays = match (kind, status) {
                (_, None) | (Kind::Completed, Some("completed" | "failed" | "incomplete")) => true,
                (Kind::Incomplete, Some("incomplete")) => true,
                (_, Some("cancelled")) => true,
                (_, Some(_)) => false,
            };
            if !stays {
                self.flaw(
                    "a final response that is not in the state its event says",
                    sink,
                );
            }
        }
        let id = text(response.id.as_ref());
        if self.cycle.is_other(id) {
            self.flaw("the final response has another id", sink);
        }
        let reason = response.incomplete_details.as_ref();
        let reason = reason.and_then(|details| text(details.reason.as_ref()));
        let calls = self.cycle.has_calls();
        let stop = match ended(kind, status, reason, calls) {
            End::Failed => None,
            End::Finish(stop, _) => Some(stop),
        };
        if matches!(stop, Some(Stop::Natural | Stop::ToolCalls)) {
            let open = self.cycle.open_item();
            self.fault(open, sink);
        }
        if let Some(Stop::Natural | Stop::ToolCalls | Stop::Length) = stop
            && let Some(output) = &response.output
            && (stop != Some(Stop::Length) || self.cycle.open_item().is_none())
        {
            let items: Vec<&wire::Item<'_>> = output.iter().collect();
            let other = self.cycle.compare(&items);
            self.fault(other, sink);
        }
        usage(response.usage.as_ref(), sink);
        match (stop, response.error.as_deref()) {
            (None, Some(said)) => sink(error_of(said)),
            (None, None) => sink(error_of(&Said::default())),
            (Some(_), Some(said)) if said.real => sink(error_of(said)),
            (Some(_), _) => ending(kind, status, reason, calls, sink),
        }
    }

    fn number(&mut self, event: &Event<'_>, required: bool, sink: &mut dyn FnMut(Signal<'_>)) {
        if required || event.sequence_number.is_some() {
            let fault = self.cycle.number(event.sequence_number);
            self.fault(fault, sink);
        }
    }

    fn fault(&mut self, fault: Option<Fault>, sink: &mut dyn FnMut(Signal<'_>)) {
        match fault {
            None => {}
            Some(Fault::Cycle(detail)) => self.flaw(detail, sink),
            Some(Fault::Call(detail)) => sink(Signal::CallFault(detail)),
        }
    }

    fn flaw(&mut self, detail: &'static str, sink: &mut dyn FnMut(Signal<'_>)) {
        if !self.told.contains(&detail) {
            self.told.push(detail);
            sink(Signal::Flaw(detail));
        }
    }

    /// Data that is no event of ours: broken JSON, an error, an event of the relay's own, a fault.
    fn foreign(
        &mut self,
        frame: Frame<'_>,
        error: Option<&serde_json::Error>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        let value = match pruned::value(frame.data) {
            Ok(value) => value,
            Err(_) if frame.name == "error" => {
                sink(Signal::Error {
                    code: None,
                    message: Some(frame.data),
                });
                return Ok(());
            }
            Err(fault) => return Err(fault),
        };
        let kind = value.get("type").and_then(Value::as_str).map(Kind::of);
        match kind {
            _ if frame.name == "error" => {
                sink(error_of(&said_by(&value)));
                return Ok(());
            }
            Some(Kind::Error) => {
                sink(error_of(&said_by(&value)));
                return Ok(());
            }
            Some(Kind::Aside) => return Ok(()),
            Some(kind) if kind.is_last() => {
                self.ended = true;
                self.flaw(reason(&value, error), sink);
                let response = value.get("response");
                let member = |name: &str| response?.get(name);
                let status = member("status").and_then(Value::as_str);
                let reason = member("incomplete_details")
                    .and_then(|details| details.get("reason"))
                    .and_then(Value::as_str);
                if matches!(ended(kind, status, reason, false), End::Failed) {
                    let said = member("error").map(said_by).unwrap_or_default();
                    sink(error_of(&said));
                } else {
                    ending(kind, status, reason, self.cycle.has_calls(), sink);
                }
                sink(Signal::Terminator);
                return Ok(());
            }
            Some(Kind::Unknown) | None => {}
            Some(_) => return Err(Unreadable::Shape(reason(&value, error))),
        }
        if let Some(said) = said_in(&value) {
            sink(error_of(&said));
            return Ok(());
        }
        if kind.is_some() || (frame.name != "message" && Kind::of(frame.name) == Kind::Unknown) {
            sink(Signal::Odd(Warning::UnknownEvent));
            return Ok(());
        }
        Err(Unreadable::Shape(reason(&value, error)))
    }
}
