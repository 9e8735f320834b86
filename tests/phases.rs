//! The reqwest transport against real sockets: every phase is seen where it happens and is absent
//! where it does not, and a failure or a time limit is reported in the phase that it struck.
//!
//! Lower bounds are hard (a delay of 60 ms cannot be measured as 59), upper bounds are seconds.

#![cfg(all(feature = "probe", feature = "sim"))]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are not seen as tests"
)]

#[path = "phases/servers.rs"]
mod servers;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use relayproof::dialect::Protocol;
use relayproof::expect::Expect;
use relayproof::observation::{Class, Ending, Limit, Observation, Phase, Stretch};
use relayproof::plan::{ConnectionMode, HttpVersion};
use relayproof::probe::cancel::{Cancel, cancel_pair};
use relayproof::probe::clock::Clock;
use relayproof::probe::dial::{Dial, DialError, Request};
use relayproof::probe::hooks::ConnectEvents;
use relayproof::probe::reqwest_client::ReqwestTransport;
use relayproof::probe::transport::Transport;
use relayproof::stream::{Asked, Exchange, Timeouts};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tracing_subscriber::layer::SubscriberExt;
use url::Url;

use servers::{Authority, End, ProxyScript, Relay, Script, proxy};

const CANARY: &str = "sk-canary-0123456789";

/// The delay that the servers add where a test wants one.
const DELAY: Duration = Duration::from_millis(60);

fn install_events() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(ConnectEvents::layer());
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

fn dial() -> Dial {
    install_events();
    Dial {
        connection: ConnectionMode::Fresh,
        http: HttpVersion::Auto,
        proxy: None,
        extra_ca_pem: Vec::new(),
    }
}

fn client(dial: &Dial) -> ReqwestTransport {
    ReqwestTransport::new(dial).unwrap()
}

