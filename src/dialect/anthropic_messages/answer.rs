//! A whole answer that was not streamed.

use serde_json::Value;

use super::flaws::{counts_flaw, reason};
use super::said::{error, finish, said_in_block, text, usage};
use super::wire::{Answer, BlockType};
use crate::dialect::error::said_in;
use crate::dialect::member::Text;
use crate::dialect::{Signal, Unreadable, pruned};

/// Reads a whole answer that was not streamed.
pub(in crate::dialect) fn answer(
    body: &str,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
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
