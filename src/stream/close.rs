//! Closes the books of an attempt: what the whole of it means, class by class.
//!
//! Runs once, when everything is known; findings that need only one event were noted on the way.

mod answered;
mod whole;

use super::head::Kind;
use super::notes::Spot;
use super::outside::Kind as Outside;
use super::{Exchange, FramingFault, Loss, MAX_BODY_BYTES, Over, clean, wording};
use crate::observation::{Class, Ending, ErrorKind, Limit, Observation, Packets, Phase, Warning};

/// Everything that was seen.
pub(super) fn observation(mut exchange: Exchange) -> Observation {
    let over = exchange.over.unwrap_or(Over::Cancelled);
    let spot = exchange.spot();
    framing(&mut exchange);
    let plain = match exchange.head.as_ref().map(|head| head.is_2xx()) {
        None => {
            before_head(&mut exchange, over, spot);
            false
        }
        Some(false) => {
            http_error(&mut exchange, spot);
            true
        }
        Some(true) if !exchange.asked.stream => whole::whole(&mut exchange, over, spot),
        Some(true) => stream(&mut exchange, over, spot),
    };
    record(exchange, over, plain)
}

fn framing(exchange: &mut Exchange) {
    let Some((fault, spot)) = exchange.framing else {
        return;
    };
    let detail = match fault {
        FramingFault::BadHead => "the head is no HTTP",
        FramingFault::HeadTooLarge => "the head passed a limit",
        FramingFault::BadChunkSize => "a chunk size is no hexadecimal number",
        FramingFault::BadChunkEnd => "a chunk is not closed by CRLF",
        FramingFault::TwoFramings => "both Content-Length and Transfer-Encoding",
        FramingFault::BadContentLength => "a bad Content-Length",
        FramingFault::BytesAfterBody => "bytes after the body's end",
        FramingFault::ShortBody => "the body is shorter than Content-Length",
        FramingFault::UnaskedCoding => "a coding that was not asked for",
        FramingFault::Unspecified => "HTTP framing is broken",
    };
    let notes = &mut exchange.reading.heard.notes;
    notes.fault(Class::ProtocolViolation, spot, detail);
}

fn before_head(exchange: &mut Exchange, over: Over, spot: Spot) {
    let by_phase = || match spot.phase {
        Phase::Dns => (Class::DnsFailure, "lost while the name was resolved"),
        Phase::Pool | Phase::Connect => (Class::ConnectRefused, "lost while connecting"),
        Phase::Tunnel => (Class::ConnectRefused, "lost in the proxy's tunnel"),
        Phase::Tls => (Class::TlsFailure, "lost in the handshake"),
        Phase::Send
        | Phase::Wait
        | Phase::Head
        | Phase::FirstEvent
        | Phase::FirstToken
        | Phase::Stream
        | Phase::End => (Class::NoResponse, "the peer ended before a response head"),
    };
    let (class, detail) = match over {
        Over::Lost(loss) => match loss {
            Loss::Dns => (Class::DnsFailure, "the name did not resolve"),
            Loss::Refused => (Class::ConnectRefused, "refused"),
            Loss::Unreachable => (Class::ConnectRefused, "no route"),
            Loss::Tunnel => (Class::ConnectRefused, "the proxy refused the tunnel"),
            Loss::Tls => (Class::TlsFailure, "the handshake failed"),
            Loss::Certificate => (Class::TlsFailure, "the certificate is not accepted"),
            Loss::CertificateEarly => (
                Class::TlsFailure,
                "by this machine's clock the certificate is not valid yet",
            ),
            Loss::CertificateLate => (
                Class::TlsFailure,
                "by this machine's clock the certificate has expired",
            ),
            Loss::NoHttp => (Class::ProtocolViolation, "what came back is no HTTP"),
            Loss::Closed | Loss::Reset | Loss::Other => by_phase(),
            // Nothing is known of a peer that was never asked.
            Loss::Local => return,
        },
        Over::TimedOut(Limit::Dns) => (Class::DnsFailure, "no answer in time"),
        Over::TimedOut(Limit::Connect) => (Class::ConnectRefused, "no answer in time"),
        Over::TimedOut(Limit::Tls) => (Class::TlsFailure, "no answer in time"),
        Over::TimedOut(_) => match spot.phase {
            Phase::Dns | Phase::Pool | Phase::Connect | Phase::Tunnel | Phase::Tls => by_phase(),
            Phase::Send
            | Phase::Wait
            | Phase::Head
            | Phase::FirstEvent
            | Phase::FirstToken
            | Phase::Stream
            | Phase::End => (Class::Stalled, "no response head in time"),
        },
        Over::Ended => by_phase(),
        Over::Framing | Over::TooMuch | Over::Cancelled => return,
    };
    exchange.reading.heard.notes.find(class, spot, detail);
}

