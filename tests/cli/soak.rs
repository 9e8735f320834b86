//! `judge` and `report` of a soak: several probes' folders, one verdict, one document.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use quick_junit::{Report, TestCaseStatus};

use crate::place::{Place, Seen};

#[path = "../../examples/week/made.rs"]
mod made;

const AFTER: &str = "2027-01-01T00:00:00Z";

/// A week of 800 samples in a folder of each probe.
pub(crate) fn week(place: &Place) -> Vec<PathBuf> {
    made::write(&place.path().join("week"), 800).unwrap()
}

fn report(place: &Place, form: &str, folders: &[&str]) -> String {
    let mut arguments = vec!["report", "--format", form];
    arguments.extend(folders);
    place.run(&arguments).exits(0).out.clone()
}

const FOLDERS: [&str; 2] = ["week/hk", "week/usw"];

#[test]
fn folders_of_several_probes_are_judged_as_one_soak() {
    let place = Place::new();
    week(&place);
    let seen = place.run(&["judge", "week/hk", "week/usw"]);
    let text = seen.exits(1).out.clone();
    for wanted in [
        "week, a soak\n",
        "alpha/test-model/default/hk: ",
        "  VIOLATED      ttft.p95 < 1.5s @peak",
        "\nVIOLATED alpha\n",
        "slots from 2026-03-03T19:",
    ] {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let json = place.run(&["judge", "week/hk", "week/usw", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.exits(1).out).unwrap();
    assert_eq!(json["kind"], "campaign");
    assert_eq!(json["overall"], "violated");
}

#[test]
fn before_its_end_a_soak_is_provisional_and_nothing_of_it_passes() {
    let place = Place::new();
    week(&place);
    let asked = [
        "judge",
        "week/hk",
        "week/usw",
        "--as-of",
        "2026-03-02T02:00:00+08:00",
    ];
    let text = place.run(&asked).exits(3).out.clone();
    assert!(
        text.contains("PROVISIONAL, as of 2026-03-01T18:00:00Z"),
        "{text}"
    );
    assert!(!text.contains("PASS"), "{text}");
    let wrong = place.run(&["judge", "week/hk", "--as-of", "yesterday"]);
    assert!(
        wrong
            .exits(2)
            .err
            .contains("expected a time with its offset")
    );
}

#[test]
fn a_document_made_elsewhere_of_the_same_evidence_is_the_same_to_the_byte() {
    let here = Place::new();
    let files = week(&here);
    let there = Place::new();
    // One folder, other names in another order, one file twice.
    fs::create_dir_all(there.path().join("copied")).unwrap();
    for (number, file) in files.iter().rev().enumerate() {
        fs::copy(file, there.path().join(format!("copied/{number:02}.jsonl"))).unwrap();
    }
    fs::copy(&files[0], there.path().join("copied/again.jsonl")).unwrap();
    for form in ["json", "markdown", "html"] {
        let first = report(&here, form, &FOLDERS);
        let mut command = there.command(&["report", "--format", form, "copied", "--as-of", AFTER]);
        command
            .env("TZ", "America/New_York")
            .env("LC_ALL", "de_DE.UTF-8");
        command.env("RELAYPROOF_TRACE_URL", "tempo:http://elsewhere.example");
        let second = Seen::of(command.output().unwrap()).exits(0).out.clone();
        assert!(first == second, "{form} differs");
        assert!(first.ends_with('\n') || form == "html", "{form}");
    }
}

#[test]
fn the_forms_of_a_soak_say_the_same_verdicts() {
    let place = Place::new();
    week(&place);
    let json: serde_json::Value = serde_json::from_str(&report(&place, "json", &FOLDERS)).unwrap();
    assert_eq!(
        (&json["schema"], &json["kind"]),
        (&1.into(), &"sign-off".into())
    );
    let root = json["provenance"]["evidence_root"].as_str().unwrap();
    let verify = place.run(&["verify", "week/hk", "week/usw"]);
    assert!(verify.exits(0).out.contains(root));
    let rows = json["rows"].as_array().unwrap();
    let deciding = rows.iter().filter(|row| row["role"] != "shown");
    let expected: BTreeMap<String, bool> = deciding
        .map(|row| {
            let name = format!(
                "{}: {}",
                row["pool"].as_str().unwrap(),
                row["name"].as_str().unwrap()
            );
            (name, row["comes_to"] == "pass")
        })
        .collect();
    let junit = Report::deserialize_from_str(&report(&place, "junit", &FOLDERS)).unwrap();
    let cases = junit.test_suites.iter().flat_map(|suite| {
        suite.test_cases.iter().map(|case| {
            let passes = matches!(case.status, TestCaseStatus::Success { .. });
            (
                format!("{}: {}", suite.name.as_str(), case.name.as_str()),
                passes,
            )
        })
    });
    assert_eq!(cases.collect::<BTreeMap<_, _>>(), expected);
    assert!(expected.values().any(|passes| !passes));
    let markdown = report(&place, "md", &FOLDERS);
    let page = report(&place, "html", &FOLDERS);
    let violated = rows
        .iter()
        .filter(|row| row["comes_to"] == "violated")
        .count();
    let relays = json["relays"].as_array().unwrap();
    let relays = relays
        .iter()
        .filter(|it| it["overall"] == "violated")
        .count();
    assert_eq!(markdown.matches("❌ violated").count(), violated + relays);
    assert_eq!(page.matches("✗ violated").count(), violated + relays);
    let refused = place.run(&["report", "--format", "github", "week/hk", "week/usw"]);
    assert!(refused.exits(2).err.contains("are for runs"));
}

#[test]
fn nothing_is_signed_that_was_altered_or_is_no_single_soak() {
    let place = Place::new();
    let files = week(&place);
    let text = fs::read_to_string(&files[0]).unwrap();
    fs::write(
        &files[0],
        text.replacen("\"status\":503", "\"status\":200", 1)
            .replacen("\"first_token_us\":5", "\"first_token_us\":4", 1),
    )
    .unwrap();
    let altered = place.run(&["report", "--format", "json", "week/hk", "week/usw"]);
    let said = &altered.exits(2).err;
    assert!(
        said.contains("altered evidence; `relayproof verify` says where"),
        "{said}"
    );
    let altered = place.run(&["report", "--format", "junit", "week/hk", "week/usw"]);
    assert!(altered.exits(2).err.contains("altered evidence"));
    fs::write(&files[0], text).unwrap();

    fs::copy(
        "tests/data/evidence/unchained.jsonl",
        place.path().join("run.jsonl"),
    )
    .unwrap();
    let mixed = place.run(&["judge", "week/hk", "run.jsonl"]);
    assert!(mixed.exits(2).err.contains("name them apart"));
    // A region that was forgotten to be copied is not one that was never sampled.
    fs::create_dir(place.path().join("empty")).unwrap();
    let partly = place.run(&["judge", "week/hk", "empty"]);
    assert!(partly.exits(2).err.contains("empty: no evidence"));
    let early = place.run(&["judge", "run.jsonl", "--as-of", AFTER]);
    assert!(
        early
            .exits(2)
            .err
            .contains("`--as-of` is for evidence of a soak")
    );
}
