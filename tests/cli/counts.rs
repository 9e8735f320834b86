//! `judge --from`: counts of a database, by the rules of evidence.

use crate::place::Place;

#[test]
fn counts_are_judged_cell_by_cell() {
    let place = Place::new();
    place.write(
        "counts.jsonl",
        r#"{"cell":"alpha/m/chat","objective":"ttft.p95 < 1.5s","n":"113","failures":"1"}
{"cell":"alpha/m/chat","objective":"parse_success >= 99%","n":100,"failures":0}

{"cell":"beta/m/chat","objective":"interruption < 5%","n":40,"failures":20}
"#,
    );
    let text = place
        .run(&["judge", "--from", "counts.jsonl"])
        .exits(1)
        .out
        .clone();
    let wanted = "alpha/m/chat
  INCONCLUSIVE  parse_success >= 99%       100 of 100, 97.5% to 100% (budget)
  PASS          ttft.p95 < 1.5s            112 of 113, 95% to 99.7%
beta/m/chat
  VIOLATED      interruption < 5%          20 of 40";
    let found: Vec<&str> = text.lines().collect();
    for (line, wanted) in found.iter().zip(wanted.lines()) {
        let same = line.split(',').next() == wanted.split(',').next();
        assert!(same, "{line}\n{wanted}");
    }
    assert_eq!(found.len(), 5, "{text}");
    let json = place.run(&["judge", "--from", "counts.jsonl", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.exits(1).out).unwrap();
    assert_eq!(json["overall"], "violated");
    assert_eq!(json["cells"][0]["verdicts"][1]["n"], 113);
}

#[test]
fn a_row_that_is_none_is_named_with_its_line() {
    let place = Place::new();
    place.write(
        "counts.jsonl",
        "{\"cell\":\"a\",\"objective\":\"ttft.p95 < 1s\",\"n\":1,\"failures\":0}\nnonsense\n",
    );
    let seen = place.run(&["judge", "--from", "counts.jsonl"]);
    assert!(
        seen.exits(2).err.contains("counts.jsonl:2: "),
        "{}",
        seen.err
    );
    let none = place.run(&["judge", "--from", "none.jsonl"]);
    assert!(none.exits(2).err.contains("none.jsonl"));
    place.run(&["judge"]).exits(2);
}