fn http_error(exchange: &mut Exchange, spot: Spot) {
    let status = exchange.head.as_ref().map(|head| head.status);
    let heard = &mut exchange.reading.heard;
    heard
        .notes
        .fault(Class::HttpError, spot, "a status other than 2xx");
    if heard.answer.error.is_some() {
        return;
    }
    let mut said = None;
    if let Outside::JsonError(error) = heard.outside.kind(&heard.reader) {
        said = Some(error);
    }
    let text = heard.outside.text();
    let (code, message) = match &said {
        Some(said) => (said.code.as_deref(), said.message.as_deref()),
        None => (None, Some(text).filter(|text| !text.is_empty())),
    };
    let kind = wording::kind(code, status, message);
    heard.answer.error = Some((code.and_then(clean::code), kind));
}

/// A 2xx response that was to be a stream; true when its body is none.
fn stream(exchange: &mut Exchange, over: Over, spot: Spot) -> bool {
    let kind = exchange
        .head
        .as_ref()
        .map_or(Kind::Absent, |head| head.kind);
    // A coded body cannot be read, so nothing can be said of it.
    if let Some((FramingFault::UnaskedCoding, _)) = exchange.framing {
        exchange.reading.heard.notes.drop_unread();
        return over == Over::Ended;
    }
    let plain = outside_of_events(exchange, over, spot, kind);
    let heard = &mut exchange.reading.heard;
    let ended = heard.answer.moments.end_mark.is_some();
    if !plain {
        match over {
            Over::Ended | Over::Lost(_) | Over::Framing if !ended => {
                if heard.answer.error.is_none() {
                    let detail = truncation(exchange, over);
                    exchange
                        .reading
                        .heard
                        .notes
                        .find(Class::TruncatedNoTerminator, spot, detail);
                }
            }
            Over::Lost(_) => heard.notes.warn(Warning::MissingLastChunk),
            Over::TimedOut(Limit::AfterDone) => heard.notes.warn(Warning::BodyNotEndedAfterDone),
            Over::TimedOut(limit) => {
                let silent = heard.counts.idle_comments == 0;
                let detail = match (limit, silent) {
                    (Limit::Total, _) => "the total limit passed",
                    (_, true) => "silence",
                    (_, false) => "heartbeats and no output",
                };
                heard.notes.find(Class::Stalled, spot, detail);
            }
            Over::TooMuch => {
                let detail = if heard.counts.body_bytes > MAX_BODY_BYTES {
                    "a body of more than 64 MiB"
                } else {
                    "more than 1,048,576 events and comments"
                };
                heard.notes.fault(Class::ProtocolViolation, spot, detail);
            }
            Over::Ended | Over::Framing | Over::Cancelled => {}
        }
    }
    let heard = &mut exchange.reading.heard;
    match kind {
        Kind::Events { odd: true } => heard.notes.warn(Warning::OddContentType),
        Kind::Events { odd: false } => {}
        Kind::Json | Kind::Other | Kind::Absent => {
            if heard.answer.objects > 0 {
                heard.notes.find(
                    Class::WrongContentType,
                    spot,
                    "events under another content type",
                );
            }
        }
    }
    answered::check(exchange, spot);
    plain && !matches!(kind, Kind::Events { .. })
}

