//! A hostile relay behind a socket, read by both transports.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;

use relayproof::observation::{Class, Ending, Limit, Observation, Phase, Warning};
use relayproof::plan::TransportKind;
use relayproof::stream::{Loss, MAX_BODY_BYTES, MAX_REST_BYTES, Timeouts};

use crate::ROOM;
use crate::relay::{
    Ask, Authority, BOTH, Bystander, Flaw, KEY, for_ever, hold, ms, request, serve, serve_tls,
    slowly,
};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";

fn event(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\
         \"model\":\"test-model\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
         \"finish_reason\":{finish}}}]}}\n\n"
    )
}

fn token() -> String {
    event("{\"content\":\"Hello\"}", "null")
}

fn answer() -> String {
    format!("{}{}data: [DONE]\n\n", token(), event("{}", "\"stop\""))
}

fn chunk(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n", body.len())
}

/// Limits for attempts that a time limit is to end; where a size is to end them, nobody is hurried.
fn brief() -> Timeouts {
    Timeouts {
        headers: ms(1000),
        first_token: ms(1500),
        idle: ms(1000),
        total: ms(2000),
        ..Timeouts::default()
    }
}

fn limited() -> Ask {
    Ask {
        timeouts: brief(),
        ..Ask::default()
    }
}

/// What holds of every attempt at a hostile relay.
fn bounded(what: &str, kind: TransportKind, (seen, most): (Observation, usize)) -> Observation {
    println!(
        "{what:<40} {:<8} {:>7} KiB {:>6} ms  {} {:?}",
        format!("{kind:?}"),
        most >> 10,
        seen.timeline.over.as_millis(),
        seen.outcome(),
        seen.timed_out,
    );
    assert!(most <= ROOM, "{what} {kind:?}: {most} bytes");
    assert!(
        seen.timeline.over < ms(20_000),
        "{what} {kind:?}: {:?}",
        seen.timeline
    );
    seen
}

/// Reads the request, says `start`, and then `piece` for ever.
fn endless(start: String, piece: &'static [u8]) -> SocketAddr {
    serve(move |tcp| {
        request(tcp)?;
        tcp.write_all(start.as_bytes())?;
        for_ever(tcp, piece)
    })
}

#[test]
fn an_endless_body_is_left_at_a_limit_of_size_or_time() {
    for kind in BOTH {
        let relay = endless(format!("{HEAD}\r\ndata: "), b"x");
        let seen = bounded("endless event", kind, Ask::default().at(kind, relay));
        assert_eq!(
            seen.class(),
            Some(Class::ProtocolViolation),
            "{:?}",
            seen.findings
        );
        assert!(seen.counts.body_bytes <= MAX_BODY_BYTES + (1 << 20));

        let relay = endless(format!("{HEAD}\r\n{}", token()), b": ping\n\n");
        let seen = bounded("endless heartbeats", kind, limited().at(kind, relay));
        // On a fast machine the count of comments is the first limit.
        let limits = [Some(Class::Stalled), Some(Class::ProtocolViolation)];
        assert!(limits.contains(&seen.class()), "{:?}", seen.findings);

        let relay = serve(|tcp| {
            request(tcp)?;
            tcp.write_all(format!("{HEAD}\r\n").as_bytes())?;
            for_ever(tcp, token().as_bytes())
        });
        let seen = bounded("endless answer", kind, limited().at(kind, relay));
        assert!(limits.contains(&seen.class()), "{:?}", seen.findings);
    }
}

#[test]
fn a_head_without_measure_is_a_violation_before_its_end() {
    for kind in BOTH {
        for (what, start, piece) in [
            ("100,000 header lines", HEAD, &b"a: b\r\n"[..]),
            ("an endless header", "HTTP/1.1 200 OK\r\na: ", b"x"),
            ("an endless reason", "HTTP/1.1 200 ", b"x"),
            ("an endless word", "", b"x"),
        ] {
            let relay = endless(start.to_owned(), piece);
            let seen = bounded(what, kind, Ask::default().at(kind, relay));
            assert_eq!(
                seen.class(),
                Some(Class::ProtocolViolation),
                "{what} {kind:?}"
            );
            assert_eq!((seen.status, seen.ending), (None, Ending::Malformed));
        }
    }
}

