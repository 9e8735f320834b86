//! The raw HTTP/1.1 transport against real sockets: what it sees of framing, of the first byte and
//! of the end of a connection, which no HTTP library shows.
//!
//! Lower bounds are hard, upper bounds are seconds.

#![cfg(all(feature = "probe", feature = "sim"))]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not seen as tests")]

#[path = "raw/reach.rs"]
mod reach;
#[path = "raw/server.rs"]
mod server;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use relayproof::dialect::Protocol;
use relayproof::expect::Expect;
use relayproof::observation::{Class, Ending, Limit, Observation, Phase, Warning};
use relayproof::plan::{ConnectionMode, HttpVersion};
use relayproof::probe::cancel::{Cancel, cancel_pair};
use relayproof::probe::clock::Clock;
use relayproof::probe::dial::{Dial, DialError, Request};
use relayproof::probe::raw::RawTransport;
use relayproof::stream::{Asked, Exchange, Loss, Timeouts};
use url::Url;

use server::{Server, Step};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";

/// An honest answer: "Hello world", a stop, the end mark.
fn answer() -> String {
    let event = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\
             \"model\":\"test-model\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
             \"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    [
        event(r#"{"role":"assistant","content":"Hello"}"#, "null"),
        event(r#"{"content":" world"}"#, "null"),
        event("{}", "\"stop\""),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
}

/// The first event of [`answer`], with its token.
fn first_event() -> String {
    let answer = answer();
    let end = answer.find("\n\n").unwrap() + 2;
    answer[..end].to_owned()
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n", body.len())
}

fn send(text: impl Into<String>) -> Step {
    Step::Send(text.into().into_bytes())
}

fn dial() -> Dial {
    Dial {
        connection: ConnectionMode::Fresh,
        http: HttpVersion::Auto,
        proxy: None,
        extra_ca_pem: Vec::new(),
    }
}

fn request(url: &str, body: Vec<u8>) -> Request {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bearer sk-test"));
    Request {
        url: Url::parse(url).unwrap(),
        headers,
        body: Bytes::from(body),
    }
}

fn exchange(timeouts: Timeouts) -> Exchange {
    let asked = Asked {
        protocol: Protocol::OpenaiChat,
        stream: true,
        model: "test-model".to_owned(),
        max_tokens: None,
        usage: false,
        seal: None,
        request_bytes: 2,
        expect: Expect::default(),
        keep_text: true,
    };
    Exchange::new(asked, timeouts)
}

async fn attempt(
    dial: &Dial,
    request: &Request,
    timeouts: Timeouts,
    mut cancel: Cancel,
) -> Observation {
    let transport = RawTransport::new(dial).unwrap();
    let mut exchange = exchange(timeouts);
    transport
        .attempt(request, &mut exchange, &Clock::start(), &mut cancel)
        .await;
    exchange.finish()
}

/// One attempt at `url` with nothing special about it.
async fn ask(url: &str) -> Observation {
    let (_switch, cancel) = cancel_pair();
    attempt(
        &dial(),
        &request(url, b"{}".to_vec()),
        Timeouts::default(),
        cancel,
    )
    .await
}

/// One attempt at a plain server that reads the request and then plays `steps`.
async fn play(steps: Vec<Step>) -> Observation {
    let steps = [vec![Step::Request], steps].concat();
    ask(&Server::plain(steps).await.url()).await
}

fn assert_ok(seen: &Observation) {
    assert_eq!(seen.findings, [], "{seen:?}");
    assert_eq!(seen.ending, Ending::Completed);
    assert_eq!(seen.text.as_deref(), Some("Hello world"));
}

fn details(seen: &Observation) -> Vec<(Class, &str)> {
    let pairs = seen.findings.iter();
    pairs.map(|found| (found.class, &*found.detail)).collect()
}

#[tokio::test]
async fn the_request_is_one_honest_http_message() {
    let server = Server::plain(vec![Step::Request, send(format!("{HEAD}\r\n{}", answer()))]).await;
    let address = server.address;
    assert_ok(&ask(&server.url()).await);
    assert_eq!(
        server.request().await,
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\n\
             authorization: Bearer sk-test\r\naccept-encoding: identity\r\n\
             content-length: 2\r\n\r\n{{}}"
        )
    );
}

#[tokio::test]
async fn phases_come_in_order_and_the_name_lookup_of_an_address_is_absent() {
    let seen = play(vec![send(format!("{HEAD}\r\n{}", answer()))]).await;
    assert_ok(&seen);
    let line = &seen.timeline;
    assert_eq!((line.dns, line.tls, line.pool), (None, None, None));
    let connect = line.connect.unwrap();
    let sent = line.send.unwrap();
    assert!(connect.end.unwrap() <= sent.start);
    assert!(sent.end.unwrap() <= line.first_byte.unwrap());
    assert!(line.first_byte <= line.head && line.head <= line.first_event);
    assert!(line.first_token <= line.end_mark);
    assert_eq!(seen.connection.reused, Some(false));
    assert!(seen.connection.peer.unwrap().starts_with("127.0.0.1:"));
    assert_eq!(seen.connection.http_version.as_deref(), Some("1.1"));
}

#[tokio::test]
async fn the_first_byte_is_seen_apart_from_the_head() {
    let seen = play(vec![
        Step::Wait(ms(100)),
        send("H"),
        Step::Wait(ms(200)),
        send(format!("{}\r\n{}", &HEAD[1..], answer())),
    ])
    .await;
    assert_ok(&seen);
    let (first, head) = (
        seen.timeline.first_byte.unwrap(),
        seen.timeline.head.unwrap(),
    );
    let sent = seen.timeline.send.unwrap();
    assert!(first >= sent.start + ms(100), "{first:?}");
    assert!(head >= first + ms(100), "{first:?} {head:?}");
}

#[tokio::test]
async fn an_answer_is_the_same_wherever_its_bytes_are_split() {
    let body = format!(
        "4;ext=\"a;b\"\r\n{}\r\n{}0\r\nx-checksum: 1\r\n\r\n",
        &answer()[..4],
        chunked(&answer()[4..])
    );
    let wire = format!("{HEAD}transfer-encoding: chunked\r\n\r\n{body}");
    for cut in 1..wire.len() {
        let seen = play(vec![send(&wire[..cut]), send(&wire[cut..])]).await;
        assert_ok(&seen);
        assert_eq!(seen.warnings, [], "cut at {cut}");
        assert_eq!(seen.counts.body_bytes, answer().len() as u64);
    }
}

#[tokio::test]
async fn interim_heads_are_passed_over_up_to_a_limit() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let rest = format!("{HEAD}\r\n{}", answer());
    let seen = play(vec![send(interim), Step::Wait(ms(20)), send(rest.clone())]).await;
    assert_ok(&seen);
    assert_eq!(seen.status, Some(200));
    assert_ok(&play(vec![send(format!("{}{rest}", interim.repeat(4)))]).await);
    let seen = play(vec![send(format!("{}{rest}", interim.repeat(5)))]).await;
    assert_eq!(seen.class(), Some(Class::ProtocolViolation), "{seen:?}");
    assert_eq!(seen.status, None);
}

