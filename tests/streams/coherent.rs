//! What holds of every observation, whatever a relay sent, and exchanges driven by arbitrary bytes.
//!
//! Shared by the property tests and the fuzz targets.

use std::time::Duration;

use relayproof::dialect::Protocol;
use relayproof::expect::Expect;
use relayproof::observation::{Class, Connection, Ending, Limit, Observation, Phase, Stretch};
use relayproof::stream::{
    Asked, Exchange, FramingFault, Head, Input, Loss, MAX_REST_BYTES, Timeouts,
};

/// Panics where an observation contradicts itself.
pub(crate) fn coherent(seen: &Observation) {
    ordered(seen);
    let line = &seen.timeline;
    assert_eq!(
        seen.status.is_some(),
        line.head.is_some(),
        "status and head: {seen:?}"
    );
    assert!(
        line.head.is_some() || line.first_chunk.is_none(),
        "a body without a head: {seen:?}"
    );
    assert!(
        seen.findings.len() <= 64 && seen.headers.len() <= 32,
        "{seen:?}"
    );
    assert!(
        seen.findings.is_sorted_by_key(|found| found.class),
        "{seen:?}"
    );
    assert!(
        seen.warnings.is_sorted_by(|left, right| left < right),
        "{seen:?}"
    );
    for found in &seen.findings {
        assert!(found.at.is_none_or(|at| at <= line.over), "{seen:?}");
        // An offset is that of a byte, or of the body's end.
        assert!(
            found.offset.is_none_or(|at| at <= seen.counts.body_bytes),
            "{seen:?}"
        );
        assert!(
            found.event.is_none_or(|at| at < seen.counts.events),
            "{seen:?}"
        );
    }
    let named = [
        &seen.model,
        &seen.response_id,
        &seen.fingerprint,
        &seen.finish_reason,
    ];
    for text in named.into_iter().chain([&seen.error_code]).flatten() {
        assert!(
            text.len() <= 256 && !text.chars().any(char::is_control),
            "{seen:?}"
        );
    }
    let refused = seen
        .status
        .is_some_and(|status| !(200..300).contains(&status));
    match seen.ending {
        Ending::Completed => {
            assert!(
                line.end_mark.is_some() && !seen.interrupted && !refused,
                "{seen:?}"
            );
        }
        Ending::Refused => assert!(
            refused && seen.class() == Some(Class::HttpError),
            "{seen:?}"
        ),
        Ending::Errored => assert!(!seen.parse_ok && !seen.findings.is_empty(), "{seen:?}"),
        Ending::Malformed => assert!(!seen.findings.is_empty(), "{seen:?}"),
        Ending::Stalled => {
            assert!(
                seen.timed_out.is_some() && !seen.findings.is_empty(),
                "{seen:?}"
            );
        }
        Ending::Truncated => {
            assert!(
                line.end_mark.is_none() && !seen.findings.is_empty(),
                "{seen:?}"
            );
        }
        Ending::Unreachable => {
            assert!(
                seen.status.is_none() && !seen.findings.is_empty(),
                "{seen:?}"
            );
        }
        Ending::Cancelled => {}
    }
    assert!(seen.timed_out.is_none() || seen.lost.is_none(), "{seen:?}");
    assert!(seen.timed_out != Some(Limit::AfterDone), "{seen:?}");
    // A whole answer without a flaw has been read to its end.
    if seen.findings.is_empty() && seen.ending != Ending::Cancelled {
        assert!(seen.parse_ok && !seen.interrupted, "{seen:?}");
        assert!(
            line.end_mark.is_some() && line.first_token.is_some(),
            "{seen:?}"
        );
    }
    packets(seen);
}

fn packets(seen: &Observation) {
    let packets = &seen.packets;
    assert_eq!(packets.count > 0, packets.first.is_some(), "{seen:?}");
    assert!(packets.count <= packets.content_events, "{seen:?}");
    assert!(
        packets.first <= packets.last && packets.longest.len() <= 16,
        "{seen:?}"
    );
    assert_eq!(
        seen.timeline.first_token.is_some(),
        packets.content_events > 0,
        "{seen:?}"
    );
}

/// The marks of an attempt, as far as they are there, come one after the other.
fn ordered(seen: &Observation) {
    let line = &seen.timeline;
    let mut stretches: Vec<Stretch> = [
        line.pool,
        line.dns,
        line.connect,
        line.tunnel,
        line.tls,
        line.send,
    ]
    .into_iter()
    .flatten()
    .collect();
    stretches.sort_by_key(|stretch| stretch.start);
    for stretch in &stretches {
        assert!(
            stretch.end.is_none_or(|end| stretch.start <= end),
            "{line:?}"
        );
        assert!(stretch.start <= line.over, "{line:?}");
        assert!(stretch.end.is_none_or(|end| end <= line.over), "{line:?}");
    }
    let marks = [
        line.head,
        line.first_chunk,
        line.first_event,
        line.first_token,
        line.last_token,
        Some(line.over),
    ];
    assert!(marks.iter().flatten().is_sorted(), "{line:?}");
    let ends = [line.head, line.first_chunk, line.end_mark, Some(line.over)];
    assert!(ends.iter().flatten().is_sorted(), "{line:?}");
    assert!(
        line.first_byte.is_none_or(|first| first <= line.over),
        "{line:?}"
    );
}