fn request(url: &str) -> Request {
    let mut headers = HeaderMap::new();
    let mut key = HeaderValue::from_str(&format!("Bearer {CANARY}")).unwrap();
    key.set_sensitive(true);
    headers.insert(header::AUTHORIZATION, key);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Request {
        url: Url::parse(url).unwrap(),
        headers,
        body: Bytes::from_static(br#"{"model":"test-model","stream":true,"messages":[]}"#),
    }
}

fn asked() -> Asked {
    Asked {
        protocol: Protocol::OpenaiChat,
        stream: true,
        model: "test-model".to_owned(),
        max_tokens: Some(64),
        usage: false,
        seal: None,
        request_bytes: 50,
        expect: Expect::default(),
        keep_text: true,
    }
}

async fn observe_with(
    client: &ReqwestTransport,
    url: &str,
    timeouts: Timeouts,
    cancel: &mut Cancel,
) -> Observation {
    let mut exchange = Exchange::new(asked(), timeouts);
    let clock = Clock::start();
    client
        .attempt(&request(url), &mut exchange, &clock, cancel)
        .await;
    exchange.finish()
}

async fn observe(client: &ReqwestTransport, url: &str) -> Observation {
    let (_switch, mut cancel) = cancel_pair();
    observe_with(client, url, Timeouts::default(), &mut cancel).await
}

async fn observe_limited(url: &str, dial: &Dial, timeouts: Timeouts) -> Observation {
    let (_switch, mut cancel) = cancel_pair();
    observe_with(&client(dial), url, timeouts, &mut cancel).await
}

fn http(address: SocketAddr) -> String {
    format!("http://{address}/v1/chat/completions")
}

/// A whole answer, and what is true of every one.
fn whole(seen: &Observation) {
    assert_eq!(seen.findings, [], "{seen:#?}");
    assert_eq!(seen.ending, Ending::Completed);
    assert_eq!(seen.text.as_deref(), Some("one two"));
    let line = &seen.timeline;
    assert_eq!(line.first_byte, None, "reqwest cannot show it");
    let mut last = Duration::ZERO;
    let stretches = [
        line.pool,
        line.dns,
        line.connect,
        line.tunnel,
        line.tls,
        line.send,
    ];
    for stretch in stretches.into_iter().flatten() {
        let end = stretch.end.expect("every phase of a whole answer ends");
        assert!(last <= stretch.start && stretch.start <= end, "{line:#?}");
        last = end;
    }
    let marks = [
        line.head,
        line.first_chunk,
        line.first_event,
        line.first_token,
        line.last_token,
        line.end_mark,
        Some(line.over),
    ];
    for mark in marks {
        let mark = mark.expect("a whole answer has every mark");
        assert!(last <= mark, "{line:#?}");
        last = mark;
    }
    assert!(last < Duration::from_secs(20));
}

/// Lets everything else run until it is so.
async fn until(so: impl Fn() -> bool) {
    while !so() {
        tokio::task::yield_now().await;
    }
}

fn length(stretch: Option<Stretch>) -> Duration {
    stretch.and_then(|stretch| stretch.length()).unwrap()
}

#[tokio::test]
async fn an_address_is_dialled_without_name_resolution_or_tls() {
    let relay = Relay::start(Script::default()).await;
    let seen = observe(&client(&dial()), &http(relay.address)).await;
    whole(&seen);
    let line = &seen.timeline;
    assert!(line.dns.is_none() && line.tls.is_none() && line.tunnel.is_none());
    assert!(line.connect.is_some() && line.send.is_some() && line.pool.is_none());
    assert_eq!(seen.connection.reused, Some(false));
    assert_eq!(seen.connection.peer, Some(relay.address.to_string()));
    assert_eq!(seen.connection.http_version.as_deref(), Some("1.1"));
    assert_eq!(seen.connection.tls_version, None);
    assert_eq!(seen.connection.dns_name, None);
    let tried = &seen.connection.tried;
    assert_eq!(tried.len(), 1, "{tried:?}");
    assert_eq!(tried[0].address, relay.address.to_string());
    assert!(tried[0].connected && tried[0].end.is_some());
}

#[tokio::test]
async fn a_name_is_resolved_first_and_its_addresses_are_noted() {
    let relay = Relay::start(Script::default()).await;
    let url = format!("http://localhost:{}/v1", relay.address.port());
    let seen = observe(&client(&dial()), &url).await;
    whole(&seen);
    assert!(seen.timeline.dns.is_some());
    assert_eq!(seen.connection.dns_name.as_deref(), Some("localhost"));
    assert!(seen.connection.addresses.contains(&"127.0.0.1".to_owned()));
}

#[tokio::test]
async fn the_request_carries_its_headers_and_nothing_that_asks_for_an_encoding() {
    let relay = Relay::start(Script::default()).await;
    observe(&client(&dial()), &http(relay.address)).await;
    let head = relay.heads().remove(0);
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"));
    assert!(head.contains(&format!("\r\nauthorization: bearer {CANARY}\r\n")));
    assert!(head.contains(&format!(
        "\r\nuser-agent: relayproof/{}",
        env!("CARGO_PKG_VERSION")
    )));
    assert!(!head.contains("accept-encoding"));
    assert!(!head.contains("transfer-encoding"));
}

#[tokio::test]
async fn each_delay_is_measured_in_its_own_phase() {
    let authority = Authority::new();
    let relay = Relay::start(Script {
        tls: Some(authority.serve(&["127.0.0.1"], &["http/1.1"])),
        tls_delay: DELAY,
        head_delay: DELAY * 2,
        token_delay: DELAY * 3,
        ..Script::default()
    })
    .await;
    let mut dial = dial();
    dial.extra_ca_pem.push(authority.pem.clone());
    let url = format!("https://{}/v1", relay.address);
    let seen = observe(&client(&dial), &url).await;
    whole(&seen);
    let line = &seen.timeline;
    assert!(length(line.tls) >= DELAY, "{line:#?}");
    let sent = line.send.and_then(|send| send.end).unwrap();
    let head = line.head.unwrap();
    assert!(head - sent >= DELAY * 2, "{line:#?}");
    assert!(line.first_event.unwrap() - sent >= DELAY * 2, "{line:#?}");
    assert!(line.first_token.unwrap() - sent >= DELAY * 5, "{line:#?}");
    assert_eq!(seen.connection.tls_version.as_deref(), Some("1.3"));
    assert_eq!(seen.connection.resumed, Some(false));
}

#[tokio::test]
async fn an_older_tls_version_is_timed_and_named_as_well() {
    let authority = Authority::new();
    let relay = Relay::start(Script {
        tls: Some(authority.serve_versions(
            &[&rustls::version::TLS12],
            &["127.0.0.1"],
            &["http/1.1"],
        )),
        tls_delay: DELAY,
        ..Script::default()
    })
    .await;
    let mut dial = dial();
    dial.extra_ca_pem.push(authority.pem.clone());
    let client = client(&dial);
    for _ in 0..2 {
        let seen = observe(&client, &format!("https://{}/v1", relay.address)).await;
        whole(&seen);
        assert!(length(seen.timeline.tls) >= DELAY);
        assert_eq!(seen.connection.tls_version.as_deref(), Some("1.2"));
        assert_eq!(seen.connection.resumed, Some(false));
    }
}

#[tokio::test]
async fn fresh_requests_open_a_connection_each_and_never_resume_tls() {
    let authority = Authority::new();
    let relay = Relay::start(Script {
        tls: Some(authority.serve(&["127.0.0.1"], &["http/1.1"])),
        ..Script::default()
    })
    .await;
    let mut dial = dial();
    dial.extra_ca_pem.push(authority.pem.clone());
    let client = client(&dial);
    for _ in 0..3 {
        let seen = observe(&client, &format!("https://{}/v1", relay.address)).await;
        whole(&seen);
        assert!(seen.timeline.tls.is_some());
        assert_eq!(seen.connection.reused, Some(false));
        assert_eq!(seen.connection.resumed, Some(false));
        // Seen only in a full handshake.
        assert_eq!(seen.connection.tls_version.as_deref(), Some("1.3"));
    }
    assert_eq!(relay.connections(), 3);
}

#[tokio::test]
async fn reused_connections_have_neither_dns_nor_connect_nor_tls() {
    let authority = Authority::new();
    let relay = Relay::start(Script {
        tls: Some(authority.serve(&["localhost"], &["http/1.1"])),
        ..Script::default()
    })
    .await;
    let mut dial = dial();
    dial.connection = ConnectionMode::Reuse;
    dial.extra_ca_pem.push(authority.pem.clone());
    let client = client(&dial);
    let url = format!("https://localhost:{}/v1", relay.address.port());
    let first = observe(&client, &url).await;
    whole(&first);
    assert_eq!(first.connection.reused, Some(false));
    assert!(first.timeline.tls.is_some() && first.timeline.pool.is_none());
    for _ in 0..2 {
        let seen = observe(&client, &url).await;
        whole(&seen);
        let line = &seen.timeline;
        assert_eq!(seen.connection.reused, Some(true));
        assert!(line.dns.is_none() && line.connect.is_none() && line.tls.is_none());
        assert!(line.pool.is_some() && line.send.is_some());
        // Facts of the connection are known from its first request.
        assert_eq!(seen.connection.tls_version.as_deref(), Some("1.3"));
        assert_eq!(seen.connection.peer, Some(relay.address.to_string()));
    }
    assert_eq!(relay.connections(), 1);
}

#[tokio::test]
async fn a_request_that_gets_anothers_connection_while_its_own_is_opening_only_waited_for_it() {
    let authority = Authority::new();
    let gate = Arc::new(Semaphore::new(0));
    let relay = Relay::start(Script {
        tls: Some(authority.serve(&["localhost"], &["http/1.1"])),
        gate: Some(Arc::clone(&gate)),
        live_connections: 1,
        ..Script::default()
    })
    .await;
    let mut dial = dial();
    dial.connection = ConnectionMode::Reuse;
    dial.extra_ca_pem.push(authority.pem.clone());
    let client = client(&dial);
    let url = format!("https://localhost:{}/v1", relay.address.port());
    let second = async {
        until(|| relay.heads().len() == 1).await;
        let attempt = observe(&client, &url);
        let release = async {
            // The handshake of the second connection is never answered.
            until(|| relay.connections() == 2).await;
            gate.add_permits(2);
        };
        tokio::join!(attempt, release).0
    };
    let (first, second) = tokio::join!(observe(&client, &url), second);
    whole(&first);
    whole(&second);
    assert_eq!(first.connection.reused, Some(false));
    assert_eq!(second.connection.reused, Some(true));
    let line = &second.timeline;
    assert!(line.dns.is_none() && line.connect.is_none() && line.tls.is_none());
    assert!(length(line.pool) > Duration::ZERO);
    assert_eq!(second.connection.tls_version.as_deref(), Some("1.3"));
}

#[tokio::test]
async fn without_the_tracing_layer_the_phases_are_the_same() {
    let _quiet = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::new());
    let authority = Authority::new();
    let relay = Relay::start(Script {
        tls: Some(authority.serve(&["localhost"], &["http/1.1"])),
        tls_delay: DELAY,
        ..Script::default()
    })
    .await;
    let client = ReqwestTransport::new(&Dial {
        connection: ConnectionMode::Fresh,
        http: HttpVersion::Auto,
        proxy: None,
        extra_ca_pem: vec![authority.pem.clone()],
    })
    .unwrap();
    let url = format!("https://localhost:{}/v1", relay.address.port());
    let seen = observe(&client, &url).await;
    whole(&seen);
    let line = &seen.timeline;
    assert!(line.dns.is_some() && line.connect.is_some());
    assert!(length(line.tls) >= DELAY);
    assert_eq!(seen.connection.tried, [], "only the layer shows them");
}