#[tokio::test]
async fn a_body_may_end_with_the_connection() {
    assert_ok(&play(vec![send(format!("{HEAD}\r\n{}", answer()))]).await);
    let seen = play(vec![send(format!("{HEAD}\r\n{}", first_event()))]).await;
    assert_eq!(seen.ending, Ending::Truncated);
    assert_eq!(seen.class(), Some(Class::TruncatedNoTerminator));
}

#[tokio::test]
async fn a_chunk_size_that_is_no_number_is_a_protocol_violation_after_the_token() {
    let seen = play(vec![
        send(format!("{HEAD}transfer-encoding: chunked\r\n\r\n")),
        send(chunked(&first_event())),
        send("zz\r\n"),
        Step::Hold,
    ])
    .await;
    assert_eq!(seen.class(), Some(Class::ProtocolViolation), "{seen:?}");
    assert!(!seen.parse_ok && seen.interrupted);
    assert_eq!(seen.text.as_deref(), Some("Hello"));
    assert!(seen.timeline.first_token.is_some());
}

#[tokio::test]
async fn a_content_length_that_is_too_short_is_a_protocol_violation_and_one_too_long_a_cut() {
    let short = format!("{HEAD}content-length: {}\r\n\r\n", first_event().len() + 10);
    // In one piece, and with the surplus coming after the promised end.
    let at = first_event().len() + 10;
    for steps in [
        vec![send(format!("{short}{}", answer()))],
        vec![
            send(format!("{short}{}", &answer()[..at])),
            Step::Wait(ms(10)),
            send(&answer()[at..]),
        ],
    ] {
        let seen = play(steps).await;
        assert!(seen.has(Class::ProtocolViolation), "{seen:?}");
        assert!(seen.interrupted);
        assert_eq!(seen.text.as_deref(), Some("Hello"));
    }
    let long = format!("{HEAD}content-length: 9999\r\n\r\n{}", first_event());
    // As good as a connection cut too early, and told as that.
    let seen = play(vec![send(long)]).await;
    assert_eq!(seen.class(), Some(Class::TruncatedNoTerminator), "{seen:?}");
    assert!(seen.interrupted);
    let exact = format!(
        "{HEAD}content-length: {}\r\n\r\n{}",
        answer().len(),
        answer()
    );
    assert_ok(&play(vec![send(exact), Step::Hold]).await);
}

