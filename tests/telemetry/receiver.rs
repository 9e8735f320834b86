//! An OTLP receiver inside the test: plain TCP and hand-parsed HTTP, so that it shares no code with
//! the exporter but the message types.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;

/// How the receiver answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    /// Takes everything.
    Ok,
    /// Takes the request and never answers.
    Hang,
    /// Answers with a status.
    Status(u16),
    /// Answers 503 to so many requests, and takes what follows.
    Recover(usize),
    /// Answers 200 and says that it refused so many spans.
    Refuse(i64),
    /// Answers 200 with bytes that are no OTLP.
    Garbage,
}

/// What the receiver has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Request heads, as sent.
    pub(crate) heads: Vec<String>,
    /// Bodies, as sent.
    pub(crate) bodies: Vec<Vec<u8>>,
    /// Decoded and accepted spans with their resources.
    pub(crate) traces: Vec<ResourceSpans>,
    /// Decoded and accepted log records.
    pub(crate) logs: Vec<LogRecord>,
    /// Decoded and accepted reports of metrics.
    pub(crate) reports: Vec<ExportMetricsServiceRequest>,
}

impl Seen {
    /// Requests for one path.
    pub(crate) fn requests(&self, path: &str) -> usize {
        let start = format!("POST {path} ");
        let heads = self.heads.iter();
        heads.filter(|head| head.starts_with(&start)).count()
    }
}

pub(crate) struct Receiver {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl Receiver {
    pub(crate) fn start(mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                thread::spawn(move || serve(stream, mode, &seen));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        spans(&self.seen().traces)
    }
}

pub(crate) fn spans(traces: &[ResourceSpans]) -> Vec<Span> {
    traces
        .iter()
        .flat_map(|resource| &resource.scope_spans)
        .flat_map(|scope| scope.spans.iter().cloned())
        .collect()
}

fn serve(mut stream: TcpStream, mode: Mode, seen: &Mutex<Seen>) {
    while let Some((head, body)) = request(&mut stream) {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.heads.push(head.clone());
            seen.bodies.push(body.clone());
            // Each signal has its own count, for their requests come in any order.
            let path = head.split(' ').nth(1).unwrap();
            seen.requests(path)
        };
        let (status, answer) = match mode {
            Mode::Hang => {
                // Until the client gives up and closes.
                while stream.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
                return;
            }
            Mode::Status(status) => (status, Vec::new()),
            Mode::Recover(failures) if number <= failures => (503, Vec::new()),
            Mode::Refuse(rejected_spans) => {
                let answer = ExportTraceServiceResponse {
                    partial_success: Some(ExportTracePartialSuccess {
                        rejected_spans,
                        error_message: "too old".into(),
                    }),
                };
                (200, answer.encode_to_vec())
            }
            Mode::Garbage => (200, b"<html>not OTLP</html>".to_vec()),
            Mode::Ok | Mode::Recover(_) => (200, Vec::new()),
        };
        if status == 200 && !head.to_lowercase().contains("content-encoding") {
            keep(&head, &body, seen);
        }
        let reply = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if stream.write_all(reply.as_bytes()).is_err() || stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn keep(head: &str, body: &[u8], seen: &Mutex<Seen>) {
    let mut seen = seen.lock().unwrap();
    if head.starts_with("POST /v1/traces ") {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        seen.traces.extend(request.resource_spans);
    } else if head.starts_with("POST /v1/logs ") {
        let request = ExportLogsServiceRequest::decode(body).unwrap();
        seen.logs.extend(
            request
                .resource_logs
                .into_iter()
                .flat_map(|resource| resource.scope_logs)
                .flat_map(|scope| scope.log_records),
        );
    } else if head.starts_with("POST /v1/metrics ") {
        let request = ExportMetricsServiceRequest::decode(body).unwrap();
        seen.reports.push(request);
    }
}

fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 65536];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&chunk[..n]),
            _ => return None,
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length: usize = head
        .lines()
        .find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse().unwrap())
        })
        .unwrap_or(0);
    let mut body = bytes[end..].to_vec();
    while body.len() < length {
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => body.extend_from_slice(&chunk[..n]),
            _ => return None,
        }
    }
    Some((head, body))
}

/// The value of an attribute as text; arrays joined by commas.
pub(crate) fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|pair| pair.key == key)?;
    Some(shown(value.value.as_ref()?.value.as_ref()?))
}

fn shown(value: &Value) -> String {
    match value {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(yes) => yes.to_string(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::ArrayValue(array) => array
            .values
            .iter()
            .map(|value| shown(value.value.as_ref().unwrap()))
            .collect::<Vec<_>>()
            .join(","),
        other => format!("{other:?}"),
    }
}
