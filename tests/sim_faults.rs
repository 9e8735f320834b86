//! What each fault of the embedded relay looks like to the probe, over a real socket and through
//! both HTTP clients: the truth table between the two halves of the project, which share no code.
#![cfg(all(feature = "probe", feature = "sim"))]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not seen as tests")]

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use relayproof::attribution::{Party, blame};
use relayproof::dialect::{Message, Prompt, Protocol};
use relayproof::expect::Expect;
use relayproof::observation::{Class, Ending, Limit, Loss, Observation, Phase};
use relayproof::plan::{ConnectionMode, HttpVersion, TransportKind};
use relayproof::probe::cancel::cancel_pair;
use relayproof::probe::clock::Clock;
use relayproof::probe::dial::{Dial, Request};
use relayproof::probe::tls::install_crypto;
use relayproof::probe::transport::Transport;
use relayproof::sim::{Fault, Params, Planned, Relay, Settings};
use relayproof::stream::{Asked, Exchange, Timeouts};
use url::Url;

/// What the probe says of one attempt, as far as the fault decides it.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    class: Option<Class>,
    ending: Ending,
    /// Phase in which the leading finding was made.
    phase: Phase,
    interrupted: bool,
    parse_ok: bool,
    party: Party,
    lost: Option<Loss>,
    timed_out: Option<Limit>,
}

impl Row {
    fn of(seen: &Observation) -> Self {
        let blame = blame(seen);
        Self {
            class: seen.class(),
            ending: seen.ending,
            phase: blame.phase,
            interrupted: seen.interrupted,
            parse_ok: seen.parse_ok,
            party: blame.party,
            lost: seen.lost,
            timed_out: seen.timed_out,
        }
    }
}

/// A whole, honest answer.
const HONEST: Row = Row {
    class: None,
    ending: Ending::Completed,
    phase: Phase::End,
    interrupted: false,
    parse_ok: true,
    party: Party::None,
    lost: None,
    timed_out: None,
};

/// Protocols that the embedded relay speaks.
const SPOKEN: &[Protocol] = &[
    Protocol::OpenaiChat,
    Protocol::OpenaiResponses,
    Protocol::AnthropicMessages,
    Protocol::Gemini,
];

const KINDS: [TransportKind; 2] = [TransportKind::Raw, TransportKind::Reqwest];