#[tokio::test]
async fn two_framings_or_an_unasked_coding_are_protocol_violations() {
    for fields in [
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        "transfer-encoding: chunked\r\ncontent-encoding: gzip\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: five\r\n",
    ] {
        let seen = play(vec![send(format!(
            "{HEAD}{fields}\r\n{}0\r\n\r\n",
            chunked(&answer())
        ))])
        .await;
        assert!(
            seen.has(Class::ProtocolViolation),
            "{fields}: {:?}",
            details(&seen)
        );
    }
}

#[tokio::test]
async fn fin_and_rst_in_the_middle_of_a_body_are_told_apart() {
    let begun = format!(
        "{HEAD}transfer-encoding: chunked\r\n\r\n{}",
        chunked(&first_event())
    );
    let fin = play(vec![send(begun.clone())]).await;
    assert_eq!(fin.lost, Some(Loss::Closed));
    // A reset throws away what is not delivered yet.
    let rst = play(vec![send(begun), Step::Wait(ms(50)), Step::Reset]).await;
    assert_eq!(rst.lost, Some(Loss::Reset));
    for seen in [fin, rst] {
        assert_eq!(seen.class(), Some(Class::TruncatedNoTerminator));
        assert_eq!(seen.status, Some(200));
        assert!(seen.parse_ok && seen.interrupted);
    }
}

#[tokio::test]
async fn a_fin_without_the_last_chunk_after_the_end_mark_is_only_odd() {
    let seen = play(vec![send(format!(
        "{HEAD}transfer-encoding: chunked\r\n\r\n{}",
        chunked(&answer())
    ))])
    .await;
    assert_ok(&seen);
    assert_eq!(seen.warnings, [Warning::MissingLastChunk]);
}

#[tokio::test]
async fn an_end_without_a_byte_is_no_response() {
    for (steps, loss) in [
        (vec![], Loss::Closed),
        (vec![Step::Reset], Loss::Reset),
        (vec![send("HTTP/1.1 200 O")], Loss::Closed),
    ] {
        let seen = play(steps).await;
        assert_eq!(seen.ending, Ending::Unreachable);
        assert_eq!(seen.class(), Some(Class::NoResponse), "{seen:?}");
        assert_eq!(seen.lost, Some(loss));
        assert!(seen.timeline.send.unwrap().end.is_some());
    }
}