#[test]
fn a_flood_of_interim_heads_ends_the_attempt() {
    for (what, piece) in [
        ("100 for ever", &b"HTTP/1.1 100 Continue\r\n\r\n"[..]),
        (
            "103 for ever",
            b"HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n",
        ),
    ] {
        let relay = endless(String::new(), piece);
        let seen = bounded(
            what,
            TransportKind::Raw,
            Ask::default().at(TransportKind::Raw, relay),
        );
        assert_eq!(
            seen.class(),
            Some(Class::ProtocolViolation),
            "{:?}",
            seen.findings
        );
        // The library passes over any number of them, as many at once as the socket holds: only
        // the time limit is left, and other threads have to mind it.
        let flood = piece.repeat((1 << 20) / piece.len());
        let relay = serve(move |tcp| {
            request(tcp)?;
            tcp.write_all(&flood)?;
            hold(tcp)
        });
        let kind = TransportKind::Reqwest;
        let seen = bounded(what, kind, limited().at(kind, relay));
        assert_eq!(seen.timed_out, Some(Limit::Headers), "{seen:?}");
        assert_eq!(seen.class(), Some(Class::Stalled));
    }
}

#[test]
fn slow_bytes_do_not_hold_the_limits_off() {
    for kind in BOTH {
        let relay = serve(|tcp| {
            request(tcp)?;
            slowly(tcp, format!("{HEAD}x: {}", "y".repeat(50_000)).as_bytes())
        });
        let seen = bounded("a slow head", kind, limited().at(kind, relay));
        assert_eq!(seen.timed_out, Some(Limit::Headers), "{kind:?}: {seen:?}");
        assert_eq!(seen.class(), Some(Class::Stalled));

        let relay = serve(|tcp| {
            request(tcp)?;
            tcp.write_all(format!("{HEAD}\r\n").as_bytes())?;
            slowly(tcp, format!(": {}", "y".repeat(50_000)).as_bytes())
        });
        let seen = bounded("a slow body", kind, limited().at(kind, relay));
        assert_eq!(
            seen.timed_out,
            Some(Limit::FirstToken),
            "{kind:?}: {seen:?}"
        );
        assert_eq!(seen.class(), Some(Class::Stalled));

        let relay = serve(|tcp| {
            request(tcp)?;
            tcp.write_all(format!("{HEAD}\r\n{}", token()).as_bytes())?;
            slowly(tcp, &token().into_bytes().repeat(200))
        });
        let seen = bounded("a slow answer", kind, limited().at(kind, relay));
        // A token a second would be progress for ever: the total limit ends it.
        let limits = [Some(Limit::Total), Some(Limit::Idle)];
        assert!(limits.contains(&seen.timed_out), "{kind:?}: {seen:?}");
        assert_eq!(seen.class(), Some(Class::Stalled));
    }
}

#[test]
fn chunk_extensions_and_trailers_are_read_up_to_a_limit() {
    let head = format!("{HEAD}transfer-encoding: chunked\r\n\r\n");
    for kind in BOTH {
        let start = format!("{head}{}5;", chunk(&token()));
        let relay = endless(start, b"x");
        let seen = bounded(
            "an endless chunk extension",
            kind,
            Ask::default().at(kind, relay),
        );
        assert_eq!(
            seen.class(),
            Some(Class::ProtocolViolation),
            "{kind:?} {:?}",
            seen.findings
        );

        let start = format!("{head}{}", chunk(&token()));
        let relay = serve(move |tcp| {
            request(tcp)?;
            tcp.write_all(start.as_bytes())?;
            for_ever(tcp, format!("1;{}\r\n:\r\n", "e".repeat(3000)).as_bytes())
        });
        let seen = bounded(
            "an extension to every chunk",
            kind,
            Ask::default().at(kind, relay),
        );
        assert_eq!(
            seen.class(),
            Some(Class::ProtocolViolation),
            "{kind:?} {:?}",
            seen.findings
        );

        for (what, piece) in [
            ("endless trailers", &b"t: v\r\n"[..]),
            ("an endless trailer", b"t"),
        ] {
            let relay = endless(format!("{head}{}0\r\n", chunk(&answer())), piece);
            let seen = bounded(what, kind, Ask::default().at(kind, relay));
            assert_eq!(
                seen.class(),
                Some(Class::ProtocolViolation),
                "{kind:?} {:?}",
                seen.findings
            );
            assert!(!seen.interrupted, "the answer was whole");
        }
        // Some trailers are HTTP as it should be.
        let relay = serve(move |tcp| {
            request(tcp)?;
            let head = format!("{HEAD}trailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n");
            let trailers = "0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n";
            tcp.write_all(format!("{head}{}{trailers}", chunk(&answer())).as_bytes())
        });
        let seen = bounded("two trailers", kind, Ask::default().at(kind, relay));
        assert_eq!((seen.class(), &*seen.warnings), (None, &[][..]), "{kind:?}");
    }
}