// Proxies.

async fn through(
    scheme: &str,
    secure: bool,
    script: ProxyScript,
    authority: &Authority,
) -> (Observation, Vec<String>) {
    let relay = Relay::start(Script {
        tls: secure.then(|| authority.serve(&["relay.test", "localhost"], &["http/1.1"])),
        ..Script::default()
    })
    .await;
    let (address, asked) = proxy(script).await;
    let mut dial = dial();
    dial.extra_ca_pem.push(authority.pem.clone());
    dial.proxy = Some(Url::parse(&format!("{scheme}://user:secret@{address}")).unwrap());
    let url = format!(
        "{}://localhost:{}/v1",
        if secure { "https" } else { "http" },
        relay.address.port()
    );
    let seen = observe(&client(&dial), &url).await;
    assert_eq!(seen.connection.proxy, Some(address.to_string()));
    let asked = asked.lock().unwrap().clone();
    (seen, asked)
}

fn slow() -> ProxyScript {
    ProxyScript {
        delay: DELAY,
        refuse: false,
        tls: None,
    }
}

#[tokio::test]
async fn a_tunnel_through_an_http_proxy_is_a_phase_between_connect_and_tls() {
    let (seen, asked) = through("http", true, slow(), &Authority::new()).await;
    whole(&seen);
    assert!(length(seen.timeline.tunnel) >= DELAY);
    assert!(seen.timeline.tls.is_some() && seen.timeline.connect.is_some());
    // The proxy resolves the name.
    assert!(seen.timeline.dns.is_none());
    assert!(asked[0].starts_with("localhost:"));
}

