//! The mistakes of newcomers: each is made here, and `docs/mistakes.md` says what is said.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use relayproof::sim::Settings;

use crate::place::{Place, Seen};
use crate::server::{Dated, Embedded, Server, json, nobody, quick};

/// A right spec of a relay that nobody is.
const RIGHT: &str = "relayproof: 1
relays:
  - name: alpha
    base_url: http://127.0.0.1:9/v1
    models: [m]
slos:
  - ttft.p95 < 1.5s
";

/// What is said of the right spec with one text in another's place.
fn checked(from: &str, to: &str) -> Seen {
    assert!(RIGHT.contains(from), "{from}");
    let place = Place::new();
    place.write("s.yaml", &RIGHT.replacen(from, to, 1));
    place.run(&["check", "s.yaml"])
}

fn checked_with(more: &str) -> Seen {
    checked(
        "  - ttft.p95 < 1.5s\n",
        &format!("  - ttft.p95 < 1.5s\n{more}\n"),
    )
}

/// A service that knows one path, one key and one model.
fn strict() -> Server {
    Server::start(|_, request, stream| {
        let path = request.head.split(' ').nth(1).unwrap_or_default();
        let (status, code) = if path != "/v1/chat/completions" {
            ("404 Not Found", "unknown_url")
        } else if request.header("authorization") != Some("Bearer sk-right") {
            ("401 Unauthorized", "invalid_api_key")
        } else {
            ("404 Not Found", "model_not_found")
        };
        let body = format!("{{\"error\":{{\"message\":\"no\",\"code\":\"{code}\"}}}}");
        stream.write_all(json(status, &body).as_bytes())
    })
}

fn probed(arguments: &[&str], key: &str) -> Seen {
    let place = Place::new();
    let mut command = place.command(&[&["probe"], arguments].concat());
    if !key.is_empty() {
        command.env("RELAYPROOF_API_KEY", key);
    }
    Seen::of(command.output().unwrap())
}

/// What is said of a relay whose certificate holds between two years, by both clients.
fn dated(from: i32, to: i32) -> Seen {
    let server = Dated::start(from, to);
    let place = Place::new();
    place.write("ca.pem", &server.authority);
    let probe = |client| {
        let url = server.base_url();
        place.run(&["probe", &url, "--ca-file", "ca.pem", "--transport", client])
    };
    let (seen, other) = (probe("raw"), probe("reqwest"));
    let blame = |seen: &Seen| {
        let line = seen.out.lines().find(|line| line.starts_with("look at"));
        line.map(str::to_owned)
    };
    assert_eq!(blame(&seen), blame(&other), "{seen}\n{other}");
    seen
}

