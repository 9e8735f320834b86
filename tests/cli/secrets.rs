//! A key, and the password of a proxy, are nowhere in what the command says or leaves behind.

use std::io::Write;
use std::net::TcpStream;

use crate::exits::spec;
use crate::place::{Place, Seen, files_below};
use crate::server::{Request, Server, event};

const KEY: &str = "sk-canary-5b1f0c9e7a3d";
const PASSWORD: &str = "pw-canary-90e1d7c2";
/// `user:PASSWORD` as a proxy gets it, padding apart.
const BASIC: &str = "dXNlcjpwdy1jYW5hcnktOTBlMWQ3YzI";

/// A relay, or a proxy in front of one, that gives back whatever it was told, wherever it can.
fn echo() -> Server {
    Server::start(|_, request: &Request, stream: &mut TcpStream| {
        let told = request.header("proxy-authorization");
        let secrets = [
            request.header("authorization"),
            told,
            told.map(|_| PASSWORD),
        ];
        let all = secrets.map(Option::unwrap_or_default).join(" ");
        let body = [
            event(&all, &all),
            format!(
                "data: {{\"error\":{{\"code\":\"{all}\",\"type\":\"{all}\",\"message\":\"{all}\"}}}}\n\n"
            ),
        ]
        .concat();
        let head = format!(
            "HTTP/1.1 200 {all}\r\ncontent-type: text/event-stream; {all}\r\nx-request-id: {all}\r\n\
             server: {all}\r\nvia: 1.1 {all}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())
    })
}

#[track_caller]
fn nowhere(place: &Place, seen: &Seen) {
    for secret in [KEY, PASSWORD, BASIC] {
        assert!(!seen.out.contains(secret), "{secret} on stdout: {seen}");
        assert!(!seen.err.contains(secret), "{secret} on stderr: {seen}");
        for path in files_below(&place.path().join("runs")) {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "{secret} in {}", path.display());
        }
    }
}

/// A spec that goes through `proxy` with its password.
fn proxied(server: &Server, proxy: &str) -> String {
    spec(&server.base_url(), "m").replace(
        "models:",
        &format!("api_key: {{ env: RELAY_KEY }}, proxy: {{ url: \"{proxy}\" }}, models:"),
    )
}

#[test]
fn a_run_leaves_no_secret_behind() {
    let (server, place) = (echo(), Place::new());
    let proxy = server
        .base_url()
        .replace("//", &format!("//user:{PASSWORD}@"));
    let proxy = proxy.trim_end_matches("/v1");
    place.write("s.yaml", &proxied(&server, proxy));
    for format in ["text", "json"] {
        let mut command = place.command(&["run", "s.yaml", "--format", format]);
        command
            .env("RELAY_KEY", KEY)
            .env("OTEL_EXPORTER_OTLP_HEADERS", format!("authorization={KEY}"));
        let seen = Seen::of(command.output().unwrap());
        seen.exits(1).says("parse_success");
        nowhere(&place, &seen);
    }
    assert_eq!(server.requests(), 10, "all through the proxy");
    let left = files_below(&place.path().join("runs"));
    assert!(left.iter().any(|path| path.ends_with("spans.otlp.jsonl")));
    for folder in std::fs::read_dir(place.path().join("runs")).unwrap() {
        let folder = folder.unwrap().path();
        let seen = place.run(&["judge", folder.to_str().unwrap(), "--format", "json"]);
        nowhere(&place, seen.exits(1));
        // What was given back is on record, the secrets in it are not.
        let run_id = folder.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(place.evidence_file(run_id)).unwrap();
        assert!(text.contains("[redacted] Basic [redacted]"), "{text}");
    }
}

#[test]
fn a_probe_says_no_secret() {
    let (server, place) = (echo(), Place::new());
    let url = server.base_url();
    let with_password = url.replace("//", &format!("//user:{PASSWORD}@"));
    let proxy = with_password.trim_end_matches("/v1");
    let nonsense = format!("gopher://user:{PASSWORD}@127.0.0.1:1");
    for (options, code) in [
        (&[&*url][..], 1),
        (&[&url, "--transport", "reqwest"], 1),
        (&[&url, "--proxy", proxy], 1),
        (&["https://relay.invalid/v1", "--proxy", proxy], 1),
        (&[&url, "--proxy", &nonsense], 2),
        (&[&with_password], 2),
    ] {
        for format in ["text", "json"] {
            let arguments = [&["probe", "--content", "--format", format], options].concat();
            let mut command = place.command(&arguments);
            command.env("RELAYPROOF_API_KEY", KEY);
            let seen = Seen::of(command.output().unwrap());
            nowhere(&place, seen.exits(code));
            if options[0] == url {
                assert_eq!(code == 1, seen.out.contains("[redacted]"), "{seen}");
            }
        }
    }
}

#[test]
fn a_plan_and_a_mistake_show_no_password() {
    let (server, place) = (echo(), Place::new());
    let proxy = format!("http://user:{PASSWORD}@127.0.0.1:9");
    place.write("s.yaml", &proxied(&server, &proxy));
    for command in ["plan", "check"] {
        nowhere(&place, place.run(&[command, "s.yaml"]).exits(0));
    }
}