#[tokio::test]
async fn the_handshake_with_a_secure_proxy_is_part_of_the_tunnel() {
    let authority = Authority::new();
    let script = ProxyScript {
        tls: Some(authority.serve(&["127.0.0.1"], &[])),
        ..slow()
    };
    let (seen, _) = through("https", true, script, &authority).await;
    whole(&seen);
    assert!(length(seen.timeline.tunnel) >= DELAY);
    assert!(seen.timeline.tls.is_some());
}

#[tokio::test]
async fn socks5_tunnels_both_schemes_and_resolves_the_name_here() {
    for secure in [false, true] {
        let (seen, asked) = through("socks5", secure, slow(), &Authority::new()).await;
        whole(&seen);
        assert!(length(seen.timeline.tunnel) >= DELAY);
        assert_eq!(seen.timeline.tls.is_some(), secure);
        assert!(seen.timeline.dns.is_some());
        assert!(asked[0].starts_with("127.0.0.1:"), "{asked:?}");
    }
}

#[tokio::test]
async fn socks5h_leaves_the_name_to_the_proxy() {
    let (seen, asked) = through("socks5h", true, slow(), &Authority::new()).await;
    whole(&seen);
    assert!(seen.timeline.dns.is_none());
    assert!(asked[0].starts_with("localhost:"), "{asked:?}");
}

