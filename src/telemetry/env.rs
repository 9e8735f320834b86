//! The `OTEL_*` variables, `TRACEPARENT`, `TRACESTATE` and `BAGGAGE`: what they ask for, and a
//! warning for each one that is set and not honoured.
//!
//! Reads through a lookup that the caller passes, never the process environment itself. Values of
//! header variables are secrets: they are in no message and no `Debug`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use sha2::{Digest, Sha256};
use url::Url;

use super::clean::percent_decoded;
use super::metrics::Temporality;
use super::semconv::metric::Edition;
use super::{Lookup, RunInfo, baggage, ci, semconv};
use crate::plan::trace_url::TraceUrl;

/// Longest wait for one export request, unless a variable says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two reports of metrics, unless a variable says otherwise.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// Longest time for one report of metrics, unless a variable says otherwise.
const DEFAULT_EXPORT: Duration = Duration::from_secs(30);
/// The variable that says how addresses of traces are made.
pub const TRACE_URL: &str = "RELAYPROOF_TRACE_URL";

/// Where the Jaeger of the shipped compose file answers.
const LOCAL_JAEGER: &str = "jaeger:http://127.0.0.1:16686";

/// Variables that other tools honour and this one does not: what they would change.
const NOT_HONOURED: &[&str] = &[
    "OTEL_CONFIG_FILE",
    "OTEL_EXPERIMENTAL_CONFIG_FILE",
    "OTEL_PROPAGATORS",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BLRP_EXPORT_TIMEOUT",
    "OTEL_BLRP_MAX_QUEUE_SIZE",
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
];

/// A signal that is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Metrics.
    Metrics,
}

impl Signal {
    /// The signal's part in the names of variables.
    fn variable(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Logs => "LOGS",
            Self::Metrics => "METRICS",
        }
    }

    /// The signal's path below a base endpoint.
    fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Logs => "v1/logs",
            Self::Metrics => "v1/metrics",
        }
    }
}

/// How OTLP is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Protobuf over HTTP.
    Http,
    /// gRPC.
    Grpc,
}

/// Where one signal goes besides the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere.
    None,
    /// To standard error, one line an item.
    Console,
    /// To an OTLP endpoint.
    Otlp(Box<Endpoint>),
}

/// One OTLP endpoint.
///
/// `Debug` shows the names of headers only, and of the URL neither user info nor query.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Full URL of the signal (HTTP) or of the server (gRPC).
    pub url: Url,
    /// How OTLP is spoken there.
    pub wire: Wire,
    /// Extra headers; values are secrets, marked as such.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Longest wait for one request.
    pub timeout: Duration,
    /// Whether requests are compressed.
    pub gzip: bool,
    /// PEM file of the only trusted CAs.
    pub certificate: Option<String>,
    /// PEM files of the client's certificate and key.
    pub client: Option<(String, String)>,
}

impl Endpoint {
    /// Scheme, host, port and path: what may be shown.
    pub fn shown(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port().map(|port| format!(":{port}"));
        format!(
            "{}://{host}{}{}",
            self.url.scheme(),
            port.unwrap_or_default(),
            self.url.path().trim_end_matches('/')
        )
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.url)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("url", &self.shown())
            .field("wire", &self.wire)
            .field("headers", &names)
            .field("timeout", &self.timeout)
            .field("gzip", &self.gzip)
            .finish_non_exhaustive()
    }
}

/// How metrics are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Time between two reports while the run lasts.
    pub interval: Duration,
    /// Longest time for one of them, repeated requests included.
    pub timeout: Duration,
    /// Whether a report says everything since the start.
    pub temporality: Temporality,
    /// Which names the GenAI metrics have.
    pub edition: Edition,
    /// Whether values carry the samples that they come from.
    pub exemplars: bool,
}

