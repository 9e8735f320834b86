//! `relayproof probe --format json`: what it says of one call, and how it is told what to do.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use relayproof::attribution::Party;
use relayproof::observation::Class;
use relayproof::sim::{Fault, Planned, Settings};
use serde_json::Value;

use crate::place::{Place, timed};
use crate::server::{
    Embedded, Proxy, STREAM_HEAD, Server, event, fake_200, honest, json, nobody, quick, silent,
    wait_for_leave,
};

/// One probe as JSON, held to the whole of schema 1 and to its exit code.
#[track_caller]
fn probe(place: &Place, url: &str, options: &[&str]) -> Value {
    let arguments = [&["probe", url, "--format", "json"], options].concat();
    let seen = place.run(&arguments);
    let document = seen.json();
    hold_to_schema(&document, options.contains(&"--content"));
    seen.exits(i32::from(document["outcome"] != "ok"));
    assert_eq!(seen.err, "");
    document
}

const PHASES: [&str; 10] = [
    "dns_ms",
    "connect_ms",
    "tls_ms",
    "send_ms",
    "wait_ms",
    "ttfb_ms",
    "first_event_ms",
    "ttft_ms",
    "stream_ms",
    "total_ms",
];

/// Every member that a reader may count on is there and has its type.
#[track_caller]
fn hold_to_schema(document: &Value, content: bool) {
    let text = |name: &str| document[name].as_str().unwrap_or_else(|| panic!("{name}"));
    assert_eq!(document["schema"], 1);
    let mut outcomes = Class::ALL.iter().map(|class| class.as_str());
    let outcome = text("outcome");
    assert!(outcome == "ok" || outcomes.any(|known| known == outcome));
    let mut parties = Party::ALL.iter().map(|party| party.as_str());
    assert!(parties.any(|known| known == text("attribution")));
    for name in ["parse_ok", "interrupted"] {
        assert!(document[name].is_boolean(), "{name}");
    }
    assert!(document["warnings"].is_array());
    let members = document.as_object().unwrap();
    for name in ["status", "tokens"] {
        assert!(members.contains_key(name), "{name}");
    }
    assert!(document["status"].is_null() || document["status"].is_u64());
    assert!(document["tokens"].is_null() || document["tokens"].is_object());
    let trace_id = text("trace_id");
    assert_eq!(trace_id.len(), 32);
    assert!(trace_id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let phases = document["phases"].as_object().unwrap();
    for name in PHASES {
        let phase = phases.get(name).unwrap_or_else(|| panic!("{name}"));
        let sensible = phase
            .as_f64()
            .is_some_and(|ms| (0.0..600_000.0).contains(&ms));
        assert!(phase.is_null() || sensible, "{name}: {phase}");
    }
    assert_eq!(members.contains_key("content"), content);
}

/// Names of the phases that have a time.
fn timed_phases(document: &Value) -> Vec<&'static str> {
    let phases = PHASES.into_iter();
    phases
        .filter(|name| !document["phases"][*name].is_null())
        .collect()
}

#[track_caller]
fn ms(document: &Value, phase: &str) -> f64 {
    document["phases"][phase].as_f64().unwrap()
}

/// Outcome, attribution, status, parse_ok, interrupted.
#[track_caller]
fn hold_to(document: &Value, outcome: &str, party: &str, status: Value, flags: (bool, bool)) {
    let seen = (
        document["outcome"].as_str().unwrap(),
        document["attribution"].as_str().unwrap(),
        &document["status"],
        (
            document["parse_ok"].as_bool().unwrap(),
            document["interrupted"].as_bool().unwrap(),
        ),
    );
    assert_eq!(seen, (outcome, party, &status, flags), "{document:#}");
}

/// A relay that gives this answer to everyone.
fn answering(answer: String) -> Server {
    Server::start(move |_, _, stream| stream.write_all(answer.as_bytes()))
}

/// A relay that sends this and then leaves its client waiting.
fn hanging_after(beginning: String) -> Server {
    Server::start(move |_, _, stream| {
        stream.write_all(beginning.as_bytes())?;
        wait_for_leave(stream)
    })
}

fn struck_by(fault: Fault) -> Embedded {
    Embedded::start(Settings {
        faults: vec![Planned {
            fault,
            share_ppm: 1_000_000,
        }],
        ..quick()
    })
}

