//! Properties of every attempt, on streams that nobody wrote: corpus bodies cut, spliced and
//! damaged, arbitrary heads, and inputs in any order.

#[path = "streams/coherent.rs"]
mod coherent;
#[path = "cases/player.rs"]
#[expect(dead_code, reason = "only the corpus is read here")]
mod player;

use std::sync::LazyLock;
use std::time::Duration;

use coherent::{Choices, alike_in_any_chunking, asked, attempt, coherent};
use player::corpus;
use proptest::prelude::*;
use relayproof::dialect::Protocol;
use relayproof::stream::{Exchange, Head, Input, Timeouts};

/// Bodies of the corpus, each with its protocol.
static BODIES: LazyLock<Vec<(Protocol, Vec<u8>)>> = LazyLock::new(|| {
    let cases = corpus().into_iter();
    let bodies = cases.map(|case| (case.protocol(), case.body()));
    bodies.filter(|(_, body)| !body.is_empty()).collect()
});

/// What is put into a body.
const PIECES: [&str; 24] = [
    "\n\n",
    "\r",
    "data: ",
    "data: [DONE]\n\n",
    "event: error\n",
    "event: ping\ndata: {}\n\n",
    ": c\n",
    "id: 1\n",
    "\u{feff}",
    "{\"error\":{\"code\":\"x\"}}",
    "data: {\"error\":\"x\"}\n\n",
    "null",
    "[]",
    "{}",
    "1e999",
    "NaN",
    "\"\\ud800\"",
    "\"\"",
    ",",
    "<html>",
    "\"index\":1,",
    "\"finish_reason\":\"stop\"",
    "\"type\":\"message_start\"",
    "\u{fffd}",
];

/// One change to a body; places are taken modulo its length.
#[derive(Clone, Debug)]
enum Change {
    Cut(u16),
    DropFront(u16),
    Byte(u16, u8),
    Put(u16, usize),
    Repeat(u16, u16),
    /// Goes on with another body of the same protocol.
    Splice(u16, usize, u16),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<u16>().prop_map(Change::Cut),
        any::<u16>().prop_map(Change::DropFront),
        any::<(u16, u8)>().prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<u16>(), 0..PIECES.len()).prop_map(|(at, piece)| Change::Put(at, piece)),
        any::<(u16, u16)>().prop_map(|(from, to)| Change::Repeat(from, to)),
        any::<(u16, usize, u16)>().prop_map(|(at, other, from)| Change::Splice(at, other, from)),
    ]
}

fn changed(protocol: Protocol, mut body: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let place = |at: u16| usize::from(at) % (body.len() + 1);
        match *change {
            Change::Cut(at) => body.truncate(place(at)),
            Change::DropFront(at) => {
                body.drain(..place(at));
            }
            Change::Byte(at, byte) => {
                let at = place(at);
                if let Some(old) = body.get_mut(at) {
                    *old = byte;
                }
            }
            Change::Put(at, piece) => {
                let at = place(at);
                body.splice(at..at, PIECES[piece].bytes());
            }
            Change::Repeat(from, to) => {
                let (from, to) = (place(from), place(to));
                let part = body[from.min(to)..from.max(to)].to_vec();
                body.extend_from_slice(&part);
            }
            Change::Splice(at, other, from) => {
                let same: Vec<_> = BODIES.iter().filter(|(of, _)| *of == protocol).collect();
                let other = &same[other % same.len()].1;
                body.truncate(place(at));
                body.extend_from_slice(&other[usize::from(from) % other.len()..]);
            }
        }
        body.truncate(64 << 10);
    }
    body
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_stream_is_read_alike_in_any_chunking(
        case in any::<usize>(),
        flags in any::<u8>(),
        changes in proptest::collection::vec(change(), 1..6),
        sizes in proptest::collection::vec(1usize..300, 1..6),
    ) {
        let (protocol, body) = &BODIES[case % BODIES.len()];
        let body = changed(*protocol, body.clone(), &changes);
        alike_in_any_chunking(*protocol, flags, &body, &sizes);
    }

    #[test]
    fn a_stream_is_read_without_a_panic_in_a_protocol_that_is_not_its_own(
        case in any::<usize>(),
        protocol in proptest::sample::select(Protocol::ALL),
        flags in any::<u8>(),
        changes in proptest::collection::vec(change(), 0..3),
    ) {
        let (of, body) = &BODIES[case % BODIES.len()];
        let body = changed(*of, body.clone(), &changes);
        alike_in_any_chunking(protocol, flags, &body, &[17]);
    }

    #[test]
    fn whatever_happens_in_whatever_order_ends_in_a_coherent_observation(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        attempt(&mut Choices(&bytes));
    }

    #[test]
    fn any_head_is_taken(
        status in 0u16..1000,
        headers in proptest::collection::vec(
            (
                prop_oneof![
                    Just("content-type".to_owned()),
                    Just("content-encoding".to_owned()),
                    Just("transfer-encoding".to_owned()),
                    Just("content-length".to_owned()),
                    Just("retry-after".to_owned()),
                    Just("x-ratelimit-x".to_owned()),
                    "[a-z-]{0,20}",
                ],
                proptest::collection::vec(any::<u8>(), 0..40),
            ),
            0..40,
        ),
        flags in any::<u8>(),
    ) {
        let mut exchange = Exchange::new(asked(Protocol::OpenaiChat, flags), Timeouts::default());
        let at = Duration::from_millis(1);
        let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        let head = Head { status, version: "1.1", headers: pairs.collect() };
        exchange.handle(at, Input::Head(head));
        exchange.handle(at, Input::Body(b"data: {}\n\n"));
        exchange.handle(at, Input::BodyEnd);
        let seen = exchange.finish();
        coherent(&seen);
        prop_assert!(seen.class().is_some());
    }
}

#[test]
fn every_body_of_the_corpus_is_coherent_in_every_protocol_and_setting() {
    let mut read = 0;
    for (_, body) in BODIES.iter() {
        for protocol in Protocol::ALL {
            for flags in [0, 1, 2, 8, 16, 31, 0xE0, 0xE1] {
                coherent::read(*protocol, flags, body, &[usize::MAX]);
                read += 1;
            }
        }
    }
    assert!(read >= 80 * 32, "{read}");
}