#[tokio::test]
async fn a_refused_tunnel_is_a_failure_of_the_tunnel() {
    for scheme in ["http", "socks5h"] {
        let script = ProxyScript {
            refuse: true,
            ..slow()
        };
        let (seen, _) = through(scheme, true, script, &Authority::new()).await;
        assert_eq!(seen.last_phase, Phase::Tunnel, "{scheme} {seen:#?}");
        assert_eq!(seen.ending, Ending::Unreachable);
        assert!(seen.timeline.tls.is_none());
    }
}

#[tokio::test]
async fn a_proxy_of_another_kind_is_refused_before_anything_is_sent() {
    let mut dial = dial();
    dial.proxy = Some(Url::parse("ftp://user:secret@127.0.0.1").unwrap());
    let refused = ReqwestTransport::new(&dial).unwrap_err();
    assert!(matches!(refused, DialError::Unsupported(_)));
    assert!(!format!("{refused:?} {refused} {dial:?}").contains("secret"));
}

// Failures.

fn failed(seen: &Observation, class: Class, phase: Phase) {
    assert_eq!(seen.class(), Some(class), "{seen:#?}");
    assert_eq!(seen.last_phase, phase, "{seen:#?}");
    assert_eq!(seen.timed_out, None);
}

#[tokio::test]
async fn a_closed_port_refuses_the_connection() {
    // Taken, so that no other test can listen there, and not listening.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let seen = observe(&client(&dial()), &http(address)).await;
    failed(&seen, Class::ConnectRefused, Phase::Connect);
    assert_eq!(seen.ending, Ending::Unreachable);
}

#[tokio::test]
async fn a_name_that_does_not_exist_fails_in_dns() {
    let timeouts = Timeouts {
        dns: Duration::from_secs(25),
        ..Timeouts::default()
    };
    let seen = observe_limited("http://nothing.invalid/v1", &dial(), timeouts).await;
    failed(&seen, Class::DnsFailure, Phase::Dns);
    assert_eq!(seen.connection.dns_name.as_deref(), Some("nothing.invalid"));
    assert!(seen.timeline.connect.is_none());
}

#[tokio::test]
async fn a_certificate_for_another_name_or_of_an_unknown_authority_fails_in_tls() {
    let authority = Authority::new();
    for (name, trusted) in [("other.test", true), ("127.0.0.1", false)] {
        let relay = Relay::start(Script {
            tls: Some(authority.serve(&[name], &["http/1.1"])),
            ..Script::default()
        })
        .await;
        let mut dial = dial();
        if trusted {
            dial.extra_ca_pem.push(authority.pem.clone());
        }
        let seen = observe(&client(&dial), &format!("https://{}/v1", relay.address)).await;
        failed(&seen, Class::TlsFailure, Phase::Tls);
        assert!(relay.heads().is_empty(), "no request reaches such a relay");
    }
}