#[test]
fn a_whole_answer_is_ok_and_its_times_are_in_order() {
    let (place, embedded) = (Place::new(), Embedded::start(quick()));
    let document = probe(
        &place,
        embedded.relay().base_url(),
        &["--content", "--usage"],
    );
    hold_to(&document, "ok", "none", 200.into(), (true, false));
    assert_eq!(
        timed_phases(&document),
        [
            "connect_ms",
            "send_ms",
            "wait_ms",
            "ttfb_ms",
            "first_event_ms",
            "ttft_ms",
            "stream_ms",
            "total_ms"
        ],
        "an address needs no name resolution, http no TLS"
    );
    let offsets = ["ttfb_ms", "first_event_ms", "ttft_ms", "total_ms"];
    assert!(offsets.is_sorted_by_key(|phase| ms(&document, phase)));
    // The embedded relay never writes before its time.
    assert!(ms(&document, "ttft_ms") >= 5.0);
    assert!(ms(&document, "total_ms") >= 5.0 + 7.0);
    assert_eq!(document["tokens"]["output"], 8);
    assert_eq!(document["finish_reason"], "stop");
    let content = document["content"].as_str().unwrap();
    assert_eq!(content.split(' ').count(), 8);
}

#[test]
fn a_whole_answer_is_ok_in_anthropic_messages_too() {
    let (place, embedded) = (Place::new(), Embedded::start(quick()));
    let document = probe(
        &place,
        embedded.relay().origin(),
        &["--protocol", "anthropic-messages", "--usage", "--seal"],
    );
    hold_to(&document, "ok", "none", 200.into(), (true, false));
    assert_eq!(document["tokens"]["output"], 8);
    assert_eq!(document["finish_reason"], "end_turn");
}

#[test]
fn a_whole_answer_is_ok_in_openai_responses_too() {
    let (place, embedded) = (Place::new(), Embedded::start(quick()));
    let document = probe(
        &place,
        embedded.relay().base_url(),
        &["--protocol", "openai-responses", "--usage", "--seal"],
    );
    hold_to(&document, "ok", "none", 200.into(), (true, false));
    assert_eq!(document["tokens"]["output"], 8);
    assert_eq!(document["finish_reason"], "completed");
}

#[test]
fn every_way_to_fail_has_its_outcome_and_its_party() {
    let place = Place::new();
    let limited = answering(json(
        "429 Too Many Requests",
        r#"{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#,
    ));
    let document = probe(&place, &limited.base_url(), &[]);
    hold_to(
        &document,
        "http-error",
        "concurrency-or-key",
        429.into(),
        (false, false),
    );
    assert!(ms(&document, "ttfb_ms") > 0.0);
    assert!(document["phases"]["ttft_ms"].is_null());

    let lying = answering(fake_200());
    let document = probe(&place, &lying.base_url(), &[]);
    hold_to(
        &document,
        "fake-200-json-error",
        "relay-middleware",
        200.into(),
        (false, false),
    );

    let cutting = struck_by(Fault::Truncate {
        after_tokens: Some(3),
    });
    let document = probe(&place, cutting.relay().base_url(), &["--content"]);
    hold_to(
        &document,
        "truncated-no-terminator",
        "relay-middleware",
        200.into(),
        (true, true),
    );
    assert!(document["phases"]["total_ms"].is_null(), "there was no end");
    let content = document["content"].as_str().unwrap();
    assert_eq!(content.split(' ').count(), 3);

    let closed = format!("http://{}/v1", nobody());
    let document = probe(&place, &closed, &[]);
    hold_to(
        &document,
        "connect-refused",
        "network",
        Value::Null,
        (true, true),
    );
    assert_eq!(timed_phases(&document), [""; 0]);
    assert_eq!(document["last_phase"], "connect");

    let document = probe(&place, "http://relay.invalid/v1", &[]);
    hold_to(
        &document,
        "dns-failure",
        "network",
        Value::Null,
        (true, true),
    );
    assert_eq!(document["last_phase"], "dns");

    let document = probe(&place, &limited.https_url(), &[]);
    hold_to(
        &document,
        "tls-failure",
        "client",
        Value::Null,
        (true, true),
    );
    assert_eq!(timed_phases(&document), ["connect_ms"]);
    assert_eq!(document["last_phase"], "tls");
}

#[test]
fn both_clients_say_the_same_of_the_same_relay() {
    let place = Place::new();
    let embedded = struck_by(Fault::TruncateFin {
        after_tokens: Some(3),
    });
    let url = embedded.relay().base_url();
    let [raw, reqwest] = ["raw", "reqwest"].map(|client| {
        let document = probe(&place, url, &["--transport", client, "--content"]);
        let telling = [
            "outcome",
            "attribution",
            "parse_ok",
            "interrupted",
            "ending",
        ];
        telling.map(|name| document[name].clone())
    });
    assert_eq!(raw, reqwest);
    assert_eq!(raw[0], "truncated-no-terminator");
}

