//! Traces read back: against answers of the shapes that Jaeger and Tempo give, and against a real
//! Jaeger where its program is at hand (tests/backends/build.sh makes it).
#![cfg(feature = "otel")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, waits for a program, and must say aloud that it skips"
)]

#[expect(dead_code, reason = "verdicts come from the evidence here")]
#[path = "telemetry/make.rs"]
mod make;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use relayproof::evidence::{Close, CloseReason, SelfCheck, Writer};
use relayproof::telemetry::readback::{Backend, Question, Standing, Verified, VerifyError, verify};
use relayproof::telemetry::replay::{Target, replay};
use serde_json::{Value, json};

/// Three samples and their cell: whole, cut, and refused.
fn evidence(folder: &Path) -> Vec<PathBuf> {
    let path = folder.join("cell.jsonl");
    let mut writer = Writer::create(&path, &make::header()).unwrap();
    for (index, seen) in [(0, make::whole()), (1, make::cut()), (2, make::refused())] {
        writer.sample(&make::sample(index, seen)).unwrap();
    }
    let close = Close {
        reason: CloseReason::Budget,
        at_unix_ns: make::T0 + 60_000_000_000,
        abandoned: 0,
        self_check: SelfCheck::default(),
        error: None,
    };
    writer.close(&close).unwrap();
    vec![path]
}

/// Spans by trace, as OTLP's JSON has them.
type Traces = BTreeMap<String, Vec<Value>>;

fn traces(files: &[PathBuf], folder: &Path) -> Traces {
    let path = folder.join("spans.otlp.jsonl");
    replay(files, Target::File(&path), &|_| None).unwrap();
    let mut traces = Traces::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let spans = &line["resourceSpans"][0]["scopeSpans"][0]["spans"];
        for span in spans.as_array().unwrap() {
            let trace = span["traceId"].as_str().unwrap().to_owned();
            traces.entry(trace).or_default().push(span.clone());
        }
    }
    traces
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

