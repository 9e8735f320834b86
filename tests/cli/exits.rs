//! Exit codes: each one, their precedence, and what must not change them.

use std::fs;
use std::process::Stdio;

use crate::place::{Place, Seen};
use crate::server::{Server, by_model};

/// A spec that asks a relay of the test's own for these models, five times each: at most that many
/// starts can be late, which no verdict minds.
pub(crate) fn spec(base_url: &str, models: &str) -> String {
    format!(
        "relayproof: 1
relays:
  - {{ name: r, base_url: \"{base_url}\", models: [{models}] }}
sampling: {{ rate: 50/s, max_samples: 5 }}
judge: {{ method: wilson }}
slos: [parse_success >= 50%]
"
    )
}

/// A relay whose tests fail for want of a key.
const REQUIRED: &str = "
  - { name: keyless, base_url: \"http://127.0.0.1:9/v1\", models: [m], \
    api_key: { env: NO_SUCH_KEY }, required: true }
sampling:";

/// `wrong` is a spec with a mistake; `NAME-MODEL…` ask for these models.
fn place(server: &Server) -> Place {
    let place = Place::new();
    let url = server.base_url();
    for models in ["good", "bad", "half", "good, half", "bad, half"] {
        let name = format!("{}.yaml", models.replace(", ", "-"));
        place.write(&name, &spec(&url, models));
    }
    let bad = spec(&url, "bad");
    place.write("keyless.yaml", &bad.replace("\nsampling:", REQUIRED));
    place.write("wrong.yaml", &bad.replace("parse_success", "parse_sucess"));
    let ignored = bad.replace("models:", "api_key: { env: NO_SUCH_KEY }, models:");
    place.write("ignored.yaml", &ignored);
    place
}

#[test]
fn run_ends_with_what_its_verdicts_come_to() {
    let server = by_model();
    let place = place(&server);
    for (files, code, words) in [
        (&["good.yaml"][..], 0, "PASS"),
        (&["bad.yaml"], 1, "VIOLATED"),
        (&["half.yaml"], 3, "INCONCLUSIVE"),
        (&["good-half.yaml"], 3, "PASS"),
        (&["bad-half.yaml"], 1, "INCONCLUSIVE"),
        // Our own failure weighs more than the relay's.
        (&["keyless.yaml"], 4, "VIOLATED"),
        // What is ignored weighs nothing, unless nothing is left.
        (&["good.yaml", "ignored.yaml"], 0, "PASS"),
    ] {
        let arguments = [&["run"], files].concat();
        place.run(&arguments).exits(code).says(words);
    }
    place
        .run(&["run", "ignored.yaml"])
        .exits(4)
        .complains("ignored: r/bad/default: NO_SUCH_KEY is not set")
        .complains("nothing was measured");
    place
        .run(&["run", "keyless.yaml"])
        .complains("error: keyless/m/default: ")
        .complains("NO_SUCH_KEY is not set");
}

#[test]
fn a_mistake_in_any_spec_comes_before_everything_else() {
    let server = by_model();
    let place = place(&server);
    let seen = place.run(&["run", "bad.yaml", "keyless.yaml", "wrong.yaml", "none.yaml"]);
    seen.exits(2)
        .complains("wrong.yaml:6:")
        .complains("cannot read none.yaml");
    assert_eq!((seen.out.as_str(), server.requests()), ("", 0));
    assert!(!place.path().join("runs").exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_our_failure() {
    let server = by_model();
    let place = place(&server);
    place.write("file", "");
    place
        .run(&["run", "good.yaml", "--dir", "file/runs"])
        .exits(4)
        .complains("cannot make the run's folder");
    assert_eq!(server.requests(), 0);
}

#[test]
fn judge_ends_as_the_runs_did_and_with_2_for_what_is_no_evidence() {
    let server = by_model();
    let place = place(&server);
    for models in ["good", "bad", "half"] {
        let file = format!("{models}.yaml");
        place.run(&["run", &file, "--run-id", models]);
    }
    let whole = fs::read_to_string(place.evidence_file("bad")).unwrap();
    place.write("header.jsonl", whole.split_inclusive('\n').next().unwrap());
    place.write(
        "broken.jsonl",
        &whole.replace("\"attempts\"", "\"attemps\""),
    );
    fs::create_dir(place.path().join("empty")).unwrap();
    for (files, code) in [
        (&["runs/good"][..], 0),
        (&["runs/bad"], 1),
        (&["runs/half"], 3),
        (&["runs/good", "runs/half"], 3),
        (&["runs/half", "runs/bad"], 1),
        (&["header.jsonl"], 4),
        (&["header.jsonl", "runs/bad"], 4),
        (&["broken.jsonl", "runs/bad"], 2),
        (&["broken.jsonl", "header.jsonl"], 2),
        (&["empty"], 2),
        (&["none.jsonl"], 2),
        (&["good.yaml"], 2),
    ] {
        place.run(&[&["judge"], files].concat()).exits(code);
    }
    // One bad file keeps no other from being judged.
    place
        .run(&["judge", "broken.jsonl", "runs/bad"])
        .says("VIOLATED")
        .complains("broken.jsonl:2: not a line of evidence");
}

#[test]
fn probe_check_and_plan_end_with_their_codes() {
    let server = by_model();
    let place = place(&server);
    let url = server.base_url();
    for (arguments, code) in [
        (&["probe", &url, "--model", "good"][..], 0),
        (&["probe", &url, "--model", "bad"], 1),
        (&["probe", "relay.example/v1"], 2),
        (&["probe", "ftp://relay.example/v1"], 2),
        (&["probe", &url, "--timeout", "first_token=2"], 2),
        (&["probe", &url, "--timeout", "patience=2s"], 2),
        (&["probe", &url, "--protocol", "telnet"], 2),
        (&["probe", &url, "--ca-file", "none.pem"], 2),
        (&["probe", &url, "--ca-file", "good.yaml"], 2),
        (&["probe", &url, "--proxy", "gopher://127.0.0.1:1"], 2),
        (&["check", "good.yaml", "bad.yaml"], 0),
        (&["check", "good.yaml", "wrong.yaml"], 2),
        (&["check", "none.yaml"], 2),
        (&["plan", "good.yaml"], 0),
        (&["plan", "wrong.yaml"], 2),
        (&["plan", "none.yaml"], 2),
        (&["plan", "good.yaml", "--profile", "none"], 2),
    ] {
        place.run(arguments).exits(code);
    }
    assert_eq!(server.requests(), 2, "mistakes send nothing");
}

#[test]
fn mistakes_on_the_command_line_end_with_2_and_help_with_0() {
    let place = Place::new();
    for arguments in [
        &[][..],
        &["jugde"],
        &["run"],
        &["check"],
        &["judge"],
        &["plan"],
        &["probe"],
        &["run", "a.yaml", "--format", "xml"],
        &["run", "a.yaml", "--run"],
        &["probe", "http://127.0.0.1:9/v1", "--http", "3"],
    ] {
        let seen = place.run(arguments);
        seen.exits(2);
        assert!(seen.out.is_empty() && !seen.err.is_empty(), "{seen}");
    }
    place.run(&["--help"]).exits(0).says("Exit codes: 0 pass");
    place.run(&["probe", "--help"]).exits(0).says("BASE_URL");
    place
        .run(&["--version"])
        .exits(0)
        .says(env!("CARGO_PKG_VERSION"));
}

/// Starts a command whose stdout, and if asked its stderr, nobody reads.
fn unread(place: &Place, arguments: &[&str], stderr: bool) -> Seen {
    let mut command = place.command(arguments);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    if stderr {
        command.stderr(writer.try_clone().unwrap());
    }
    command.stdout(writer);
    Seen::of(command.output().unwrap())
}

#[test]
fn a_reader_who_has_left_changes_no_exit_code() {
    let server = by_model();
    let place = place(&server);
    let url = server.base_url();
    place.run(&["run", "bad.yaml", "--run-id", "r"]).exits(1);
    for (arguments, code) in [
        (&["run", "bad.yaml"][..], 1),
        (&["run", "bad.yaml", "--format", "json"], 1),
        (&["run", "good.yaml"], 0),
        (&["run", "wrong.yaml"], 2),
        (&["run", "ignored.yaml"], 4),
        (&["judge", "runs/r"], 1),
        (&["probe", &url, "--model", "bad"], 1),
        (&["check", "wrong.yaml"], 2),
        (&["plan", "good.yaml"], 0),
        (&["--help"], 0),
    ] {
        unread(&place, arguments, false).exits(code);
        // A panic would need stderr to be seen; its exit code is 101.
        unread(&place, arguments, true).exits(code);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn results_that_cannot_be_written_are_our_failure() {
    let server = by_model();
    let place = place(&server);
    for arguments in [
        &["check", "good.yaml"][..],
        &["plan", "good.yaml"],
        &["run", "good.yaml", "--run-id", "r"],
    ] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = place
            .command(arguments)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        Seen::of(output)
            .exits(4)
            .complains("cannot write the results");
    }
    // The evidence and the spans are there all the same.
    assert_eq!(place.evidence("r").samples.len(), 5);
    let spans = fs::read_to_string(place.of_run("r").join("spans.otlp.jsonl"));
    assert!(spans.is_ok_and(|text| text.contains("chat")), "no spans");
}
