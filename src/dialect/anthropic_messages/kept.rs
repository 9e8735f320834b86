//! What is kept of an event that others resemble.

use super::wire::{Delta, DeltaType, Event, EventType};
use crate::dialect::member::Text;
use crate::dialect::twin::{self, Filled, Hole, Member};

/// The delta of a block, without its words.
#[derive(Debug)]
pub(in crate::dialect) struct Kept {
    kind: Option<EventType>,
    index: Option<u64>,
    delta: Option<DeltaType>,
}

impl twin::Kept for Kept {
    type Event<'a> = Event<'a>;

    const HOLES: &'static [Member] = &[
        (&["delta", "text"], Hole::Text(0)),
        (&["delta", "thinking"], Hole::Text(1)),
        (&["delta", "partial_json"], Hole::Text(2)),
    ];

    fn of(event: &Event<'_>) -> Option<Self> {
        Some(Self {
            kind: event.kind,
            index: event.index,
            delta: event.delta.as_ref()?.kind,
        })
    }

    fn again<'a>(&'a self, filled: Filled<'a>) -> Event<'a> {
        let [text, thinking, partial_json] = filled.texts;
        Event {
            kind: self.kind,
            index: self.index,
            delta: Some(Delta {
                kind: self.delta,
                text: text.map(Text),
                thinking: thinking.map(Text),
                partial_json: partial_json.map(Text),
                signature: None,
                citation: None,
                stop_reason: None,
            }),
            content_block: None,
            message: None,
            usage: None,
            error: None,
        }
    }

    fn is(&self, filled: Filled<'_>, event: &Event<'_>) -> bool {
        &self.again(filled) == event
    }
}