#[test]
fn each_time_limit_ends_the_call_and_is_named() {
    let place = Place::new();
    let silent_http = format!("http://{}/v1", silent());
    let silent_https = format!("https://{}/v1", silent());
    let headed = hanging_after(STREAM_HEAD.to_owned());
    let begun = hanging_after(format!("{STREAM_HEAD}{}", event("m", "Hello")));
    let flowing = Server::start(|_, _, stream: &mut TcpStream| {
        stream.write_all(STREAM_HEAD.as_bytes())?;
        loop {
            stream.write_all(event("m", "more ").as_bytes())?;
            thread::sleep(Duration::from_millis(20));
        }
    });
    for (url, limit, outcome, party, phase) in [
        (&silent_https, "tls", "tls-failure", "network", "tls"),
        (&silent_http, "headers", "stalled", "network", "wait"),
        (
            &headed.base_url(),
            "first_token",
            "stalled",
            "upstream",
            "first_event",
        ),
        (&begun.base_url(), "idle", "stalled", "upstream", "stream"),
        (&flowing.base_url(), "total", "stalled", "client", "stream"),
    ] {
        for client in ["raw", "reqwest"] {
            let timeout = format!("{limit}=400ms");
            let options = ["--timeout", &timeout, "--transport", client];
            let (document, took) = timed(|| probe(&place, url, &options));
            assert_eq!(document["outcome"], outcome, "{limit}: {document:#}");
            assert_eq!(document["timed_out"], limit, "{document:#}");
            assert_eq!(document["attribution"], party, "{limit}: {document:#}");
            assert_eq!(document["last_phase"], phase, "{limit}: {document:#}");
            assert_eq!(document["interrupted"], true, "{limit}");
            let over = ms(&document, "over_ms");
            assert!(over >= 400.0, "{limit}: over after {over} ms");
            assert!(took < Duration::from_secs(30), "{limit}: {took:?}");
        }
    }
}

#[test]
fn several_limits_stand_in_one_list_and_the_first_that_passes_counts() {
    let place = Place::new();
    let begun = hanging_after(format!("{STREAM_HEAD}{}", event("m", "Hello")));
    let list = "first_token=20s, idle=300ms,total=30s";
    let document = probe(&place, &begun.base_url(), &["--timeout", list, "--content"]);
    assert_eq!(document["timed_out"], "idle");
    assert_eq!(document["content"], "Hello");
}

#[test]
fn a_private_authority_is_trusted_where_its_file_is_named() {
    let place = Place::new();
    let embedded = Embedded::start(Settings {
        tls: true,
        ..quick()
    });
    let url = embedded.relay().base_url();
    place.write("ca.pem", embedded.relay().ca_pem().unwrap());
    for client in ["raw", "reqwest"] {
        let document = probe(&place, url, &["--transport", client]);
        hold_to(
            &document,
            "tls-failure",
            "relay-gateway",
            Value::Null,
            (true, true),
        );
        let trusted = ["--transport", client, "--ca-file", "ca.pem"];
        let document = probe(&place, url, &trusted);
        hold_to(&document, "ok", "none", 200.into(), (true, false));
        assert!(ms(&document, "tls_ms") > 0.0);
        assert!(document["phases"]["dns_ms"].is_number(), "{document:#}");
        assert!(document["connection"]["tls_version"].is_string());
    }
    assert_eq!(embedded.relay().requests(), 2);
}

