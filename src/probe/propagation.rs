//! What a relay is told of our traces: one header of each attempt, where the spec asks for it.
//!
//! Ids are made before the call and are those of the span that is drawn from its evidence later.
//! Neither `tracestate` nor `baggage` is ever sent.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::evidence::ids;
use crate::plan::Propagation;

/// Sets the header of one attempt, in place of that of the attempt before.
pub(super) fn write(
    propagation: Propagation,
    headers: &mut HeaderMap,
    trace_id: &str,
    attempt: usize,
) {
    let Some((name, value)) = header(propagation, trace_id, attempt) else {
        return;
    };
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Name and value; `None` where nothing is to be sent.
fn header(
    propagation: Propagation,
    trace_id: &str,
    attempt: usize,
) -> Option<(&'static str, String)> {
    let parent = ids::post_id(trace_id, attempt)?;
    match propagation {
        Propagation::None => None,
        Propagation::Traceparent => Some(("traceparent", format!("00-{trace_id}-{parent}-01"))),
        // An id that no other request has: gateways take a second one for the same request.
        Propagation::RequestId => Some(("x-request-id", format!("{trace_id}-{parent}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn the_parent_is_the_span_of_the_attempt() {
        let first = header(Propagation::Traceparent, TRACE, 0).unwrap();
        let id = ids::post_id(TRACE, 0).unwrap();
        assert_eq!(first, ("traceparent", format!("00-{TRACE}-{id}-01")));
        assert_ne!(first, header(Propagation::Traceparent, TRACE, 1).unwrap());
        let request = header(Propagation::RequestId, TRACE, 0).unwrap();
        assert_eq!(request, ("x-request-id", format!("{TRACE}-{id}")));
        assert_eq!(header(Propagation::None, TRACE, 0), None);
    }

    #[test]
    fn a_further_attempt_has_the_header_once() {
        let mut headers = HeaderMap::new();
        write(Propagation::RequestId, &mut headers, TRACE, 0);
        write(Propagation::RequestId, &mut headers, TRACE, 1);
        let sent: Vec<_> = headers.get_all("x-request-id").iter().collect();
        let second = header(Propagation::RequestId, TRACE, 1).unwrap().1;
        assert_eq!(sent, [second.as_str()]);
    }
}
