//! What is kept of an event that others resemble.

use super::wire::{Event, Kind};
use crate::dialect::member::{Text, lent, owned};
use crate::dialect::twin::{self, Filled, Hole, Member};

/// A delta, without its words and its number.
#[derive(Debug)]
pub(in crate::dialect) struct Kept {
    kind: Option<Kind>,
    item_id: Option<String>,
    output_index: Option<u64>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
}

impl twin::Kept for Kept {
    type Event<'a> = Event<'a>;

    const HOLES: &'static [Member] = &[
        (&["delta"], Hole::Text(0)),
        (&["sequence_number"], Hole::Count(0)),
        (&["obfuscation"], Hole::Unread),
    ];

    fn of(event: &Event<'_>) -> Option<Self> {
        event.delta.as_ref()?;
        Some(Self {
            kind: event.kind,
            item_id: owned(event.item_id.as_ref()),
            output_index: event.output_index,
            content_index: event.content_index,
            summary_index: event.summary_index,
        })
    }

    fn again<'a>(&'a self, filled: Filled<'a>) -> Event<'a> {
        let [delta, _, _] = filled.texts;
        let [sequence_number, ..] = filled.counts;
        Event {
            kind: self.kind,
            sequence_number,
            item_id: lent(self.item_id.as_ref()),
            output_index: self.output_index,
            content_index: self.content_index,
            summary_index: self.summary_index,
            delta: delta.map(Text),
            text: None,
            refusal: None,
            arguments: None,
            input: None,
            part: None,
            item: None,
            response: None,
            error: None,
        }
    }

    fn is(&self, filled: Filled<'_>, event: &Event<'_>) -> bool {
        &self.again(filled) == event
    }
}
