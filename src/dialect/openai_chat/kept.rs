//! What is kept of a chunk that others resemble.

use std::borrow::Cow;

use super::wire::{Choice, Chunk, Delta, Function, More, Object, ToolCall};
use crate::dialect::member::{Few, Loose, Text, lent, owned};
use crate::dialect::twin::{self, Filled, Hole, Member};

/// Places of the texts.
const CONTENT: usize = 0;
const REASONING: usize = 1;
const ARGUMENTS: usize = 2;

/// A chunk with one delta, without its words.
#[derive(Debug)]
pub(in crate::dialect) struct Kept {
    id: Option<String>,
    object: Option<Object>,
    created: Option<i64>,
    model: Option<String>,
    fingerprint: Option<Option<String>>,
    choice: u64,
    role: bool,
    finish: Option<String>,
    /// There is a piece of a tool call; the index that it names.
    call: Option<Option<u64>>,
}

impl twin::Kept for Kept {
    type Event<'a> = Chunk<'a>;

    const HOLES: &'static [Member] = &[
        (&["choices", "[]", "delta", "content"], Hole::Text(CONTENT)),
        (
            &["choices", "[]", "delta", "reasoning_content"],
            Hole::Text(REASONING),
        ),
        (
            &["choices", "[]", "delta", "reasoning"],
            Hole::Text(REASONING),
        ),
        (
            &["choices", "[]", "delta", "reasoning_details", "[]", "text"],
            Hole::Unread,
        ),
        (
            &[
                "choices",
                "[]",
                "delta",
                "tool_calls",
                "[]",
                "function",
                "arguments",
            ],
            Hole::Text(ARGUMENTS),
        ),
        (&["obfuscation"], Hole::Unread),
    ];

    fn of(event: &Chunk<'_>) -> Option<Self> {
        let choice = event.choices.only()?;
        let delta = choice.delta.as_ref()?;
        let calls = delta
            .more
            .as_deref()
            .and_then(|more| more.tool_calls.as_ref());
        Some(Self {
            id: owned(event.id.as_ref()),
            object: event.object,
            created: event.created,
            model: owned(event.model.as_ref()),
            fingerprint: event
                .system_fingerprint
                .as_ref()
                .map(|text| text.0.as_deref().map(str::to_owned)),
            choice: choice.index,
            role: delta.role,
            finish: owned(choice.finish_reason.as_ref()),
            call: match calls {
                Some(calls) => Some(calls.only()?.index),
                None => None,
            },
        })
    }

    fn again<'a>(&'a self, filled: Filled<'a>) -> Chunk<'a> {
        let [content, reasoning, arguments] = filled.texts;
        let reasoning = reasoning.filter(|text| !text.is_empty());
        let tool_calls = self.call.map(|index| {
            Few::one(ToolCall {
                index,
                id: None,
                function: Some(Function {
                    name: None,
                    arguments: arguments.map(Text),
                }),
            })
        });
        let more = (reasoning.is_some() || tool_calls.is_some()).then(|| {
            Box::new(More {
                reasoning,
                tool_calls,
                ..More::default()
            })
        });
        Chunk {
            id: lent(self.id.as_ref()),
            object: self.object,
            created: self.created,
            model: lent(self.model.as_ref()),
            choices: Few::one(Choice {
                index: self.choice,
                delta: Some(Delta {
                    role: self.role,
                    content: content.map(Text),
                    more,
                }),
                message: None,
                finish_reason: lent(self.finish.as_ref()),
                error: None,
            }),
            system_fingerprint: self
                .fingerprint
                .as_ref()
                .map(|text| Loose(text.as_deref().map(Cow::Borrowed))),
            usage: None,
            error: None,
        }
    }

    fn is(&self, filled: Filled<'_>, event: &Chunk<'_>) -> bool {
        &self.again(filled) == event
    }
}
