//! Asking a backend for a trace: which one it is, its paths, and its two shapes of JSON.
//!
//! What comes back is input like any other: bounded, and no more than what is understood is kept.

use std::collections::HashMap;
use std::fmt;

use opentelemetry::trace::Status;
use reqwest::{Client, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::VerifyError;
use crate::forms::named;

/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// Longest text of an answer that is kept where it is none of ours.
const MAX_TEXT: usize = 4096;

named! {
    /// A trace backend that can be asked.
    Backend {
        /// Jaeger, by its user interface's API.
        Jaeger = "jaeger",
        /// Grafana Tempo.
        Tempo = "tempo",
    }
}

/// The spans that a backend has of one trace, by their ids in hex; one that was sent twice may be
/// there twice.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The spans.
    pub(super) spans: HashMap<String, Vec<Seen>>,
    /// Whether times are whole microseconds.
    pub(super) is_coarse: bool,
}

/// A span as a backend has it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) parent: Option<String>,
    /// Nanoseconds since the epoch.
    pub(super) start: u64,
    /// Nanoseconds.
    pub(super) length: u64,
    pub(super) status: Status,
    pub(super) attributes: HashMap<String, Value>,
    pub(super) events: usize,
    pub(super) links: usize,
}

/// A backend that is being asked.
pub(super) struct Asked {
    client: Client,
    base: Url,
    pub(super) backend: Backend,
}

/// Scheme, host, port and path: what may be shown of an address.
pub(super) fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}"));
    let path = url.path().trim_end_matches('/');
    format!(
        "{}://{host}{}{path}",
        url.scheme(),
        port.unwrap_or_default()
    )
}

impl Asked {
    /// Finds out which backend it is, where nobody says.
    pub(super) async fn find(
        client: Client,
        base: &Url,
        known: Option<Backend>,
    ) -> Result<Self, VerifyError> {
        let mut asked = Self {
            client,
            base: base.clone(),
            backend: known.unwrap_or(Backend::Jaeger),
        };
        if known.is_some() {
            return Ok(asked);
        }
        let services = asked.get("api/services").await;
        let (status, body) = services.map_err(|why| asked.error(why))?;
        let is_jaeger = status == StatusCode::OK
            && serde_json::from_slice::<Value>(&body).is_ok_and(|it| it.get("data").is_some());
        if is_jaeger {
            return Ok(asked);
        }
        let echo = asked.get("api/echo").await;
        let says_echo = matches!(&echo, Ok((StatusCode::OK, body)) if body.trim_ascii() == b"echo");
        if says_echo || matches!(asked.get("ready").await, Ok((StatusCode::OK, _))) {
            asked.backend = Backend::Tempo;
            return Ok(asked);
        }
        Err(asked.error(format!(
            "neither Jaeger nor Tempo (HTTP status {} at /api/services); say which it is with \
             --backend",
            status.as_u16()
        )))
    }

    /// The address without what may be a secret in it.
    pub(super) fn shown(&self) -> String {
        shown(&self.base)
    }

    /// An error of this backend.
    pub(super) fn error(&self, why: impl Into<String>) -> VerifyError {
        VerifyError::Backend {
            url: self.shown(),
            why: why.into(),
        }
    }

    /// The spans of a trace; none where the backend does not know it.
    pub(super) async fn trace(&self, id: &str) -> Result<Answer, String> {
        let paths: &[&str] = match self.backend {
            Backend::Jaeger => &["api/traces"],
            // Older versions have the second path only.
            Backend::Tempo => &["api/v2/traces", "api/traces"],
        };
        for path in paths {
            let (status, body) = self.get(&format!("{path}/{id}")).await?;
            match status {
                StatusCode::OK => {
                    let document: Value = serde_json::from_slice(&body)
                        .map_err(|_| "an answer that is no JSON".to_owned())?;
                    let answer = match self.backend {
                        Backend::Jaeger => jaeger(&document),
                        Backend::Tempo => tempo(&document),
                    };
                    return answer.ok_or_else(|| {
                        format!("an answer of another shape than {}'s", self.backend)
                    });
                }
                StatusCode::NOT_FOUND => {}
                other => return Err(format!("HTTP status {}", other.as_u16())),
            }
        }
        Ok(Answer::default())
    }