#[tokio::test]
async fn a_head_that_is_no_http_or_far_too_large_is_a_protocol_violation() {
    let many = format!("{HEAD}{}\r\n", "a: b\r\n".repeat(200));
    let long = format!("{HEAD}a: {}\r\n\r\n", "x".repeat(100_000));
    let endless = format!("{HEAD}a: {}", "x".repeat(100_000));
    for bytes in ["220 smtp.example ESMTP\r\n", &many, &long, &endless] {
        let seen = play(vec![send(bytes), Step::Hold]).await;
        assert_eq!(
            seen.class(),
            Some(Class::ProtocolViolation),
            "{:.60}: {:?}",
            bytes,
            details(&seen)
        );
        assert_eq!(seen.status, None);
        assert!(seen.timeline.first_byte.is_some());
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_in_time_hits_its_own_limit() {
    let timeouts = Timeouts {
        headers: ms(200),
        ..Timeouts::default()
    };
    for steps in [
        vec![Step::Hold],
        vec![send("HTTP/1.1 200 OK\r\n"), Step::Hold],
    ] {
        let server = Server::plain([vec![Step::Request], steps].concat()).await;
        let (_switch, cancel) = cancel_pair();
        let request = request(&server.url(), b"{}".to_vec());
        let seen = attempt(&dial(), &request, timeouts, cancel).await;
        assert_eq!(seen.ending, Ending::Stalled);
        assert_eq!(seen.timed_out, Some(Limit::Headers));
        assert!(seen.timeline.over >= ms(200));
    }
}

#[tokio::test]
async fn heartbeats_without_end_do_not_hold_the_first_token_limit_off() {
    let server = Server::plain(vec![
        Step::Request,
        send(format!("{HEAD}\r\n")),
        // More than is read in the time, so that bytes are always waiting.
        send(": ping\n\n".repeat(64 * 1024 * 1024 / 8)),
        Step::Hold,
    ])
    .await;
    let (_switch, cancel) = cancel_pair();
    let timeouts = Timeouts {
        first_token: ms(200),
        ..Timeouts::default()
    };
    let request = request(&server.url(), b"{}".to_vec());
    let seen = attempt(&dial(), &request, timeouts, cancel).await;
    assert_eq!(seen.timed_out, Some(Limit::FirstToken), "{seen:?}");
    assert!(seen.timeline.over >= ms(200) && seen.timeline.over < ms(5000));
}

#[tokio::test]
async fn a_relay_that_never_reads_the_request_runs_into_the_limit() {
    let server = Server::plain(vec![Step::Hold]).await;
    let (_switch, cancel) = cancel_pair();
    let timeouts = Timeouts {
        headers: ms(300),
        ..Timeouts::default()
    };
    let request = request(&server.url(), vec![b' '; 32 * 1024 * 1024]);
    let seen = attempt(&dial(), &request, timeouts, cancel).await;
    assert_eq!(seen.timed_out, Some(Limit::Headers));
    assert_eq!(seen.timeline.send.unwrap().end, None);
    assert_eq!(seen.last_phase, Phase::Send);
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_is_read_is_taken() {
    let server = Server::plain(vec![
        send("HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n"),
        Step::Hold,
    ])
    .await;
    let (_switch, cancel) = cancel_pair();
    let request = request(&server.url(), vec![b' '; 32 * 1024 * 1024]);
    let seen = attempt(&dial(), &request, Timeouts::default(), cancel).await;
    assert_eq!((seen.status, seen.ending), (Some(413), Ending::Refused));
    assert_eq!(seen.class(), Some(Class::HttpError));
}

#[tokio::test]
async fn a_call_off_ends_the_attempt_at_once() {
    let server = Server::plain(vec![
        Step::Request,
        send(format!("{HEAD}\r\n{}", first_event())),
        Step::Hold,
    ])
    .await;
    let (switch, cancel) = cancel_pair();
    let begin = Clock::start();
    let calling_off = tokio::spawn(async move {
        tokio::time::sleep(ms(100)).await;
        switch.cancel();
    });
    let request = request(&server.url(), b"{}".to_vec());
    let seen = attempt(&dial(), &request, Timeouts::default(), cancel).await;
    calling_off.await.unwrap();
    assert_eq!(seen.ending, Ending::Cancelled);
    assert!(begin.now() < ms(5000));
}

#[test]
fn what_it_cannot_do_is_said_before_anything_is_sent() {
    for (refused, word) in [
        (
            Dial {
                connection: ConnectionMode::Reuse,
                ..dial()
            },
            "reqwest",
        ),
        (
            Dial {
                http: HttpVersion::Http2,
                ..dial()
            },
            "HTTP/2",
        ),
        (
            Dial {
                proxy: Some(Url::parse("http://127.0.0.1:3128").unwrap()),
                ..dial()
            },
            "proxy",
        ),
    ] {
        let error = RawTransport::new(&refused).unwrap_err();
        assert!(matches!(error, DialError::Unsupported(_)));
        assert!(error.to_string().contains(word), "{error}");
    }
    let no_certificate = Dial {
        extra_ca_pem: vec![b"no certificate".to_vec()],
        ..dial()
    };
    let error = RawTransport::new(&no_certificate).unwrap_err();
    assert!(matches!(error, DialError::Certificates(_)), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes after a head's first bytes, the attempt ends and says how.
    #[test]
    fn no_answer_makes_an_attempt_panic_or_hang(
        front in 0usize..3,
        reads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..6),
    ) {
        let heads = ["", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"];
        let steps = std::iter::once(send(heads[front]))
            .chain(reads.into_iter().map(Step::Send))
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let seen = runtime.block_on(async {
            tokio::time::timeout(ms(20_000), play(steps)).await
        });
        prop_assert!(seen.is_ok_and(|seen| seen.class().is_some()));
    }
}