#[test]
fn what_follows_the_end_mark_for_ever_is_left() {
    for kind in BOTH {
        let relay = endless(format!("{HEAD}\r\n{}", answer()), b": ping\n\n");
        let seen = bounded(
            "heartbeats after the end mark",
            kind,
            Ask::default().at(kind, relay),
        );
        assert_eq!(seen.class(), None, "{kind:?} {:?}", seen.findings);
        assert!(seen.counts.body_bytes <= MAX_REST_BYTES + (1 << 20));

        let relay = serve(|tcp| {
            request(tcp)?;
            tcp.write_all(format!("{HEAD}\r\n{}", answer()).as_bytes())?;
            for_ever(tcp, token().as_bytes())
        });
        let seen = bounded(
            "tokens after the end mark",
            kind,
            Ask::default().at(kind, relay),
        );
        assert_eq!(
            seen.class(),
            Some(Class::DataAfterDone),
            "{kind:?} {:?}",
            seen.findings
        );

        let relay = serve(|tcp| {
            request(tcp)?;
            tcp.write_all(format!("{HEAD}\r\n{}", answer()).as_bytes())?;
            slowly(tcp, &b": ping\n\n".repeat(5000))
        });
        let seen = bounded(
            "slow bytes after the end mark",
            kind,
            Ask::default().at(kind, relay),
        );
        assert_eq!(seen.class(), None, "{kind:?} {:?}", seen.findings);
        assert!(seen.warnings.contains(&Warning::BodyNotEndedAfterDone));
    }
}

/// A gzip member that is a thousand bytes on the wire and two hundred times as many unpacked.
fn gzip_bomb() -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    let mut code = |value: u32, length: u32| {
        bits.extend((0..length).rev().map(|at| value >> at & 1 == 1));
    };
    // One last block with fixed codes: a zero, then "258 more of it" again and again.
    code(0b1, 1);
    code(0b10, 2);
    code(0b0011_0000, 8);
    for _ in 0..80_000 {
        code(0b1100_0101, 8);
        code(0, 5);
    }
    code(0, 7);
    let mut bomb = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
    bomb.extend(bits.chunks(8).map(|eight| {
        let ones = eight.iter().enumerate().filter(|(_, bit)| **bit);
        ones.fold(0u8, |byte, (at, _)| byte | 1 << at)
    }));
    bomb
}

/// A zstd frame of blocks that are four bytes on the wire and 128 KiB unpacked.
fn zstd_bomb() -> Vec<u8> {
    let mut bomb = b"\x28\xb5\x2f\xfd\x00\x58".to_vec();
    let block = (128u32 << 10) << 3 | 0b010;
    for _ in 0..30_000 {
        bomb.extend_from_slice(&block.to_le_bytes()[..3]);
        bomb.push(b'0');
    }
    bomb
}

