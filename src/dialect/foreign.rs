//! Data that is no event of the protocol, where events have no types of their own.

use serde_json::Value;

use super::error::{said_by, said_in};
use super::{Frame, Signal, Unreadable, pruned};
use crate::observation::Warning;

/// Reads such data: broken JSON, an error, a named event of the relay's own, or a fault, which
/// `reason` names.
pub(super) fn foreign(
    frame: Frame<'_>,
    reason: impl FnOnce(&Value) -> &'static str,
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
    let said = if frame.name == "error" {
        Some(said_by(&value))
    } else {
        said_in(&value)
    };
    if let Some(said) = said {
        sink(Signal::Error {
            code: said.code.as_deref(),
            message: said.message.as_deref(),
        });
        return Ok(());
    }
    let heartbeat = value.get("type").and_then(Value::as_str) == Some("ping");
    if frame.name != "message" || heartbeat {
        sink(Signal::Odd(Warning::UnknownEvent));
        return Ok(());
    }
    Err(Unreadable::Shape(reason(&value)))
}