#[test]
fn a_proxy_is_used_where_it_is_named_and_only_there() {
    let place = Place::new();
    let embedded = Embedded::start(Settings {
        tls: true,
        ..quick()
    });
    place.write("ca.pem", embedded.relay().ca_pem().unwrap());
    let (url, port) = (
        embedded.relay().base_url(),
        embedded.relay().address().port(),
    );
    let proxy = Proxy::start();
    let named = format!("http://user:pass%2Fword@{}", proxy.address());
    let document = probe(&place, url, &["--ca-file", "ca.pem", "--proxy", &named]);
    hold_to(&document, "ok", "none", 200.into(), (true, false));
    assert!(document["phases"]["tunnel_ms"].is_number());
    assert!(ms(&document, "tls_ms") > 0.0);
    assert_eq!(
        document["connection"]["proxy"],
        proxy.address().to_string(),
        "without its user"
    );
    let connect = format!("CONNECT localhost:{port} HTTP/1.1");
    // "user:pass/word" in base64.
    let credentials = Some("Basic dXNlcjpwYXNzL3dvcmQ=".to_owned());
    assert_eq!(proxy.heard(), [(connect, credentials)]);

    // The environment is asked on request only.
    let address = format!("http://{}", proxy.address());
    for (option, tunnels) in [("none", 1), ("env", 2)] {
        let arguments = [
            "probe",
            url,
            "--ca-file",
            "ca.pem",
            "--proxy",
            option,
            "--format",
            "json",
        ];
        let mut command = place.command(&arguments);
        command.env("HTTPS_PROXY", &address);
        assert!(command.output().unwrap().status.success());
        assert_eq!(proxy.heard().len(), tunnels, "{option}");
    }

    // A proxy that is not there is no relay's fault.
    let gone = format!("http://{}", nobody());
    let document = probe(&place, url, &["--ca-file", "ca.pem", "--proxy", &gone]);
    assert_eq!(document["outcome"], "connect-refused");
    assert_eq!(document["attribution"], "network");
}

#[test]
fn the_key_comes_from_the_variable_that_is_named() {
    let place = Place::new();
    let seen: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let notes = Arc::clone(&seen);
    let server = Server::start(move |_, request, stream| {
        let key = request.header("authorization").map(str::to_owned);
        notes.lock().unwrap().push(key);
        stream.write_all(honest("m").as_bytes())
    });
    let url = server.base_url();
    for options in [&[][..], &["--api-key-env", "OTHER_KEY"]] {
        let arguments = [&["probe", &url], options].concat();
        let mut command = place.command(&arguments);
        command
            .env("RELAYPROOF_API_KEY", "sk-first")
            .env("OTHER_KEY", "sk-second");
        assert!(command.output().unwrap().status.success());
    }
    place.run(&["probe", &url]).exits(0);
    let keys = ["Bearer sk-first", "Bearer sk-second"].map(|key| Some(key.to_owned()));
    assert_eq!(*seen.lock().unwrap(), [keys.as_slice(), &[None]].concat());

    let mut command = place.command(&["probe", &url]);
    command.env("RELAYPROOF_API_KEY", "sk-ключ");
    let seen = crate::place::Seen::of(command.output().unwrap());
    seen.exits(2).complains("RELAYPROOF_API_KEY");
    assert!(!seen.err.contains("ключ"), "{seen}");
}

#[cfg(unix)]
#[test]
fn a_key_that_is_not_unicode_is_refused_and_not_left_out() {
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new();
    let mut command = place.command(&["probe", "http://127.0.0.1:1/v1"]);
    let key = std::ffi::OsStr::from_bytes(b"sk-\xff-0123");
    command.env("RELAYPROOF_API_KEY", key);
    let seen = crate::place::Seen::of(command.output().unwrap());
    seen.exits(2).complains("RELAYPROOF_API_KEY");
}

#[test]
fn what_is_asked_is_what_the_options_say() {
    let place = Place::new();
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let notes = Arc::clone(&bodies);
    let server = Server::start(move |_, request, stream| {
        let body = serde_json::from_str(&request.body).unwrap();
        notes.lock().unwrap().push(body);
        stream.write_all(honest("other-model").as_bytes())
    });
    let url = server.base_url();
    // Without a model of the user's any answered model will do.
    probe(&place, &url, &["--prompt", "Say hello."]);
    let options = ["--model", "my-model", "--max-tokens", "9", "--usage"];
    let document = probe(&place, &url, &options);
    assert_eq!(document["outcome"], "model-mismatch");
    let bodies = bodies.lock().unwrap();
    assert_eq!(bodies[0]["messages"][0]["content"], "Say hello.");
    assert_eq!(bodies[0]["stream"], true);
    assert_eq!(bodies[1]["model"], "my-model");
    assert_eq!(bodies[1]["max_tokens"], 9);
    assert_eq!(bodies[1]["stream_options"]["include_usage"], true);
}

#[test]
fn an_invented_ending_is_found_where_a_seal_is_asked_for() {
    let place = Place::new();
    let embedded = struck_by(Fault::DropSeal);
    let url = embedded.relay().base_url();
    assert_eq!(probe(&place, url, &[])["outcome"], "ok");
    let document = probe(&place, url, &["--seal"]);
    assert_eq!(document["outcome"], "masked-truncation");
    assert_eq!(document["sealed"], false);
}