    async fn get(&self, path: &str) -> Result<(StatusCode, Vec<u8>), String> {
        let mut url = self.base.clone();
        url.set_path(&format!(
            "{}/{path}",
            self.base.path().trim_end_matches('/')
        ));
        let request = self.client.get(url).header("accept", "application/json");
        let mut response = request.send().await.map_err(|error| reason(&error))?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| reason(&error))? {
            if chunk.len() > MAX_ANSWER.saturating_sub(body.len()) {
                return Err("an answer of more than 32 MiB".to_owned());
            }
            body.extend_from_slice(&chunk);
        }
        Ok((response.status(), body))
    }
}

/// A client's error in our own words; its own may hold a URL with a password.
fn reason(error: &reqwest::Error) -> String {
    let words = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "cannot connect"
    } else {
        "the request broke off"
    };
    words.to_owned()
}

/// `{"data": [{"spans": […]}]}`.
fn jaeger(document: &Value) -> Option<Answer> {
    let mut answer = Answer {
        is_coarse: true,
        ..Answer::default()
    };
    // Null, where there is nothing.
    let Some(data) = document.get("data")?.as_array() else {
        return Some(answer);
    };
    let spans = data
        .iter()
        .filter_map(|trace| trace.get("spans")?.as_array());
    for span in spans.flatten() {
        let id = span.get("spanID")?.as_str()?;
        let references = |kind: &'static str| {
            let all = span.get("references").and_then(Value::as_array);
            let all = all.into_iter().flatten();
            all.filter(move |it| it.get("refType").and_then(Value::as_str) == Some(kind))
        };
        let parent = references("CHILD_OF").find_map(|it| it.get("spanID")?.as_str());
        let tags = span.get("tags").and_then(Value::as_array);
        let attributes: HashMap<String, Value> = tags
            .into_iter()
            .flatten()
            .filter_map(|tag| {
                let key = tag.get("key")?.as_str()?;
                Some((key.to_owned(), tag.get("value")?.clone()))
            })
            .collect();
        let text = |key: &str| attributes.get(key).and_then(Value::as_str);
        let status = match text("otel.status_code") {
            Some("OK") => Status::Ok,
            Some("ERROR") => {
                let words = text("otel.status_description").unwrap_or_default();
                Status::error(cut(words))
            }
            Some(_) | None => Status::Unset,
        };
        let micros = |name: &str| span.get(name)?.as_u64()?.checked_mul(1000);
        let seen = Seen {
            name: cut(span.get("operationName")?.as_str()?),
            parent: parent.map(cut),
            start: micros("startTime")?,
            length: micros("duration")?,
            status,
            events: span
                .get("logs")
                .and_then(Value::as_array)
                .map_or(0, Vec::len),
            links: references("FOLLOWS_FROM").count(),
            attributes,
        };
        answer.spans.entry(cut(id)).or_default().push(seen);
    }
    Some(answer)
}

/// OTLP's JSON, in Tempo's envelopes: `{"trace": {"resourceSpans": […]}}` or `{"batches": […]}`.
fn tempo(document: &Value) -> Option<Answer> {
    let trace = document.get("trace").unwrap_or(document);
    let mut answer = Answer::default();
    let either = |at: &Value, names: [&str; 2]| -> Option<Vec<Value>> {
        let found = names.iter().find_map(|name| at.get(name));
        found.map(|it| it.as_array().cloned().unwrap_or_default())
    };
    // An empty trace has no member at all.
    if !trace.is_object() {
        return None;
    }
    let resources = either(trace, ["resourceSpans", "batches"]).unwrap_or_default();
    for resource in &resources {
        let scopes = either(resource, ["scopeSpans", "instrumentationLibrarySpans"]);
        for scope in scopes.unwrap_or_default() {
            for span in either(&scope, ["spans", "spans"]).unwrap_or_default() {
                let (id, seen) = otlp(&span)?;
                answer.spans.entry(id).or_default().push(seen);
            }
        }
    }
    Some(answer)
}