/// What is asked, from a byte.
pub(crate) fn asked(protocol: Protocol, byte: u8) -> Asked {
    Asked {
        protocol,
        stream: byte & 1 == 0,
        model: if byte & 2 == 0 { "test-model" } else { "" }.to_owned(),
        max_tokens: (byte & 4 != 0).then_some(64),
        usage: byte & 8 != 0,
        seal: (byte & 16 != 0).then(|| "seal-7f".to_owned()),
        request_bytes: 2,
        expect: Expect::default(),
        keep_text: true,
    }
}

/// A body in chunks of these sizes, in turn, and its clean end.
pub(crate) fn read(protocol: Protocol, flags: u8, body: &[u8], sizes: &[usize]) -> Observation {
    let mut exchange = Exchange::new(asked(protocol, flags), Timeouts::default());
    let at = Duration::from_millis(5);
    let kind: &[u8] = if flags & 1 == 0 {
        b"text/event-stream"
    } else {
        b"application/json"
    };
    exchange.handle(
        at,
        Input::Head(Head {
            status: if flags & 0xE0 == 0xE0 { 503 } else { 200 },
            version: "1.1",
            headers: vec![("content-type", kind)],
        }),
    );
    let mut rest = body;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, later) = rest.split_at((*size).clamp(1, rest.len()));
        exchange.handle(at, Input::Body(chunk));
        rest = later;
    }
    exchange.handle(at, Input::BodyEnd);
    let mut seen = exchange.finish();
    coherent(&seen);
    seen.counts.reads = 0;
    seen
}

/// Reads a body whole, byte by byte and in chunks: all three must give the same.
pub(crate) fn alike_in_any_chunking(protocol: Protocol, flags: u8, body: &[u8], sizes: &[usize]) {
    // Limits that are met in mid-chunk are the one thing that chunks may change.
    if body.len() as u64 > MAX_REST_BYTES {
        return;
    }
    let whole = read(protocol, flags, body, &[usize::MAX]);
    assert_eq!(read(protocol, flags, body, &[1]), whole, "byte by byte");
    assert_eq!(
        read(protocol, flags, body, sizes),
        whole,
        "in chunks of {sizes:?}"
    );
}

/// Takes decisions off the front of arbitrary bytes; when there are none left, all are zero.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl<'a> Choices<'a> {
    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        match self.0 {
            [first, rest @ ..] => {
                self.0 = rest;
                *first
            }
            [] => 0,
        }
    }

    /// Some of the next bytes; how many is the next two bytes' to say.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(u16::from_le_bytes([self.byte(), self.byte()]) % 2048);
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }
}

const PHASES: &[Phase] = &[
    Phase::Pool,
    Phase::Dns,
    Phase::Connect,
    Phase::Tunnel,
    Phase::Tls,
    Phase::Send,
];

const FAULTS: &[FramingFault] = &[
    FramingFault::BadHead,
    FramingFault::HeadTooLarge,
    FramingFault::BadChunkSize,
    FramingFault::BadChunkEnd,
    FramingFault::TwoFramings,
    FramingFault::BadContentLength,
    FramingFault::BytesAfterBody,
    FramingFault::ShortBody,
    FramingFault::UnaskedCoding,
    FramingFault::Unspecified,
];

const KINDS: &[&[u8]] = &[
    b"text/event-stream",
    b"application/json",
    b"text/html",
    b"text/event-stream; charset=latin-1",
    b"",
];

/// An attempt that bytes decide on: what happens, when, in any order.
pub(crate) fn attempt(choices: &mut Choices<'_>) -> Observation {
    let protocol = choices.one_of(Protocol::ALL);
    let asked = asked(protocol, choices.byte());
    let mut exchange = Exchange::new(asked, Timeouts::default());
    let mut now = Duration::ZERO;
    while !choices.0.is_empty() {
        // Mostly forward; sometimes a clock that runs back, which must not matter.
        let step = choices.byte();
        now = match step {
            0..=199 => now + Duration::from_micros(u64::from(step) * 50),
            200..=239 => now + Duration::from_millis(u64::from(step)),
            240..=250 => now + Duration::from_secs(u64::from(step - 239)),
            251..=255 => now.saturating_sub(Duration::from_millis(3)),
        };
        let input = match choices.byte() % 16 {
            0 => Input::Enter(choices.one_of(PHASES)),
            1 => Input::Leave(choices.one_of(PHASES)),
            2 => Input::Connected(Connection {
                reused: choices.one_of(&[None, Some(false), Some(true)]),
                ..Connection::default()
            }),
            3 => Input::FirstByte,
            4 | 5 => Input::Head(Head {
                status: choices.one_of(&[200, 200, 200, 100, 101, 204, 302, 429, 500, 503]),
                version: "1.1",
                headers: vec![
                    ("content-type", choices.one_of(KINDS)),
                    (
                        "content-encoding",
                        choices.one_of(&[&b""[..], b"", b"", b"gzip"]),
                    ),
                    ("x-request-id", choices.bytes()),
                ],
            }),
            6 => Input::Framing(choices.one_of(FAULTS)),
            7 => Input::BodyEnd,
            8 => Input::Lost(choices.one_of(Loss::ALL)),
            9 => Input::Deadline,
            10 if choices.byte() == 0 => Input::Cancelled,
            _ => Input::Body(choices.bytes()),
        };
        exchange.handle(now, input);
        if exchange.is_over() {
            assert_eq!(exchange.deadline(), None);
        }
    }
    if choices.byte() == 0
        && let Some((due, _)) = exchange.deadline()
    {
        exchange.handle(now.max(due), Input::Deadline);
    }
    let seen = exchange.finish();
    coherent(&seen);
    seen
}
