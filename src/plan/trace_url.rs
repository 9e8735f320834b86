//! Addresses of traces: the template that a spec or the environment gives, and what becomes of it
//! for one sample.
//!
//! Knows the deep links of Jaeger and of Grafana's Explore; opens nothing.

use std::fmt::Write;

use serde_json::json;

use crate::forms::steers;

/// Time around a sample that Grafana is told to look at, in milliseconds.
const MARGIN_MS: u64 = 60_000;

/// Names that a template may hold.
pub const PLACEHOLDERS: [&str; 6] = [
    "trace_id", "span_id", "phase", "run_id", "start_ms", "end_ms",
];

/// How the address of a trace is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceUrl(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// A text with placeholders.
    Template(String),
    /// Jaeger's user interface at a base URL.
    Jaeger(String),
    /// Grafana at a base URL, with Tempo as the data source `tempo`.
    Grafana(String),
}

/// What is wrong with the text of an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceUrlFault {
    /// It is the same for all traces.
    #[error("`{{trace_id}}` is missing")]
    NoTrace,
    /// A name that stands for nothing.
    #[error("`{{{0}}}` stands for nothing")]
    Unknown(String),
    /// A short form without the address of the program.
    #[error("expected a URL behind `{0}:`")]
    NoBase(&'static str),
    /// White space, or a character that steers a terminal.
    #[error("a character that no URL can have")]
    Character,
}

/// The sample that an address leads to.
#[derive(Clone, Copy, Debug)]
pub struct Lead<'a> {
    /// Its trace, 32 hex digits.
    pub trace_id: &'a str,
    /// The span of the attempt to look at, 16 hex digits.
    pub span_id: &'a str,
    /// The phase to look at.
    pub phase: &'a str,
    /// The run.
    pub run_id: &'a str,
    /// When it began, milliseconds since the epoch.
    pub start_ms: u64,
    /// When it was over.
    pub end_ms: u64,
}

impl TraceUrl {
    /// Reads the text: a template with `{trace_id}`, `jaeger:BASE` or `tempo:GRAFANA_BASE`.
    ///
    /// # Errors
    /// When no address of a trace can be made of it.
    pub fn parse(text: &str) -> Result<Self, TraceUrlFault> {
        let text = text.trim();
        if text.chars().any(|c| c.is_whitespace() || steers(c)) {
            return Err(TraceUrlFault::Character);
        }
        let base = |rest: &str, name| {
            let place = rest
                .strip_prefix("http://")
                .or_else(|| rest.strip_prefix("https://"));
            match place {
                Some(place) if !place.is_empty() && !place.starts_with('/') => {
                    Ok(rest.trim_end_matches('/').to_owned())
                }
                Some(_) | None => Err(TraceUrlFault::NoBase(name)),
            }
        };
        if let Some(rest) = text.strip_prefix("jaeger:") {
            return Ok(Self(Form::Jaeger(base(rest, "jaeger")?)));
        }
        if let Some(rest) = text.strip_prefix("tempo:") {
            return Ok(Self(Form::Grafana(base(rest, "tempo")?)));
        }
        for name in names(text) {
            if !PLACEHOLDERS.contains(&name) {
                return Err(TraceUrlFault::Unknown(name.to_owned()));
            }
        }
        if text.contains("{trace_id}") {
            Ok(Self(Form::Template(text.to_owned())))
        } else {
            Err(TraceUrlFault::NoTrace)
        }
    }

    /// The address for one sample.
    pub fn to(&self, lead: &Lead<'_>) -> String {
        match &self.0 {
            Form::Template(text) => filled(text, lead),
            Form::Jaeger(base) => format!(
                "{base}/trace/{}?uiFind=relay.phase%3D{}",
                encoded(lead.trace_id),
                encoded(lead.phase)
            ),
            Form::Grafana(base) => {
                let pane = json!({
                    "r": {
                        "datasource": "tempo",
                        "queries": [{
                            "refId": "A",
                            "datasource": { "type": "tempo", "uid": "tempo" },
                            "queryType": "traceql",
                            "query": lead.trace_id,
                            "limit": 20,
                            "tableType": "traces",
                        }],
                        "range": {
                            "from": lead.start_ms.saturating_sub(MARGIN_MS).to_string(),
                            "to": lead.end_ms.saturating_add(MARGIN_MS).to_string(),
                        },
                        "panelsState": { "trace": { "spanId": lead.span_id } },
                    }
                });
                let pane = encoded(&pane.to_string());
                format!("{base}/explore?schemaVersion=1&orgId=1&panes={pane}")
            }
        }
    }
}