fn otlp(span: &Value) -> Option<(String, Seen)> {
    let text = |name: &str| span.get(name).and_then(Value::as_str);
    let nanos = |name: &str| {
        let value = span.get(name)?;
        let text = value.as_str();
        text.map_or_else(|| value.as_u64(), |text| text.parse::<u64>().ok())
    };
    let (start, end) = (nanos("startTimeUnixNano")?, nanos("endTimeUnixNano")?);
    let count = |name: &str| span.get(name).and_then(Value::as_array).map_or(0, Vec::len);
    let status = span.get("status");
    let code = status.and_then(|it| it.get("code"));
    let code = match code {
        Some(Value::String(name)) => name.as_str(),
        Some(number) if number.as_u64() == Some(1) => "STATUS_CODE_OK",
        Some(number) if number.as_u64() == Some(2) => "STATUS_CODE_ERROR",
        Some(_) | None => "",
    };
    let status = match code {
        "STATUS_CODE_OK" => Status::Ok,
        "STATUS_CODE_ERROR" => {
            let words = status.and_then(|it| it.get("message")?.as_str());
            Status::error(cut(words.unwrap_or_default()))
        }
        _ => Status::Unset,
    };
    let attributes = span.get("attributes").and_then(Value::as_array);
    let attributes = attributes.into_iter().flatten().filter_map(|pair| {
        let key = pair.get("key")?.as_str()?;
        Some((key.to_owned(), plain(pair.get("value")?)))
    });
    let seen = Seen {
        name: cut(text("name")?),
        parent: text("parentSpanId")
            .filter(|id| !id.is_empty())
            .and_then(id),
        start,
        length: end.saturating_sub(start),
        status,
        attributes: attributes.collect(),
        events: count("events"),
        links: count("links"),
    };
    Some((id(text("spanId")?)?, seen))
}

/// The value of an OTLP attribute without its type.
fn plain(value: &Value) -> Value {
    let Some((kind, inner)) = value.as_object().and_then(|it| it.iter().next()) else {
        return Value::Null;
    };
    match (kind.as_str(), inner) {
        // 64 bits do not fit the numbers of every reader of JSON, so they are text.
        ("intValue", Value::String(text)) => text.parse::<i64>().map_or(Value::Null, Value::from),
        ("arrayValue", array) => {
            let values = array.get("values").and_then(Value::as_array);
            values.into_iter().flatten().map(plain).collect()
        }
        _ => inner.clone(),
    }
}

/// A span id: 16 hex digits as they are, or as base64.
fn id(text: &str) -> Option<String> {
    if text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Some(text.to_ascii_lowercase());
    }
    let digits = text.trim_end_matches('=');
    if digits.len() != 11 {
        return None;
    }
    let mut bits: u128 = 0;
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u128::from(value);
    }
    // Eleven digits are 66 bits; the last two are padding.
    Some(format!("{:016x}", bits >> 2))
}

/// A text of an answer, cut to what is worth keeping.
fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_both_spellings() {
        assert_eq!(id("b7ad6b7169203331").as_deref(), Some("b7ad6b7169203331"));
        // printf 'b7ad6b7169203331' | xxd -r -p | base64
        assert_eq!(id("t61rcWkgMzE=").as_deref(), Some("b7ad6b7169203331"));
        assert_eq!(id("t61rcWkgMzE").as_deref(), Some("b7ad6b7169203331"));
        assert_eq!(id("short"), None);
        assert_eq!(id("t61rcWkgMz!="), None);
    }

    #[test]
    fn an_answer_of_another_shape_is_none() {
        for text in ["[]", "{}", r#"{"data": [{"spans": [{"spanID": 7}]}]}"#] {
            let document = serde_json::from_str(text).unwrap();
            assert!(jaeger(&document).is_none(), "{text}");
        }
        let odd = r#"{"batches": [{"scopeSpans": [{"spans": [{"spanId": "x"}]}]}]}"#;
        assert!(tempo(&serde_json::from_str(odd).unwrap()).is_none());
        assert!(tempo(&serde_json::from_str("[]").unwrap()).is_none());
        let empty = jaeger(&serde_json::from_str(r#"{"data": null}"#).unwrap());
        assert!(empty.unwrap().spans.is_empty());
    }
}