#[tokio::test]
async fn tls_to_a_plain_port_fails_in_tls() {
    let relay = Relay::start(Script {
        end: End::NoHttp,
        ..Script::default()
    })
    .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closing = listener.local_addr().unwrap();
    tokio::spawn(async move { drop(listener.accept().await) });
    // The relay reads the hello as a request without an end; the other one closes at once.
    let timeouts = Timeouts {
        tls: Duration::from_millis(300),
        ..Timeouts::default()
    };
    let url = format!("https://{}/v1", relay.address);
    let seen = observe_limited(&url, &dial(), timeouts).await;
    assert_eq!(seen.class(), Some(Class::TlsFailure), "{seen:#?}");
    assert_eq!(seen.last_phase, Phase::Tls);
    let seen = observe(&client(&dial()), &format!("https://{closing}/v1")).await;
    failed(&seen, Class::TlsFailure, Phase::Tls);
}

#[tokio::test]
async fn a_close_before_the_head_is_no_response() {
    let relay = Relay::start(Script {
        end: End::FinBeforeHead,
        ..Script::default()
    })
    .await;
    let seen = observe(&client(&dial()), &http(relay.address)).await;
    failed(&seen, Class::NoResponse, Phase::Wait);
    assert_eq!(relay.connections(), 1, "nothing is sent twice");
}

#[tokio::test]
async fn an_answer_that_is_no_http_breaks_the_protocol() {
    let relay = Relay::start(Script {
        end: End::NoHttp,
        ..Script::default()
    })
    .await;
    let seen = observe(&client(&dial()), &http(relay.address)).await;
    assert_eq!(seen.class(), Some(Class::ProtocolViolation), "{seen:#?}");
}

#[tokio::test]
async fn a_body_cut_by_fin_or_rst_is_truncated() {
    for end in [End::FinAfterToken, End::RstAfterToken] {
        let relay = Relay::start(Script {
            end,
            ..Script::default()
        })
        .await;
        let seen = observe(&client(&dial()), &http(relay.address)).await;
        assert_eq!(
            seen.class(),
            Some(Class::TruncatedNoTerminator),
            "{end:?} {seen:#?}"
        );
        assert_eq!(seen.ending, Ending::Truncated);
        assert!(seen.interrupted);
        assert_eq!(seen.timed_out, None);
    }
}

#[tokio::test]
async fn a_bad_chunk_is_a_protocol_violation_even_without_its_kind() {
    let seen = limited(End::BadChunk, Timeouts::default()).await;
    assert_eq!(seen.class(), Some(Class::ProtocolViolation), "{seen:#?}");
    assert!(seen.interrupted && !seen.parse_ok);
}

#[tokio::test]
async fn a_body_shorter_than_its_length_is_truncated() {
    let seen = limited(End::ShortLength, Timeouts::default()).await;
    assert_eq!(
        seen.class(),
        Some(Class::TruncatedNoTerminator),
        "{seen:#?}"
    );
    assert!(seen.interrupted);
}

// Limits.

const LIMIT: Duration = Duration::from_millis(150);

fn timed_out(seen: &Observation, limit: Limit, phase: Phase) {
    assert_eq!(seen.timed_out, Some(limit), "{seen:#?}");
    assert_eq!(seen.last_phase, phase, "{seen:#?}");
    assert!(seen.timeline.over >= LIMIT, "{seen:#?}");
    assert!(seen.timeline.over < LIMIT + Duration::from_secs(5));
}

/// A port whose queue of waiting connections is full: a further SYN is not answered.
async fn full_backlog() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 64, "this system queues without end");
    }
    (address, listener, waiting)
}

