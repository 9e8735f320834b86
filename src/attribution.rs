//! Whose fault: an ordered table of rules over one observation, order is meaning.
//!
//! Claims no more than was seen: a party is where to look first, not a verdict. Sees facts only
//! (classes, statuses, phases, kinds of errors), never bytes, and compares nothing across samples.

pub mod groups;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::forms::named;
use crate::observation::{Class, ErrorKind, Limit, Loss, Observation, Phase, Warning};

named! {
    /// Who to look at.
    Party {
        /// Nobody: the answer is fine.
        None = "none",
        /// The relay's edge.
        RelayGateway = "relay-gateway",
        /// Concurrency limits, the key, or its balance.
        ConcurrencyOrKey = "concurrency-or-key",
        /// The relay's stream-rewriting middleware.
        RelayMiddleware = "relay-middleware",
        /// The model service behind the relay.
        Upstream = "upstream",
        /// The network between us and the relay.
        Network = "network",
        /// Our side: URL, model, key, TLS settings.
        Client = "client",
    }
}

/// Where to look for the cause of one attempt's leading finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Blame {
    /// Who to look at.
    pub party: Party,
    /// Phase of the leading finding.
    pub phase: Phase,
    /// Name of the rule that said so.
    pub rule: &'static str,
}

struct Rule {
    name: &'static str,
    /// When it holds, in words; Markdown.
    meaning: &'static str,
    /// What to try where it points at our own side or what stands between; Markdown.
    way_out: &'static str,
    /// The same in at most [`HINT`] characters; empty where that is.
    hint: &'static str,
    party: Party,
    holds: fn(&Seen<'_>) -> bool,
}

/// An observation with a leading class.
struct Seen<'a> {
    class: Class,
    attempt: &'a Observation,
}

/// Who to look at for what is wrong with an attempt; [`Party::None`] when nothing is.
pub fn blame(attempt: &Observation) -> Blame {
    let leading = attempt.findings.iter().min_by_key(|found| found.class);
    let Some(leading) = leading else {
        return Blame {
            party: Party::None,
            phase: attempt.last_phase,
            rule: "no-finding",
        };
    };
    let seen = Seen {
        class: leading.class,
        attempt,
    };
    let rule = RULES.iter().find(|rule| (rule.holds)(&seen));
    let (party, name) = rule.map_or((Party::RelayMiddleware, REST), |rule| {
        (rule.party, rule.name)
    });
    Blame {
        party,
        phase: leading.phase,
        rule: name,
    }
}

/// What is left is what only a relay that rewrites the stream can cause: framing, merging,
/// splitting, invented or missing marks, wrong shapes, wrong labels.
const REST: &str = "rewritten-stream";

/// A rule in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleWords {
    /// Its name.
    pub name: &'static str,
    /// Whom it points at.
    pub party: Party,
    /// When it holds, in Markdown.
    pub meaning: &'static str,
    /// What to try, where something can be tried on our side; else empty.
    pub way_out: &'static str,
}

/// What to try after an attempt, where something can be tried on our side; Markdown.
pub fn way_out(attempt: &Observation) -> Option<&'static str> {
    said(attempt, |rule| rule.way_out)
}

/// [`way_out`] for a line that has little room; Markdown.
pub fn hint(attempt: &Observation) -> Option<&'static str> {
    said(attempt, |rule| rule.hint)
}