/// The row of the table: the same for both clients. A fault without one does not compile.
///
/// Rows are the same in every protocol unless they say otherwise: a fault is what was done to the
/// stream, and the classes mean the same whatever the wire text.
fn expected(protocol: Protocol, fault: &Fault) -> Row {
    let cut = Row {
        class: Some(Class::TruncatedNoTerminator),
        ending: Ending::Truncated,
        phase: Phase::Stream,
        interrupted: true,
        ..HONEST
    };
    let completed = |class, phase, party| Row {
        class: Some(class),
        phase,
        party,
        ..HONEST
    };
    let fake = |class, ending, interrupted, parse_ok| Row {
        class: Some(class),
        ending,
        phase: Phase::FirstEvent,
        interrupted,
        parse_ok,
        party: Party::RelayGateway,
        ..HONEST
    };
    match fault {
        Fault::SlowFirstToken { .. } => HONEST,
        // Only a relay can end its body in good order where the answer does not.
        Fault::Truncate { .. } => Row {
            party: match protocol {
                // The stream's own account has a message in progress: it was only let go of.
                Protocol::OpenaiResponses => Party::RelayGateway,
                Protocol::OpenaiChat | Protocol::AnthropicMessages | Protocol::Gemini => {
                    Party::RelayMiddleware
                }
            },
            ..cut
        },
        Fault::TruncateFin { .. } => Row {
            party: Party::Network,
            lost: Some(Loss::Closed),
            ..cut
        },
        Fault::TruncateRst { .. } => Row {
            party: Party::Network,
            lost: Some(Loss::Reset),
            ..cut
        },
        Fault::Stall { .. } => Row {
            class: Some(Class::Stalled),
            ending: Ending::Stalled,
            party: Party::Upstream,
            timed_out: Some(Limit::Idle),
            ..cut
        },
        Fault::ErrorInStream { .. } => Row {
            class: Some(Class::ErrorInStream),
            ending: Ending::Errored,
            parse_ok: false,
            party: Party::Upstream,
            ..cut
        },
        Fault::ErrorAsContent => {
            completed(Class::ErrorAsContent, Phase::End, Party::ConcurrencyOrKey)
        }
        Fault::Fake200 => Row {
            party: Party::RelayMiddleware,
            ..fake(Class::Fake200JsonError, Ending::Errored, false, false)
        },
        Fault::Fake200Empty => fake(Class::Fake200Empty, Ending::Malformed, true, true),
        Fault::Fake200Html => fake(Class::Fake200Html, Ending::Malformed, false, false),
        Fault::Status { .. } => Row {
            class: Some(Class::HttpError),
            ending: Ending::Refused,
            phase: Phase::Head,
            parse_ok: false,
            party: Party::Upstream,
            ..HONEST
        },
        Fault::MalformedJson { .. } => Row {
            parse_ok: false,
            ..completed(Class::MalformedJson, Phase::Stream, Party::RelayMiddleware)
        },
        Fault::SplitJson { .. } => Row {
            parse_ok: false,
            ..completed(
                Class::JsonSplitAcrossEvents,
                Phase::Stream,
                Party::RelayMiddleware,
            )
        },
        Fault::Buffer => completed(Class::NotStreamed, Phase::End, Party::RelayGateway),
        Fault::WrongModel => completed(
            Class::ModelMismatch,
            Phase::FirstEvent,
            Party::RelayMiddleware,
        ),
        Fault::DropSeal => completed(Class::MaskedTruncation, Phase::End, Party::RelayMiddleware),
        Fault::FakeDone { .. } => match protocol {
            Protocol::OpenaiChat | Protocol::AnthropicMessages => {
                completed(Class::SilentTruncation, Phase::Stream, Party::Upstream)
            }
            // No mark but the finish reason: what is left is an early end.
            Protocol::Gemini => Row {
                party: Party::RelayMiddleware,
                ..cut
            },
            // The end mark names its reason by itself, but the message is still open.
            Protocol::OpenaiResponses => Row {
                parse_ok: false,
                ..completed(
                    Class::SchemaViolation,
                    Phase::Stream,
                    Party::RelayMiddleware,
                )
            },
        },
    }
}

/// Classes that stand behind the leading one, in order.
fn also(protocol: Protocol, fault: &Fault) -> &'static [Class] {
    match (protocol, fault) {
        // The error's text has no seal, though the relay says that it is whole.
        (_, Fault::ErrorAsContent) => &[Class::MaskedTruncation],
        // The invented end has no usage either.
        (Protocol::OpenaiResponses, Fault::FakeDone { .. }) => {
            &[Class::UsageMismatch, Class::MaskedTruncation]
        }
        _ => &[],
    }
}

/// Every fault as it is tried here: those in mid-answer after three tokens, no long delay.
fn tried() -> Vec<Fault> {
    let after = Params {
        after_tokens: Some(3),
        ..Params::default()
    };
    let delay = Params {
        delay: Some(Duration::from_millis(80)),
        ..Params::default()
    };
    Fault::NAMES
        .iter()
        .map(|name| {
            [after, delay, Params::default()]
                .iter()
                .find_map(|params| Fault::from_parts(name, params).ok())
                .unwrap()
        })
        .collect()
}

/// Every fault in every protocol that is spoken.
fn every() -> impl Iterator<Item = (Protocol, Fault)> {
    let faults = tried();
    SPOKEN
        .iter()
        .flat_map(move |protocol| faults.clone().into_iter().map(|fault| (*protocol, fault)))
}

/// Too short an answer for anyone to call it one burst, however late a busy machine reads it.
const TOKENS: u32 = 12;

/// Long enough to have to come piece by piece.
const TOKENS_IN_A_BURST: u32 = 24;

fn settings(faults: Vec<Planned>, tls: bool) -> Settings {
    let burst = faults.iter().any(|planned| planned.fault == Fault::Buffer);
    Settings {
        first_token: Duration::from_millis(10),
        token_gap: Duration::from_millis(4),
        tokens: if burst { TOKENS_IN_A_BURST } else { TOKENS },
        tls,
        faults,
        ..Settings::default()
    }
}

