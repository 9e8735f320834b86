//! What `run`, `judge`, `check` and `plan` print.

use relayproof::observation::Class;
use relayproof::sim::{Fault, Planned, Settings};

use crate::exits::spec;
use crate::place::Place;
use crate::server::{Embedded, by_model, quick};

#[test]
fn judge_gives_exactly_the_verdicts_that_run_printed() {
    let embedded = Embedded::start(Settings {
        faults: vec![Planned {
            fault: Fault::Truncate { after_tokens: None },
            share_ppm: 200_000,
        }],
        ..quick()
    });
    let place = Place::new();
    let text = format!(
        "relayproof: 1
relays:
  - {{ name: r, base_url: {}, models: [m, n] }}
sampling: {{ rate: 50/s, max_samples: 60, warmup: 2, concurrency: 4 }}
slos:
  - ttft.p50 < 5s
  - interruption < 60%
  - parse_success >= 80%
  - {{ expect: total.p50 < 5s, severity: warn }}
",
        embedded.relay().base_url()
    );
    place.write("s.yaml", &text);
    let run = place.run(&["run", "s.yaml", "--run-id", "r", "--format", "json"]);
    let judged = place.run(&["judge", "runs/r", "--format", "json"]);
    assert_eq!(run.status.code(), judged.status.code(), "{run}");
    assert_eq!(run.json(), judged.json());
    assert_eq!(run.json()["cells"].as_array().unwrap().len(), 2);
    // As text, too, and from a copy elsewhere.
    let folder = place.of_run("r");
    let elsewhere = place.path().join("elsewhere");
    std::fs::rename(folder, &elsewhere).unwrap();
    let moved = place.run(&["judge", "elsewhere", "--format", "json"]);
    assert_eq!(run.json(), moved.json());
}