/// What stands between braces and looks like a name.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|part| {
        let (name, _) = part.split_once('}')?;
        let word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        word.then_some(name)
    })
}

fn filled(text: &str, lead: &Lead<'_>) -> String {
    let value = |name: &str| match name {
        "trace_id" => Some(encoded(lead.trace_id)),
        "span_id" => Some(encoded(lead.span_id)),
        "phase" => Some(encoded(lead.phase)),
        "run_id" => Some(encoded(lead.run_id)),
        "start_ms" => Some(lead.start_ms.to_string()),
        "end_ms" => Some(lead.end_ms.to_string()),
        _ => None,
    };
    let mut parts = text.split('{');
    let mut url = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let named = part.split_once('}');
        match named.and_then(|(name, rest)| Some((value(name)?, rest))) {
            Some((value, rest)) => {
                url.push_str(&value);
                url.push_str(rest);
            }
            None => {
                url.push('{');
                url.push_str(part);
            }
        }
    }
    url
}

/// Percent-encodes everything but what no part of a URL gives a meaning to.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAD: Lead<'_> = Lead {
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
        span_id: "6d9272a9b156d3d7",
        phase: "first_token",
        run_id: "run/1",
        start_ms: 1_764_000_000_123,
        end_ms: 1_764_000_002_038,
    };

    fn url(text: &str) -> String {
        TraceUrl::parse(text).unwrap().to(&LEAD)
    }

    #[test]
    fn a_template_is_filled_in_once_and_its_values_cannot_leave_their_place() {
        assert_eq!(
            url("http://x/{run_id}/{trace_id}?s={span_id}&p={phase}&t={start_ms}-{end_ms}"),
            "http://x/run%2F1/4bf92f3577b34da6a3ce929d0e0e4736?s=6d9272a9b156d3d7&p=first_token\
             &t=1764000000123-1764000002038"
        );
        // Braces that are no placeholder are the address's own.
        assert_eq!(
            url("http://x/{trace_id}?q={}&j={\"a\":1}"),
            "http://x/4bf92f3577b34da6a3ce929d0e0e4736?q={}&j={\"a\":1}"
        );
    }

    #[test]
    fn jaeger_is_told_the_phase_to_find() {
        let wanted = "http://127.0.0.1:16686/trace/4bf92f3577b34da6a3ce929d0e0e4736\
                      ?uiFind=relay.phase%3Dfirst_token";
        assert_eq!(url("jaeger:http://127.0.0.1:16686"), wanted);
        assert_eq!(url("jaeger:http://127.0.0.1:16686/"), wanted);
    }

    #[test]
    fn grafana_gets_a_pane_with_the_trace_its_time_and_its_span() {
        let url = url("tempo:https://grafana.example/sub");
        let (front, pane) = url.split_once("&panes=").unwrap();
        assert_eq!(
            front,
            "https://grafana.example/sub/explore?schemaVersion=1&orgId=1"
        );
        let mut bytes = Vec::new();
        let mut rest = pane.as_bytes();
        while let Some((&first, behind)) = rest.split_first() {
            if first == b'%' {
                let digits = std::str::from_utf8(&behind[..2]).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = &behind[2..];
            } else {
                bytes.push(first);
                rest = behind;
            }
        }
        let pane: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(pane["r"]["queries"][0]["query"], LEAD.trace_id);
        assert_eq!(pane["r"]["range"]["from"], "1763999940123");
        assert_eq!(pane["r"]["range"]["to"], "1764000062038");
        assert_eq!(pane["r"]["panelsState"]["trace"]["spanId"], LEAD.span_id);
    }

    #[test]
    fn what_leads_to_no_trace_is_refused() {
        let fault = |text: &str| TraceUrl::parse(text).unwrap_err();
        assert_eq!(fault("http://x/trace"), TraceUrlFault::NoTrace);
        assert_eq!(
            fault("http://x/{trace_id}/{spanid}"),
            TraceUrlFault::Unknown("spanid".into())
        );
        assert_eq!(
            fault("jaeger:127.0.0.1:16686"),
            TraceUrlFault::NoBase("jaeger")
        );
        assert_eq!(fault("tempo:http:///x"), TraceUrlFault::NoBase("tempo"));
        assert_eq!(
            fault("http://x/{trace_id}\u{1b}[2J"),
            TraceUrlFault::Character
        );
    }
}