#[tokio::test]
async fn an_unanswered_syn_runs_into_the_connect_limit() {
    let (address, _listener, _waiting) = full_backlog().await;
    let timeouts = Timeouts {
        connect: LIMIT,
        ..Timeouts::default()
    };
    let seen = observe_limited(&http(address), &dial(), timeouts).await;
    timed_out(&seen, Limit::Connect, Phase::Connect);
    assert_eq!(seen.class(), Some(Class::ConnectRefused));
}

#[tokio::test]
async fn a_silent_handshake_runs_into_the_tls_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    let timeouts = Timeouts {
        tls: LIMIT,
        ..Timeouts::default()
    };
    let seen = observe_limited(&url, &dial(), timeouts).await;
    timed_out(&seen, Limit::Tls, Phase::Tls);
    assert_eq!(seen.class(), Some(Class::TlsFailure));
}

async fn limited(end: End, timeouts: Timeouts) -> Observation {
    let relay = Relay::start(Script {
        end,
        ..Script::default()
    })
    .await;
    observe_limited(&http(relay.address), &dial(), timeouts).await
}

#[tokio::test]
async fn each_limit_of_the_answer_is_the_one_that_is_named() {
    let default = Timeouts::default();
    let headers = Timeouts {
        headers: LIMIT,
        ..default
    };
    let seen = limited(End::SilentBeforeHead, headers).await;
    timed_out(&seen, Limit::Headers, Phase::Wait);

    let first_token = Timeouts {
        first_token: LIMIT,
        ..default
    };
    let seen = limited(End::SilentAfterHead, first_token).await;
    timed_out(&seen, Limit::FirstToken, Phase::FirstToken);

    let idle = Timeouts {
        idle: LIMIT,
        ..default
    };
    let seen = limited(End::SilentAfterToken, idle).await;
    timed_out(&seen, Limit::Idle, Phase::Stream);
    assert_eq!(seen.class(), Some(Class::Stalled));

    let total = Timeouts {
        total: LIMIT,
        ..default
    };
    let seen = limited(End::Endless, total).await;
    timed_out(&seen, Limit::Total, Phase::Stream);
}

#[tokio::test]
async fn calling_off_ends_an_attempt_at_once() {
    let relay = Relay::start(Script {
        end: End::SilentAfterToken,
        ..Script::default()
    })
    .await;
    let (switch, mut cancel) = cancel_pair();
    let client = client(&dial());
    let url = http(relay.address);
    let attempt = observe_with(&client, &url, Timeouts::default(), &mut cancel);
    let (seen, ()) = tokio::join!(attempt, async {
        until(|| !relay.heads().is_empty()).await;
        switch.cancel();
    });
    assert_eq!(seen.ending, Ending::Cancelled);
    assert!(seen.timeline.over < Duration::from_secs(5));

    // Once called off, nothing more is sent.
    let seen = observe_with(&client, &url, Timeouts::default(), &mut cancel).await;
    assert_eq!(seen.ending, Ending::Cancelled);
    assert_eq!(relay.heads().len(), 1);
}

// HTTP/2.

/// An HTTP/2 relay; `gate` requests have to be there before any is answered.
async fn http2_relay(
    tls: Option<Arc<rustls::ServerConfig>>,
    gate: usize,
) -> (SocketAddr, Arc<AtomicUsize>) {
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let served = Arc::clone(&connections);
    let barrier = Arc::new(tokio::sync::Barrier::new(gate));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, barrier, served) = (tls.clone(), Arc::clone(&barrier), Arc::clone(&served));
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request: hyper::Request<_>| {
                    let (barrier, served) = (Arc::clone(&barrier), Arc::clone(&served));
                    async move {
                        let whole: hyper::body::Incoming = request.into_body();
                        let _ = http_body_util::BodyExt::collect(whole).await;
                        served.fetch_add(1, Ordering::SeqCst);
                        barrier.wait().await;
                        let text = [
                            servers::token("one"),
                            servers::token(" two"),
                            servers::event("{}", "\"stop\""),
                            "data: [DONE]\n\n".to_owned(),
                        ]
                        .concat();
                        hyper::Response::builder()
                            .header("content-type", "text/event-stream")
                            .body(http_body_util::Full::new(Bytes::from(text)))
                            .map_err(|_| -> Infallible { unreachable!() })
                    }
                });
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = match tls {
                    None => {
                        builder
                            .serve_connection(TokioIo::new(stream), service)
                            .await
                    }
                    Some(tls) => {
                        let acceptor = tokio_rustls::TlsAcceptor::from(tls);
                        let Ok(stream) = acceptor.accept(stream).await else {
                            return;
                        };
                        builder
                            .serve_connection(TokioIo::new(stream), service)
                            .await
                    }
                };
            });
        }
    });
    (address, connections)
}