/// A trace as Jaeger's `/api/traces/{id}` gives it.
fn jaeger(spans: &[Value]) -> Value {
    let tag = |key: &str, value: &Value| {
        let (kind, inner) = value.as_object().unwrap().iter().next().unwrap();
        let (kind, inner) = match kind.as_str() {
            "stringValue" => ("string", inner.clone()),
            "boolValue" => ("bool", inner.clone()),
            "doubleValue" => ("float64", inner.clone()),
            "intValue" => (
                "int64",
                inner.as_str().unwrap().parse::<i64>().unwrap().into(),
            ),
            _ => {
                let all = inner["values"].as_array().unwrap();
                let all: Vec<_> = all.iter().map(|it| it["stringValue"].clone()).collect();
                ("string", Value::from(all).to_string().into())
            }
        };
        json!({ "key": key, "type": kind, "value": inner })
    };
    let spans: Vec<Value> = spans
        .iter()
        .map(|span| {
            let (start, end) = (
                number(&span["startTimeUnixNano"]),
                number(&span["endTimeUnixNano"]),
            );
            let mut references = Vec::new();
            if let Some(parent) = span["parentSpanId"].as_str() {
                references.push(json!({ "refType": "CHILD_OF", "spanID": parent }));
            }
            for link in span["links"].as_array().into_iter().flatten() {
                references.push(json!({ "refType": "FOLLOWS_FROM", "spanID": link["spanId"] }));
            }
            let mut tags: Vec<Value> = span["attributes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|pair| tag(pair["key"].as_str().unwrap(), &pair["value"]))
                .collect();
            tags.push(json!({ "key": "span.kind", "type": "string", "value": "internal" }));
            let code = match span["status"]["code"].as_u64() {
                Some(1) => "OK",
                Some(2) => "ERROR",
                _ => "",
            };
            if !code.is_empty() {
                tags.push(json!({ "key": "otel.status_code", "type": "string", "value": code }));
            }
            if let Some(words) = span["status"]["message"].as_str() {
                tags.push(json!({ "key": "otel.status_description", "value": words }));
            }
            json!({
                "traceID": span["traceId"], "spanID": span["spanId"],
                "operationName": span["name"], "references": references,
                "startTime": start / 1000, "duration": (end - start) / 1000,
                "tags": tags, "logs": span.get("events").cloned().unwrap_or(json!([])),
                "processID": "p1", "warnings": null,
            })
        })
        .collect();
    json!({ "data": [{ "spans": spans, "processes": {} }], "total": 0, "errors": null })
}

fn base64(hex: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits: String = hex
        .chars()
        .map(|digit| format!("{:04b}", digit.to_digit(16).unwrap()))
        .collect();
    while !bits.len().is_multiple_of(6) {
        bits.push('0');
    }
    let mut text: String = (0..bits.len() / 6)
        .map(|at| usize::from_str_radix(&bits[6 * at..6 * at + 6], 2).unwrap())
        .map(|value| char::from(DIGITS[value]))
        .collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// A trace as Tempo gives it: OTLP's JSON with ids in base64 and names for numbers, in the envelope
/// of one of its two paths.
fn tempo(spans: &[Value], is_second: bool) -> Value {
    let spans: Vec<Value> = spans
        .iter()
        .map(|span| {
            let mut span = span.clone();
            for id in ["traceId", "spanId", "parentSpanId"] {
                if let Some(hex) = span[id].as_str() {
                    span[id] = base64(hex).into();
                }
            }
            span["kind"] = "SPAN_KIND_INTERNAL".into();
            span["status"]["code"] = match span["status"]["code"].as_u64() {
                Some(1) => "STATUS_CODE_OK".into(),
                Some(2) => "STATUS_CODE_ERROR".into(),
                _ => Value::Null,
            };
            span
        })
        .collect();
    let resource = json!({
        "resource": { "attributes": [] },
        "scopeSpans": [{ "scope": { "name": "relayproof" }, "spans": spans }],
    });
    if is_second {
        json!({ "trace": { "resourceSpans": [resource] }, "metrics": {} })
    } else {
        json!({ "batches": [resource] })
    }
}

/// A backend that answers paths by a function; it notes the heads of requests.
struct Stub {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    fn start(answer: impl Fn(&str) -> (u16, Vec<u8>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let (answer, notes) = (Arc::new(answer), Arc::clone(&heads));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, notes) = (Arc::clone(&answer), Arc::clone(&notes));
                thread::spawn(move || serve(stream, &*answer, &notes).ok());
            }
        });
        Self { address, heads }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &dyn Fn(&str) -> (u16, Vec<u8>),
    notes: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    notes.lock().unwrap().push(head);
    let (status, body) = answer(&path);
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

fn found(body: &Value) -> (u16, Vec<u8>) {
    (200, body.to_string().into_bytes())
}

/// A Jaeger with these traces.
fn as_jaeger(traces: Traces) -> Stub {
    Stub::start(move |path| match path.strip_prefix("/api/traces/") {
        Some(id) => match traces.get(id) {
            Some(spans) => found(&jaeger(spans)),
            None => (404, b"{\"data\":null,\"errors\":[{\"code\":404}]}".to_vec()),
        },
        None if path == "/api/services" => found(&json!({ "data": null, "total": 0 })),
        None => (404, Vec::new()),
    })
}

/// A Tempo with these traces; an old one has the first of its two paths only.
fn as_tempo(traces: Traces, has_second: bool) -> Stub {
    Stub::start(move |path| {
        let second = path.strip_prefix("/api/v2/traces/").filter(|_| has_second);
        let first = path.strip_prefix("/api/traces/").filter(|_| !has_second);
        match (second, first) {
            (Some(id), _) | (_, Some(id)) if traces.contains_key(id) => {
                found(&tempo(&traces[id], has_second))
            }
            _ if path == "/api/echo" => (200, b"echo".to_vec()),
            _ => (404, b"404 page not found".to_vec()),
        }
    })
}

fn ask(files: &[PathBuf], url: &str) -> Result<Verified, VerifyError> {
    let question = Question {
        files,
        url,
        backend: None,
        most_findings: 10,
    };
    verify(&question, &|_| None)
}

#[test]
fn what_a_backend_holds_as_it_was_measured_is_found_in_every_shape() {
    let folder = tempfile::tempdir().unwrap();
    let files = evidence(folder.path());
    let traces = traces(&files, folder.path());
    for (stub, backend) in [
        (as_jaeger(traces.clone()), Backend::Jaeger),
        (as_tempo(traces.clone(), true), Backend::Tempo),
        (as_tempo(traces.clone(), false), Backend::Tempo),
    ] {
        let verified = ask(&files, &stub.url()).unwrap();
        assert_eq!(verified.backend, backend);
        assert!(verified.is_whole(), "{verified:?}");
        assert_eq!((verified.samples, verified.equal), (3, 3));
        assert_eq!((verified.cells, verified.cells_equal), (1, 1));
        let suite = 1;
        let all: usize = traces.values().map(Vec::len).sum();
        assert_eq!(verified.spans as usize, all - suite);
    }
}

/// The standing of the first sample after `damage`, and what is told of it.
fn damaged(damage: impl Fn(&mut Vec<Value>)) -> Verified {
    let folder = tempfile::tempdir().unwrap();
    let files = evidence(folder.path());
    let mut traces = traces(&files, folder.path());
    let id = make::sample(0, make::whole()).trace_id;
    damage(traces.get_mut(&id).unwrap());
    let of_jaeger = ask(&files, &as_jaeger(traces.clone()).url()).unwrap();
    let of_tempo = ask(&files, &as_tempo(traces, true).url()).unwrap();
    assert_eq!(of_jaeger.findings.len(), of_tempo.findings.len());
    for (one, other) in of_jaeger.findings.iter().zip(&of_tempo.findings) {
        assert_eq!(one.standing, other.standing);
        assert_eq!(one.missing_spans, other.missing_spans);
    }
    of_jaeger
}

fn named<'a>(spans: &'a mut [Value], name: &str) -> &'a mut Value {
    spans.iter_mut().find(|span| span["name"] == name).unwrap()
}

