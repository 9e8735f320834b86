//! What the relay writes in OpenAI responses.

use relayproof::sim::{Fault, Relay};
use serde_json::{Value, json};

use crate::client::{Ending, Response, SEALED, always, connect, exchange, json_of, post_to, quick};

fn request(stream: bool) -> Value {
    json!({
        "model": "test-model",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": SEALED}],
        "stream": stream,
    })
}

async fn ask(relay: &Relay, body: &Value) -> Response {
    let request = post_to("/v1/responses", body);
    exchange(&mut connect(relay.address()).await, &request).await
}

/// Name and data of each event.
fn events(seen: &Response) -> Vec<(String, Value)> {
    let body = seen.body();
    body.split_terminator("\n\n")
        .map(|event| {
            let (name, data) = event.split_once('\n').unwrap();
            let name = name.strip_prefix("event: ").unwrap();
            let data = json_of(data.strip_prefix("data: ").unwrap());
            (name.to_owned(), data)
        })
        .collect()
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

fn text(events: &[(String, Value)]) -> String {
    let deltas = events.iter().filter_map(|(_, data)| data["delta"].as_str());
    deltas.collect()
}

const OPENING: [&str; 4] = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
];

const DELTA: &str = "response.output_text.delta";

#[tokio::test]
async fn an_honest_stream_opens_and_closes_one_message_and_repeats_it_at_the_end() {
    let relay = Relay::start(quick()).await.unwrap();
    let seen = ask(&relay, &request(true)).await;
    assert_eq!((seen.status, seen.ending), (200, Ending::Whole));
    let all = events(&seen);
    assert_eq!(seen.chunks.len(), all.len(), "one event per chunk");
    let mut wanted = OPENING.to_vec();
    wanted.extend([DELTA; 8]);
    wanted.extend([
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]);
    assert_eq!(names(&all), wanted);
    for (number, (name, data)) in all.iter().enumerate() {
        assert_eq!(data["type"], name.as_str());
        assert_eq!(data["sequence_number"], number);
    }
    let text = text(&all);
    assert!(text.ends_with(" END-0123abcd"));
    assert_eq!(all[12].1["text"], text);
    assert_eq!(all[13].1["part"]["text"], text);
    let (first, last) = (&all[0].1["response"], &all[15].1["response"]);
    assert_eq!(last["output"][0], all[14].1["item"]);
    assert_eq!(last["output"][0]["content"][0]["text"], text);
    assert_eq!(
        (&first["id"], &first["status"]),
        (&last["id"], &json!("in_progress"))
    );
    assert_eq!(last["usage"]["input_tokens"], 10);
    assert_eq!(last["usage"]["output_tokens"], 8);
    for response in [first, last] {
        for member in [
            "created_at",
            "model",
            "parallel_tool_calls",
            "tool_choice",
            "tools",
        ] {
            assert!(!response[member].is_null(), "{member}");
        }
        assert_eq!(
            (&response["object"], &response["model"]),
            (&json!("response"), &json!("test-model"))
        );
    }
}

#[tokio::test]
async fn an_honest_answer_without_a_stream_is_one_response() {
    let relay = Relay::start(quick()).await.unwrap();
    let whole = json_of(&ask(&relay, &request(false)).await.body());
    assert_eq!(
        (&whole["object"], &whole["status"]),
        (&json!("response"), &json!("completed"))
    );
    let text = whole["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with(" END-0123abcd"));
}

#[tokio::test]
async fn a_token_limit_below_the_answer_ends_it_as_incomplete() {
    let relay = Relay::start(quick()).await.unwrap();
    for stream in [true, false] {
        let mut body = request(stream);
        body["max_output_tokens"] = json!(3);
        let seen = ask(&relay, &body).await;
        let last = if stream {
            let (name, data) = events(&seen).pop().unwrap();
            assert_eq!(name, "response.incomplete");
            data["response"].clone()
        } else {
            json_of(&seen.body())
        };
        assert_eq!(last["status"], "incomplete");
        assert_eq!(
            last["incomplete_details"],
            json!({"reason": "max_output_tokens"})
        );
        assert_eq!(last["usage"]["output_tokens"], 3);
    }
}

#[tokio::test]
async fn faults_break_off_spoil_or_end_the_events() {
    let after = || Some(3);
    let wanted = |rest: &[&'static str]| {
        let mut wanted = OPENING.to_vec();
        wanted.extend([DELTA; 3]);
        wanted.extend(rest);
        wanted
    };
    for (fault, rest) in [
        (
            Fault::Truncate {
                after_tokens: after(),
            },
            &[][..],
        ),
        (
            Fault::ErrorInStream {
                after_tokens: after(),
            },
            &["error"],
        ),
        (
            Fault::FakeDone {
                after_tokens: after(),
            },
            &["response.completed"],
        ),
    ] {
        let relay = Relay::start(always(fault.clone())).await.unwrap();
        let seen = ask(&relay, &request(true)).await;
        assert_eq!(seen.ending, Ending::Whole);
        assert_eq!(names(&events(&seen)), wanted(rest), "{fault:?}");
    }
    let relay = Relay::start(always(Fault::MalformedJson {
        after_tokens: after(),
    }))
    .await
    .unwrap();
    let body = ask(&relay, &request(true)).await.body();
    let broken = body
        .split_terminator("\n\n")
        .enumerate()
        .filter(|(_, event)| {
            let data = event.split_once("\ndata: ").unwrap().1;
            serde_json::from_str::<Value>(data).is_err()
        });
    assert_eq!(broken.map(|(index, _)| index).collect::<Vec<_>>(), [7]);
    let relay = Relay::start(always(Fault::WrongModel)).await.unwrap();
    let all = events(&ask(&relay, &request(true)).await);
    let (first, last) = (&all[0].1["response"], &all[15].1["response"]);
    assert_ne!(first["model"], "test-model");
    assert_eq!(first["model"], last["model"]);
}

#[tokio::test]
async fn what_is_no_request_of_this_protocol_is_refused() {
    let relay = Relay::start(quick()).await.unwrap();
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
    let seen = ask(&relay, &chat).await;
    assert_eq!(seen.status, 400);
    assert_eq!(json_of(&seen.body())["error"]["param"], "input");
}