#[tokio::test]
async fn http2_is_spoken_by_prior_knowledge_and_by_alpn() {
    let (address, _) = http2_relay(None, 1).await;
    let mut plain = dial();
    plain.http = HttpVersion::Http2;
    let seen = observe(&client(&plain), &http(address)).await;
    whole(&seen);
    assert_eq!(seen.connection.http_version.as_deref(), Some("2"));
    assert!(seen.timeline.tls.is_none());

    let authority = Authority::new();
    let tls = authority.serve(&["127.0.0.1"], &["h2"]);
    let (address, _) = http2_relay(Some(tls), 1).await;
    for version in [HttpVersion::Auto, HttpVersion::Http2] {
        let mut dial = dial();
        dial.http = version;
        dial.extra_ca_pem.push(authority.pem.clone());
        let seen = observe(&client(&dial), &format!("https://{address}/v1")).await;
        whole(&seen);
        assert_eq!(seen.connection.http_version.as_deref(), Some("2"));
        assert_eq!(seen.connection.alpn.as_deref(), Some("h2"));
        assert!(seen.timeline.tls.is_some());
    }
}

#[tokio::test]
async fn concurrent_http2_requests_on_a_cold_pool_share_what_one_of_them_opened() {
    const REQUESTS: usize = 8;
    let authority = Authority::new();
    for secure in [false, true] {
        let tls = secure.then(|| authority.serve(&["127.0.0.1"], &["h2"]));
        let (address, served) = http2_relay(tls, REQUESTS).await;
        let mut dial = dial();
        dial.connection = ConnectionMode::Reuse;
        if secure {
            dial.extra_ca_pem.push(authority.pem.clone());
        } else {
            dial.http = HttpVersion::Http2;
        }
        let client = client(&dial);
        let scheme = if secure { "https" } else { "http" };
        let url = format!("{scheme}://{address}/v1");
        let all = futures_util::future::join_all((0..REQUESTS).map(|_| observe(&client, &url)));
        let all = all.await;
        assert_eq!(served.load(Ordering::SeqCst), REQUESTS);
        let mut own = 0;
        for seen in &all {
            whole(seen);
            let line = &seen.timeline;
            if seen.connection.reused == Some(true) {
                assert!(line.connect.is_none() && line.tls.is_none(), "{line:#?}");
                assert!(length(line.pool) > Duration::ZERO, "{line:#?}");
            } else {
                own += 1;
                assert!(line.connect.is_some());
                assert_eq!(line.tls.is_some(), secure);
            }
        }
        assert!(
            (1..REQUESTS).contains(&own),
            "{own} of {REQUESTS} on their own connection"
        );
    }
}

// Secrets.

#[tokio::test]
async fn no_debug_form_shows_the_key_or_the_proxys_password() {
    let mut dial = dial();
    dial.proxy = Some(Url::parse("http://user:hunter2@127.0.0.1:1").unwrap());
    let request = request("http://127.0.0.1:1/v1");
    let transport = Transport::Reqwest(client(&dial));
    let shown = format!("{dial:?} {request:?} {transport:?} {transport:#?}");
    assert!(!shown.contains(CANARY), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}