#[test]
fn a_document_of_schema_1_holds_every_cell_with_a_verdict_and_every_one_without() {
    let server = by_model();
    let place = Place::new();
    let keyless = "models: [bad]
  - { name: keyless, base_url: \"http://127.0.0.1:9/v1\", models: [m], api_key: { env: NO_KEY } }
  - { name: later, base_url: \"http://127.0.0.1:9/v1\", models: [m], ignored: not yet signed }";
    let text = spec(&server.base_url(), "bad")
        .replace("{ name: r, ", "name: r\n    ")
        .replace("\", models: [bad] }", &format!("\"\n    {keyless}"));
    place.write("s.yaml", &text);
    let seen = place.run(&["run", "s.yaml", "--run-id", "r", "--format", "json"]);
    let document = seen.exits(1).json();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["overall"], "violated");
    let unmeasured = document["unmeasured"].as_array().unwrap();
    let about = |index: usize, member: &str| unmeasured[index][member].clone();
    assert_eq!(unmeasured.len(), 2);
    assert_eq!(about(0, "cell"), "keyless/m/default");
    assert_eq!(about(0, "reason"), "NO_KEY is not set");
    assert_eq!(about(1, "reason"), "not yet signed");
    assert!(unmeasured.iter().all(|one| one["ignored"] == true));

    let [cell] = document["cells"].as_array().unwrap().as_slice() else {
        panic!("{document}");
    };
    assert_eq!(cell["cell"], "r/bad/default");
    assert_eq!(cell["run_id"], "r");
    assert_eq!(cell["closed"], "decided");
    assert_eq!((&cell["samples"], &cell["planned"]), (&5.into(), &5.into()));
    assert_eq!(cell["outcomes"][Class::Fake200JsonError.as_str()], 5);
    let verdict = &cell["verdicts"][0];
    assert_eq!(verdict["objective"], "parse_success >= 50%");
    assert_eq!(verdict["decision"], "violated");
    assert_eq!(
        (&verdict["n"], &verdict["failures"]),
        (&5.into(), &5.into())
    );
    assert!(verdict["upper"].as_f64().unwrap() < 0.5);
    assert!(verdict["rule"].as_str().unwrap().starts_with("wilson"));
    assert_eq!(verdict["look_at"]["party"], "relay-middleware");
}

#[test]
fn what_could_not_be_measured_is_no_pass_in_the_document() {
    let server = by_model();
    let place = Place::new();
    let required = "\n  - { name: keyless, base_url: \"http://127.0.0.1:9/v1\", models: [m], \
                    api_key: { env: NO_KEY }, required: true }\nsampling:";
    let text = spec(&server.base_url(), "good").replace("\nsampling:", required);
    place.write("s.yaml", &text);
    let seen = place.run(&["run", "s.yaml", "--format", "json"]);
    let document = seen.exits(4).json();
    assert_eq!(document["overall"], "nothing_measured");
    assert_eq!(document["cells"][0]["overall"], "pass");
    assert_eq!(document["unmeasured"][0]["cell"], "keyless/m/default");
    assert_eq!(document["unmeasured"][0]["ignored"], false);
}

#[test]
fn check_shows_all_mistakes_of_all_files() {
    let place = Place::new();
    let one = "relayproof: 1
relays:
  - name: a
    base_url: http://127.0.0.1:9/v1
    models: [m]
    modles: [n]
sampling: { rate: 120 }
slos:
  - ttft.p95 < 1500
  - interuption < 1%
";
    place.write("one.yaml", one);
    place.write("two.yaml", "relayproof: 1\nrelays:\n\t- name: a\n");
    place.write("fine.yaml", &spec("http://127.0.0.1:9/v1", "m"));
    let seen = place.run(&["check", "one.yaml", "fine.yaml", "two.yaml", "none.yaml"]);
    seen.exits(2);
    for words in [
        "one.yaml:6:",
        "modles",
        "one.yaml:7:",
        "one.yaml:9:",
        "one.yaml:10:",
        "interruption",
        "one.yaml has 4 mistakes",
        "ok  fine.yaml: 1 cell, 1 objective each",
        "two.yaml:3:1",
        "a tab cannot indent",
        "cannot read none.yaml",
    ] {
        seen.says(words);
    }
    assert!(!seen.out.contains('\u{1b}'), "no colour without a terminal");
}

#[test]
fn check_reads_no_more_of_a_wrong_path_than_a_spec_can_have() {
    let place = Place::new();
    place.run(&["check", "/dev/zero"]).exits(2);
    place.run(&["plan", "/dev/zero"]).exits(2);
}

#[test]
fn a_plan_is_shown_before_anything_is_sent() {
    let server = by_model();
    let place = Place::new();
    place.write("s.yaml", &spec(&server.base_url(), "good, bad"));
    let seen = place.run(&["plan", "s.yaml"]);
    seen.exits(0)
        .says("r/good/default")
        .says("r/bad/default")
        .says(&server.base_url())
        .says("at most 10 calls")
        .says("parse_success >= 50%");
    assert_eq!(server.requests(), 0);
    let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing but the spec: {left:?}");
    let again = place.run(&["plan", "s.yaml"]);
    assert_eq!(seen.out, again.out, "a plan is the same each time");
    // What was planned is what is sent.
    place.run(&["run", "s.yaml"]).exits(1);
    assert_eq!(server.requests(), 10);
}

/// A spec of two gating objectives and a warning, never run.
const PROMISES: &str = "relayproof: 1
relays:
  - { name: r, base_url: \"http://127.0.0.1:9/v1\", models: [m] }
slos:
  - ttft.p95 < 1.5s
  - parse_success >= 99%
  - { expect: jitter.p95 < 150ms, severity: warn }
";

#[test]
fn a_plan_says_what_a_relay_of_stated_quality_has_to_expect() {
    let place = Place::new();
    place.write("s.yaml", PROMISES);
    let seen = place.run(&["plan", "s.yaml", "--assume", "99.5%", "--assume", "90%"]);
    seen.exits(0)
        .says("a relay at a fifth of the allowed failure odds")
        .says("a relay that is good in 99.5% of its calls")
        .says("a relay that is good in 90% of its calls")
        .says("together");
    assert!(
        seen.out.lines().all(|line| line.chars().count() <= 80),
        "{seen}"
    );
    let document = place
        .run(&["plan", "s.yaml", "--assume", "99.5%", "--format", "json"])
        .exits(0)
        .json();
    assert_eq!(document["schema"], 1);
    let objectives = document["objectives"].as_array().unwrap();
    assert_eq!(objectives.len(), 3);
    assert_eq!(objectives[1]["clean_samples"], 373);
    assert_eq!(objectives[1]["tolerated_failures"], 4);
    assert_eq!(objectives[2]["waited_for"], false);
    let near = |value: &serde_json::Value, wanted: f64, off: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - wanted).abs() <= off, "{value} is not {wanted}");
    };
    let [good, assumed] = document["scenarios"].as_array().unwrap().as_slice() else {
        panic!("{document}");
    };
    assert_eq!(good["relay"], "fifth_of_allowed_odds");
    // The published table: 570 samples and a pass in 94 % at 99.8 %, 685 samples at 99.5 %.
    near(&good["objectives"][1]["pass"], 0.940, 0.002);
    near(&good["objectives"][1]["samples"], 570.0, 3.0);
    near(&good["together"]["samples_at_least"], 570.0, 3.0);
    near(&assumed["objectives"][1]["samples"], 685.0, 3.0);
    assert_eq!(assumed["assumed"], 0.995);
    let cell = &document["cells"][0];
    let calls = cell["expected_calls"].as_u64().unwrap();
    assert!((568..=574).contains(&calls), "{calls}");
    assert!(cell["expected_tokens"].as_u64() < cell["max_tokens"].as_u64());
    assert_eq!(
        cell["max_cost_usd"],
        serde_json::Value::Null,
        "no price, no cost"
    );
    place.write(
        "priced.yaml",
        &PROMISES.replace(
            "models: [m]",
            "models: [m], pricing: { m: { input: 0, output: 2 } }",
        ),
    );
    let priced = place
        .run(&["plan", "priced.yaml", "--format", "json"])
        .json();
    // 1175 answers of 128 tokens at 2 dollars a million.
    near(&priced["cells"][0]["max_cost_usd"], 0.3008, 1e-9);
    place
        .run(&["plan", "priced.yaml"])
        .exits(0)
        .says("cost: up to 0.3008 USD");
    for wrong in ["99.5", "101%", "many"] {
        place
            .run(&["plan", "s.yaml", "--assume", wrong])
            .exits(2)
            .complains("--assume");
    }
}

#[test]
fn the_plan_of_a_spec_with_mistakes_is_empty() {
    let place = Place::new();
    place.write("s.yaml", "relayproof: 1\n");
    let seen = place.run(&["plan", "s.yaml"]);
    seen.exits(2).complains("s.yaml");
    assert_eq!(seen.out, "");
}
