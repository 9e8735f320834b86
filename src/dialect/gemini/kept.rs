//! What is kept of an event that others resemble.

use super::wire::{Candidate, Content, Counts, Part, Response};
use crate::dialect::member::{Few, Present, Text, lent, owned};
use crate::dialect::twin::{self, Filled, Hole, Member};

/// An event with one piece of text, without its words and its counts.
#[derive(Debug)]
pub(in crate::dialect) struct Kept {
    index: Option<u64>,
    role: bool,
    thought: bool,
    finish: Option<String>,
    counted: bool,
    model: Option<String>,
    id: Option<String>,
}

impl twin::Kept for Kept {
    type Event<'a> = Response<'a>;

    const HOLES: &'static [Member] = &[
        (
            &["candidates", "[]", "content", "parts", "[]", "text"],
            Hole::Text(0),
        ),
        (
            &[
                "candidates",
                "[]",
                "content",
                "parts",
                "[]",
                "thoughtSignature",
            ],
            Hole::Unread,
        ),
        (&["usageMetadata", "promptTokenCount"], Hole::Count(0)),
        (
            &["usageMetadata", "toolUsePromptTokenCount"],
            Hole::Count(1),
        ),
        (
            &["usageMetadata", "cachedContentTokenCount"],
            Hole::Count(2),
        ),
        (&["usageMetadata", "candidatesTokenCount"], Hole::Count(3)),
        (&["usageMetadata", "thoughtsTokenCount"], Hole::Count(4)),
        (&["usageMetadata", "totalTokenCount"], Hole::Count(5)),
        (
            &[
                "usageMetadata",
                "candidatesTokensDetails",
                "[]",
                "tokenCount",
            ],
            Hole::Unread,
        ),
    ];

    fn of(event: &Response<'_>) -> Option<Self> {
        let candidate = event.candidates.as_ref()?.only()?;
        let content = candidate.content.as_ref()?;
        Some(Self {
            index: candidate.index,
            role: content.role.is_some(),
            thought: content.parts.as_ref()?.only()?.thought,
            finish: owned(candidate.finish_reason.as_ref()),
            counted: event.usage_metadata.is_some(),
            model: owned(event.model_version.as_ref()),
            id: owned(event.response_id.as_ref()),
        })
    }

    fn again<'a>(&'a self, filled: Filled<'a>) -> Response<'a> {
        let [text, _, _] = filled.texts;
        let [prompt, tools, cached, candidates, thoughts, total] = filled.counts;
        Response {
            candidates: Some(Few::one(Candidate {
                index: self.index,
                content: Some(Content {
                    parts: Some(Few::one(Part {
                        text: text.map(Text),
                        thought: self.thought,
                        more: None,
                    })),
                    role: self.role.then_some(Present),
                }),
                finish_reason: lent(self.finish.as_ref()),
                error: None,
            })),
            prompt_feedback: None,
            usage_metadata: self.counted.then_some(Counts {
                prompt_token_count: prompt,
                tool_use_prompt_token_count: tools,
                cached_content_token_count: cached,
                candidates_token_count: candidates,
                thoughts_token_count: thoughts,
                total_token_count: total,
            }),
            model_version: lent(self.model.as_ref()),
            response_id: lent(self.id.as_ref()),
            error: None,
        }
    }

    fn is(&self, filled: Filled<'_>, event: &Response<'_>) -> bool {
        &self.again(filled) == event
    }
}
