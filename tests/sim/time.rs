//! The true times of writes, and many streams at once.

use std::time::Duration;

use relayproof::sim::{Fault, Relay, Settings};

use crate::client::{always, ask, chat, connect, exchange, json_of, post, quick};

#[tokio::test]
async fn true_write_times_are_recorded_in_order_and_never_before_their_moment() {
    let (first_token, token_gap) = (Duration::from_millis(40), Duration::from_millis(4));
    let relay = Relay::start(Settings {
        first_token,
        token_gap,
        ..quick()
    })
    .await
    .unwrap();
    let body = chat("time", true);
    let seen = ask(&relay, &body).await;
    relay.quiet().await;
    let [served] = relay.served().try_into().unwrap();

    assert_eq!(Some(served.id.as_str()), seen.header("x-request-id"));
    assert_eq!(json_of(&seen.events()[0])["id"], served.id);
    // Head, role, eight tokens, finish, end mark, last chunk.
    assert_eq!((served.writes.len(), served.first_token), (13, Some(2)));
    assert!(served.writes.is_sorted_by_key(|write| write.at_ns));
    for (index, write) in served.writes[2..10].iter().enumerate() {
        let due = first_token + token_gap * u32::try_from(index).unwrap();
        let at = Duration::from_nanos(write.at_ns);
        assert!(at >= due, "token {index} at {at:?}, due at {due:?}");
    }
    assert!(served.first_token_after().unwrap() < first_token + Duration::from_secs(5));
    let chunks: u32 = served.writes[1..12].iter().map(|write| write.bytes).sum();
    let framing: usize = seen
        .chunks
        .iter()
        .map(|chunk| format!("{:x}", chunk.len()).len() + 4)
        .sum();
    assert_eq!(chunks as usize, seen.body().len() + framing);
}

#[tokio::test]
async fn a_slow_first_token_is_late_by_its_delay_and_shifts_the_rest() {
    let delay = Duration::from_millis(120);
    let relay = Relay::start(always(Fault::SlowFirstToken { delay }))
        .await
        .unwrap();
    ask(&relay, &chat("slow", true)).await;
    ask(&relay, &chat("slow", false)).await;
    relay.quiet().await;
    for served in relay.served() {
        assert!(served.first_token_after().unwrap() >= delay);
    }
}

#[tokio::test]
async fn a_buffered_answer_comes_when_its_last_token_would() {
    let (first_token, token_gap) = (Duration::from_millis(20), Duration::from_millis(5));
    let settings = Settings {
        first_token,
        token_gap,
        ..always(Fault::Buffer)
    };
    let relay = Relay::start(settings).await.unwrap();
    ask(&relay, &chat("buffer", true)).await;
    relay.quiet().await;
    let [served] = relay.served().try_into().unwrap();
    assert!(Duration::from_nanos(served.writes[0].at_ns) >= first_token + 7 * token_gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_at_once_all_complete() {
    let settings = Settings {
        first_token: Duration::from_millis(30),
        token_gap: Duration::from_millis(2),
        tokens: 32,
        ..Settings::default()
    };
    let relay = Relay::start(settings).await.unwrap();
    let address = relay.address();
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..200 {
        clients.spawn(async move {
            let body = chat(
                &format!("Client {client}. End your answer with `E-{client}`."),
                true,
            );
            let seen = exchange(&mut connect(address).await, &post(&body)).await;
            assert!(seen.text().ends_with(&format!(" E-{client}")));
            assert!(seen.body().ends_with("data: [DONE]\n\n"));
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    relay.quiet().await;
    let served = relay.served();
    assert_eq!((served.len(), relay.requests()), (200, 200));
    for answer in served {
        assert!(answer.complete && answer.first_token_after() >= Some(Duration::from_millis(30)));
    }
}

#[tokio::test]
async fn each_answer_is_copied_to_the_channel_as_it_ends() {
    let (copy, copies) = std::sync::mpsc::sync_channel(4);
    let relay = Relay::start(Settings {
        copy: Some(copy),
        ..quick()
    })
    .await
    .unwrap();
    ask(&relay, &chat("copy", true)).await;
    relay.quiet().await;
    assert_eq!(copies.try_iter().collect::<Vec<_>>(), relay.served());
    relay.stop().await;
    assert!(copies.recv().is_err(), "the channel ends with the relay");
}