/// Where `protocol` is asked: each official SDK has the version in its base URL or in its paths.
fn address(relay: &Relay, protocol: Protocol, model: &str) -> Url {
    let base = if protocol.has_version_in_base() {
        relay.base_url()
    } else {
        relay.origin()
    };
    let (path, query) = protocol.target(model, true);
    let mut url = Url::parse(&format!("{base}{path}")).unwrap();
    url.set_query(query);
    url
}

/// One attempt at `relay`, which the prompt asks for a seal.
async fn ask(relay: &Relay, protocol: Protocol, kind: TransportKind) -> Observation {
    let seal = "END-0123abcd";
    let prompt = Prompt {
        model: "test-model".to_owned(),
        messages: vec![Message {
            role: "user".to_owned(),
            content: format!("Count. End your answer with `{seal}`."),
        }],
        params: serde_json::Map::new(),
        stream: true,
        usage: true,
    };
    let max_tokens = protocol.budget(&prompt.params);
    let body = Bytes::from(protocol.body(&prompt));
    let url = address(relay, protocol, &prompt.model);
    let asked = Asked {
        protocol,
        stream: true,
        model: prompt.model,
        max_tokens,
        usage: true,
        seal: Some(seal.to_owned()),
        request_bytes: body.len() as u64,
        expect: Expect::default(),
        keep_text: false,
    };
    let limits = Timeouts {
        idle: Duration::from_secs(2),
        ..Timeouts::default()
    };
    let dial = Dial {
        connection: ConnectionMode::Fresh,
        http: HttpVersion::Auto,
        proxy: None,
        extra_ca_pem: relay
            .ca_pem()
            .map(|pem| pem.as_bytes().to_vec())
            .into_iter()
            .collect(),
    };
    let request = Request {
        url,
        headers: HeaderMap::from_iter([(
            http::header::CONTENT_TYPE,
            "application/json".parse().unwrap(),
        )]),
        body,
    };
    let transport = Transport::new(kind, &dial).unwrap();
    let mut exchange = Exchange::new(asked, limits);
    let (_switch, mut cancel) = cancel_pair();
    transport
        .attempt(&request, &mut exchange, &Clock::start(), &mut cancel)
        .await;
    exchange.finish()
}

/// Tries every fault through both clients at once, and compares all rows before it complains.
async fn compare(tls: bool) {
    install_crypto();
    let mut asked = Vec::new();
    for (protocol, fault) in every() {
        for kind in KINDS {
            let fault = fault.clone();
            asked.push(tokio::spawn(async move {
                let always = Planned {
                    fault: fault.clone(),
                    share_ppm: 1_000_000,
                };
                let relay = Relay::start(settings(vec![always], tls)).await.unwrap();
                let seen = ask(&relay, protocol, kind).await;
                assert_eq!(relay.requests(), 1);
                (protocol, fault, kind, seen)
            }));
        }
    }
    let mut wrong = Vec::new();
    for one in asked {
        let (protocol, fault, kind, seen) = one.await.unwrap();
        let (row, expected) = (Row::of(&seen), expected(protocol, &fault));
        let mut found: Vec<Class> = seen.findings.iter().map(|found| found.class).collect();
        // One class may have several signs.
        found.dedup();
        let foreseen = [expected.class.as_slice(), also(protocol, &fault)].concat();
        if row != expected || found != foreseen {
            wrong.push(format!(
                "{} in {protocol} through {kind:?}\n  is  {row:?}\n  not {expected:?}\n  {:?}",
                fault.name(),
                seen.findings
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_is_seen_for_what_it_is_by_both_clients() {
    compare(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_changes_nothing_about_what_is_seen() {
    compare(true).await;
}

#[tokio::test]
async fn an_honest_answer_is_ok_through_both_clients() {
    install_crypto();
    let relay = Relay::start(settings(Vec::new(), false)).await.unwrap();
    for protocol in SPOKEN {
        for kind in KINDS {
            let seen = ask(&relay, *protocol, kind).await;
            let findings = &seen.findings;
            assert_eq!(Row::of(&seen), HONEST, "{protocol} {kind:?}: {findings:?}");
            assert_eq!(seen.sealed, Some(true));
        }
    }
}