/// A web server that knows plain HTTP where it expects TLS, and says so in these words.
fn expects_tls(head: &'static str, body: &'static str) -> Server {
    Server::start(move |_, _, stream| {
        let length = body.len();
        let answer =
            format!("HTTP/1.1 400 Bad Request\r\n{head}content-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes())
    })
}

#[test]
fn servers_that_say_that_they_expect_tls_are_not_blamed() {
    let html = "content-type: text/html\r\n";
    let text = "content-type: text/plain; charset=utf-8\r\n";
    for (head, body) in [
        (
            html,
            "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title>\
             </head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n<center>The plain \
             HTTP request was sent to HTTPS port</center>\r\n<hr><center>nginx/1.22.1</center>\r\n\
             </body>\r\n</html>\r\n",
        ),
        (text, "Client sent an HTTP request to an HTTPS server.\n"),
        (
            html,
            "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>400 Bad \
             Request</title>\n</head><body>\n<h1>Bad Request</h1>\n<p>Your browser sent a request \
             that this server could not understand.<br />\nReason: You're speaking plain HTTP to an \
             SSL-enabled server port.<br />\n Instead use the HTTPS scheme to access this URL, \
             please.<br />\n</p>\n</body></html>\n",
        ),
    ] {
        let server = expects_tls(head, body);
        for client in ["raw", "reqwest"] {
            let seen = probed(&[&server.base_url(), "--transport", client], "");
            assert!(
                seen.out
                    .contains("client, phase head: own-plain-to-tls-port")
                    && seen.out.contains("write `https://` in the base URL"),
                "{seen}"
            );
        }
    }
}

#[test]
fn plain_http_to_a_tls_port_is_blamed_on_the_client_whichever_client_it_is() {
    let encrypted = tls();
    let url = encrypted.relay().base_url().replace("https://", "http://");
    for client in ["raw", "reqwest"] {
        let seen = probed(&[&url, "--transport", client], "");
        assert!(
            seen.out.contains(": own-plain-to-tls-port")
                && seen.out.contains("write `https://` in the base URL"),
            "{seen}"
        );
    }
}

fn tls() -> Embedded {
    Embedded::start(Settings {
        tls: true,
        ..quick()
    })
}

/// Every mistake by its name in the page.
#[expect(clippy::too_many_lines, reason = "a table of forty rows")]
fn mistakes() -> BTreeMap<&'static str, Seen> {
    let mut made = BTreeMap::new();
    // Files and the command line.
    let place = Place::new();
    place.write("a.yaml", RIGHT).write("b.yaml", RIGHT);
    std::fs::create_dir(place.path().join("specs")).unwrap();
    made.insert(
        "a spec that is not there",
        place.run(&["check", "none.yaml"]),
    );
    made.insert(
        "a folder in place of a spec",
        place.run(&["check", "specs"]),
    );
    made.insert(
        "two specs with the same names",
        place.run(&["run", "a.yaml", "b.yaml"]),
    );
    made.insert(
        "a profile that no spec has",
        place.run(&["run", "a.yaml", "--profile", "pr"]),
    );
    made.insert(
        "a command that does not exist",
        place.run(&["chek", "a.yaml"]),
    );
    // YAML.
    made.insert("a tab", checked("  - name: alpha", "\t- name: alpha"));
    made.insert(
        "a wrong indent",
        checked("    models: [m]", "   models: [m]"),
    );
    made.insert(
        "a key twice",
        checked("    models: [m]", "    models: [m]\n    models: [n]"),
    );
    made.insert("a key that does not exist", checked("models:", "modles:"));
    made.insert("no version", checked("relayproof: 1\n", ""));
    // Values.
    made.insert(
        "a base URL without scheme",
        checked("http://127.0.0.1:9/v1", "relay.example/v1"),
    );
    made.insert(
        "the address of one call for a base URL",
        checked(
            "http://127.0.0.1:9/v1",
            "https://relay.example/v1/chat/completions",
        ),
    );
    made.insert(
        "the key itself in the spec",
        checked("    models:", "    api_key: sk-0123\n    models:"),
    );
    made.insert(
        "an unset variable",
        checked("[m]", "[\"${env.NO_SUCH_MODEL}\"]"),
    );
    made.insert(
        "a rate without a unit",
        checked_with("sampling: { rate: 120 }"),
    );
    made.insert(
        "a rate that no probe can hold",
        checked_with("sampling: { rate: 100000/s }"),
    );
    made.insert(
        "a wrong protocol name",
        checked("    models:", "    protocol: openai\n    models:"),
    );
    // Objectives.
    let slo = |text: &str| checked("ttft.p95 < 1.5s", text);
    made.insert("a latency without a quantile", slo("ttft < 1.5s"));
    made.insert("an objective for the worse", slo("ttft.p95 > 1.5s"));
    made.insert("a bound without a unit", slo("ttft.p95 < 1.5"));
    made.insert("a share without a percent sign", slo("parse_success >= 99"));
    made.insert("a promise of all calls", slo("parse_success >= 100%"));
    made.insert("a metric that does not exist", slo("tfft.p95 < 1.5s"));
    made.insert("a mean that gates", slo("ttft.mean < 1.5s"));
    made.insert(
        "too small a budget",
        checked_with("sampling: { max_samples: 40 }"),
    );
    made.insert(
        "a time-out below the bound",
        checked_with("defaults: { timeouts: { total: 1s } }"),
    );
    made.insert("TLS times of a plain address", slo("tls.p95 < 1.5s"));
    // Keys.
    let place = Place::new();
    place.write(
        "s.yaml",
        &RIGHT.replace(
            "    models",
            "    api_key: { env: NO_SUCH_KEY }\n    models",
        ),
    );
    made.insert("a key that is not set", place.run(&["run", "s.yaml"]));
    // Calls.
    let server = strict();
    let url = server.base_url();
    let bare = url.trim_end_matches("/v1").to_owned();
    made.insert("a base URL without /v1", probed(&[&bare], "sk-right"));
    made.insert(
        "a base URL with /v1 twice",
        probed(&[&format!("{url}/v1")], "sk-right"),
    );
    made.insert("no key", probed(&[&url], ""));
    made.insert("a wrong key", probed(&[&url], "sk-wrong"));
    made.insert(
        "a wrong model",
        probed(&[&url, "--model", "gpt-9"], "sk-right"),
    );
    made.insert(
        "another protocol than the endpoint's",
        probed(&[&bare, "--protocol", "anthropic-messages"], "sk-right"),
    );
    made.insert("https for http", probed(&[&server.https_url()], ""));
    let encrypted = tls();
    let https = encrypted.relay().base_url().to_owned();
    made.insert(
        "http for https",
        probed(&[&https.replace("https://", "http://")], ""),
    );
    made.insert("a certificate that is not trusted", probed(&[&https], ""));
    made.insert("a clock that is behind", dated(2990, 2999));
    made.insert("a clock that is ahead", dated(1999, 2001));
    made.insert(
        "a host that does not exist",
        probed(&["http://relay.invalid/v1"], ""),
    );
    let closed = nobody();
    made.insert(
        "a closed port",
        probed(&[&format!("http://{closed}/v1")], ""),
    );
    made.insert(
        "a proxy that is not there",
        probed(
            &[
                "http://relay.invalid/v1",
                "--proxy",
                &format!("http://{closed}"),
            ],
            "",
        ),
    );
    made.insert("an address without scheme", probed(&["relay.example"], ""));
    made
}

