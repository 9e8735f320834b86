//! A planted key and the prompt's text are in no byte that leaves: not in the run's file, not in
//! what the Collector wrote, not in what Jaeger or Prometheus is given.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use crate::programs::{Backends, binaries, get};
use crate::runs::{self, Account, Run};

/// Nothing that the Collector's own rules would know for a key: it must not get that far.
const KEY: &str = "canary-key-7f3a90c1d2";

/// A word of the prompt, and one of the answer.
const PROMPT: &str = "xylographic-prompt-canary";
const ANSWER: &str = "quixotic-answer-canary";

#[test]
fn neither_the_key_nor_the_prompt_is_in_any_exported_byte() {
    let Some(bin) = binaries(&["otelcol", "jaeger"]) else {
        return;
    };
    let _alone = runs::alone();
    let mut backends = Backends::none(&bin, 7);
    // Everything that reaches the Collector is written to its log, before anything is redacted.
    backends.collector_overlay(
        "\
exporters:
  debug/all: { verbosity: detailed, sampling_initial: 100000, use_internal_logger: false }
service:
  pipelines:
    traces/all: { receivers: [otlp], exporters: [debug/all] }
    logs: { exporters: [debug/all] }
    metrics/all: { receivers: [otlp], exporters: [debug/all] }
",
    );
    backends.start_collector();

    let dir = tempfile::tempdir().unwrap();
    let spec = dir.path().join("echo.yaml");
    std::fs::write(&spec, spec_of(&echo())).unwrap();
    let endpoint = backends.endpoint();
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("ECHO_KEY", KEY),
    ];
    let over = Run::start(&[spec], dir.path(), &env).finish();
    let Account {
        written,
        made,
        exported,
    } = over.account();
    assert_eq!(
        (written, exported),
        (made, made),
        "{}\n{}",
        over.out,
        over.err
    );
    let cells = over.evidence();
    let samples = &cells[0].samples;
    assert!(samples.len() > 20);
    let trace_of = |status: u16| {
        let is = |status_of: Option<u16>| status_of == Some(status);
        let mut with = samples
            .iter()
            .filter(|sample| is(sample.attempts[0].observation.status));
        with.next().unwrap().trace_id.clone()
    };
    let (whole, refused) = (trace_of(200), trace_of(401));

    // Jaeger is not there yet, so all of it lies in the Collector's queue.
    let queue = backends.wait_for("the queue", || {
        let bytes = all_bytes(&backends.queue());
        holds(&bytes, "relay.sample.outcome").then_some(bytes)
    });
    let metrics = backends.wait_for("metrics", || {
        let text = get(&backends.host, 8889, "/metrics").ok()?;
        text.contains("traces_span_metrics_").then_some(text)
    });
    backends.start_jaeger();
    let mut shown = String::new();
    for sample in samples {
        let (text, _) = backends.wait_for("the trace", || backends.look(&sample.trace_id));
        shown += &text;
    }
    shown += &backends.wait_for("the run's trace", || {
        let found = get(
            &backends.host,
            16686,
            "/api/traces?service=relayproof&operation=relay.suite",
        );
        found.ok().filter(|text| text.contains("relay.slo.verdict"))
    });
    let log = backends.log("otelcol.log");
    let file = std::fs::read(over.folder.join("spans.otlp.jsonl")).unwrap();

    // Each place did get what it is searched in.
    for (place, bytes) in [
        ("the run's file", file.as_slice()),
        ("the Collector's output", log.as_bytes()),
        ("the queue", &queue),
        ("Jaeger", shown.as_bytes()),
        ("the metrics", metrics.as_bytes()),
        ("stdout", over.out.as_bytes()),
        ("stderr", over.err.as_bytes()),
    ] {
        if !["stdout", "stderr", "the metrics"].contains(&place) {
            for trace in [&whole, &refused] {
                let raw = place == "the queue";
                assert!(raw || holds(bytes, trace), "{trace} is not in {place}");
            }
        }
        for secret in [KEY, PROMPT, ANSWER] {
            assert!(!holds(bytes, secret), "{secret} is in {place}");
        }
    }
    // The relay's own words that may be shown did arrive, so the echo was read.
    assert!(holds(&file, "echo-model"));
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

fn all_bytes(folder: &Path) -> Vec<u8> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap_or_default())
        .collect()
}

fn spec_of(origin: &str) -> String {
    format!(
        "\
relayproof: 1
name: echo
relays:
  - name: echo
    base_url: {origin}/v1
    proxy: none
    models: [echo-model]
    api_key: {{ env: ECHO_KEY }}
    retry: {{ max: 1, backoff: 1ms }}
workloads:
  - name: secret
    messages:
      - {{ role: user, content: \"{PROMPT}\" }}
sampling: {{ rate: 40/s, max_samples: 40 }}
judge: {{ method: exact }}
slos:
  - http_success >= 90%
"
    )
}

/// A relay that repeats the key and the prompt wherever it has a say: headers, ids, names, codes,
/// texts, in answers, errors and events. Gives its origin.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            thread::spawn(move || answer(stream, number));
        }
    });
    origin
}

fn answer(mut stream: TcpStream, number: usize) -> Option<()> {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    // The body ends with the prompt's object; its length is in the head, but its end will do.
    while !(holds(&request, PROMPT) && request.ends_with(b"}")) {
        let length = stream.read(&mut part).ok().filter(|length| *length > 0)?;
        request.extend_from_slice(&part[..length]);
    }
    let request = String::from_utf8(request).unwrap();
    assert!(request.contains(KEY), "the key is sent");
    let headers = format!(
        "x-request-id: {KEY}\r\nvia: 1.1 {KEY}\r\nserver: {KEY}\r\ncf-ray: {KEY}\r\nopenai-processing-ms: {KEY}\r\nx-ratelimit-limit-requests: {KEY}\r\nx-{KEY}: {PROMPT}\r\nconnection: close\r\n"
    );
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"{KEY}\",\"object\":\"chat.completion.chunk\",\"model\":\"{KEY}\",\"system_fingerprint\":\"{KEY}\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let text = format!("{{\"content\":\"{ANSWER} {KEY} {PROMPT} Bearer {KEY}\"}}");
    let (status, kind, body) = match number % 4 {
        0 => (
            "401 Unauthorized",
            "application/json",
            format!(
                "{{\"error\":{{\"message\":\"no such key: {KEY}; you said {PROMPT}\",\"code\":\"{KEY}\",\"type\":\"{KEY}\"}}}}"
            ),
        ),
        1 => (
            "200 OK",
            "text/event-stream",
            chunk(&text, "null")
                + &format!(
                    "data: {{\"error\":{{\"message\":\"{KEY} {PROMPT}\",\"code\":\"{KEY}\"}}}}\n\n"
                ),
        ),
        2 => (
            "200 OK",
            "text/event-stream",
            chunk(&text, "null")
                + &format!(": {KEY}\n\nevent: {KEY}\ndata: {{\"{KEY}\": {PROMPT}\n\n"),
        ),
        _ => (
            "200 OK",
            "text/event-stream",
            chunk(&text, "null") + &chunk("{}", &format!("\"{KEY}\"")) + "data: [DONE]\n\n",
        ),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .ok()
}
