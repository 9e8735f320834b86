//! What the relay writes in Anthropic messages.

use relayproof::sim::{Fault, Relay};
use serde_json::{Value, json};

use crate::client::{Ending, Response, SEALED, always, connect, exchange, json_of, post_to, quick};

fn message(max_tokens: u64, stream: bool) -> Value {
    json!({
        "model": "test-model",
        "max_tokens": max_tokens,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": SEALED}],
        "stream": stream,
    })
}

async fn ask(relay: &Relay, body: &Value) -> Response {
    let request = post_to("/v1/messages", body);
    exchange(&mut connect(relay.address()).await, &request).await
}

/// Name and data of each event.
fn events(seen: &Response) -> Vec<(String, Value)> {
    let body = seen.body();
    body.split_terminator("\n\n")
        .map(|event| {
            let (name, data) = event.split_once('\n').unwrap();
            let name = name.strip_prefix("event: ").unwrap();
            (
                name.to_owned(),
                json_of(data.strip_prefix("data: ").unwrap()),
            )
        })
        .collect()
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

fn text(events: &[(String, Value)]) -> String {
    let texts = events
        .iter()
        .filter_map(|(_, data)| data["delta"]["text"].as_str());
    texts.collect()
}

#[tokio::test]
async fn an_honest_stream_has_a_message_with_one_block_usage_and_end_mark() {
    let relay = Relay::start(quick()).await.unwrap();
    let seen = ask(&relay, &message(100, true)).await;
    assert_eq!((seen.status, seen.ending), (200, Ending::Whole));
    let all = events(&seen);
    assert_eq!(seen.chunks.len(), all.len(), "one event per chunk");
    let mut wanted = vec!["message_start", "content_block_start", "ping"];
    wanted.extend(["content_block_delta"; 8]);
    wanted.extend(["content_block_stop", "message_delta", "message_stop"]);
    assert_eq!(names(&all), wanted);
    for (name, data) in &all {
        assert_eq!(data["type"], name.as_str());
    }
    let message = &all[0].1["message"];
    assert_eq!(
        (&message["role"], &message["model"]),
        (&json!("assistant"), &json!("test-model"))
    );
    assert!(message["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(
        (&message["type"], &message["content"]),
        (&json!("message"), &json!([]))
    );
    assert_eq!(message["usage"]["input_tokens"], 10);
    assert_eq!(
        all[1].1["content_block"],
        json!({"type": "text", "text": ""})
    );
    assert!(text(&all).ends_with(" END-0123abcd"));
    assert_eq!(
        all[12].1,
        json!({
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": {"output_tokens": 8},
        })
    );
}

#[tokio::test]
async fn an_honest_answer_without_a_stream_is_one_message_cut_at_its_budget() {
    let relay = Relay::start(quick()).await.unwrap();
    for (budget, reason, words) in [(100, "end_turn", 8), (3, "max_tokens", 3)] {
        let seen = ask(&relay, &message(budget, false)).await;
        assert_eq!(seen.header("content-type"), Some("application/json"));
        let answer = json_of(&seen.body());
        assert_eq!(
            (&answer["type"], &answer["role"]),
            (&json!("message"), &json!("assistant"))
        );
        let said = answer["content"][0]["text"].as_str().unwrap();
        assert_eq!(said.split(' ').count(), words);
        assert_eq!(answer["stop_reason"], reason);
        assert_eq!(answer["usage"]["output_tokens"], words);
    }
}

#[tokio::test]
async fn a_refusal_has_the_shape_and_the_types_of_the_api() {
    let relay = Relay::start(quick()).await.unwrap();
    let mut body = message(1, true);
    body.as_object_mut().unwrap().remove("max_tokens");
    let seen = ask(&relay, &body).await;
    assert_eq!(seen.status, 400);
    let error = json_of(&seen.body());
    assert_eq!(
        (&error["type"], &error["error"]["type"]),
        (&json!("error"), &json!("invalid_request_error"))
    );
    for (code, kind) in [
        (401, "authentication_error"),
        (402, "billing_error"),
        (404, "not_found_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ] {
        let relay = Relay::start(always(Fault::Status {
            code,
            recover_after: None,
            retry_after_s: None,
        }))
        .await
        .unwrap();
        let seen = ask(&relay, &message(9, true)).await;
        assert_eq!(seen.status, code);
        assert_eq!(json_of(&seen.body())["error"]["type"], kind);
    }
}

#[tokio::test]
async fn an_end_mark_and_an_error_in_mid_answer_stand_alone() {
    let three = Some(3);
    for (fault, last) in [
        (
            Fault::FakeDone {
                after_tokens: three,
            },
            "message_stop",
        ),
        (
            Fault::ErrorInStream {
                after_tokens: three,
            },
            "error",
        ),
        (
            Fault::Truncate {
                after_tokens: three,
            },
            "content_block_delta",
        ),
    ] {
        let relay = Relay::start(always(fault)).await.unwrap();
        let seen = ask(&relay, &message(100, true)).await;
        assert_eq!(seen.ending, Ending::Whole);
        let all = events(&seen);
        assert_eq!(text(&all).split(' ').count(), 3);
        assert_eq!(names(&all).last(), Some(&last));
        let closing = ["content_block_stop", "message_delta"];
        assert!(names(&all).iter().all(|name| !closing.contains(name)));
    }
}
