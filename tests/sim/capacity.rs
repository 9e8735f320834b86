//! A relay that answers so many calls at a time, and what it does with more.

use std::time::Duration;

use relayproof::sim::{Overload, Relay, Settings};
use tokio::io::AsyncWriteExt;

use crate::client::{Ending, ask, chat, connect, post, quick, respond};

/// How long an answer takes: the first of eight tokens, and seven gaps.
const ANSWER: Duration = Duration::from_millis(60 + 7 * 20);

fn narrow(capacity: u32, overload: Overload) -> Settings {
    Settings {
        first_token: Duration::from_millis(60),
        token_gap: Duration::from_millis(20),
        capacity: Some(capacity),
        overload,
        ..quick()
    }
}

/// Asks so many times at once.
async fn at_once(relay: &Relay, calls: usize) -> Vec<u16> {
    let bodies: Vec<_> = (0..calls)
        .map(|n| chat(&format!("call {n}"), true))
        .collect();
    let mut streams = Vec::new();
    for body in &bodies {
        let mut stream = connect(relay.address()).await;
        let request = post(body);
        stream.write_all(&request).await.unwrap();
        streams.push(stream);
    }
    let mut statuses = Vec::new();
    for mut stream in streams {
        let response = respond(&mut stream, None).await;
        assert_eq!(response.ending, Ending::Whole);
        statuses.push(response.status);
    }
    statuses
}

#[tokio::test]
async fn calls_beyond_the_capacity_wait_for_an_answer_to_end() {
    let relay = Relay::start(narrow(2, Overload::Queue)).await.unwrap();
    assert_eq!(at_once(&relay, 6).await, [200; 6]);
    relay.quiet().await;
    let served = relay.served();
    let first = served.iter().map(|it| it.arrival).min().unwrap();
    let mut heads: Vec<Duration> = served
        .iter()
        .map(|it| it.arrival + Duration::from_nanos(it.writes[0].at_ns) - first)
        .collect();
    heads.sort_unstable();
    // Two at a time: the third waits for one whole answer at least, the fifth for two.
    assert!(heads[2] >= ANSWER, "{heads:?}");
    assert!(heads[4] >= 2 * ANSWER, "{heads:?}");
}

#[tokio::test]
async fn calls_beyond_the_capacity_are_refused_where_that_is_asked_for() {
    let relay = Relay::start(narrow(2, Overload::Reject)).await.unwrap();
    let statuses = at_once(&relay, 5).await;
    let count = |status| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((count(200), count(429)), (2, 3), "{statuses:?}");
    // Whoever has the whole answer finds the place free.
    for n in 0..20 {
        let seen = ask(&relay, &chat(&format!("again {n}"), true)).await;
        assert_eq!(seen.status, 200, "{n}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_takes_no_place() {
    let relay = Relay::start(narrow(1, Overload::Queue)).await.unwrap();
    let mut first = connect(relay.address()).await;
    let request = post(&chat("first", true));
    first.write_all(&request).await.unwrap();
    let mut gone = connect(relay.address()).await;
    let request = post(&chat("gone", true));
    gone.write_all(&request).await.unwrap();
    drop(gone);
    assert_eq!(respond(&mut first, None).await.status, 200);
    assert_eq!(ask(&relay, &chat("next", true)).await.status, 200);
    relay.quiet().await;
    assert!(relay.served().len() >= 2);
}

#[tokio::test]
async fn a_relay_without_any_capacity_does_not_start() {
    let error = Relay::start(narrow(0, Overload::Queue)).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