#[test]
fn a_coding_that_nobody_asked_for_is_a_violation_and_never_unpacked() {
    for kind in BOTH {
        for (coding, body) in [
            ("gzip", gzip_bomb()),
            ("zstd", zstd_bomb()),
            ("br", b"\xcf\xff\xff\x7f\xf8\x27\x00\xe2".repeat(10_000)),
            ("deflate", gzip_bomb()[10..].to_vec()),
            ("gzip, gzip", gzip_bomb()),
        ] {
            let length = body.len() as u64;
            let head =
                format!("{HEAD}content-encoding: {coding}\r\ncontent-length: {length}\r\n\r\n");
            let relay = serve(move |tcp| {
                let asked = request(tcp)?;
                let asked = String::from_utf8_lossy(&asked).to_ascii_lowercase();
                let wanted = asked
                    .lines()
                    .find(|line| line.starts_with("accept-encoding"));
                assert!(matches!(wanted, None | Some("accept-encoding: identity")));
                tcp.write_all(head.as_bytes())?;
                tcp.write_all(&body)
            });
            let seen = bounded(
                &format!("{coding} bomb"),
                kind,
                Ask::default().at(kind, relay),
            );
            assert_eq!(
                seen.class(),
                Some(Class::ProtocolViolation),
                "{kind:?} {:?}",
                seen.findings
            );
            assert_eq!(seen.counts.body_bytes, length, "{kind:?} {coding}");
            assert_eq!(seen.text.as_deref().unwrap_or_default(), "");
        }
    }
}

#[test]
fn no_redirect_is_followed_and_the_key_goes_nowhere_else() {
    for kind in BOTH {
        for status in [301, 302, 303, 307, 308, 300, 305] {
            let other = Bystander::new();
            for target in [
                format!("http://{}/v1/chat/completions", other.address()),
                format!("https://{}/v1/chat/completions", other.address()),
                format!("//{}/", other.address()),
                format!("http://user:{KEY}@{}/", other.address()),
            ] {
                let head = format!(
                    "HTTP/1.1 {status} Moved\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n"
                );
                let relay = serve(move |tcp| {
                    request(tcp)?;
                    tcp.write_all(head.as_bytes())
                });
                let seen = bounded("a redirect", kind, Ask::default().at(kind, relay));
                assert_eq!(
                    (seen.class(), seen.status),
                    (Some(Class::HttpError), Some(status))
                );
                assert!(other.was_left_alone(), "{kind:?} {status} {target}");
                assert!(!format!("{seen:?}").contains(KEY));
            }
        }
    }
}

#[test]
fn a_redirect_to_itself_is_asked_once() {
    for kind in BOTH {
        let (told, heard) = std::sync::mpsc::channel();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for tcp in listener.incoming() {
                let mut tcp = tcp.unwrap();
                let _ = told.send(());
                let head = format!(
                    "HTTP/1.1 307 Again\r\nlocation: http://{address}/v1/chat/completions\r\n\
                     content-length: 0\r\n\r\n"
                );
                let _ = request(&mut tcp).and_then(|_| tcp.write_all(head.as_bytes()));
            }
        });
        let seen = bounded(
            "a loop of redirects",
            kind,
            Ask::default().at(kind, address),
        );
        assert_eq!(seen.class(), Some(Class::HttpError));
        assert_eq!(heard.try_iter().count(), 1, "{kind:?}");
    }
}

#[test]
fn a_certificate_that_is_not_right_keeps_the_key_at_home() {
    for kind in BOTH {
        for flaw in [Flaw::None, Flaw::Name, Flaw::Expired, Flaw::SelfSigned] {
            let authority = Authority::new();
            let (told, heard) = std::sync::mpsc::channel();
            let relay = serve_tls(authority.server(flaw), move |tls| {
                let asked = request(tls)?;
                let _ = told.send(asked);
                tls.write_all(format!("{HEAD}connection: close\r\n\r\n{}", answer()).as_bytes())?;
                tls.conn.send_close_notify();
                tls.flush()
            });
            let ask = Ask {
                scheme: "https",
                ca: vec![authority.pem.clone()],
                ..Ask::default()
            };
            let seen = bounded(&format!("certificate: {flaw:?}"), kind, ask.at(kind, relay));
            if flaw == Flaw::None {
                assert_eq!(seen.class(), None, "{kind:?} {seen:?}");
                continue;
            }
            assert_eq!(
                seen.class(),
                Some(Class::TlsFailure),
                "{kind:?} {flaw:?} {seen:?}"
            );
            let loss = match flaw {
                Flaw::Expired => Loss::CertificateLate,
                Flaw::None | Flaw::Name | Flaw::SelfSigned => Loss::Certificate,
            };
            assert_eq!(seen.lost, Some(loss), "{kind:?} {flaw:?}");
            assert_eq!(seen.last_phase, Phase::Tls);
            assert!(heard.recv().is_err(), "the server has read a request");
        }
    }
}