fn truncation(exchange: &Exchange, over: Over) -> &'static str {
    let heard = &exchange.reading.heard;
    if heard.answer.finish.is_some() {
        return "missing-done";
    }
    match over {
        Over::Lost(Loss::Reset) => "reset before the end mark",
        Over::Lost(_) => "closed inside the body, before the end mark",
        Over::Ended | Over::Framing | Over::TimedOut(_) | Over::TooMuch | Over::Cancelled => {
            if heard.notes.warned(Warning::UnfinishedLastEvent) {
                "a clean end inside an event, before the end mark"
            } else {
                "a clean end before the end mark"
            }
        }
    }
}

/// Judges what stands outside of events; true when it is the whole body.
fn outside_of_events(exchange: &mut Exchange, over: Over, spot: Spot, kind: Kind) -> bool {
    let heard = &mut exchange.reading.heard;
    let answer = &heard.answer;
    let alone = answer.objects == 0 && answer.error.is_none() && heard.unreadable == 0;
    let found = heard.outside.kind(&heard.reader);
    let spot = heard.outside.first().unwrap_or(spot);
    let events = matches!(kind, Kind::Events { .. });
    let (class, detail) = match (&found, alone) {
        (Outside::Nothing, true) => return nothing(exchange, over, spot),
        (Outside::JsonError(_), true) => (Class::Fake200JsonError, "a JSON error for a body"),
        (Outside::Page, true) => (Class::Fake200Html, "a page for a body"),
        (Outside::Answer, true) => (Class::NotStreamed, "one JSON body"),
        (Outside::Json, true) => (Class::WrongContentType, "JSON outside of events"),
        (Outside::ErrorText, true) if !events => (Class::WrongContentType, "an error text"),
        (Outside::Text, true) => (Class::WrongContentType, "text outside of events"),
        (Outside::JsonError(_) | Outside::Page | Outside::ErrorText, _) => {
            (Class::ErrorInStream, "an error outside of events")
        }
        (Outside::Nothing | Outside::Answer | Outside::Json | Outside::Text, false) => {
            return false;
        }
    };
    match &found {
        Outside::JsonError(said) => {
            heard
                .answer
                .note_error(said.code.as_deref(), said.message.as_deref());
        }
        Outside::Page | Outside::ErrorText => {
            let text = heard.outside.text().to_owned();
            heard.answer.note_error(None, Some(&text));
        }
        Outside::Nothing | Outside::Answer | Outside::Json | Outside::Text => {}
    }
    if heard.notes.has(Class::ErrorInStream) && class == Class::ErrorInStream {
        return false;
    }
    heard.notes.fault(class, spot, detail);
    alone && class != Class::ErrorInStream
}

/// A body in which nothing was said.
fn nothing(exchange: &mut Exchange, over: Over, spot: Spot) -> bool {
    let heard = &mut exchange.reading.heard;
    let marked = heard.answer.moments.end_mark.is_some();
    let begun = heard.notes.warned(Warning::UnfinishedLastEvent) && !marked;
    if begun || !(marked || over == Over::Ended) {
        return false;
    }
    let detail = match (marked, heard.empty > 0) {
        (true, _) => "only an end mark",
        (false, true) => "only events without data",
        (false, false) => "nothing",
    };
    // An event without data is a heartbeat among others; alone it is no object of the protocol.
    if heard.empty > 0 {
        heard.notes.fault(Class::Fake200Empty, spot, detail);
    } else {
        heard.notes.find(Class::Fake200Empty, spot, detail);
    }
    true
}

