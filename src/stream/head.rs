//! What is kept of a response head: an allow-list of headers, the content type, Retry-After.

use std::time::Duration;

use super::{FramingFault, Head, clean};

/// Headers that are kept: request ids, rate limits, marks of servers on the way.
const KEPT: [&str; 10] = [
    "cf-ray",
    "content-type",
    "openai-processing-ms",
    "request-id",
    "retry-after",
    "server",
    "via",
    "x-cache",
    "x-request-id",
    "x-served-by",
];

/// Families of headers that are kept.
const KEPT_PREFIXES: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// Most headers that are kept.
const MAX_KEPT: usize = 32;

/// What the content type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `text/event-stream`.
    Events {
        /// A charset other than UTF-8 is named, which readers must ignore.
        odd: bool,
    },
    /// `application/json` and its kin.
    Json,
    /// Any other type.
    Other,
    /// No content type.
    Absent,
}

/// A head, as far as it is kept.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) status: u16,
    pub(super) kind: Kind,
    /// What the head itself shows to be wrong with the framing of the body.
    pub(super) fault: Option<FramingFault>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) retry_after: Option<Duration>,
}

impl Kept {
    pub(super) fn new(head: &Head<'_>) -> Self {
        let value = |name: &str| {
            let found = head.headers.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| String::from_utf8_lossy(value))
        };
        let headers = head
            .headers
            .iter()
            .filter(|(name, _)| {
                KEPT.contains(name) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            })
            .take(MAX_KEPT)
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value);
                (clean::short(name), clean::short(&value))
            })
            .collect();
        Self {
            status: head.status,
            kind: kind(value("content-type").as_deref()),
            fault: fault(head),
            headers,
            retry_after: value("retry-after").and_then(|value| {
                let seconds = value.trim().parse::<u32>().ok()?;
                Some(Duration::from_secs(u64::from(seconds)))
            }),
        }
    }

    pub(super) fn is_2xx(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// A coding that was not asked for, or two framings.
///
/// A library that decides for one of two framings, or takes what it does not know for a body as it
/// is, shows the head all the same.
fn fault(head: &Head<'_>) -> Option<FramingFault> {
    let items = |wanted: &'static str| {
        let values = head.headers.iter().filter(move |(name, _)| *name == wanted);
        let items = values.flat_map(|(_, value)| value.split(|byte| *byte == b','));
        items
            .map(<[u8]>::trim_ascii)
            .filter(|coding| !coding.is_empty())
    };
    let plain = |coding: &[u8]| coding.eq_ignore_ascii_case(b"identity");
    let chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let mut transfer = items("transfer-encoding").peekable();
    let framed = transfer.peek().is_some();
    let coded = items("content-encoding").any(|coding| !plain(coding));
    if coded || transfer.any(|coding| !chunked(coding)) {
        Some(FramingFault::UnaskedCoding)
    } else if framed && items("content-length").next().is_some() {
        Some(FramingFault::TwoFramings)
    } else {
        None
    }
}

fn kind(value: Option<&str>) -> Kind {
    let Some(value) = value else {
        return Kind::Absent;
    };
    let mut parts = value.split(';');
    let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "text/event-stream" => {
            let charset = parts.find_map(|part| {
                let (name, value) = part.split_once('=')?;
                let value = value.trim().trim_matches('"');
                name.trim()
                    .eq_ignore_ascii_case("charset")
                    .then(|| value.to_ascii_lowercase())
            });
            let odd = charset.is_some_and(|charset| !matches!(charset.as_str(), "utf-8" | "utf8"));
            Kind::Events { odd }
        }
        "application/json" => Kind::Json,
        "" => Kind::Absent,
        other if other.ends_with("+json") => Kind::Json,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_compare_without_case_and_parameters_are_harmless() {
        assert_eq!(
            kind(Some("Text/Event-Stream;")),
            Kind::Events { odd: false }
        );
        assert_eq!(
            kind(Some("text/event-stream; charset=\"UTF-8\"")),
            Kind::Events { odd: false }
        );
        assert_eq!(
            kind(Some("text/event-stream;charset=windows-1252")),
            Kind::Events { odd: true }
        );
        assert_eq!(kind(Some("application/problem+json")), Kind::Json);
        assert_eq!(kind(Some("text/html")), Kind::Other);
        assert_eq!(kind(None), Kind::Absent);
    }

    #[test]
    fn only_listed_headers_are_kept_and_their_values_are_bounded() {
        let long = vec![b'x'; 5000];
        let kept = Kept::new(&Head {
            status: 429,
            version: "1.1",
            headers: vec![
                ("set-cookie", b"secret=1"),
                ("x-request-id", b"req\x1b_1"),
                ("x-ratelimit-remaining-tokens", &long),
                ("retry-after", b"2"),
            ],
        });
        let names: Vec<_> = kept.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "x-request-id",
                "x-ratelimit-remaining-tokens",
                "retry-after"
            ]
        );
        assert_eq!(kept.headers[0].1, "req_1");
        assert_eq!(kept.headers[1].1.len(), 256);
        assert_eq!(kept.retry_after, Some(Duration::from_secs(2)));
    }

    #[test]
    fn any_content_coding_but_identity_is_seen() {
        let coded = |values: &[&'static str]| {
            let headers = values
                .iter()
                .map(|value| ("content-encoding", value.as_bytes()));
            let kept = Kept::new(&Head {
                status: 200,
                version: "1.1",
                headers: headers.collect(),
            });
            kept.fault == Some(FramingFault::UnaskedCoding)
        };
        assert!(coded(&["gzip"]));
        assert!(coded(&["identity, br"]));
        assert!(coded(&["identity", "GZIP"]));
        assert!(!coded(&["Identity"]) && !coded(&["", " , "]) && !coded(&[]));
    }

    #[test]
    fn two_framings_and_codings_of_the_transfer_are_seen_in_the_head() {
        let fault = |headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (*name, value.as_bytes()));
            let head = Head {
                status: 200,
                version: "1.1",
                headers: headers.collect(),
            };
            Kept::new(&head).fault
        };
        let chunked = ("transfer-encoding", "Chunked");
        let length = ("content-length", "5");
        assert_eq!(fault(&[chunked]), None);
        assert_eq!(fault(&[length]), None);
        assert_eq!(fault(&[length, chunked]), Some(FramingFault::TwoFramings));
        for coding in ["gzip", "gzip, chunked", "chunked, identity"] {
            assert_eq!(
                fault(&[("transfer-encoding", coding)]),
                Some(FramingFault::UnaskedCoding),
                "{coding}"
            );
        }
    }

    #[test]
    fn a_retry_after_date_is_no_length_without_a_clock() {
        let kept = Kept::new(&Head {
            status: 503,
            version: "1.1",
            headers: vec![("retry-after", b"Wed, 21 Oct 2026 07:28:00 GMT")],
        });
        assert_eq!(kept.retry_after, None);
    }
}