#[test]
fn a_handshake_that_is_none_ends_in_its_phase() {
    for kind in BOTH {
        for (what, reply) in [
            ("plain HTTP", &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]),
            ("noise", &[0xA7; 4096]),
            ("an alert", b"\x15\x03\x03\x00\x02\x02\x28"),
            ("an empty record", b"\x16\x03\x03\x00\x00"),
            ("a record that is too long", b"\x16\x03\x03\xff\xff"),
            ("another version", b"\x16\x09\x09\x00\x04\x02\x00\x00\x00"),
        ] {
            let relay = serve(move |tcp| {
                tcp.write_all(reply)?;
                tcp.shutdown(std::net::Shutdown::Write)?;
                hold(tcp)
            });
            let ask = Ask {
                scheme: "https",
                timeouts: Timeouts {
                    tls: ms(2000),
                    ..brief()
                },
                ..Ask::default()
            };
            let seen = bounded(&format!("handshake: {what}"), kind, ask.at(kind, relay));
            assert_eq!(
                seen.class(),
                Some(Class::TlsFailure),
                "{kind:?} {what} {seen:?}"
            );
            assert_eq!(seen.last_phase, Phase::Tls, "{kind:?} {what}");
        }
        // A handshake message of 16 MiB, in records of the longest size.
        let relay = serve(|tcp| {
            tcp.write_all(b"\x16\x03\x03\x40\x00\x02\xff\xff\xff")?;
            tcp.write_all(&[0; 0x3ffc])?;
            let mut record = b"\x16\x03\x03\x40\x00".to_vec();
            record.extend_from_slice(&[0; 0x4000]);
            for_ever(tcp, &record)
        });
        let ask = Ask {
            scheme: "https",
            timeouts: brief(),
            ..Ask::default()
        };
        let seen = bounded("an endless handshake", kind, ask.at(kind, relay));
        assert_eq!(seen.class(), Some(Class::TlsFailure), "{kind:?} {seen:?}");
        let silent = serve(hold);
        let ask = Ask {
            scheme: "https",
            timeouts: Timeouts {
                tls: ms(300),
                ..brief()
            },
            ..Ask::default()
        };
        let seen = bounded("a silent handshake", kind, ask.at(kind, silent));
        assert_eq!(seen.class(), Some(Class::TlsFailure), "{kind:?} {seen:?}");
        assert_eq!(seen.timed_out, Some(Limit::Tls));
    }
}

#[test]
fn a_request_that_is_never_read_or_answered_too_early_is_no_trap() {
    let large = || Ask {
        timeouts: brief(),
        body: vec![b' '; 16 << 20],
        ..Ask::default()
    };
    for kind in BOTH {
        let (open, wait) = std::sync::mpsc::channel::<()>();
        let relay = serve(move |_| {
            let _ = wait.recv();
            Ok(())
        });
        let (seen, _) = large().at(kind, relay);
        drop(open);
        assert_eq!(seen.timed_out, Some(Limit::Headers), "{kind:?} {seen:?}");
        assert_eq!(
            (seen.class(), seen.last_phase),
            (Some(Class::Stalled), Phase::Send)
        );

        let (open, wait) = std::sync::mpsc::channel::<()>();
        let relay = serve(move |tcp| {
            tcp.write_all(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n")?;
            let _ = wait.recv();
            Ok(())
        });
        let (seen, _) = large().at(kind, relay);
        drop(open);
        match kind {
            TransportKind::Raw => {
                assert_eq!(
                    (seen.class(), seen.status),
                    (Some(Class::HttpError), Some(413))
                );
            }
            TransportKind::Reqwest => assert!(seen.class().is_some(), "{seen:?}"),
        }
    }
}
