//! What a relay is told of traces, what traces are told of answers, and where traces can be looked
//! at.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::exits::spec;
use crate::place::{Place, Seen, files_below};
use crate::server::{Request, Server, by_model, ending, event, honest, json};

/// A relay that notes the heads of requests, and refuses every first one of a call.
fn noting(heads: &Arc<Mutex<Vec<String>>>) -> Server {
    let heads = Arc::clone(heads);
    Server::start(move |number, request: &Request, stream: &mut TcpStream| {
        heads.lock().unwrap().push(request.head.clone());
        let answer = if number == 0 {
            json("503 Service Unavailable", "{}")
        } else {
            honest("good")
        };
        stream.write_all(answer.as_bytes())
    })
}

fn values(heads: &[String], name: &str) -> Vec<String> {
    let lines = heads.iter().flat_map(|head| head.lines());
    let pairs = lines.filter_map(|line| line.split_once(':'));
    pairs
        .filter(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim().to_owned())
        .collect()
}

/// The spans of a run by id, from the file in its folder.
fn spans(place: &Place, run: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(place.of_run(run).join("spans.otlp.jsonl")).unwrap();
    let mut spans = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        for resource in line["resourceSpans"].as_array().unwrap() {
            for scope in resource["scopeSpans"].as_array().unwrap() {
                spans.extend(scope["spans"].as_array().unwrap().iter().cloned());
            }
        }
    }
    spans
}

fn attribute(span: &Value, key: &str) -> Option<String> {
    let all = span["attributes"].as_array()?;
    let found = all.iter().find(|pair| pair["key"] == key)?;
    Some(found["value"]["stringValue"].as_str()?.to_owned())
}

#[test]
fn a_relay_is_told_what_its_spec_says_and_nothing_else() {
    for transport in ["reqwest", "raw"] {
        for propagate in ["none", "traceparent", "request_id"] {
            let heads = Arc::default();
            let server = noting(&heads);
            let place = Place::new();
            let with = format!(
                "transport: {transport}, propagate: {propagate}, retry: {{ backoff: 1ms }}, models:"
            );
            place.write(
                "s.yaml",
                &spec(&server.base_url(), "good").replace("models:", &with),
            );
            place.run(&["run", "s.yaml", "--run-id", "r"]);
            let heads = heads.lock().unwrap().clone();
            assert!(heads.len() >= 6, "{} requests", heads.len());
            let spans = spans(&place, "r");
            let posts: Vec<&Value> = spans.iter().filter(|it| it["name"] == "POST").collect();
            assert_eq!(posts.len(), heads.len());
            let mut wanted: Vec<String> = posts
                .iter()
                .map(|post| {
                    let (trace, span) = (&post["traceId"], &post["spanId"]);
                    let (trace, span) = (trace.as_str().unwrap(), span.as_str().unwrap());
                    match propagate {
                        "traceparent" => format!("00-{trace}-{span}-01"),
                        _ => format!("{trace}-{span}"),
                    }
                })
                .collect();
            wanted.sort();
            for (setting, header) in [
                ("traceparent", "traceparent"),
                ("request_id", "x-request-id"),
            ] {
                let mut sent = values(&heads, header);
                sent.sort();
                if setting == propagate {
                    assert_eq!(sent, wanted, "{transport} {propagate}");
                } else {
                    assert_eq!(sent, Vec::<String>::new(), "{transport} {propagate}");
                }
            }
            for never in ["tracestate", "baggage"] {
                assert_eq!(values(&heads, never), Vec::<String>::new());
            }
            let said = (propagate != "none").then(|| propagate.to_owned());
            for post in posts {
                assert_eq!(attribute(post, "relay.propagation"), said);
            }
            let on_record = place.evidence("r").header.propagation;
            assert_eq!(on_record.as_str(), propagate);
        }
    }
}

const KEY: &str = "sk-canary-5b1f0c9e7a3d";

/// A relay that gives the key back inside its answer.
fn echo() -> Server {
    Server::start(|_, request: &Request, stream: &mut TcpStream| {
        let key = request.header("authorization").unwrap_or_default();
        let answer = honest("m").replace("Hello world", &format!("the very answer {key}"));
        stream.write_all(answer.as_bytes())
    })
}

#[test]
fn content_is_in_spans_where_it_is_asked_for_and_never_anywhere_else() {
    for content in ["none", "hash", "full"] {
        let (server, place) = (echo(), Place::new());
        let text = spec(&server.base_url(), "m")
            .replace("models:", "api_key: { env: RELAY_KEY }, models:")
            + "workloads: [{ name: w, messages: [{ role: user, content: the very prompt }] }]\n"
            + &format!("otel: {{ content: {content} }}\n");
        place.write("s.yaml", &text);
        let mut command = place.command(&["run", "s.yaml", "--run-id", "r", "--format", "json"]);
        command.env("RELAY_KEY", KEY);
        let seen = Seen::of(command.output().unwrap());
        assert_eq!(
            seen.err.contains("puts prompts and answers"),
            content == "full",
            "{seen}"
        );
        let spans = spans(&place, "r");
        let chats: Vec<&Value> = spans.iter().filter(|it| it["name"] == "chat m").collect();
        assert!(!chats.is_empty());
        for chat in chats {
            let input = attribute(chat, "gen_ai.input.messages");
            let output = attribute(chat, "gen_ai.output.messages");
            let hash = attribute(chat, "relay.answer.hash");
            match content {
                "full" => {
                    assert!(input.unwrap().contains("the very prompt"));
                    let output = output.unwrap();
                    assert!(output.contains("the very answer"), "{output}");
                    assert!(output.contains("[redacted]"), "{output}");
                    assert_eq!(hash, None);
                }
                "hash" => {
                    assert_eq!((input, output), (None, None));
                    assert_eq!(hash.unwrap().len(), 32);
                }
                _ => assert_eq!((input, output, hash), (None, None, None)),
            }
        }
        let judged = place.run(&["judge", "runs/r"]);
        for words in ["the very prompt", "the very answer", KEY] {
            assert!(!format!("{seen}{judged}").contains(words), "{words}");
            for path in files_below(&place.of_run("r")) {
                let is_spans = path.to_string_lossy().ends_with(".otlp.jsonl");
                if is_spans && content == "full" && words != KEY {
                    continue;
                }
                let bytes = std::fs::read(&path).unwrap();
                let found = bytes.windows(words.len()).any(|it| it == words.as_bytes());
                assert!(!found, "{words} in {}", path.display());
            }
        }
    }
}

