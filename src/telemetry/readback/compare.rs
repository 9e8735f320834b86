//! One trace as it should be against the same trace as a backend has it.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{SpanId, Status};
use opentelemetry::{Array, Value};
use opentelemetry_sdk::trace::SpanData;
use serde::Serialize;
use serde_json::Value as Json;

use super::Standing;
use super::backend::{Answer, Seen};

/// What stands where a Collector has masked a value.
const MASK: &str = "****";

/// Most differences of one trace that are told.
const MOST: usize = 8;

/// Longest value that is told.
const MOST_CHARS: usize = 80;

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Name of the span.
    pub span: String,
    /// Its id.
    pub span_id: String,
    /// What of it.
    pub what: String,
    /// As evidence has it.
    pub expected: String,
    /// As the backend has it; empty where it has nothing.
    pub found: String,
}

/// What came of one trace.
pub(super) struct Compared {
    pub(super) standing: Standing,
    /// Names of the spans that are not there.
    pub(super) missing: Vec<String>,
    pub(super) differences: Vec<Difference>,
}

/// Compares a trace span by span. What else the backend has in the trace is somebody else's.
pub(super) fn compare(expected: &[SpanData], answer: &Answer) -> Compared {
    let mut missing = Vec::new();
    let mut differences = Vec::new();
    let mut is_masked = false;
    for span in expected {
        let id = span.span_context.span_id().to_string();
        let candidates = answer.spans.get(&id);
        // A span that was sent twice is there if one of the two is as it should be.
        let best = candidates
            .into_iter()
            .flatten()
            .map(|seen| against(span, seen, answer.is_coarse))
            .min_by_key(|(differences, is_masked)| (differences.len(), *is_masked));
        match best {
            Some((found, masked)) => {
                differences.extend(found);
                is_masked |= masked;
            }
            None => missing.push(span.name.to_string()),
        }
    }
    let standing = if missing.len() == expected.len() && !expected.is_empty() {
        Standing::Missing
    } else if !missing.is_empty() {
        Standing::Incomplete
    } else if !differences.is_empty() {
        Standing::Different
    } else if is_masked {
        Standing::Masked
    } else {
        Standing::Equal
    };
    differences.truncate(MOST);
    Compared {
        standing,
        missing,
        differences,
    }
}

/// What is different about one span, and whether anything was masked.
fn against(span: &SpanData, seen: &Seen, is_coarse: bool) -> (Vec<Difference>, bool) {
    let mut all = Against {
        span,
        differences: Vec::new(),
        is_masked: false,
    };
    all.text("name", &span.name, &seen.name);
    let parent = match span.parent_span_id {
        SpanId::INVALID => String::new(),
        id => id.to_string(),
    };
    all.text(
        "parent",
        &parent,
        seen.parent.as_deref().unwrap_or_default(),
    );
    let (start, end) = (nanos(span.start_time), nanos(span.end_time));
    let length = end.saturating_sub(start);
    // What a backend keeps in whole microseconds is compared in whole microseconds.
    let unit = if is_coarse { 1000 } else { 1 };
    let whole = |ns: u64| (ns / unit * unit).to_string();
    all.text("start", &whole(start), &whole(seen.start));
    all.text("length", &whole(length), &whole(seen.length));
    let (expected, found) = (status(&span.status), status(&seen.status));
    all.text("status", &expected, &found);
    let counts = [
        ("events", span.events.events.len(), seen.events),
        ("links", span.links.links.len(), seen.links),
    ];
    for (what, expected, found) in counts {
        all.text(what, &expected.to_string(), &found.to_string());
    }
    for pair in &span.attributes {
        let key = pair.key.as_str();
        match seen.attributes.get(key) {
            Some(found) if is_same(&pair.value, found) => {}
            Some(Json::String(found)) => all.text(key, &pair.value.as_str(), found),
            Some(found) => all.note(key, &pair.value.as_str(), &found.to_string()),
            None => all.note(key, &pair.value.as_str(), ""),
        }
    }
    (all.differences, all.is_masked)
}

struct Against<'a> {
    span: &'a SpanData,
    differences: Vec<Difference>,
    is_masked: bool,
}

impl Against<'_> {
    fn text(&mut self, what: &str, expected: &str, found: &str) {
        if expected == found {
        } else if found.contains(MASK) {
            self.is_masked = true;
        } else {
            self.note(what, expected, found);
        }
    }

    fn note(&mut self, what: &str, expected: &str, found: &str) {
        self.differences.push(Difference {
            span: self.span.name.to_string(),
            span_id: self.span.span_context.span_id().to_string(),
            what: what.to_owned(),
            expected: short(expected),
            found: short(found),
        });
    }
}

fn short(text: &str) -> String {
    text.chars().take(MOST_CHARS).collect()
}

fn nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn status(status: &Status) -> String {
    match status {
        Status::Unset => String::new(),
        Status::Ok => "ok".to_owned(),
        Status::Error { description } if description.is_empty() => "error".to_owned(),
        Status::Error { description } => format!("error: {description}"),
    }
}

/// Whether a value came through.
fn is_same(expected: &Value, found: &Json) -> bool {
    match expected {
        Value::Bool(yes) => found.as_bool() == Some(*yes),
        Value::I64(number) => found.as_i64() == Some(*number),
        Value::F64(number) => found.as_f64() == Some(*number),
        Value::String(text) => found.as_str() == Some(text.as_str()),
        Value::Array(array) => {
            let wanted = list(array);
            // Jaeger keeps a list as the text of its JSON.
            let listed = found.as_str().and_then(|it| serde_json::from_str(it).ok());
            listed.as_ref().unwrap_or(found) == &wanted
        }
        _ => false,
    }
}

fn list(array: &Array) -> Json {
    match array {
        Array::Bool(all) => all.iter().copied().collect(),
        Array::I64(all) => all.iter().copied().collect(),
        Array::F64(all) => all.iter().copied().collect(),
        Array::String(all) => all.iter().map(|it| it.as_str().to_owned()).collect(),
        _ => Json::Null,
    }
}