fn ending(exchange: &Exchange, over: Over) -> Ending {
    let heard = &exchange.reading.heard;
    let Some(head) = &exchange.head else {
        return match over {
            Over::Cancelled | Over::Lost(Loss::Local) => Ending::Cancelled,
            Over::Framing | Over::TooMuch | Over::Lost(Loss::NoHttp) => Ending::Malformed,
            Over::TimedOut(Limit::Headers | Limit::FirstToken | Limit::Total) => Ending::Stalled,
            Over::TimedOut(_) | Over::Lost(_) | Over::Ended => Ending::Unreachable,
        };
    };
    let notes = &heard.notes;
    let bodiless = [
        Class::Fake200JsonError,
        Class::Fake200Html,
        Class::Fake200Empty,
    ];
    if over == Over::Cancelled {
        Ending::Cancelled
    } else if !head.is_2xx() {
        Ending::Refused
    } else if notes.has(Class::ErrorInStream) || notes.has(Class::Fake200JsonError) {
        Ending::Errored
    } else if matches!(over, Over::Framing | Over::TooMuch)
        || bodiless.iter().any(|class| notes.has(*class))
        || (heard.answer.objects == 0 && !notes.parse_ok)
    {
        Ending::Malformed
    } else if heard.answer.moments.end_mark.is_some() {
        Ending::Completed
    } else if matches!(over, Over::TimedOut(_)) {
        Ending::Stalled
    } else {
        Ending::Truncated
    }
}

fn record(mut exchange: Exchange, over: Over, plain: bool) -> Observation {
    let ending = ending(&exchange, over);
    let last_phase = exchange.phase();
    let asked = &exchange.asked;
    let heard = &mut exchange.reading.heard;
    if heard.answer.is_cut() {
        heard.notes.warn(Warning::TextLimit);
    }
    let answer = &heard.answer;
    let marked = answer.moments.end_mark.is_some();
    let refused = exchange.head.as_ref().is_some_and(|head| !head.is_2xx());
    let sealed = answer.sealed(asked.seal.as_deref(), asked.expect.shape.as_ref());
    let unmet = if marked {
        let reason = answer.finish.as_ref().map(|(_, reason)| reason.as_str());
        asked.expect.unmet(&answer.text, reason)
    } else {
        Vec::new()
    };
    let mut timeline = exchange.timeline;
    timeline.first_event = answer.moments.first_event;
    timeline.first_token = answer.moments.first_token;
    timeline.last_token = answer.moments.last_token;
    timeline.end_mark = answer.moments.end_mark;
    let mut counts = heard.counts;
    counts.request_bytes = asked.request_bytes;
    counts.tool_calls = answer.tools.count();
    let (error_code, error_kind): (Option<String>, Option<ErrorKind>) = match &answer.error {
        Some((code, kind)) => (code.clone(), Some(*kind)),
        None => (None, None),
    };
    let (mut timed_out, mut lost) = (None, None);
    match over {
        // Leaving an answer that is whole is no time-out.
        Over::TimedOut(limit) if limit != Limit::AfterDone => timed_out = Some(limit),
        Over::Lost(loss) => lost = Some(loss),
        Over::TimedOut(_) | Over::Ended | Over::Framing | Over::TooMuch | Over::Cancelled => {}
    }
    let heard = exchange.reading.heard;
    let parse_ok = heard.notes.parse_ok;
    let answer = heard.answer;
    let reasoning = answer.has_reasoning();
    let (findings, warnings) = heard.notes.close();
    let (status, headers, retry_after) = match exchange.head {
        Some(head) => (Some(head.status), head.headers, head.retry_after),
        None => (None, Vec::new(), None),
    };
    Observation {
        own_count: None,
        words: Vec::new(),
        timeline,
        ending,
        timed_out,
        lost,
        last_phase,
        findings,
        warnings,
        parse_ok,
        interrupted: !refused && !marked && (!plain || over != Over::Ended),
        status,
        headers,
        retry_after,
        error_code,
        error_kind,
        model: answer.identity.model,
        response_id: answer.identity.id,
        fingerprint: answer.identity.fingerprint,
        finish_reason: answer.finish.map(|(_, reason)| reason),
        usage: answer.usage,
        sealed,
        unmet,
        packets: Packets {
            reasoning,
            ..answer.pacing.close()
        },
        counts,
        connection: exchange.connection,
        text: exchange.asked.keep_text.then_some(answer.text),
    }
}
