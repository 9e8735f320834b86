//! On the way to a relay: names, addresses, certificates.

use relayproof::observation::{Class, Phase};
use relayproof::probe::cancel::cancel_pair;
use relayproof::probe::dial::Dial;
use relayproof::stream::{Loss, Timeouts};

use crate::server::{Authority, Server, Step, closed_port};
use crate::{HEAD, answer, ask, assert_ok, attempt, dial, request, send};

#[tokio::test]
async fn tls_with_a_private_authority_is_trusted_where_the_plan_says_so() {
    let authority = Authority::new();
    let steps = vec![Step::Request, send(format!("{HEAD}\r\n{}", answer()))];
    let server = Server::tls(&authority, "localhost", steps).await;
    let url = format!("https://localhost:{}/v1", server.address.port());
    let trusting = Dial {
        extra_ca_pem: vec![authority.pem.clone().into_bytes()],
        ..dial()
    };
    let (_switch, cancel) = cancel_pair();
    let request = request(&url, b"{}".to_vec());
    let seen = attempt(&trusting, &request, Timeouts::default(), cancel).await;
    assert_ok(&seen);
    let line = &seen.timeline;
    assert!(line.dns.unwrap().end <= Some(line.connect.unwrap().start));
    assert!(line.connect.unwrap().end <= Some(line.tls.unwrap().start));
    assert!(line.tls.unwrap().end <= Some(line.send.unwrap().start));
    assert_eq!(seen.connection.dns_name.as_deref(), Some("localhost"));
    assert_eq!(seen.connection.tls_version.as_deref(), Some("1.3"));
    assert_eq!(seen.connection.resumed, Some(false));
    assert!(seen.connection.cipher.is_some());
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_not_for_the_host_fails_in_tls() {
    let authority = Authority::new();
    for (name, trusted) in [("localhost", false), ("other.example", true)] {
        let server = Server::tls(&authority, name, Vec::new()).await;
        let url = format!("https://localhost:{}/v1", server.address.port());
        let mut dial = dial();
        if trusted {
            dial.extra_ca_pem = vec![authority.pem.clone().into_bytes()];
        }
        let (_switch, cancel) = cancel_pair();
        let request = request(&url, b"{}".to_vec());
        let seen = attempt(&dial, &request, Timeouts::default(), cancel).await;
        assert_eq!(seen.class(), Some(Class::TlsFailure), "{seen:?}");
        assert_eq!(seen.lost, Some(Loss::Certificate));
        assert_eq!(seen.last_phase, Phase::Tls);
        assert_eq!(seen.timeline.tls.unwrap().end, None);
    }
}

#[tokio::test]
async fn tls_to_a_plain_port_fails_in_tls() {
    let server = Server::plain(vec![
        send("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"),
        Step::Hold,
    ])
    .await;
    let seen = ask(&format!("https://{}/v1", server.address)).await;
    assert_eq!(seen.class(), Some(Class::TlsFailure), "{seen:?}");
    assert_eq!(seen.lost, Some(Loss::Tls));
}

#[tokio::test]
async fn a_closed_port_refuses_in_connect() {
    let (_held, address) = closed_port();
    let seen = ask(&format!("http://{address}/v1")).await;
    assert_eq!(seen.class(), Some(Class::ConnectRefused));
    assert_eq!(seen.lost, Some(Loss::Refused));
    assert_eq!(seen.last_phase, Phase::Connect);
    assert!(!seen.connection.tried[0].connected);
    assert_eq!(seen.timeline.connect.unwrap().end, None);
    assert_eq!(seen.timeline.send, None);
}

#[tokio::test]
async fn a_name_that_cannot_exist_fails_in_dns() {
    let seen = ask("http://relay.invalid/v1").await;
    assert_eq!(seen.class(), Some(Class::DnsFailure), "{seen:?}");
    assert_eq!(seen.last_phase, Phase::Dns);
    assert_eq!(seen.connection.dns_name.as_deref(), Some("relay.invalid"));
    assert_eq!(seen.timeline.connect, None);
}

#[tokio::test]
async fn a_name_with_several_addresses_is_tried_until_one_takes_the_call() {
    // `localhost` is ::1 first on many machines; this server listens on 127.0.0.1 only.
    let steps = vec![Step::Request, send(format!("{HEAD}\r\n{}", answer()))];
    let server = Server::plain(steps).await;
    let seen = ask(&format!("http://localhost:{}/v1", server.address.port())).await;
    assert_ok(&seen);
    assert_eq!(
        seen.connection.peer.as_deref(),
        Some(&*server.address.to_string())
    );
    assert!(seen.connection.addresses.contains(&"127.0.0.1".to_owned()));
}
