//! A 2xx response that was to be one JSON answer, not a stream.

use super::super::head::Kind;
use super::super::notes::Spot;
use super::super::outside::{self, Kind as Outside};
use super::super::{Exchange, Over};
use super::answered;
use crate::dialect::Unreadable;
use crate::observation::{Class, Limit};

/// Reads the body; true when it is no answer at all.
pub(super) fn whole(exchange: &mut Exchange, over: Over, spot: Spot) -> bool {
    let body = std::mem::take(&mut exchange.whole);
    let kind = exchange
        .head
        .as_ref()
        .map_or(Kind::Absent, |head| head.kind);
    let heard = &mut exchange.reading.heard;
    match over {
        Over::Ended => {}
        Over::Lost(_) | Over::Framing => {
            heard
                .notes
                .find(Class::TruncatedNoTerminator, spot, "the body was cut");
            return false;
        }
        Over::TimedOut(limit) => {
            let detail = if limit == Limit::Total {
                "the total limit passed"
            } else {
                "silence"
            };
            heard.notes.find(Class::Stalled, spot, detail);
            return false;
        }
        Over::TooMuch => {
            heard
                .notes
                .fault(Class::ProtocolViolation, spot, "a body of more than 4 MiB");
            return false;
        }
        Over::Cancelled => return false,
    }
    let text = match std::str::from_utf8(&body) {
        Ok(text) => text,
        Err(error) => {
            let spot = Spot {
                offset: Some(error.valid_up_to() as u64),
                ..spot
            };
            heard
                .notes
                .fault(Class::InvalidUtf8, spot, "bytes that are no UTF-8");
            return false;
        }
    };
    let text = text.trim_start_matches('\u{feff}');
    if let Err(fault) = heard.whole(spot, text) {
        let (class, detail) = match (outside::kind(text, &heard.reader), fault) {
            (Outside::Nothing, _) => (Class::Fake200Empty, "nothing"),
            (Outside::Page, _) => (Class::Fake200Html, "a page for a body"),
            _ if text.starts_with("data:") || text.starts_with("event:") => {
                (Class::WrongContentType, "a stream that was not asked for")
            }
            (_, Unreadable::NotJson) => (Class::MalformedJson, "a body that is no JSON"),
            (_, Unreadable::Shape(detail)) => (Class::SchemaViolation, detail),
        };
        heard.notes.fault(class, spot, detail);
        return true;
    }
    // Here an error object is the whole body, not something said in a stream.
    if heard.notes.has(Class::ErrorInStream) && heard.answer.objects == 0 {
        heard.notes.drop_class(Class::ErrorInStream);
        heard
            .notes
            .fault(Class::Fake200JsonError, spot, "a JSON error for a body");
        return true;
    }
    heard.answer.end_frame(spot.at);
    if kind != Kind::Json {
        heard.notes.find(
            Class::WrongContentType,
            spot,
            "an answer under another content type",
        );
    }
    answered::check(exchange, spot);
    false
}
