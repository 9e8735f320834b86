//! A whole answer that was not streamed.

use super::Life;
use super::flaws::{flaw, shape};
use super::life::{ItemKind, words_of};
use super::said::{call, delta_kind, ending, error_of, item_kind, loose, meta, piece, text, usage};
use super::wire::{Kind, Response};
use crate::dialect::error::{Said, said_in};
use crate::dialect::{DeltaKind, Signal, Unreadable, pruned};

/// Reads a whole answer that was not streamed.
pub(in crate::dialect) fn answer(
    body: &str,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
    let response = match serde_json::from_str::<Response<'_>>(body) {
        Ok(response) => response,
        Err(error) => {
            let value = pruned::value(body)?;
            if let Some(said) = said_in(&value) {
                sink(error_of(&said));
                return Ok(());
            }
            return Err(Unreadable::Shape(shape(&value, "output", &error)));
        }
    };
    let Some(output) = &response.output else {
        let value = pruned::value(body).unwrap_or_default();
        if let Some(said) = said_in(&value) {
            sink(error_of(&said));
            return Ok(());
        }
        return Err(Unreadable::Shape("no output"));
    };
    meta(&response, true, sink);
    if let Some(flaw) = flaw(&response) {
        sink(Signal::Flaw(flaw));
    }
    let mut life = Life::default();
    let mut calls = false;
    for (index, item) in output.iter().enumerate() {
        let kind = item_kind(item);
        life.item_members(kind, item, sink);
        let parts = [&item.summary, &item.content].into_iter().flatten();
        for (part, words) in parts.flat_map(|parts| parts.iter()).filter_map(words_of) {
            piece(delta_kind(part), words, sink);
        }
        if matches!(kind, ItemKind::Function | ItemKind::Custom) {
            calls = true;
            let (id, name) = (loose(&item.call_id), loose(&item.name));
            let words = item.arguments.0.as_deref().unwrap_or_default();
            sink(call(u64::try_from(index).ok(), id, name, words));
            let words = item.input.0.as_deref().unwrap_or_default();
            piece(DeltaKind::Other, words, sink);
        }
    }
    usage(response.usage.as_ref(), sink);
    let status = text(response.status.as_ref());
    let reason = response.incomplete_details.as_ref();
    let reason = reason.and_then(|details| text(details.reason.as_ref()));
    let said = response.error.as_deref().filter(|said| said.real);
    match (said, status) {
        (Some(said), _) => sink(error_of(said)),
        (None, Some("failed")) => sink(error_of(&Said::default())),
        // An answer that is still being made is not finished.
        (None, Some("in_progress" | "queued")) => {}
        (None, _) => ending(Kind::Completed, status, reason, calls, sink),
    }
    sink(Signal::Terminator);
    Ok(())
}