/// What the environment asks for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where spans go besides the file.
    pub traces: Destination,
    /// Where logs go.
    pub logs: Destination,
    /// Where metrics go.
    pub metrics: Destination,
    /// How metrics are reported.
    pub reading: Reading,
    /// Entries of `BAGGAGE` that may be shown.
    pub baggage: Vec<(String, String)>,
    /// The span of the CI job that started us.
    pub ci: Option<SpanContext>,
    /// Who emits.
    pub resource: Resource,
    /// How the addresses of traces are made, where the environment tells.
    pub trace_url: Option<String>,
    /// Variables that are wrong or not honoured.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads the environment through `lookup`.
    pub fn read(run: &RunInfo, lookup: Lookup<'_>) -> Self {
        let env = Env { lookup };
        let mut warnings = Vec::new();
        let disabled = env.boolean("OTEL_SDK_DISABLED");
        let mut destination = |signal| {
            if disabled {
                Destination::None
            } else {
                env.destination(signal, &mut warnings)
            }
        };
        let traces = destination(Signal::Traces);
        let logs = destination(Signal::Logs);
        let metrics = destination(Signal::Metrics);
        warnings.dedup();
        let reading = env.reading(&mut warnings);
        let ignored: Vec<_> = NOT_HONOURED
            .iter()
            .copied()
            .filter(|name| env.value(name).is_some())
            .collect();
        if !ignored.is_empty() {
            warnings.push(format!("set, but not honoured: {}", ignored.join(", ")));
        }
        let trace_url = env.trace_url(&traces, &mut warnings);
        Self {
            traces,
            logs,
            metrics,
            reading,
            baggage: baggage::shown(
                &env.value("BAGGAGE").unwrap_or_default(),
                &env.value("RELAYPROOF_BAGGAGE_KEYS").unwrap_or_default(),
            ),
            trace_url,
            ci: env.ci(),
            resource: env.resource(run),
            warnings,
        }
    }
}

/// The lookup with the rules that all variables share.
struct Env<'a> {
    lookup: Lookup<'a>,
}

