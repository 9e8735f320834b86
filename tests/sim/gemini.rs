//! What the embedded relay says in Gemini's words.

use relayproof::sim::{Fault, Relay};
use serde_json::{Value, json};

use crate::client::{Ending, Response, SEALED, always, connect, exchange, json_of, quick};

fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: relay\r\nx-goog-api-key: k\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn prompt(limit: Option<u64>) -> String {
    let mut body = json!({"contents": [{"role": "user", "parts": [{"text": SEALED}]}]});
    if let Some(limit) = limit {
        body["generationConfig"] = json!({"maxOutputTokens": limit});
    }
    body.to_string()
}

const MODEL: &str = "/v1beta/models/test-model";

async fn asked(relay: &Relay, method: &str, limit: Option<u64>) -> Response {
    let request = request("POST", &format!("{MODEL}:{method}"), &prompt(limit));
    exchange(&mut connect(relay.address()).await, &request).await
}

fn text(object: &Value) -> String {
    let parts = object["candidates"][0]["content"]["parts"].as_array();
    let parts = parts.unwrap().iter();
    parts.map(|part| part["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_honest_stream_has_tokens_and_ends_with_finish_and_usage() {
    let relay = Relay::start(quick()).await.unwrap();
    let response = asked(&relay, "streamGenerateContent?alt=sse", None).await;
    assert_eq!((response.status, response.ending), (200, Ending::Whole));
    assert_eq!(
        response.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    let events: Vec<Value> = response
        .events()
        .iter()
        .map(|event| json_of(event))
        .collect();
    assert_eq!(events.len(), 8 + 1);
    for (index, event) in events.iter().enumerate() {
        let candidate = &event["candidates"][0];
        assert_eq!(candidate["index"], 0);
        assert_eq!(candidate["content"]["role"], "model");
        assert_eq!(event["modelVersion"], "test-model");
        assert_eq!(event["responseId"], events[0]["responseId"]);
        assert_eq!(candidate.get("finishReason").is_some(), index == 8);
        let said = 8.min(index as u64 + 1);
        let counts = &event["usageMetadata"];
        assert_eq!(counts["promptTokenCount"], 8);
        assert_eq!(counts["candidatesTokenCount"], said);
        assert_eq!(counts["totalTokenCount"], 8 + said);
    }
    assert_eq!(events[8]["candidates"][0]["finishReason"], "STOP");
    let said: String = events.iter().map(text).collect();
    assert!(said.ends_with(" END-0123abcd"));
}

#[tokio::test]
async fn without_events_an_answer_is_one_object_and_a_stream_is_an_array() {
    let relay = Relay::start(quick()).await.unwrap();
    let object = asked(&relay, "generateContent", Some(3)).await;
    let array = asked(&relay, "streamGenerateContent", Some(3)).await;
    let array_of = json_of(&array.body());
    for (response, answer) in [(&object, &json_of(&object.body())), (&array, &array_of[0])] {
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(text(answer).split(' ').count(), 3);
        assert_eq!(answer["candidates"][0]["finishReason"], "MAX_TOKENS");
        assert_eq!(answer["usageMetadata"]["candidatesTokenCount"], 3);
    }
}

#[tokio::test]
async fn models_and_refusals_have_the_shape_of_the_api() {
    let relay = Relay::start(quick()).await.unwrap();
    let ask =
        async |request: Vec<u8>| exchange(&mut connect(relay.address()).await, &request).await;
    let models = ask(request("GET", "/v1beta/models", "")).await;
    let name = json_of(&models.body())["models"][0]["name"].clone();
    assert!(name.as_str().unwrap().starts_with("models/"));

    let path = format!("{MODEL}:generateContent");
    let refused = ask(request("POST", &path, "{}")).await;
    assert_eq!(refused.status, 400);
    let error = json_of(&refused.body())["error"].clone();
    assert_eq!(
        (&error["code"], &error["status"]),
        (&json!(400), &json!("INVALID_ARGUMENT"))
    );
    assert!(error["message"].is_string());

    for (code, status) in [
        (429, "RESOURCE_EXHAUSTED"),
        (503, "UNAVAILABLE"),
        (500, "INTERNAL"),
    ] {
        let fault = Fault::Status {
            code,
            recover_after: None,
            retry_after_s: None,
        };
        let relay = Relay::start(always(fault)).await.unwrap();
        let seen = asked(&relay, "streamGenerateContent?alt=sse", None).await;
        assert_eq!(seen.status, code);
        assert_eq!(json_of(&seen.body())["error"]["status"], status);
    }
}
