//! `relayproof explain` and `relayproof schema`.

use relayproof::glossary;
use relayproof::sim::Fault;
use serde_json::Value;

use crate::place::Place;

#[test]
fn every_name_that_is_listed_is_explained_within_eighty_columns() {
    let place = Place::new();
    let listed = place.run(&["explain"]);
    let names = glossary::entries().into_iter().map(|entry| entry.name);
    let names: Vec<&str> = names.chain(Fault::NAMES.iter().copied()).collect();
    for name in &names {
        listed.exits(0).says(name);
    }
    assert!(names.len() > 100);
    for name in [
        "ttft",
        "masked-truncation",
        "rewritten-stream",
        "cannot_pass",
        "wilson",
        "truncate",
    ] {
        let seen = place.run(&["explain", name]);
        seen.exits(0)
            .says(&format!("{name}  ("))
            .says("more        docs/");
        for line in seen.out.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    for line in listed.out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn an_objective_explains_its_metric_and_a_misspelt_name_the_nearest() {
    let place = Place::new();
    place
        .run(&["explain", "tps.p05 >= 20/s"])
        .exits(0)
        .says("tps  (metric)");
    place
        .run(&["explain", "TTFT"])
        .exits(0)
        .says("definition  from t0 to the first non-empty content");
    place
        .run(&["explain", "masked-trunkation"])
        .exits(2)
        .complains("did you mean `masked-truncation`?");
    place
        .run(&["explain", "\u{1b}[31mnothing-like-it"])
        .exits(2)
        .complains("`relayproof explain` lists all names");
}

#[test]
fn an_explanation_for_programs_is_one_document() {
    let place = Place::new();
    let document = place
        .run(&["explain", "usable", "--format", "json"])
        .exits(0)
        .json();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["entries"][0]["kind"], "metric");
    assert_eq!(
        document["entries"][0]["facts"]["objective"],
        "usable >= 99%"
    );
}

#[test]
fn the_schema_goes_to_standard_output_or_into_a_file() {
    let place = Place::new();
    let printed = place.run(&["schema"]);
    printed.exits(0);
    assert_eq!(
        printed.json()["$schema"],
        "http://json-schema.org/draft-07/schema#"
    );
    place
        .run(&["schema", "--out", "spec.json"])
        .exits(0)
        .says("# yaml-language-server: $schema=spec.json");
    let written = std::fs::read_to_string(place.path().join("spec.json")).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&written).unwrap(),
        printed.json()
    );
    place
        .run(&["schema", "--out", "no/such/folder/spec.json"])
        .exits(2)
        .complains("cannot write no/such/folder/spec.json");
}