/// Rows of the page: mistake, what is said, the way out.
fn rows() -> Vec<[String; 3]> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/mistakes.md");
    let page = std::fs::read_to_string(page).unwrap();
    page.lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| mistake"))
        .map(|line| {
            let cells: Vec<String> = line
                .trim_matches('|')
                .split(" | ")
                .map(|cell| cell.trim().to_owned())
                .collect();
            cells.try_into().unwrap_or_else(|_| panic!("{line}"))
        })
        .collect()
}

#[test]
fn every_mistake_of_a_newcomer_gets_the_words_of_the_page() {
    let made = mistakes();
    let rows = rows();
    let mut wrong = Vec::new();
    for (name, seen) in &made {
        let code = seen.status.code();
        if !matches!(code, Some(1 | 2 | 4)) || seen.err.contains("panicked") {
            wrong.push(format!("{name}: ends with {code:?}\n{seen}"));
        }
        // Long messages are broken into lines.
        let said = format!("{}\n{}", seen.out, seen.err);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        match rows.iter().find(|row| row[0] == *name) {
            None => wrong.push(format!(
                "{name}: not in docs/mistakes.md; it is said\n{seen}"
            )),
            Some([_, what, way_out]) => {
                for words in [what, way_out] {
                    if words.is_empty() || !said.contains(words.as_str()) {
                        wrong.push(format!("{name}: `{words}` is not said in\n{seen}"));
                    }
                }
            }
        }
    }
    for [name, ..] in &rows {
        if !made.contains_key(name.as_str()) {
            wrong.push(format!("{name}: in docs/mistakes.md and never made"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(made.len() >= 30);
}