fn said(attempt: &Observation, text: fn(&Rule) -> &'static str) -> Option<&'static str> {
    let name = blame(attempt).rule;
    let rule = RULES.iter().find(|rule| rule.name == name);
    rule.map(text).filter(|it| !it.is_empty())
}

/// The rules in their order; the last one holds where no other does.
pub fn rules() -> impl Iterator<Item = RuleWords> {
    let rest = RuleWords {
        name: REST,
        party: Party::RelayMiddleware,
        meaning: "what is left: framing, merged or split events, invented or missing marks, wrong \
                  shapes and labels",
        way_out: "",
    };
    let named = RULES.iter().map(|rule| RuleWords {
        name: rule.name,
        party: rule.party,
        meaning: rule.meaning,
        way_out: rule.way_out,
    });
    named.chain([rest])
}

/// The rules, first match wins.
const RULES: &[Rule] = &[
    Rule {
        name: "own-tls-to-plain-port",
        meaning: "TLS was spoken to a port that does not speak it: the URL says `https` and means `http`",
        way_out: "write `http://` in the base URL, or the port that speaks TLS",
        hint: "write `http://` in the base URL, or the port that speaks TLS",
        party: Party::Client,
        holds: |seen| seen.is(Class::TlsFailure) && seen.attempt.lost == Some(Loss::Tls),
    },
    Rule {
        name: "own-plain-to-tls-port",
        meaning: "plain HTTP was spoken to a port that does not speak it: the URL says `http` and means `https`",
        way_out: "write `https://` in the base URL, or the port that speaks plain HTTP",
        hint: "write `https://` in the base URL, or the plain port",
        party: Party::Client,
        holds: |seen| {
            let attempt = seen.attempt;
            let said =
                seen.is(Class::HttpError) && attempt.error_kind == Some(ErrorKind::PlainHttp);
            let encrypted =
                attempt.timeline.tls.is_some() || attempt.connection.tls_version.is_some();
            (said || attempt.lost == Some(Loss::NoHttp)) && !encrypted
        },
    },
    Rule {
        name: "own-request-refused",
        meaning: "404 or 405, or another 4xx about the request itself: URL, model or parameters are wrong",
        way_out: "check the base URL (with `/v1` for the OpenAI protocols, without it for the others), the protocol, the model's name and `params`",
        hint: "check the base URL (`/v1`?), protocol, model and `params`",
        party: Party::Client,
        holds: |seen| {
            let about_us = match seen.attempt.status {
                Some(404 | 405) => true,
                Some(400..=499) => !seen.is_page(),
                _ => false,
            };
            let kind = seen.attempt.error_kind;
            let plain = matches!(
                kind,
                None | Some(ErrorKind::Other | ErrorKind::UnknownModel | ErrorKind::Page)
            );
            seen.is(Class::HttpError)
                && about_us
                && plain
                && !matches!(seen.attempt.status, Some(408 | 409 | 425 | 429))
                && !seen.is_stream_type()
        },
    },
    Rule {
        name: "own-total-limit",
        meaning: "our own `total` limit passed while output was flowing",
        way_out: "raise `timeouts.total`, or lower `max_tokens`",
        hint: "raise `timeouts.total`, or lower `max_tokens`",
        party: Party::Client,
        holds: |seen| {
            let flowing = seen.attempt.timeline.last_token.is_some_and(|last| {
                seen.attempt.timeline.over.saturating_sub(last).as_millis() < FLOWING_MS
            });
            seen.is(Class::Stalled) && seen.attempt.timed_out == Some(Limit::Total) && flowing
        },
    },
    Rule {
        name: "certificate-not-yet-valid",
        meaning: "the certificate of the relay begins to be valid later than this machine's clock says it is: the clock is behind",
        way_out: "set this machine's clock (`date -u` says what it shows); if it is right, the relay's certificate was put in place too early",
        hint: "set this machine's clock (`date -u`): it is likely behind",
        party: Party::Client,
        holds: |seen| seen.attempt.lost == Some(Loss::CertificateEarly),
    },
    Rule {
        name: "certificate-expired",
        meaning: "the certificate of the relay has expired by this machine's clock: the clock is ahead, or the certificate was not renewed",
        way_out: "check this machine's clock first (`date -u` says what it shows); if it is right, the relay has to renew its certificate",
        hint: "check this machine's clock (`date -u`), then the certificate",
        party: Party::RelayGateway,
        holds: |seen| seen.attempt.lost == Some(Loss::CertificateLate),
    },
    Rule {
        name: "untrusted-certificate",
        meaning: "the certificate of the relay is not accepted: wrong name, or of an unknown authority",
        way_out: "if it is your own authority, trust it: `tls: { ca_file: FILE }` in a spec, `--ca-file` of `probe`; a name that does not match is the relay's",
        hint: "trust your own authority: `ca_file`; the name has to match",
        party: Party::RelayGateway,
        holds: |seen| seen.attempt.lost == Some(Loss::Certificate),
    },
    Rule {
        name: "no-connection",
        meaning: "no connection stood, or it ended before any answer: DNS, TCP or TLS",
        way_out: "check scheme, host and port of the base URL; where only a proxy leads out, `proxy: env` in a spec, `--proxy env` of `probe`",
        hint: "check scheme, host and port; is `proxy: env` missing?",
        party: Party::Network,
        holds: |seen| {
            let connecting = [
                Class::DnsFailure,
                Class::ConnectRefused,
                Class::TlsFailure,
                Class::NoResponse,
            ];
            connecting.contains(&seen.class)
        },
    },
    Rule {
        name: "no-byte-came-back",
        meaning: "the request was sent and not one byte came back in time",
        way_out: "check scheme and port of the base URL; if it is only slow, raise `timeouts.headers`",
        hint: "check scheme and port, or raise `timeouts.headers`",
        party: Party::Network,
        holds: |seen| seen.is(Class::Stalled) && seen.attempt.status.is_none(),
    },
    Rule {
        name: "connection-lost-in-the-body",
        meaning: "the connection was reset or closed inside the body's framing",
        way_out: "",
        hint: "",
        party: Party::Network,
        holds: |seen| seen.is(Class::TruncatedNoTerminator) && seen.attempt.lost.is_some(),
    },
    Rule {
        name: "limit-or-key-status",
        meaning: "429, 402, 401 or 403, or a status whose error is about a limit, a quota or the key",
        way_out: "check the key that is sent, its balance and what it may do; after 429 lower `sampling.rate`",
        hint: "check key, balance and rights; lower `sampling.rate`",
        party: Party::ConcurrencyOrKey,
        holds: |seen| {
            let status = match seen.attempt.status {
                Some(429 | 402) => true,
                Some(401 | 403) => !seen.is_page(),
                _ => false,
            };
            seen.is(Class::HttpError) && (status || seen.is_limited())
        },
    },
    Rule {
        name: "limit-or-key-said",
        meaning: "200, and the error in its place is about a limit, a quota or the key",
        way_out: "check the key that is sent, its balance and what it may do, or lower `sampling.rate`",
        hint: "check key, balance and rights; lower `sampling.rate`",
        party: Party::ConcurrencyOrKey,
        holds: |seen| seen.is_said() && seen.is_limited(),
    },
    Rule {
        name: "edge-status-or-page",
        meaning: "3xx, 408, 502, 503, 504, 52x, a page, or an error that says there is no route to the model",
        way_out: "",
        hint: "",
        party: Party::RelayGateway,
        holds: |seen| {
            let edge = match seen.attempt.status {
                Some(300..=399 | 408 | 502 | 504 | 520..=527 | 530) => true,
                Some(503) => seen.attempt.error_kind != Some(ErrorKind::Overloaded),
                _ => false,
            };
            seen.is(Class::HttpError) && (edge || seen.is_page() || seen.is_unrouted())
        },
    },
    Rule {
        name: "page-in-place-of-the-answer",
        meaning: "200 with a web page of a gateway, a login or a challenge",
        way_out: "check the base URL: it may be the relay's web site, or need `/v1`",
        hint: "check the base URL: is it a web site's, or without `/v1`?",
        party: Party::RelayGateway,
        holds: |seen| seen.is(Class::Fake200Html) || (seen.is_said() && seen.is_page()),
    },
    Rule {
        name: "no-route-said",
        meaning: "200, and the error in its place says that there is no route to the model",
        way_out: "",
        hint: "",
        party: Party::RelayGateway,
        holds: |seen| seen.is_said() && seen.is_unrouted(),
    },
    Rule {
        name: "nothing-came-through",
        meaning: "200, and nothing at all in the body",
        way_out: "",
        hint: "",
        party: Party::RelayGateway,
        holds: |seen| seen.is(Class::Fake200Empty) && seen.attempt.timeline.end_mark.is_none(),
    },
    Rule {
        name: "kept-warm-by-heartbeats",
        meaning: "no output, and heartbeats kept the connection open meanwhile",
        way_out: "",
        hint: "",
        party: Party::RelayGateway,
        holds: |seen| seen.is(Class::Stalled) && seen.attempt.counts.idle_comments > 0,
    },
    Rule {
        name: "buffered-whole",
        meaning: "the whole answer was let go in one burst",
        way_out: "",
        hint: "",
        party: Party::RelayGateway,
        holds: |seen| {
            let packets = &seen.attempt.packets;
            let spread = match (packets.first, packets.last) {
                (Some(first), Some(last)) => last.saturating_sub(first).as_millis() < BURST_MS,
                _ => false,
            };
            seen.is(Class::NotStreamed) && spread
        },
    },
    Rule {
        name: "upstream-status",
        meaning: "another 5xx",
        way_out: "",
        hint: "",
        party: Party::Upstream,
        holds: |seen| {
            seen.is(Class::HttpError)
                && matches!(seen.attempt.status, Some(500..))
                && seen.attempt.error_kind != Some(ErrorKind::Guardrail)
        },
    },
    Rule {
        name: "upstream-error-said",
        meaning: "an error said in the stream that is not about limits, keys, routes or pages",
        way_out: "",
        hint: "",
        party: Party::Upstream,
        holds: |seen| {
            let kind = seen.attempt.error_kind;
            (seen.is(Class::ErrorInStream) && kind != Some(ErrorKind::Guardrail))
                || (seen.is_said() && kind == Some(ErrorKind::Overloaded))
        },
    },
    Rule {
        name: "generation-broke",
        meaning: "an admitted break, an ending without a finish reason, an empty answer, or silence",
        way_out: "",
        hint: "",
        party: Party::Upstream,
        holds: |seen| {
            let broke = [
                Class::UpstreamAbort,
                Class::SilentTruncation,
                Class::EmptyAnswer,
                Class::Fake200Empty,
                Class::Stalled,
            ];
            broke.contains(&seen.class)
        },
    },
    Rule {
        name: "provider-filter",
        meaning: "cut off by a filter of the provider's",
        way_out: "",
        hint: "",
        party: Party::Upstream,
        holds: |seen| {
            let put_by_relay = seen.attempt.error_kind == Some(ErrorKind::Guardrail);
            seen.is(Class::ContentFiltered) && !put_by_relay
        },
    },
    Rule {
        name: "generation-broke-in-a-tool-call",
        meaning: "the body ended inside a tool call, at the end of an event",
        way_out: "",
        hint: "",
        party: Party::Upstream,
        holds: |seen| {
            let inside_event = seen
                .attempt
                .warnings
                .contains(&Warning::UnfinishedLastEvent);
            seen.is(Class::TruncatedNoTerminator)
                && seen.attempt.counts.tool_calls > 0
                && seen.attempt.finish_reason.is_none()
                && !inside_event
        },
    },
    Rule {
        // Whoever writes such a stream would have closed it; it was only let go of.
        name: "let-go-between-events",
        meaning: "the body ended in good order while an item was said to be in progress",
        way_out: "",
        hint: "",
        party: Party::RelayGateway,
        holds: |seen| {
            let warnings = &seen.attempt.warnings;
            seen.is(Class::TruncatedNoTerminator)
                && warnings.contains(&Warning::LeftOpen)
                && !warnings.contains(&Warning::UnfinishedLastEvent)
        },
    },
];

/// Longest short form of a way out: what a failure's block has room for behind `try: `.
pub const HINT: usize = 61;

/// A stream with output this recently was flowing.
const FLOWING_MS: u128 = 1000;

/// A whole answer within this time came out of one buffer.
const BURST_MS: u128 = 50;

impl Seen<'_> {
    fn is(&self, class: Class) -> bool {
        self.class == class
    }

    /// An error that was said in place of, or inside, a 2xx answer.
    fn is_said(&self) -> bool {
        matches!(
            self.class,
            Class::Fake200JsonError | Class::ErrorInStream | Class::ErrorAsContent
        )
    }

    fn is_limited(&self) -> bool {
        matches!(
            self.attempt.error_kind,
            Some(ErrorKind::RateLimit | ErrorKind::Quota | ErrorKind::Key)
        )
    }

    fn is_unrouted(&self) -> bool {
        self.attempt.error_kind == Some(ErrorKind::NoChannel)
    }

    fn is_page(&self) -> bool {
        self.attempt.error_kind == Some(ErrorKind::Page) || self.has_type("text/html")
    }

    fn is_stream_type(&self) -> bool {
        self.has_type("text/event-stream")
    }

    fn has_type(&self, wanted: &str) -> bool {
        self.attempt.headers.iter().any(|(name, value)| {
            name == "content-type" && value.trim_start().to_ascii_lowercase().starts_with(wanted)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    /// An attempt with one finding of `class`, and whatever `facts` say of it.
    fn attempt(class: Class, facts: &Value) -> Observation {
        let mut record = json!({
            "timeline": {"over_us": 9_000_000},
            "ending": "completed",
            "last_phase": "end",
            "findings": [{"class": class, "phase": "stream"}],
            "parse_ok": true,
            "interrupted": false,
            "packets": {},
            "counts": {},
            "connection": {},
        });
        for (name, value) in facts.as_object().unwrap() {
            record[name] = value.clone();
        }
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn every_rule_holds_where_it_should() {
        let page = json!([["content-type", "text/html; charset=utf-8"]]);
        let events = json!([["content-type", "text/event-stream"]]);
        let table = [
            (
                "own-tls-to-plain-port",
                Class::TlsFailure,
                json!({"lost": "tls"}),
            ),
            (
                "own-plain-to-tls-port",
                Class::HttpError,
                json!({"status": 400, "headers": page, "error_kind": "plain-http"}),
            ),
            (
                "own-plain-to-tls-port",
                Class::ProtocolViolation,
                json!({"lost": "no-http"}),
            ),
            (
                "own-request-refused",
                Class::HttpError,
                json!({"status": 404}),
            ),
            (
                "own-request-refused",
                Class::HttpError,
                json!({"status": 404, "headers": page, "error_kind": "page"}),
            ),
            (
                "own-request-refused",
                Class::HttpError,
                json!({"status": 400, "error_kind": "other"}),
            ),
            (
                "own-total-limit",
                Class::Stalled,
                json!({
                    "status": 200,
                    "timed_out": "total",
                    "timeline": {"over_us": 9_000_000, "last_token_us": 8_900_000},
                }),
            ),
            (
                "certificate-not-yet-valid",
                Class::TlsFailure,
                json!({"lost": "certificate-not-yet-valid"}),
            ),
            (
                "certificate-expired",
                Class::TlsFailure,
                json!({"lost": "certificate-expired"}),
            ),
            (
                "untrusted-certificate",
                Class::TlsFailure,
                json!({"lost": "certificate"}),
            ),
            ("no-connection", Class::TlsFailure, json!({"lost": "reset"})),
            ("no-connection", Class::DnsFailure, json!({"lost": "dns"})),
            (
                "no-connection",
                Class::ConnectRefused,
                json!({"timed_out": "connect"}),
            ),
            (
                "no-connection",
                Class::NoResponse,
                json!({"lost": "closed"}),
            ),
            (
                "no-byte-came-back",
                Class::Stalled,
                json!({"timed_out": "headers"}),
            ),
            (
                "connection-lost-in-the-body",
                Class::TruncatedNoTerminator,
                json!({"status": 200, "lost": "reset"}),
            ),
            (
                "limit-or-key-status",
                Class::HttpError,
                json!({"status": 429}),
            ),
            (
                "limit-or-key-status",
                Class::HttpError,
                json!({"status": 401, "error_kind": "key"}),
            ),
            (
                "limit-or-key-status",
                Class::HttpError,
                json!({"status": 503, "error_kind": "rate-limit"}),
            ),
            (
                "limit-or-key-said",
                Class::ErrorInStream,
                json!({"error_kind": "rate-limit"}),
            ),
            (
                "limit-or-key-said",
                Class::ErrorAsContent,
                json!({"error_kind": "quota"}),
            ),
            (
                "limit-or-key-said",
                Class::Fake200JsonError,
                json!({"error_kind": "key"}),
            ),
            (
                "edge-status-or-page",
                Class::HttpError,
                json!({"status": 502}),
            ),
            (
                "edge-status-or-page",
                Class::HttpError,
                json!({"status": 302}),
            ),
            (
                "edge-status-or-page",
                Class::HttpError,
                json!({"status": 403, "headers": page, "error_kind": "page"}),
            ),
            (
                "edge-status-or-page",
                Class::HttpError,
                json!({"status": 500, "error_kind": "no-channel"}),
            ),
            ("page-in-place-of-the-answer", Class::Fake200Html, json!({})),
            (
                "page-in-place-of-the-answer",
                Class::ErrorInStream,
                json!({"error_kind": "page"}),
            ),
            (
                "no-route-said",
                Class::ErrorAsContent,
                json!({"error_kind": "no-channel"}),
            ),
            (
                "nothing-came-through",
                Class::Fake200Empty,
                json!({"status": 200}),
            ),
            (
                "kept-warm-by-heartbeats",
                Class::Stalled,
                json!({"status": 200, "counts": {"idle_comments": 3}}),
            ),
            (
                "buffered-whole",
                Class::NotStreamed,
                json!({"packets": {"count": 1, "first_us": 500, "last_us": 500}}),
            ),
            (
                "upstream-status",
                Class::HttpError,
                json!({"status": 500, "error_kind": "other"}),
            ),
            (
                "upstream-status",
                Class::HttpError,
                json!({"status": 503, "error_kind": "overloaded"}),
            ),
            (
                "upstream-error-said",
                Class::ErrorInStream,
                json!({"error_kind": "other"}),
            ),
            (
                "upstream-error-said",
                Class::ErrorAsContent,
                json!({"error_kind": "overloaded"}),
            ),
            ("generation-broke", Class::UpstreamAbort, json!({})),
            ("generation-broke", Class::SilentTruncation, json!({})),
            ("generation-broke", Class::EmptyAnswer, json!({})),
            ("generation-broke", Class::Stalled, json!({"status": 200})),
            (
                "generation-broke",
                Class::Fake200Empty,
                json!({"timeline": {"over_us": 9, "end_mark_us": 8}}),
            ),
            ("provider-filter", Class::ContentFiltered, json!({})),
            (
                "generation-broke-in-a-tool-call",
                Class::TruncatedNoTerminator,
                json!({"status": 200, "counts": {"tool_calls": 1}}),
            ),
            (
                "let-go-between-events",
                Class::TruncatedNoTerminator,
                json!({"status": 200, "warnings": ["left-open"]}),
            ),
            (REST, Class::TruncatedNoTerminator, json!({"status": 200})),
            (
                REST,
                Class::TruncatedNoTerminator,
                json!({"status": 200, "warnings": ["unfinished-last-event", "left-open"]}),
            ),
            (
                REST,
                Class::TruncatedNoTerminator,
                json!({
                    "status": 200,
                    "counts": {"tool_calls": 1},
                    "warnings": ["unfinished-last-event"],
                }),
            ),
            (
                REST,
                Class::ContentFiltered,
                json!({"error_kind": "guardrail"}),
            ),
            (REST, Class::ErrorAsContent, json!({"error_kind": "other"})),
            (
                REST,
                Class::Fake200JsonError,
                json!({"error_kind": "other"}),
            ),
            (
                REST,
                Class::HttpError,
                json!({"status": 400, "headers": events}),
            ),
            (
                "edge-status-or-page",
                Class::HttpError,
                json!({
                    "status": 400,
                    "headers": page,
                    "error_kind": "plain-http",
                    "connection": {"tls_version": "1.3"},
                }),
            ),
            (REST, Class::NotStreamed, json!({})),
            (REST, Class::ProtocolViolation, json!({"status": 200})),
            (REST, Class::MaskedTruncation, json!({"status": 200})),
        ];
        for (rule, class, facts) in &table {
            assert_eq!(
                blame(&attempt(*class, facts)).rule,
                *rule,
                "{class} {facts}"
            );
        }
        let shown: BTreeSet<_> = table.iter().map(|(rule, ..)| *rule).collect();
        let all: BTreeSet<_> = RULES.iter().map(|rule| rule.name).chain([REST]).collect();
        assert_eq!(shown, all);
    }

    #[test]
    fn every_way_out_has_a_short_form_that_fits_a_line() {
        for rule in RULES {
            assert_eq!(
                rule.way_out.is_empty(),
                rule.hint.is_empty(),
                "{}",
                rule.name
            );
            assert!(rule.hint.chars().count() <= HINT, "{}", rule.hint);
        }
    }

    #[test]
    fn a_whole_answer_is_nobodys_fault() {
        let fine = attempt(Class::Stalled, &json!({"findings": []}));
        let seen = blame(&fine);
        assert_eq!((seen.party, seen.phase), (Party::None, Phase::End));
    }

    #[test]
    fn the_leading_finding_says_the_phase() {
        let facts = json!({"findings": [
            {"class": "usage-mismatch", "phase": "end"},
            {"class": "error-in-stream", "phase": "first_token"},
        ]});
        let seen = blame(&attempt(Class::Stalled, &facts));
        assert_eq!(
            (seen.party, seen.phase),
            (Party::Upstream, Phase::FirstToken)
        );
    }

    #[test]
    fn a_total_limit_that_passes_in_silence_is_not_ours() {
        let facts = json!({
            "status": 200,
            "timed_out": "total",
            "timeline": {"over_us": 9_000_000, "last_token_us": 2_000_000},
        });
        assert_eq!(
            blame(&attempt(Class::Stalled, &facts)).party,
            Party::Upstream
        );
    }
}