#[test]
fn prompts_and_answers_do_not_leave_a_ci_job_unasked() {
    let place = Place::new();
    let text = spec("http://127.0.0.1:9/v1", "m");
    place.write("s.yaml", &format!("{text}otel: {{ content: full }}\n"));
    let allowed = format!("{text}otel: {{ content: full, content_in_ci: true }}\n");
    place.write("allowed.yaml", &allowed);
    let check = |file: &str, ci: &str| {
        let mut command = place.command(&["check", file]);
        command.env("CI", ci);
        Seen::of(command.output().unwrap())
    };
    check("s.yaml", "true")
        .exits(2)
        .says("s.yaml:7:18")
        .says("content_in_ci: true");
    check("s.yaml", "false").exits(0);
    check("allowed.yaml", "true").exits(0);
}

#[test]
fn a_link_is_printed_where_traces_went_and_nowhere_else() {
    let server = by_model();
    let collector = Server::start(|_, _, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    });
    let endpoint = collector.base_url().replace("/v1", "");
    let place = Place::new();
    let text = spec(&server.base_url(), "bad");
    place.write("s.yaml", &text);
    let asked = format!("{text}otel: {{ trace_url: \"tempo:https://grafana.example\" }}\n");
    place.write("asked.yaml", &asked);
    let run = |file: &str, id: &str, env: &[(&str, &str)]| {
        let mut command = place.command(&["run", file, "--run-id", id]);
        command.envs(env.iter().copied());
        Seen::of(command.output().unwrap())
    };
    let sent = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let local = run("s.yaml", "local", &sent);
    local
        .exits(1)
        .says("http://127.0.0.1:16686/trace/")
        .says("?uiFind=relay.phase%3D");
    run("asked.yaml", "asked", &sent).says("https://grafana.example/explore?");
    let named = [
        sent[0],
        (
            "RELAYPROOF_TRACE_URL",
            "https://t.example/{trace_id}/{span_id}",
        ),
    ];
    run("s.yaml", "named", &named).says("https://t.example/");
    let silent = run("asked.yaml", "silent", &[]);
    silent.exits(1).says("trace ");
    assert!(!silent.out.contains("grafana.example"), "{silent}");

    // The record knows where its traces are.
    let judged = place.run(&["judge", "runs/local", "--format", "json"]);
    let trace = &judged.json()["cells"][0]["verdicts"][0]["look_at"]["traces"][0];
    let url = trace["url"].as_str().unwrap();
    assert!(url.contains(trace["trace_id"].as_str().unwrap()), "{url}");
    let judged = place.run(&["judge", "runs/silent", "--format", "json"]);
    assert!(judged.json()["cells"][0]["verdicts"][0]["look_at"]["traces"][0]["url"].is_null());
}

#[test]
fn an_export_is_counted_and_needs_somewhere_to_go() {
    let server = by_model();
    let place = Place::new();
    place.write("s.yaml", &spec(&server.base_url(), "bad, good"));
    place.run(&["run", "s.yaml", "--run-id", "r"]);
    let count = spans(&place, "r").len();
    place
        .run(&["export", "runs/r", "--file", "again.otlp.jsonl"])
        .exits(0)
        .says(&format!(
            "exported {count}/{count} spans of 10 samples to again.otlp.jsonl"
        ));
    place
        .run(&["export", "runs/r", "--file", "again.otlp.jsonl"])
        .exits(2)
        .complains("again.otlp.jsonl");
    place
        .run(&["export", "runs/r"])
        .exits(2)
        .complains("--otlp URL");
    place
        .run(&["export", "nothing", "--otlp", "http://127.0.0.1:9"])
        .exits(2);
    let nobody = crate::server::nobody();
    place
        .run(&["export", "runs/r", "--otlp", &format!("http://{nobody}")])
        .exits(4)
        .says(&format!("exported 0/{count} spans"))
        .says("connection refused");
    place
        .run(&["verify", "runs/r", "--backend", "tempo"])
        .exits(2)
        .complains("--traces");
    place
        .run(&["verify", "runs/r", "--traces", &format!("http://{nobody}")])
        .exits(4)
        .complains("cannot connect");
    let odd = format!("{}{}", event("m", "x"), ending("m"));
    let web = Server::start(move |_, _, stream| {
        stream.write_all(json("200 OK", &odd.replace('\n', "")).as_bytes())
    });
    let url = web.base_url();
    place
        .run(&["verify", "runs/r", "--traces", &url, "--backend", "tempo"])
        .exits(4)
        .complains("no JSON");
}
