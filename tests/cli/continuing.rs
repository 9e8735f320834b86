//! Runs that go on after their end, and fresh starts after runs that did not pass.

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use relayproof::evidence::CameTo;

use crate::exits::spec;
use crate::place::{Place, Seen};
use crate::server::{Server, by_model, honest};

/// A relay that fails its third request and no other.
fn third_fails() -> Server {
    Server::start(|number, _, stream: &mut TcpStream| {
        if number == 2 {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        } else {
            stream.write_all(honest("m").as_bytes())
        }
    })
}

/// With one failure, ten samples pass; eight cannot.
fn promising(server: &Server, max_samples: u64, more: &str) -> String {
    format!(
        "relayproof: 1
relays:
  - {{ name: r, base_url: \"{}\", models: [m] }}
sampling: {{ rate: 50/s, max_samples: {max_samples} }}
slos: [parse_success >= 50%]
{more}",
        server.base_url()
    )
}

/// Whether this machine kept the schedule; a run of a busy one says nothing.
fn fit(seen: &Seen) -> bool {
    !seen.out.contains("the run is invalid")
}

#[test]
fn a_run_without_a_decision_goes_on_under_a_larger_budget_and_its_counts_add_up() {
    let (server, place) = (third_fails(), Place::new());
    place.write("s.yaml", &promising(&server, 8, ""));
    let first = place.run(&["run", "s.yaml", "--run-id", "r"]);
    first.exits(3).says("INCONCLUSIVE");
    if !fit(&first) {
        return;
    }
    let before = fs::read(place.evidence_file("r")).unwrap();
    let sent = server.requests();

    place.write("s.yaml", &promising(&server, 20, ""));
    let second = place.run(&["run", "s.yaml", "--continue", "r"]);
    if !fit(&second) {
        return;
    }
    second.exits(0).says("PASS").says(", continued");
    let after = fs::read(place.evidence_file("r")).unwrap();
    assert!(
        after.starts_with(&before),
        "one file, and nothing of it is lost"
    );
    let evidence = place.evidence("r");
    assert_eq!(evidence.continued.len(), 1);
    assert_eq!(evidence.header.sampling.max_samples, 20);
    let verdict = &relayproof::verdict::judge(&evidence)[0];
    assert_eq!((verdict.n, verdict.failures), (10, 1), "{second}");
    assert!(server.requests() > sent);
    let mut indices: Vec<u64> = evidence.samples.iter().map(|it| it.index).collect();
    indices.sort_unstable();
    let all: Vec<u64> = (0..indices.len() as u64).collect();
    assert_eq!(indices, all, "each slot once");
    // Anyone who reads the file later gets the same.
    place.run(&["judge", "runs/r"]).exits(0).says("PASS");

    // What is decided stays so, and sends nothing more; its folder will do for its name.
    let sent = server.requests();
    place
        .run(&["run", "s.yaml", "--continue", "runs/r"])
        .exits(0);
    assert_eq!(server.requests(), sent);
    assert_eq!(place.evidence("r"), evidence);
}

#[test]
fn only_the_budget_may_change_when_a_run_goes_on() {
    let (server, place) = (third_fails(), Place::new());
    place.write("s.yaml", &promising(&server, 8, ""));
    let first = place.run(&["run", "s.yaml", "--run-id", "r"]);
    if !fit(&first) {
        return;
    }
    let sent = server.requests();
    let usual = promising(&server, 20, "");
    for (text, words) in [
        (
            promising(&server, 20, "judge: { confidence: 90% }\n"),
            "`judge` has changed",
        ),
        (
            promising(&server, 20, "judge: { design_ratio: 3 }\n"),
            "`judge` has changed",
        ),
        (
            usual.replace("rate: 50/s", "seed: 7, rate: 50/s"),
            "`sampling.seed` has changed",
        ),
        (
            usual.replace(">= 50%", ">= 40%"),
            "the objectives have changed",
        ),
        (
            usual.replace("rate: 50/s", "rate: 40/s"),
            "how they are sampled have changed",
        ),
        (promising(&server, 7, ""), "it may only grow"),
    ] {
        place.write("s.yaml", &text);
        place
            .run(&["run", "s.yaml", "--continue", "r"])
            .exits(2)
            .complains("cannot continue r/m/default")
            .complains(words);
    }
    assert_eq!(server.requests(), sent, "refusing sends nothing");
    // With the same budget there is nothing to add, which is said.
    let server = third_fails();
    place.write(
        "s.yaml",
        &promising(&server, 8, "judge: { futility: false }\n"),
    );
    let run = |arguments: &[&str]| place.run(&[&["run", "s.yaml"], arguments].concat());
    let budget = run(&["--run-id", "b"]);
    if fit(&budget) {
        run(&["--continue", "b"]).complains("all 8 planned samples are used");
    }
    run(&["--continue", "nowhere"])
        .exits(2)
        .complains("there is no run");
    fs::create_dir(place.path().join("runs/empty")).unwrap();
    run(&["--continue", "empty"])
        .exits(2)
        .complains("no evidence of s.yaml");
    run(&["--continue", "r", "--run-id", "q"]).exits(2);
}

#[test]
fn an_invalid_run_does_not_go_on_and_is_no_try() {
    let (server, place) = (by_model(), Place::new());
    place.write("s.yaml", &spec(&server.base_url(), "half"));
    place.run(&["run", "s.yaml", "--run-id", "r"]).exits(3);
    // As a machine leaves it that was too busy.
    let file = place.evidence_file("r");
    let text = fs::read_to_string(&file).unwrap();
    let unfit = text.replace(
        "\"self_check\":{",
        "\"self_check\":{\"invalid\":\"too busy\",",
    );
    assert_ne!(unfit, text);
    fs::write(&file, unfit).unwrap();
    place
        .run(&["judge", "runs/r"])
        .exits(3)
        .says("the run is invalid");
    place
        .run(&["run", "s.yaml", "--continue", "r"])
        .exits(2)
        .complains("too busy")
        .complains("start afresh");
    place.run(&["run", "s.yaml", "--run-id", "q"]);
    assert_eq!(place.evidence("q").header.earlier_runs, []);
}

#[test]
fn a_single_look_that_was_taken_is_not_taken_again_at_a_larger_number() {
    let server = by_model();
    let place = Place::new();
    let text = spec(&server.base_url(), "half");
    place.write("s.yaml", &text);
    let first = place.run(&["run", "s.yaml", "--run-id", "r"]);
    first.exits(3);
    if !fit(&first) {
        return;
    }
    place.write("s.yaml", &text.replace("max_samples: 5", "max_samples: 50"));
    place
        .run(&["run", "s.yaml", "--continue", "r"])
        .exits(2)
        .complains("`judge.method: wilson` looks once, at 5 samples");
}

#[test]
fn a_fresh_start_after_runs_that_did_not_pass_is_on_record_and_shown() {
    let server = by_model();
    let place = Place::new();
    place.write("s.yaml", &spec(&server.base_url(), "half"));
    // What lies there and cannot be read stops nobody.
    fs::create_dir_all(place.path().join("runs/old")).unwrap();
    place.write("runs/old/r-half-default-00000000.jsonl", "no evidence\n");
    let first = place.run(&["run", "s.yaml", "--run-id", "a"]);
    first.exits(3);
    assert_eq!(place.evidence("a").header.earlier_runs, []);
    let second = place.run(&["run", "s.yaml", "--run-id", "b"]);
    second
        .exits(3)
        .says("a fresh start after 1 run that did not pass: up to 9.8% chance of a false pass");
    let third = place.run(&["run", "s.yaml", "--run-id", "c", "--format", "json"]);
    let document = third.exits(3).json();
    let cell = &document["cells"][0];
    let chance = cell["false_pass_at_most"].as_f64().unwrap();
    assert!((chance - 0.142_625).abs() < 1e-9, "{chance}");
    let earlier = &place.evidence("c").header.earlier_runs;
    let runs: Vec<_> = earlier
        .iter()
        .map(|it| (it.run_id.as_str(), it.came_to))
        .collect();
    assert_eq!(
        runs,
        [("b", CameTo::Inconclusive), ("a", CameTo::Inconclusive)]
    );
    assert_eq!(cell["earlier_runs"][0]["run_id"], "b");
    // Another plan is another matter.
    place.write(
        "t.yaml",
        &spec(&server.base_url(), "half").replace("50%", "40%"),
    );
    place.run(&["run", "t.yaml", "--run-id", "d"]);
    assert_eq!(place.evidence("d").header.earlier_runs, []);
}

#[test]
fn a_run_that_passed_ends_the_count_of_those_that_did_not() {
    let (place, server) = (
        Place::new(),
        Server::start(|number, _, stream: &mut TcpStream| {
            // Only the first run of five calls fails.
            let body = if number < 5 {
                b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec()
            } else {
                honest("m").into_bytes()
            };
            stream.write_all(&body)
        }),
    );
    place.write("s.yaml", &spec(&server.base_url(), "m"));
    place.run(&["run", "s.yaml", "--run-id", "a"]).exits(1);
    place.run(&["run", "s.yaml", "--run-id", "b"]).exits(0);
    place.run(&["run", "s.yaml", "--run-id", "c"]).exits(0);
    let red = |run: &str| place.evidence(run).header.earlier_runs;
    assert_eq!(red("b").len(), 1);
    assert_eq!(red("b")[0].came_to, CameTo::Violated);
    assert_eq!(red("c"), []);
}
