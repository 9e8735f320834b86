//! Evidence that was altered after it was written, and what `verify` says of it.

use std::fs;
use std::path::PathBuf;

use relayproof::evidence::{self, Segments, check, segment_files};
use serde_json::Value;

use crate::exits::spec;
use crate::place::{Place, Seen};
use crate::server::by_model;

/// What the last version before the chain wrote.
const UNCHAINED: &str = include_str!("../data/evidence/unchained.jsonl");

/// A folder with the evidence of one run, and that file: a header, five samples, a closing line.
fn run() -> (Place, PathBuf) {
    let (server, place) = (by_model(), Place::new());
    place.write("s.yaml", &spec(&server.base_url(), "good"));
    place.run(&["run", "s.yaml", "--run-id", "r"]).passes();
    let file = place.evidence_file("r");
    (place, file)
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// The root that a file is said to have.
fn root(seen: &Seen) -> String {
    let (_, rest) = seen.out.split_once(", root ").unwrap();
    rest.chars().take_while(char::is_ascii_hexdigit).collect()
}

#[test]
fn a_run_is_whole_and_no_byte_of_it_can_be_another_one_unseen() {
    let (place, file) = run();
    let whole = fs::read(&file).unwrap();
    let seen = place.run(&["verify", "runs/r"]);
    seen.exits(0).says(": whole, 7 lines, root ");
    let copy = place.path().join("copy.jsonl");
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        // Another letter for a letter, another digit for a digit, a line feed for none.
        changed[at] ^= 1;
        fs::write(&copy, &changed).unwrap();
        let checked = check(&copy, 1).unwrap();
        assert!(!checked.is_whole(), "byte {at}");
    }
    for at in [0, 9, whole.len() / 2, whole.len() - 70, whole.len() - 1] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&copy, &changed).unwrap();
        place
            .run(&["verify", "copy.jsonl"])
            .exits(1)
            .says("ALTERED");
    }
}

#[test]
fn what_was_done_to_a_line_is_told_with_its_place() {
    let (place, file) = run();
    let text = fs::read_to_string(file).unwrap();
    let whole = lines(&text);
    let altered = |made: &[&str]| {
        place.write("copy.jsonl", &made.concat());
        place.run(&["verify", "copy.jsonl"])
    };
    altered(&whole).exits(0);
    for at in 0..whole.len() - 1 {
        let number = at + 1;
        let mut made = whole.clone();
        made.remove(at);
        altered(&made).exits(1).says(&format!(
            "copy.jsonl:{number}: the line was changed, or a line before"
        ));
        let mut made = whole.clone();
        made.swap(at, at + 1);
        altered(&made)
            .exits(1)
            .says(&format!("copy.jsonl:{number}: "))
            .says(&format!(
                "copy.jsonl:{}: the line is out of order",
                number + 1
            ));
    }
    let slower = whole[3].replace("\"first_token_us\":", "\"first_token_us\":1");
    let mut made = whole.clone();
    made[3] = &slower;
    altered(&made)
        .exits(1)
        .says("copy.jsonl:4: the line was changed");
    for command in ["judge", "compare"] {
        let seen = place.run(&[command, "copy.jsonl"]);
        assert!(
            seen.err
                .contains("warning: copy.jsonl: altered evidence; `relayproof verify` says where"),
            "{command}: {}",
            seen.err
        );
    }
    let mut made = whole.clone();
    made.insert(3, whole[2]);
    altered(&made)
        .exits(1)
        .says("copy.jsonl:4: the line is out of order: it was written behind what is line 2 now")
        .says("copy.jsonl:4: the sample of line 3 once more");
    let mut made = whole.clone();
    made.push("{\"remark\":1}\n");
    altered(&made)
        .exits(1)
        .says("copy.jsonl:8: the line has no chain value");
    // The first few, and how many there are.
    let mut made = whole;
    made.reverse();
    place.write("copy.jsonl", &made.concat());
    place
        .run(&["verify", "copy.jsonl", "--show", "2"])
        .exits(1)
        .says("and 5 more; see --show");
}

#[test]
fn lines_that_are_missing_at_the_end_are_found_by_a_root_from_elsewhere() {
    let (place, file) = run();
    let before = place.run(&["verify", "runs/r"]);
    let kept = root(before.exits(0));
    place
        .run(&["verify", "runs/r", "--root", &kept])
        .exits(0)
        .says("as expected: ");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, lines(&text)[..5].concat()).unwrap();
    place
        .run(&["verify", "runs/r"])
        .exits(0)
        .says(": whole, 5 lines")
        .says("no closing line at the end");
    place
        .run(&["verify", "runs/r", "--root", &kept])
        .exits(1)
        .says("NOT AS EXPECTED");
    place
        .run(&["verify", "runs/r", "--root", "abc"])
        .exits(2)
        .complains("not 64 hex digits");
}

#[test]
fn the_root_of_many_files_does_not_hang_on_their_names() {
    let (server, place) = (by_model(), Place::new());
    place.write("s.yaml", &spec(&server.base_url(), "good, bad"));
    place.run(&["run", "s.yaml", "--run-id", "r"]);
    let all = place.run(&["verify", "runs/r", "--format", "json"]);
    let all = all.exits(0).json();
    let root = all["evidence"]["root"].as_str().unwrap();
    fs::create_dir(place.path().join("moved")).unwrap();
    for (at, file) in all["evidence"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let from = place.path().join(file["file"].as_str().unwrap());
        fs::copy(from, place.path().join(format!("moved/{}.jsonl", 9 - at))).unwrap();
    }
    place
        .run(&["verify", "moved", "--root", root])
        .exits(0)
        .says("(2 files)");
    place
        .run(&["verify", "moved", "runs/r", "--root", root])
        .exits(0)
        .says("(4 files)");
    fs::remove_file(place.path().join("moved/9.jsonl")).unwrap();
    place.run(&["verify", "moved", "--root", root]).exits(1);
}

