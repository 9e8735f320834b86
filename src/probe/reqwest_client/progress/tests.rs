//! Marks in, inputs out: what each order of marks means for the phases of an attempt.

use super::*;

const DIRECT: Route = Route {
    resolves: true,
    tunnel: false,
    proxy_tls: false,
    pooled: false,
};

fn at(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn ends(port: u16) -> Ends {
    Ends {
        addresses: Some((
            SocketAddr::from(([127, 0, 0, 1], port)),
            SocketAddr::from(([127, 0, 0, 1], 443)),
        )),
        h2: false,
        tls: Some("1.3"),
    }
}

fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 443))
}

/// What an exchange is told, in short.
fn said(progress: &mut Progress, marks: impl IntoIterator<Item = (u64, u32, What)>) -> String {
    let mut said: Vec<String> = Vec::new();
    for (us, connect, what) in marks {
        let mark = Mark {
            at: at(us),
            connect,
            what,
        };
        progress.take(mark, &mut |at, input| {
            let at = at.as_micros();
            if let Input::Enter(phase) = input {
                said.push(format!("{at}+{phase}"));
            } else if let Input::Leave(phase) = input {
                said.push(format!("{at}-{phase}"));
            } else if let Input::Connected(facts) = input {
                said.extend(facts.reused.map(|reused| format!("{at} reused={reused}")));
            } else {
                panic!("{input:?}");
            }
        });
    }
    said.join(" ")
}

#[test]
fn the_stages_of_a_secure_connection_follow_each_other_without_overlap() {
    let mut progress = Progress::new(DIRECT);
    let told = said(
        &mut progress,
        [
            (1, 1, What::Connecting),
            (2, 1, What::Resolving("relay.test".into())),
            (5, 1, What::Resolved(vec![peer()])),
            (6, 1, What::Dialling(peer())),
            (8, 1, What::Dialled(peer())),
            (9, 1, What::Hello),
            (12, 1, What::Certificate(None)),
            (13, 1, What::Connected(ends(1))),
            (14, 0, What::Sending),
            (15, 0, What::Sent),
        ],
    );
    assert_eq!(
        told,
        "2+dns 5-dns 5+connect 8-connect 9+tls 13-tls 13 reused=false \
         14+send 15-send"
    );
    assert!(progress.acquired() && progress.sent() && progress.open().is_none());
    assert!(!progress.reused(ends(1).addresses));
}

#[test]
fn without_the_connectors_events_connecting_ends_where_tls_begins() {
    let mut progress = Progress::new(Route {
        resolves: false,
        ..DIRECT
    });
    let told = said(
        &mut progress,
        [(1, 1, What::Connecting), (9, 1, What::Hello)],
    );
    assert_eq!(told, "1+connect 9-connect 9+tls");
}

#[test]
fn the_tunnel_begins_where_tcp_ends_and_holds_the_handshake_with_the_proxy() {
    let mut progress = Progress::new(Route {
        resolves: false,
        tunnel: true,
        proxy_tls: true,
        pooled: false,
    });
    let told = said(
        &mut progress,
        [
            (1, 1, What::Connecting),
            (3, 1, What::Dialled(peer())),
            (4, 1, What::Hello),
            (8, 1, What::Hello),
            (9, 1, What::Connected(ends(1))),
        ],
    );
    assert_eq!(
        told,
        "1+connect 3-connect 3+tunnel 8-tunnel 8+tls 9-tls 9 reused=false"
    );
}

#[test]
fn a_pooled_connection_leaves_only_the_wait_for_the_pool() {
    let mut progress = Progress::new(Route {
        pooled: true,
        ..DIRECT
    });
    let mut entered = None;
    progress.started(at(0), &mut |at, input| {
        entered = Some((at, format!("{input:?}")));
    });
    assert_eq!(entered, Some((at(0), "Enter(Pool)".to_owned())));
    let told = said(&mut progress, [(7, 0, What::Sending), (8, 0, What::Sent)]);
    assert_eq!(told, "7-pool 7 reused=true 7+send 8-send");
    assert!(progress.reused(ends(1).addresses));
}

#[test]
fn a_request_that_overtakes_its_own_connect_was_served_by_another_connection() {
    let mut progress = Progress::new(Route {
        resolves: false,
        pooled: true,
        ..DIRECT
    });
    let told = said(
        &mut progress,
        [
            (1, 1, What::Connecting),
            (2, 1, What::Hello),
            (5, 0, What::Sending),
            (6, 0, What::Sent),
            (9, 1, What::Certificate(None)),
            (9, 1, What::Connected(ends(2))),
        ],
    );
    assert_eq!(
        told,
        "1+connect 2-connect 2+tls 5 reused=true 5+send 6-send"
    );
    assert!(progress.reused(ends(1).addresses));
}

#[test]
fn a_connection_of_other_addresses_than_the_own_one_was_reused() {
    let mut progress = Progress::new(Route {
        pooled: true,
        ..DIRECT
    });
    said(
        &mut progress,
        [(1, 1, What::Connecting), (2, 1, What::Connected(ends(2)))],
    );
    assert!(!progress.reused(ends(2).addresses));
    assert!(progress.reused(ends(1).addresses));
}

#[test]
fn a_second_connect_of_the_same_attempt_replaces_the_first() {
    let mut progress = Progress::new(Route {
        resolves: false,
        pooled: true,
        ..DIRECT
    });
    let told = said(
        &mut progress,
        [
            (1, 1, What::Connecting),
            (2, 2, What::Connecting),
            (3, 1, What::Failed),
            (4, 2, What::Connected(ends(2))),
        ],
    );
    assert_eq!(
        told,
        "1+connect 2-connect 2+connect 4-connect 4 reused=false"
    );
}

#[test]
fn each_address_that_is_tried_is_told_of_as_soon_as_it_is() {
    let other = SocketAddr::from(([127, 0, 0, 2], 443));
    let mut progress = Progress::new(DIRECT);
    let mut told = Vec::new();
    for (us, what) in [
        (1, What::Connecting),
        (2, What::Dialling(other)),
        (5, What::DialFailed(other)),
        (6, What::Dialling(peer())),
        (7, What::Dialled(peer())),
    ] {
        let mark = Mark {
            at: at(us),
            connect: 1,
            what,
        };
        progress.take(mark, &mut |_, input| {
            if let Input::Connected(facts) = input {
                told.push(facts.tried);
            }
        });
    }
    let attempt = |address: SocketAddr, start, end: Option<u64>, connected| TcpAttempt {
        address: address.to_string(),
        start: at(start),
        end: end.map(at),
        connected,
    };
    assert_eq!(told.len(), 4);
    assert_eq!(told[0], [attempt(other, 2, None, false)]);
    assert_eq!(
        told[3],
        [
            attempt(other, 2, Some(5), false),
            attempt(peer(), 6, Some(7), true)
        ]
    );
}

#[test]
fn a_lost_connection_leaves_its_phase_open() {
    let mut progress = Progress::new(DIRECT);
    said(
        &mut progress,
        [
            (1, 1, What::Connecting),
            (2, 1, What::Resolving("relay.test".into())),
            (3, 1, What::Unresolved),
            (4, 1, What::Failed),
        ],
    );
    assert_eq!(progress.open(), Some(Phase::Dns));
    assert!(progress.unresolved());
}