impl Env<'_> {
    /// A value; empty counts as not set.
    fn value(&self, name: &str) -> Option<String> {
        let value = (self.lookup)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// `true` in any case; anything else is false.
    fn boolean(&self, name: &str) -> bool {
        self.value(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The signal's own variable, or the general one: name and value.
    fn otlp(&self, signal: Signal, part: &str) -> Option<(String, String)> {
        [
            format!("OTEL_EXPORTER_OTLP_{}_{part}", signal.variable()),
            format!("OTEL_EXPORTER_OTLP_{part}"),
        ]
        .into_iter()
        .find_map(|name| self.value(&name).map(|value| (name, value)))
    }

    fn destination(&self, signal: Signal, warnings: &mut Vec<String>) -> Destination {
        let chooser = format!("OTEL_{}_EXPORTER", signal.variable());
        let chosen = self.value(&chooser);
        match chosen.as_deref() {
            Some("none") => return Destination::None,
            Some("console") => return Destination::Console,
            None | Some("otlp") => {}
            Some(other) => warnings.push(format!(
                "{chooser}={other:.32} is not known (none, console or otlp); otlp is assumed"
            )),
        }
        match self.endpoint(signal) {
            Ok(Some(endpoint)) => Destination::Otlp(Box::new(endpoint)),
            Ok(None) => {
                if chosen.is_some() {
                    warnings.push(format!(
                        "{chooser} asks for OTLP, but OTEL_EXPORTER_OTLP_ENDPOINT is not set; \
                         nothing is sent"
                    ));
                }
                Destination::None
            }
            Err(warning) => {
                warnings.push(warning);
                Destination::None
            }
        }
    }

    fn endpoint(&self, signal: Signal) -> Result<Option<Endpoint>, String> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.variable());
        let general = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let (name, text, is_base) = match (self.value(&own), self.value(general)) {
            (Some(text), _) => (own.as_str(), text, false),
            (None, Some(text)) => (general, text, true),
            (None, None) => return Ok(None),
        };
        let mut url = Url::parse(&text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                format!("{name} must be a URL with http:// or https://; nothing is sent")
            })?;
        let wire = self.wire(signal)?;
        if is_base && wire == Wire::Http {
            let path = format!("{}/{}", url.path().trim_end_matches('/'), signal.path());
            url.set_path(&path);
        }
        Ok(Some(Endpoint {
            url,
            wire,
            headers: self.headers(signal)?,
            timeout: self.timeout(signal)?,
            gzip: self.gzip(signal)?,
            certificate: self.otlp(signal, "CERTIFICATE").map(|(_, file)| file),
            client: self
                .otlp(signal, "CLIENT_CERTIFICATE")
                .zip(self.otlp(signal, "CLIENT_KEY"))
                .map(|((_, certificate), (_, key))| (certificate, key)),
        }))
    }

    fn wire(&self, signal: Signal) -> Result<Wire, String> {
        match self.otlp(signal, "PROTOCOL") {
            None => Ok(Wire::Http),
            Some((_, value)) if value == "http/protobuf" => Ok(Wire::Http),
            Some((_, value)) if value == "grpc" && cfg!(feature = "grpc") => Ok(Wire::Grpc),
            Some((name, value)) if value == "grpc" => Err(format!(
                "{name}=grpc needs relayproof built with the feature `grpc`; nothing is sent \
                 (http/protobuf, port 4318, is always there)"
            )),
            Some((name, value)) => Err(format!(
                "{name}={value:.32} is not supported (http/protobuf or grpc); nothing is sent"
            )),
        }
    }

    fn headers(&self, signal: Signal) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let Some((name, text)) = self.otlp(signal, "HEADERS") else {
            return Ok(Vec::new());
        };
        // The message names the variable only: what is wrong in it may be a key.
        let wrong = || format!("{name} is no list of `name=value` pairs; nothing is sent");
        header_list(&text).ok_or_else(wrong)
    }

    fn timeout(&self, signal: Signal) -> Result<Duration, String> {
        let Some((name, value)) = self.otlp(signal, "TIMEOUT") else {
            return Ok(DEFAULT_TIMEOUT);
        };
        match value.parse() {
            Ok(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
            Ok(_) | Err(_) => Err(format!(
                "{name} must be a number of milliseconds above 0; nothing is sent"
            )),
        }
    }

    fn gzip(&self, signal: Signal) -> Result<bool, String> {
        match self.otlp(signal, "COMPRESSION") {
            None => Ok(false),
            Some((_, value)) if value == "none" => Ok(false),
            Some((_, value)) if value == "gzip" => Ok(true),
            Some((name, value)) => Err(format!(
                "{name}={value:.32} is not supported (gzip or none); nothing is sent"
            )),
        }
    }

    /// How metrics are to be reported; what cannot be read is a warning and the default.
    fn reading(&self, warnings: &mut Vec<String>) -> Reading {
        let mut length = |name: &str, default: Duration| match self.value(name) {
            None => default,
            Some(text) => match text.parse() {
                Ok(ms @ 1..) => Duration::from_millis(ms),
                Ok(0) | Err(_) => {
                    let default = default.as_millis();
                    warnings.push(format!(
                        "{name} must be a number of milliseconds above 0; {default} is assumed"
                    ));
                    Duration::from_millis(u64::try_from(default).unwrap_or(u64::MAX))
                }
            },
        };
        let interval = length("OTEL_METRIC_EXPORT_INTERVAL", DEFAULT_INTERVAL);
        let timeout = length("OTEL_METRIC_EXPORT_TIMEOUT", DEFAULT_EXPORT);
        let mut choice = |name: &str, known: &[&str]| {
            let text = self.value(name)?.to_ascii_lowercase();
            let at = known.iter().position(|known| *known == text);
            if at.is_none() {
                let known = known.join(", ");
                warnings.push(format!("{name} is none of {known}; the first is assumed"));
            }
            at
        };
        let temporality = choice(
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            &["cumulative", "delta", "lowmemory"],
        );
        let filter = choice(
            "OTEL_METRICS_EXEMPLAR_FILTER",
            &["trace_based", "always_on", "always_off"],
        );
        let opted = self
            .value("OTEL_SEMCONV_STABILITY_OPT_IN")
            .is_some_and(|list| {
                list.split(',')
                    .any(|entry| entry.trim() == "gen_ai_latest_experimental")
            });
        Reading {
            interval,
            timeout,
            // None of our metrics is read on demand, so the third is the second.
            temporality: match temporality {
                Some(1 | 2) => Temporality::Delta,
                Some(_) | None => Temporality::Cumulative,
            },
            edition: if opted {
                Edition::Latest
            } else {
                Edition::Released
            },
            exemplars: filter != Some(2),
        }
    }

    /// What `RELAYPROOF_TRACE_URL` says; else the Jaeger that is beside a Collector on this machine.
    fn trace_url(&self, traces: &Destination, warnings: &mut Vec<String>) -> Option<String> {
        if let Some(text) = self.value(TRACE_URL) {
            return match TraceUrl::parse(&text) {
                Ok(_) => Some(text),
                Err(fault) => {
                    warnings.push(format!("{TRACE_URL} is no address of a trace: {fault}"));
                    None
                }
            };
        }
        match traces {
            Destination::Otlp(endpoint) if endpoint.is_loopback() => Some(LOCAL_JAEGER.to_owned()),
            Destination::Otlp(_) | Destination::None | Destination::Console => None,
        }
    }

    /// The remote span that `TRACEPARENT` names; anything malformed is as if it were not set.
    fn ci(&self) -> Option<SpanContext> {
        let carrier: HashMap<String, String> = ["traceparent", "tracestate"]
            .into_iter()
            .filter_map(|name| {
                let value = self.value(&name.to_ascii_uppercase())?;
                Some((name.to_owned(), value))
            })
            .collect();
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
        let span = context.span().span_context().clone();
        span.is_valid().then_some(span)
    }

    fn resource(&self, run: &RunInfo) -> Resource {
        let mut attributes = BTreeMap::from([
            (semconv::SERVICE_NAME.to_owned(), "relayproof".to_owned()),
            (
                semconv::SERVICE_VERSION.to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            ),
            (semconv::SERVICE_INSTANCE_ID.to_owned(), instance(run)),
            (semconv::HOST_NAME.to_owned(), run.host.clone()),
        ]);
        let pipeline = ci::detect(self.lookup).into_iter();
        attributes.extend(pipeline.map(|(name, value)| (name.to_owned(), value)));
        let listed = self.value("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        for pair in listed.split(',') {
            if let Some((key, value)) = pair.split_once('=')
                && let Some(value) = percent_decoded(value.trim())
                && !key.trim().is_empty()
            {
                attributes.insert(key.trim().to_owned(), value);
            }
        }
        if let Some(name) = self.value("OTEL_SERVICE_NAME") {
            attributes.insert(semconv::SERVICE_NAME.to_owned(), name);
        }
        attributes.insert(semconv::RELAY_RUN_ID.to_owned(), run.run_id.clone());
        Resource::builder_empty()
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_attributes(
                attributes
                    .into_iter()
                    .map(|(key, value)| KeyValue::new(key, value)),
            )
            .build()
    }
}

/// The headers of a list of `name=value` pairs with percent-encoded values; `None` where it is no
/// such list.
pub(super) fn header_list(text: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
    text.split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=')?;
            let key = key.trim().parse::<HeaderName>().ok()?;
            let mut value = HeaderValue::from_str(&percent_decoded(value.trim())?).ok()?;
            value.set_sensitive(true);
            Some((key, value))
        })
        .collect()
}

/// Whether a URL leads to this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// An id of this process within the run.
fn instance(run: &RunInfo) -> String {
    let hash = Sha256::new()
        .chain_update(run.run_id.as_bytes())
        .chain_update(run.host.as_bytes())
        .chain_update(std::process::id().to_be_bytes())
        .finalize();
    hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
