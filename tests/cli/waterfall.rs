//! `relayproof probe` as text: what a person sees, and what a relay cannot do to their terminal.

use std::io::Write;

use relayproof::sim::Settings;

use crate::place::{Place, Seen};
use crate::server::{Embedded, STREAM_HEAD, Server, ending, event, json, nobody, quick};

/// Characters that turn or steer what a terminal shows, line breaks apart.
fn steers(character: char) -> bool {
    character != '\n'
        && (character.is_control()
            || matches!(character, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}'
                | '\u{2066}'..='\u{2069}'))
}

#[track_caller]
fn fits_a_terminal(seen: &Seen) {
    for line in seen.out.lines() {
        assert!(line.chars().count() <= 80, "{line}\n{seen}");
        assert_eq!(line, line.trim_end(), "{seen}");
    }
    assert!(!seen.out.chars().any(steers), "{:?}", seen.out);
}

/// First words of the waterfall's lines.
fn phases(seen: &Seen) -> Vec<&str> {
    let rows = seen.out.lines().filter(|line| line.contains("  at "));
    rows.map(|line| line.split_whitespace().next().unwrap())
        .collect()
}

#[test]
fn the_phases_of_a_whole_answer_fall_in_order() {
    let (place, embedded) = (Place::new(), Embedded::start(quick()));
    let url = embedded.relay().base_url();
    let seen = place.run(&["probe", url, "--content", "--usage"]);
    seen.exits(0);
    fits_a_terminal(&seen);
    assert_eq!(
        phases(&seen),
        [
            "connect",
            "send",
            "wait",
            "head",
            "first_event",
            "first_token",
            "stream",
            "end"
        ]
    );
    let lines: Vec<&str> = seen.out.lines().collect();
    assert_eq!(
        lines[0],
        format!("POST {url}/chat/completions  200  HTTP/1.1")
    );
    assert_eq!(lines[9..11], ["", "outcome   ok"]);
    seen.says("8 tokens reported").says("trace id  ");
    // The answer comes last, as it is.
    assert_eq!(lines.last().unwrap().split(' ').count(), 8, "{seen}");
}

#[test]
fn tls_and_the_way_through_a_proxy_have_their_rows() {
    let place = Place::new();
    let embedded = Embedded::start(Settings {
        tls: true,
        ..quick()
    });
    place.write("ca.pem", embedded.relay().ca_pem().unwrap());
    let proxy = crate::server::Proxy::start();
    let seen = place.run(&[
        "probe",
        embedded.relay().base_url(),
        "--ca-file",
        "ca.pem",
        "--proxy",
        &proxy.address().to_string(),
    ]);
    seen.exits(0).says(", TLS 1.3");
    fits_a_terminal(&seen);
    let phases = phases(&seen);
    assert_eq!(phases[..4], ["connect", "tunnel", "tls", "send"]);
}

#[test]
fn a_failure_says_what_was_found_and_where_to_look() {
    let place = Place::new();
    let seen = place.run(&["probe", &format!("http://{}/v1", nobody())]);
    seen.exits(1)
        .says("no answer")
        .says("outcome   connect-refused")
        .says("found     connect-refused in phase connect")
        .says("look at   network, phase connect: no-connection");
    fits_a_terminal(&seen);
    assert_eq!(phases(&seen), ["connect"]);
    assert!(!seen.out.contains("answer    "), "{seen}");
}

/// Clears the screen, sets the title, rings, goes back to the line's start, turns the direction.
const HOSTILE: &str = r"\u001b[2J\u001b]0;owned\u0007\u009b31m\r\u202eevil\u007f";

#[test]
fn a_relay_cannot_steer_the_terminal() {
    let place = Place::new();
    let long = "x".repeat(300);
    let said = Server::start(move |_, _, stream| {
        let model = format!("{HOSTILE}{long}");
        // What a header may hold: no control characters of ASCII, but those beyond it.
        let mark = "\u{9b}31m\u{202e}";
        let named = format!("server: {mark}{long}\r\nx-request-id: {mark}\r\nconnection:");
        let answer = [
            STREAM_HEAD.replace("connection:", &named),
            event(&model, &format!("one\\n{HOSTILE} two")),
            ending(&model).replace("\"stop\"", &format!("\"{HOSTILE}{long}\"")),
        ];
        stream.write_all(answer.concat().as_bytes())
    });
    let broken = Server::start(|_, _, stream| {
        let head = STREAM_HEAD.replace("connection:", "server: \u{1b}[2J\r\nconnection:");
        stream.write_all(head.as_bytes())
    });
    let refused = Server::start(|_, _, stream| {
        let body = format!(r#"{{"error":{{"message":"{HOSTILE}","code":"{HOSTILE}"}}}}"#);
        stream.write_all(json("500 \u{9b}2J", &body).as_bytes())
    });
    let wanted = format!("m{}", "y".repeat(200));
    for server in [&said, &broken, &refused] {
        let url = server.base_url();
        for options in [
            &["--content"][..],
            &["--content", "--format", "json"],
            &["--content", "--model", &wanted],
            &["--content", "--transport", "reqwest"],
        ] {
            let seen = place.run(&[&["probe", &url], options].concat());
            assert!(matches!(seen.status.code(), Some(0 | 1)), "{seen}");
            assert!(!seen.out.chars().any(steers), "{:?}", seen.out);
            assert_eq!(seen.err, "");
            if !options.contains(&"json") {
                fits_a_terminal(&seen);
            }
        }
    }
    // Programs get every character, in a form that does no harm.
    let url = said.base_url();
    let seen = place.run(&["probe", &url, "--content", "--format", "json"]);
    let content = seen.json()["content"].as_str().unwrap().to_owned();
    assert!(content.starts_with("one\n\u{1b}[2J"), "{content:?}");
}