fn set(span: &mut Value, key: &str, value: &Value) {
    let all = span["attributes"].as_array_mut().unwrap();
    let pair = all.iter_mut().find(|pair| pair["key"] == key).unwrap();
    pair["value"] = value.clone();
}

#[test]
fn what_is_missing_or_different_is_told_span_by_span() {
    let told = damaged(Vec::clear);
    assert_eq!((told.missing, told.equal), (1, 2));
    assert_eq!(told.findings[0].standing, Standing::Missing);
    assert_eq!(told.findings[0].sample, Some(0));

    let told = damaged(|spans| spans.retain(|span| span["name"] != "SSE tokens"));
    assert_eq!(told.incomplete, 1);
    assert_eq!(told.findings[0].missing_spans, ["SSE tokens"]);

    type Damage = fn(&mut Value);
    let cases: [(&str, Damage); 6] = [
        ("name", |span| span["name"] = "GET".into()),
        ("parent", |span| {
            span["parentSpanId"] = "b7ad6b7169203331".into()
        }),
        ("start", |span| {
            let start = number(&span["startTimeUnixNano"]) - 1_000;
            span["startTimeUnixNano"] = start.to_string().into();
            let end = number(&span["endTimeUnixNano"]) - 1_000;
            span["endTimeUnixNano"] = end.to_string().into();
        }),
        ("length", |span| {
            let end = number(&span["endTimeUnixNano"]) + 1_000;
            span["endTimeUnixNano"] = end.to_string().into();
        }),
        ("status", |span| {
            span["status"] = json!({ "code": 2, "message": "odd" })
        }),
        ("http.response.status_code", |span| {
            set(
                span,
                "http.response.status_code",
                &json!({ "intValue": "201" }),
            );
        }),
    ];
    for (what, damage) in cases {
        let told = damaged(|spans| damage(named(spans, "POST")));
        assert_eq!(told.different, 1, "{what}");
        let [difference] = told.findings[0].differences.as_slice() else {
            panic!("{what}: {:?}", told.findings[0].differences);
        };
        assert_eq!(
            (difference.what.as_str(), difference.span.as_str()),
            (what, "POST")
        );
        assert_ne!(difference.expected, difference.found);
        assert!(!told.is_whole());
    }
    let told = damaged(|spans| {
        let all = named(spans, "POST")["attributes"].as_array_mut().unwrap();
        all.retain(|pair| pair["key"] != "url.full");
    });
    assert_eq!(told.findings[0].differences[0].found, "");
}

#[test]
fn a_masked_value_is_not_a_different_one() {
    let told = damaged(|spans| {
        let masked = json!({ "stringValue": "https://****/v1" });
        set(named(spans, "POST"), "url.full", &masked);
    });
    assert_eq!((told.masked, told.equal, told.different), (1, 2, 0));
    assert!(told.is_whole());
}