#[test]
fn programs_get_one_document() {
    let (place, file) = run();
    let seen = place.run(&["verify", "runs/r", "--format", "json"]);
    let document = seen.exits(0).json();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["whole"], true);
    let one = &document["evidence"]["files"][0];
    assert_eq!(one["cell"], "r/good/default");
    assert_eq!((&one["lines"], &one["samples"]), (&7.into(), &5.into()));
    assert_eq!(
        (&one["chained"], &one["closed"]),
        (&true.into(), &true.into())
    );
    assert_eq!(one["alterations"], Value::Array(Vec::new()));

    let text = fs::read_to_string(&file).unwrap();
    let whole = lines(&text);
    let moved = [whole[0], whole[2], whole[1], &whole[3..].concat()].concat();
    fs::write(&file, moved).unwrap();
    let root = one["root"].as_str().unwrap();
    let seen = place.run(&["verify", "runs/r", "--format", "json", "--root", root]);
    let document = seen.exits(1).json();
    assert_eq!(document["whole"], false);
    let evidence = &document["evidence"];
    assert_eq!(evidence["as_expected"], false);
    let one = &evidence["files"][0];
    assert_eq!(one["altered"], 3);
    let first = &one["alterations"][0];
    assert_eq!(
        (&first["line"], &first["what"]),
        (&2.into(), &"moved".into())
    );
    assert_eq!(first["behind"], 3);
}

#[test]
fn evidence_of_a_version_without_the_chain_is_judged_as_before_and_told_as_such() {
    let place = Place::new();
    place.write("old.jsonl", UNCHAINED);
    place
        .run(&["judge", "old.jsonl"])
        .exits(0)
        .says("r/m/default  12 of 12 samples in 207 ms")
        .says("look at relay-middleware, stream: truncated-no-terminator 1 (#5)")
        .says("PASS          parse_success >= 50%  12 of 12, at least 75.7%")
        .says("PASS          interruption < 50%    11 of 12 whole, at least 64.6%");
    let seen = place.run(&["verify", "old.jsonl"]);
    seen.exits(0)
        .says("old.jsonl: unchained (")
        .says("14 lines");
    // What it cannot tell itself its root does.
    let kept = root(&seen);
    place
        .run(&["verify", "old.jsonl", "--root", &kept])
        .exits(0);
    place.write(
        "old.jsonl",
        &UNCHAINED.replacen("\"index\":5", "\"index\":6", 1),
    );
    place.run(&["verify", "old.jsonl"]).exits(0);
    place
        .run(&["verify", "old.jsonl", "--root", &kept])
        .exits(1);
}

#[test]
fn segments_that_are_not_in_a_row_are_told() {
    let (place, file) = run();
    let whole = evidence::read(&file).unwrap();
    fs::create_dir(place.path().join("cell")).unwrap();
    let first = place.path().join("cell/c.jsonl");
    let mut segments = Segments::create(&first, &whole.header, 3_000).unwrap();
    for (index, sample) in (0..9).zip(whole.samples.iter().cycle()) {
        let mut sample = sample.clone();
        sample.id = format!("{index:032x}");
        segments.sample(&sample).unwrap();
    }
    segments.close(&whole.close.unwrap()).unwrap();
    let files = segment_files(&first).unwrap();
    assert!(files.len() > 2);
    place
        .run(&["verify", "cell"])
        .exits(0)
        .says("cell/c-0002.jsonl: whole, ")
        .says(", segment 2, root ");
    let second = fs::read_to_string(&files[1]).unwrap();
    let kept = lines(&second);
    fs::write(&files[1], kept[..kept.len() - 1].concat()).unwrap();
    place
        .run(&["verify", "cell"])
        .exits(1)
        .says("cell/c-0003.jsonl:1: segment 2 does not end with the chain value");
    fs::remove_file(&files[1]).unwrap();
    place
        .run(&["verify", "cell"])
        .exits(1)
        .says("cell/c-0003.jsonl:1: segment 2, which this one follows, is not among the files");
}

#[test]
fn what_cannot_be_read_weighs_more_than_what_was_altered_and_hides_nothing() {
    let (place, file) = run();
    let text = fs::read_to_string(&file).unwrap();
    place.write("cut.jsonl", &text[text.len() / 2..]);
    place.write("odd.jsonl", "hello\n");
    place.write(
        "altered.jsonl",
        &text.replacen("\"index\":2", "\"index\":7", 1),
    );
    place
        .run(&["verify", "odd.jsonl", "altered.jsonl", "runs/r"])
        .exits(2)
        .complains("odd.jsonl:1: not a line of evidence")
        .says("altered.jsonl: ALTERED")
        .says(": whole, 7 lines");
    place.run(&["verify", "nothing.jsonl"]).exits(2);
    let spans = "runs/r/spans.otlp.jsonl";
    place
        .run(&["verify", spans])
        .exits(2)
        .complains("no evidence among these files");
    // Found all the same where a backend is asked as well and is not there.
    let nobody = format!("http://{}", crate::server::nobody());
    place
        .run(&["verify", "altered.jsonl", "--traces", &nobody])
        .exits(4)
        .says("altered.jsonl: ALTERED")
        .complains("cannot connect");
}
