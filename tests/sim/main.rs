//! What the embedded relay puts on the wire.
#![cfg(feature = "sim")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod capacity;
mod client;
mod faults;
mod gemini;
mod messages;
mod responses;
mod time;
mod truth;

use relayproof::sim::{Fault, Relay, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use client::{Ending, SEALED, always, ask, ask_on, chat, connect, exchange, json_of, post, quick};

#[tokio::test]
async fn an_honest_stream_has_role_tokens_finish_usage_and_end_mark() {
    let relay = Relay::start(quick()).await.unwrap();
    let mut body = chat(SEALED, true);
    body["stream_options"] = json!({"include_usage": true});
    let response = ask(&relay, &body).await;

    assert_eq!((response.status, response.ending), (200, Ending::Whole));
    assert_eq!(
        response.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    let events = response.events();
    assert_eq!(response.chunks.len(), events.len(), "one event per chunk");
    assert_eq!(events.len(), 1 + 8 + 1 + 1 + 1);
    assert_eq!(events.last().unwrap(), "[DONE]");
    let events: Vec<Value> = events[..11]
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    for event in &events {
        assert_eq!(event["object"], "chat.completion.chunk");
        assert_eq!(event["model"], "test-model");
        assert_eq!(event["id"], events[0]["id"]);
        assert!(event["created"].as_u64().unwrap() > 1_600_000_000);
    }
    assert_eq!(
        events[0]["choices"][0]["delta"],
        json!({"role": "assistant", "content": ""})
    );
    for event in &events[..10] {
        assert_eq!(event["usage"], Value::Null);
        let finish = &event["choices"][0]["finish_reason"];
        assert_eq!(finish.is_null(), event != &events[9]);
    }
    assert_eq!(events[9]["choices"][0]["finish_reason"], "stop");
    assert_eq!(events[10]["choices"], json!([]));
    assert_eq!(
        events[10]["usage"],
        json!({"prompt_tokens": 8, "completion_tokens": 8, "total_tokens": 16})
    );
    assert!(response.text().ends_with(" END-0123abcd"));
    relay.stop().await;
}

#[tokio::test]
async fn an_honest_answer_without_a_stream_is_one_json_object() {
    let relay = Relay::start(quick()).await.unwrap();
    let response = ask(&relay, &chat(SEALED, false)).await;
    assert_eq!((response.status, response.ending), (200, Ending::Whole));
    assert_eq!(response.header("content-type"), Some("application/json"));
    let answer: Value = serde_json::from_str(&response.body()).unwrap();
    assert_eq!(answer["object"], "chat.completion");
    let choice = &answer["choices"][0];
    let text = choice["message"]["content"].as_str().unwrap();
    assert!(text.ends_with(" END-0123abcd"));
    assert_eq!(text.split(' ').count(), 8);
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(answer["usage"]["completion_tokens"], 8);
}

#[tokio::test]
async fn a_token_limit_below_the_answer_ends_it_with_length_and_without_the_seal() {
    let relay = Relay::start(quick()).await.unwrap();
    for name in ["max_tokens", "max_completion_tokens"] {
        let mut body = chat(SEALED, false);
        body[name] = json!(3);
        let answer: Value = serde_json::from_str(&ask(&relay, &body).await.body()).unwrap();
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "length");
        assert_eq!(
            choice["message"]["content"]
                .as_str()
                .unwrap()
                .split(' ')
                .count(),
            3
        );
        assert_eq!(answer["usage"]["completion_tokens"], 3);
    }
}

#[tokio::test]
async fn tls_is_trusted_by_its_own_authority_only_and_breaks_off_like_plain_text() {
    use std::sync::Arc;

    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    let connector = |pem: &str| {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    };
    let start = |fault: Option<Fault>| {
        let settings = fault.map_or_else(quick, always);
        Relay::start(Settings {
            tls: true,
            ..settings
        })
    };
    let relay = start(None).await.unwrap();
    let other = start(None).await.unwrap();
    assert!(relay.base_url().starts_with("https://localhost:"));
    for name in ["localhost", "127.0.0.1"] {
        let name = ServerName::try_from(name).unwrap();
        let tcp = connect(relay.address()).await;
        let trusting = connector(relay.ca_pem().unwrap());
        let mut stream = trusting.connect(name.clone(), tcp).await.unwrap();
        let seen = exchange(&mut stream, &post(&chat(SEALED, true))).await;
        assert!(seen.text().ends_with("END-0123abcd"));

        let tcp = connect(relay.address()).await;
        let doubting = connector(other.ca_pem().unwrap());
        assert!(doubting.connect(name, tcp).await.is_err());
    }
    for (fault, ending) in [
        (Fault::TruncateFin { after_tokens: None }, Ending::Fin),
        (Fault::TruncateRst { after_tokens: None }, Ending::Reset),
    ] {
        let relay = start(Some(fault)).await.unwrap();
        let tcp = connect(relay.address()).await;
        let name = ServerName::try_from("localhost").unwrap();
        let trusting = connector(relay.ca_pem().unwrap());
        let mut stream = trusting.connect(name, tcp).await.unwrap();
        let seen = exchange(&mut stream, &post(&chat(SEALED, true))).await;
        assert_eq!(seen.ending, ending);
        assert_eq!(seen.text().split(' ').count(), 4);
    }
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_request_unless_asked_to_close() {
    let relay = Relay::start(quick()).await.unwrap();
    let mut stream = connect(relay.address()).await;
    for _ in 0..3 {
        let seen = exchange(&mut stream, &post(&chat(SEALED, true))).await;
        assert_eq!(seen.ending, Ending::Whole);
    }
    let request = b"GET /v1/models HTTP/1.1\r\nhost: relay\r\nconnection: close\r\n\r\n";
    let seen = exchange(&mut stream, request).await;
    assert_eq!(json_of(&seen.body())["object"], "list");
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn an_http_1_0_client_gets_a_body_without_chunks_that_ends_with_the_connection() {
    let relay = Relay::start(quick()).await.unwrap();
    let request = String::from_utf8(post(&chat(SEALED, true))).unwrap();
    let request = request.replace("HTTP/1.1", "HTTP/1.0");
    let seen = exchange(&mut connect(relay.address()).await, request.as_bytes()).await;
    assert_eq!(seen.ending, Ending::Fin);
    assert_eq!(seen.header("transfer-encoding"), None);
    assert!(seen.text().ends_with("END-0123abcd"));
}

#[tokio::test]
async fn a_client_that_expects_it_is_told_to_continue() {
    let relay = Relay::start(quick()).await.unwrap();
    let mut stream = connect(relay.address()).await;
    let body = chat(SEALED, false).to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(exchange(&mut stream, body.as_bytes()).await.status, 200);
}

#[tokio::test]
async fn what_is_not_a_chat_completion_is_refused_in_the_shape_of_the_api() {
    let relay = Relay::start(quick()).await.unwrap();
    let long = "a".repeat(70_000);
    for (request, status) in [
        ("GET /v1/chat/completions HTTP/1.1\r\n\r\n".to_owned(), 405),
        ("DELETE /v1/models HTTP/1.1\r\n\r\n".to_owned(), 405),
        (
            "POST /v1/embeddings HTTP/1.1\r\ncontent-length: 0\r\n\r\n".to_owned(),
            404,
        ),
        (
            "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 1\r\n\r\n{".to_owned(),
            400,
        ),
        (
            "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n".to_owned(),
            413,
        ),
        (format!("GET / HTTP/1.1\r\na: {long}\r\n\r\n"), 431),
        ("nonsense\r\n\r\n".to_owned(), 400),
    ] {
        let seen = exchange(&mut connect(relay.address()).await, request.as_bytes()).await;
        assert_eq!(seen.status, status, "{request:.60}");
        let error = json_of(&seen.body())["error"].clone();
        assert!(
            error["message"].is_string() && error["type"].is_string(),
            "{error}"
        );
    }
    assert!(relay.served().is_empty());
}

#[tokio::test]
async fn stopping_and_dropping_end_open_connections() {
    for dropped in [false, true] {
        let relay = Relay::start(always(Fault::Stall { after_tokens: None }))
            .await
            .unwrap();
        let mut stream = connect(relay.address()).await;
        let seen = ask_on(&mut stream, &chat(SEALED, true), Some(4)).await;
        assert_eq!(seen.ending, Ending::Silent);
        if dropped {
            drop(relay);
        } else {
            relay.stop().await;
        }
        assert!(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)));
    }
}