#[test]
fn a_span_that_was_sent_twice_is_there() {
    let told = damaged(|spans| {
        let mut again = spans.clone();
        again[0]["name"] = "odd".into();
        spans.splice(0..0, again);
    });
    assert_eq!(told.equal, 3);
}

#[test]
fn a_backend_that_cannot_be_asked_is_an_error_and_not_a_missing_trace() {
    let folder = tempfile::tempdir().unwrap();
    let files = evidence(folder.path());
    type Answering = fn() -> (u16, Vec<u8>);
    let answers: [(&str, Answering); 4] = [
        ("HTTP status 500", || (500, Vec::new())),
        ("no JSON", || (200, b"<html>".to_vec())),
        ("another shape", || (200, b"[]".to_vec())),
        ("more than 32 MiB", || (200, vec![b' '; 33 * 1024 * 1024])),
    ];
    for (why, answer) in answers {
        let stub = Stub::start(move |path| match path {
            "/api/services" => found(&json!({ "data": [] })),
            _ => answer(),
        });
        let error = ask(&files, &stub.url()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let web = Stub::start(|_| (404, Vec::new()));
    let error = ask(&files, &web.url()).unwrap_err();
    assert!(
        error.to_string().contains("neither Jaeger nor Tempo"),
        "{error}"
    );
    assert!(matches!(
        ask(&files, "localhost:1"),
        Err(VerifyError::Address)
    ));
}

#[test]
fn headers_are_sent_and_never_shown() {
    const CANARY: &str = "canary-5f1d0c";
    let folder = tempfile::tempdir().unwrap();
    let files = evidence(folder.path());
    let stub = Stub::start(|_| (403, Vec::new()));
    let url = stub.url().replace("//", &format!("//user:{CANARY}@")) + "/?token=" + CANARY;
    let question = Question {
        files: &files,
        url: &url,
        backend: Some(Backend::Tempo),
        most_findings: 1,
    };
    let headers = |name: &str| {
        (name == "RELAYPROOF_TRACES_HEADERS")
            .then(|| format!("x-scope-orgid=qa,x-token=Bearer%20{CANARY}"))
    };
    let error = verify(&question, &headers).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(CANARY), "{error:?}");
    let heads = stub.heads.lock().unwrap();
    assert!(heads[0].contains("x-scope-orgid: qa"), "{}", heads[0]);
    assert!(
        heads[0].contains(&format!("x-token: Bearer {CANARY}")),
        "{}",
        heads[0]
    );
    let broken = verify(&question, &|_| Some(CANARY.to_owned())).unwrap_err();
    assert!(matches!(broken, VerifyError::Headers));
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_real_jaeger_gives_back_what_was_exported() {
    let bin = std::env::var_os("RELAYPROOF_BACKENDS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/bin"),
        PathBuf::from,
    );
    if !bin.join("jaeger").is_file() {
        // Not through `eprintln!`: the test runner would keep it to itself.
        writeln!(io::stderr(), "skipped: no jaeger in {}", bin.display()).unwrap();
        return;
    }
    // All of 127/8 is this machine, so that nobody else has these ports.
    let pid = std::process::id();
    let host = format!("127.{}.{}.9", 64 + (pid >> 8) % 64, pid % 256);
    let _jaeger = Running(
        Command::new(bin.join("jaeger"))
            .args(["--config", "deploy/jaeger/jaeger.yaml"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("JAEGER_HOST", &host)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let folder = tempfile::tempdir().unwrap();
    let files = evidence(folder.path());
    let api = format!("http://{host}:16686");
    wait_for("Jaeger", || {
        let missing = ask(&files, &api).ok()?;
        assert_eq!(missing.missing, 3);
        Some(())
    });
    let endpoint = format!("http://{host}:14318");
    let account = wait_for("the receiver", || {
        let account = replay(&files, Target::Network(Some(&endpoint)), &|_| None).unwrap();
        account.is_whole().then_some(account)
    });
    let verified = wait_for("all spans", || {
        let verified = ask(&files, &api).unwrap();
        verified.is_whole().then_some(verified)
    });
    assert_eq!(verified.equal, 3, "{verified:?}");
    assert_eq!(verified.spans + 1, account.made);
}

/// Asks again until there is an answer.
fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "no sign of {what}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}
