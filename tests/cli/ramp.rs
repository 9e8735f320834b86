//! `ramp`: steps of concurrency against a relay whose capacity is known.

use std::io::Write;
use std::net::TcpStream;

use relayproof::evidence;
use serde_json::Value;

use crate::place::{Place, UnderWay, files_below, until};
use crate::server::{Server, honest, wait_for_leave};

/// Eight answers of half a second at a time. With nobody else before it a call has its first token
/// after 50 ms, and behind one other it waits half a second: the limit is far from both.
fn spec(overload: &str, more: &str) -> String {
    format!(
        "relayproof: 1
relays:
  - name: narrow
    simulate: {{ first_token: 50ms, token_gap: 50ms, tokens: 10, capacity: 8{overload} }}
    retry: {{ max: 0 }}
slos:
  - ttft.p95 < 350ms
{more}"
    )
}

fn steps(document: &Value) -> &Vec<Value> {
    document["cells"][0]["steps"].as_array().unwrap()
}

fn streams(document: &Value) -> Vec<u64> {
    let steps = steps(document).iter();
    steps
        .map(|step| step["streams"].as_u64().unwrap())
        .collect()
}

#[test]
fn the_knee_of_a_relay_that_answers_eight_calls_at_a_time_is_at_eight() {
    let place = Place::new();
    place.write("s.yaml", &spec("", ""));
    let asked = [
        "ramp",
        "s.yaml",
        "--steps",
        "4,8,16,32",
        "--per-step",
        "16",
        "--run-id",
        "r",
        "--format",
        "json",
    ];
    let document = place.run(&asked).exits(0).json();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["loop"], "closed");
    assert_eq!(document["cells"][0]["cell"], "narrow/simulated/default");
    let knee = &document["cells"][0]["knee"];
    assert_eq!(knee["streams"], 8, "{document:#}");
    assert_eq!(knee["because"]["at"], 16);
    // What is shown to fail is not climbed above; four calls a stream at least.
    assert_eq!(streams(&document), [4, 8, 16]);
    let calls: Vec<&Value> = steps(&document).iter().map(|it| &it["calls"]).collect();
    assert_eq!(calls, [16, 32, 64]);
    let last = &steps(&document)[2];
    let promise = &last["objectives"][0];
    assert_eq!(promise["objective"], "ttft.p95 < 350ms");
    assert_eq!(promise["broken"], true);
    // Only the first eight of sixteen find no queue, and some at the end.
    assert!(promise["good"].as_u64().unwrap() < 32, "{promise}");
    assert!(last["ttft_p50_s"].as_f64().unwrap() >= 0.5, "{last}");
    for step in &steps(&document)[..2] {
        assert_eq!(step["http_429"], 0);
        assert_eq!(step["answers"], step["calls"]);
    }
    // Sixteen streams bring what eight bring: a lag of ours makes it less, nothing makes it more.
    assert!(last["answers_per_s"].as_f64().unwrap() < 20.0, "{last}");

    // Each step left evidence like any run, which other commands read.
    let evidence: Vec<_> = files_below(&place.of_run("r"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .filter(|path| !path.to_string_lossy().contains("otlp"))
        .map(|path| evidence::read(&path).unwrap())
        .collect();
    assert_eq!(evidence.len(), 3);
    for step in &evidence {
        let streams = step.header.concurrency.unwrap();
        assert_eq!(step.header.workload, format!("default@{streams}"));
        assert!(step.close.is_some());
    }
    let sample = &evidence[0].samples[0].id;
    place
        .run(&["inspect", sample, "--dir", "runs"])
        .exits(0)
        .says("narrow/simulated/default@");
    let judged = place.run(&["judge", "runs/r"]);
    judged.exits(1).says("default@16").says("VIOLATED");

    // The same run asked for again is read, not sampled.
    let again = place.run(&asked).json();
    assert_eq!(again, document);
}

#[test]
fn a_relay_that_refuses_what_is_too_much_is_seen_to_answer_429() {
    let place = Place::new();
    place.write(
        "s.yaml",
        &spec(", overload: reject", "  - http_success >= 95%\n"),
    );
    let seen = place.run(&["ramp", "s.yaml", "--steps", "8,16", "--per-step", "32"]);
    seen.exits(0)
        .says("closed loop")
        .says("knee: 8 streams; at 16 streams `ttft.p95 < 350ms` is broken")
        .says("429");
    let asked = [
        "ramp",
        "s.yaml",
        "--steps",
        "16",
        "--per-step",
        "32",
        "--format",
        "json",
    ];
    let document = place.run(&asked).exits(1).json();
    let step = &steps(&document)[0];
    // Of the first sixteen calls eight find no place, and each further one takes theirs.
    assert!(step["http_429"].as_u64().unwrap() >= 8, "{step}");
    assert!(step["http_429_share"].as_f64().unwrap() >= 0.125);
    assert_eq!(step["http_5xx"], 0);
    assert_eq!(document["cells"][0]["knee"]["streams"], Value::Null);
}

#[test]
fn an_interrupted_climb_keeps_its_evidence_and_says_what_it_knows() {
    // Answers twelve calls at once and leaves the others waiting.
    let server = Server::start(move |number, _, stream: &mut TcpStream| {
        if number < 12 {
            stream.write_all(honest("m").as_bytes())
        } else {
            wait_for_leave(stream)
        }
    });
    let place = Place::new();
    place.write(
        "s.yaml",
        &format!(
            "relayproof: 1
relays:
  - {{ name: r, base_url: \"{}\", models: [m] }}
slos: [parse_success >= 50%]
",
            server.base_url()
        ),
    );
    let run = UnderWay::start(place.command(&[
        "ramp",
        "s.yaml",
        "--steps",
        "1,2,4",
        "--per-step",
        "8",
        "--run-id",
        "r",
    ]));
    until("all requests", || server.requests() == 14);
    run.signal("-INT");
    run.ends()
        .exits(3)
        .complains("interrupted: sampling ends")
        .says("knee: not reached")
        .says("no further step: interrupted")
        .says("2 calls still open at its end");
    let files = files_below(&place.of_run("r"));
    let kept = |path: &&std::path::PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".jsonl") && !name.contains("otlp")
    };
    assert_eq!(files.iter().filter(kept).count(), 2);
}

#[test]
fn the_limits_of_the_spec_end_a_climb_before_they_are_passed() {
    let place = Place::new();
    // Each call uses up to some 350 tokens of prompt and answer.
    place.write(
        "s.yaml",
        "relayproof: 1
relays: [{ name: e, simulate: { first_token: 0, token_gap: 0, tokens: 8 } }]
sampling: { max_samples: 10, limits: { max_tokens: 10000 } }
judge: { mode: guard }
slos: [parse_success >= 50%]
",
    );
    let asked = [
        "ramp",
        "s.yaml",
        "--steps",
        "1,2,4",
        "--per-step",
        "20",
        "--format",
        "json",
    ];
    let document = place.run(&asked).exits(3).json();
    assert_eq!(streams(&document), [1]);
    let why = document["cells"][0]["stopped"].as_str().unwrap();
    assert!(why.contains("the limits of the spec leave"), "{why}");
    // A step that has a length takes what is left.
    let asked = [
        "ramp",
        "s.yaml",
        "--steps",
        "1",
        "--step-duration",
        "30s",
        "--format",
        "json",
    ];
    let document = place.run(&asked).exits(0).json();
    let calls = steps(&document)[0]["calls"].as_u64().unwrap();
    assert!((20..40).contains(&calls), "{calls}");
}

#[test]
fn cells_that_are_not_for_this_run_are_left_out_and_told() {
    let place = Place::new();
    let ignored = "
  - { name: keyless, base_url: \"http://127.0.0.1:9/v1\", models: [m], api_key: { env: NO_KEY } }
slos:";
    place.write("s.yaml", &spec("", "").replace("\nslos:", ignored));
    let asked = [
        "ramp",
        "s.yaml",
        "--steps",
        "1",
        "--per-step",
        "4",
        "--format",
        "json",
    ];
    let seen = place.run(&asked);
    seen.exits(0)
        .complains("ignored: keyless/m/default: NO_KEY is not set");
    assert_eq!(seen.json()["cells"].as_array().unwrap().len(), 1);
    place
        .run(&["ramp", "s.yaml", "--relay", "keyless"])
        .exits(4)
        .complains("NO_KEY is not set");
    let required = ignored.replace("} }", "}, required: true }");
    place.write("r.yaml", &spec("", "").replace("\nslos:", &required));
    place
        .run(&["ramp", "r.yaml", "--steps", "1", "--per-step", "4"])
        .exits(4)
        .complains("error: keyless/m/default: no API key");
}

#[test]
fn mistakes_are_told_before_anything_is_sent() {
    let place = Place::new();
    place.write("s.yaml", &spec("", ""));
    for (arguments, says) in [
        (&["--steps", "4,2"][..], "rising numbers"),
        (&["--steps", "0,2"], "rising numbers"),
        (&["--per-step", "0"], "--per-step 100"),
        (&["--relay", "narow"], "did you mean `narrow`?"),
        (&["--step-duration", "20"], "20"),
        (
            &["--step-duration", "20s", "--per-step", "9"],
            "cannot be used",
        ),
    ] {
        let arguments = [&["ramp", "s.yaml"], arguments].concat();
        place.run(&arguments).exits(2).complains(says);
    }
    assert!(!place.path().join("runs").exists());
}

/// The same promise as a test of its own: a workload that holds so many calls open.
#[test]
fn a_workload_that_holds_calls_open_is_judged_like_any_other() {
    let place = Place::new();
    let held = |streams: u32| {
        format!(
            "workloads:
  - name: chat
    messages: [{{ role: user, content: \"{{{{nonce}}}} say something\" }}]
    concurrency: {streams}
sampling: {{ max_samples: 80 }}
judge: {{ method: exact }}
"
        )
    };
    place.write("8.yaml", &spec("", &held(8)));
    place.write("24.yaml", &spec("", &held(24)));
    place.run(&["run", "8.yaml", "--run-id", "8"]).passes();
    assert_eq!(place.evidence("8").header.concurrency, Some(8));
    place.run(&["run", "24.yaml"]).exits(1).says("VIOLATED");
    place
        .run(&["plan", "8.yaml"])
        .exits(0)
        .says("8 calls held open");
}
