//! `report` and `run --report`: the same verdicts in every form.

use std::collections::BTreeMap;
use std::fs;

use quick_junit::{NonSuccessKind, Report, TestCaseStatus};
use relayproof::sim::{Fault, Planned, Settings};

use crate::place::{Place, Seen};
use crate::server::{Embedded, quick};

/// Two of them are broken by a relay that cuts every answer.
const OBJECTIVES: [(&str, bool); 5] = [
    ("ttft.p50 < 5s", true),
    ("interruption < 50%", false),
    ("http_success >= 50%", true),
    ("usable >= 50%", false),
    ("ttfb.p50 < 5s", true),
];

/// A run of a relay that cuts every answer, with what it printed.
fn cut(place: &Place, more: &[&str]) -> String {
    let embedded = Embedded::start(Settings {
        faults: vec![Planned {
            fault: Fault::Truncate { after_tokens: None },
            share_ppm: 1_000_000,
        }],
        ..quick()
    });
    let slos: String = OBJECTIVES
        .iter()
        .map(|(text, _)| format!("  - {text}\n"))
        .collect();
    let text = format!(
        "relayproof: 1\nrelays:\n  - {{ name: r, base_url: {}, models: [m] }}\n\
         judge: {{ method: wilson }}\n\
         sampling: {{ rate: 50/s, max_samples: 5, concurrency: 5 }}\n\
         slos:\n{slos}",
        embedded.relay().base_url()
    );
    place.write("s.yaml", &text);
    let mut arguments = vec!["run", "s.yaml", "--run-id", "r"];
    arguments.extend(more);
    place.run(&arguments).exits(1).out.clone()
}

/// Holds a document to a schema.
fn is_valid(schema: &serde_json::Value, document: &serde_json::Value) {
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    let at = "file:///report.json";
    compiler.add_resource(at, schema.clone()).unwrap();
    let index = compiler.compile(at, &mut schemas).unwrap();
    if let Err(error) = schemas.validate(document, index) {
        panic!("{document:#}\n{error:#}");
    }
}

fn expected() -> BTreeMap<String, bool> {
    let all = OBJECTIVES.iter();
    all.map(|(text, passes)| ((*text).to_owned(), *passes))
        .collect()
}

#[test]
fn two_broken_promises_of_five_are_the_same_two_in_every_report() {
    let place = Place::new();
    let terminal = cut(&place, &[]);
    let report = |form: &str| {
        let mut command = place.command(&["report", "runs/r", "--format", form]);
        // The run exported nothing; its evidence may have been exported since.
        command.env("RELAYPROOF_TRACE_URL", "jaeger:http://127.0.0.1:16686");
        Seen::of(command.output().unwrap()).exits(0).out.clone()
    };

    let words = OBJECTIVES.iter().map(|(text, _)| {
        let line = terminal.lines().find(|line| line.contains(text)).unwrap();
        ((*text).to_owned(), line.trim_start().starts_with("PASS"))
    });
    assert_eq!(words.collect::<BTreeMap<_, _>>(), expected(), "{terminal}");

    let json: serde_json::Value = serde_json::from_str(&report("json")).unwrap();
    let verdicts = json["cells"][0]["verdicts"].as_array().unwrap().iter();
    let verdicts = verdicts.map(|verdict| {
        let objective = verdict["objective"].as_str().unwrap().to_owned();
        (objective, verdict["decision"] == "pass")
    });
    assert_eq!(verdicts.collect::<BTreeMap<_, _>>(), expected());

    let schema = place.run(&["schema", "report"]).exits(0).out.clone();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    is_valid(&schema, &json);
    let judged = place.run(&["judge", "runs/r", "--format", "json"]);
    is_valid(
        &schema,
        &serde_json::from_str(&judged.exits(1).out).unwrap(),
    );
    // One cell that has no key, and one that nobody answers.
    place.write(
        "none.yaml",
        "relayproof: 1\nrelays:\n  \
         - { name: keyless, base_url: http://127.0.0.1:9/v1, api_key: { env: NO_SUCH_KEY }, models: [m] }\n  \
         - { name: gone, base_url: http://127.0.0.1:9/v1, models: [m] }\n\
         sampling: { rate: 50/s, max_samples: 74 }\nslos: [ttft.p95 < 5s]\n",
    );
    let run = place.run(&["run", "none.yaml", "--format", "json"]);
    let run: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    is_valid(&schema, &run);
    assert_eq!(run["unmeasured"][0]["cell"], "keyless/m/default", "{run:#}");

    let junit = Report::deserialize_from_str(&report("junit")).unwrap();
    assert_eq!((junit.tests, junit.failures, junit.errors), (5, 2, 0));
    let cases = junit.test_suites[0].test_cases.iter().map(|case| {
        let failed = match &case.status {
            TestCaseStatus::Success { .. } => false,
            TestCaseStatus::NonSuccess { kind, .. } => *kind == NonSuccessKind::Failure,
            TestCaseStatus::Skipped { .. } => panic!("skipped: {case:?}"),
        };
        (case.name.as_str().to_owned(), !failed)
    });
    assert_eq!(cases.collect::<BTreeMap<_, _>>(), expected());

    let markdown = report("markdown");
    let rows = OBJECTIVES.iter().map(|(text, _)| {
        let row = markdown
            .lines()
            .find(|line| line.starts_with("| ") && line.contains(text))
            .unwrap();
        ((*text).to_owned(), row.starts_with("| ✅ pass |"))
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), expected(), "{markdown}");

    let html = report("html");
    for (text, passes) in OBJECTIVES {
        let text = text.replace('<', "&lt;").replace('>', "&gt;");
        let place = html.find(&format!("<td><code>{text}</code>")).unwrap();
        let row = html[..place].rfind("<tr class=\"").unwrap();
        let standing = if passes { "passed" } else { "violated" };
        let begins = format!("<tr class=\"{standing}\">");
        assert!(
            html[row..].starts_with(&begins),
            "{text}: {}",
            &html[row..place]
        );
    }

    let github = report("github");
    let marked: Vec<&str> = github.lines().collect();
    assert_eq!(marked.len(), 2, "{github}");
    let spec = fs::read_to_string(place.path().join("s.yaml")).unwrap();
    for (text, passes) in OBJECTIVES {
        let line = 1 + spec.lines().position(|line| line.ends_with(text)).unwrap();
        let mark = format!("::error file=s.yaml,line={line},");
        assert_eq!(
            !passes,
            marked.iter().any(|it| it.starts_with(&mark)),
            "{text}: {github}"
        );
    }

    let gitlab: serde_json::Value = serde_json::from_str(&report("gitlab")).unwrap();
    let links = gitlab["relayproof"].as_array().unwrap();
    assert_eq!(links.len(), 2);
    for link in links {
        let url = link["external_link"]["url"].as_str().unwrap();
        assert!(url.starts_with("http://127.0.0.1:16686/trace/"), "{url}");
    }
}

#[test]
fn a_run_writes_the_reports_that_it_is_asked_for_and_report_writes_them_again() {
    let place = Place::new();
    cut(
        &place,
        &["--report", "junit=a.xml", "--report", "markdown=a.md"],
    );
    // The latest run, where none is named.
    place
        .run(&["report", "--format", "junit", "--out", "b.xml"])
        .exits(0);
    place
        .run(&["report", "--format", "markdown", "--out", "b.md"])
        .exits(0);
    for name in ["xml", "md"] {
        let read =
            |stem: &str| fs::read_to_string(place.path().join(format!("{stem}.{name}"))).unwrap();
        assert_eq!(read("a"), read("b"));
    }
}

#[test]
fn a_report_that_cannot_be_made_says_why() {
    let place = Place::new();
    let none = place.run(&["report", "--format", "junit"]);
    assert!(
        none.exits(2).err.contains("no run with evidence in runs"),
        "{none}"
    );
    place.write("torn.jsonl", "{\"schema\":1");
    let torn = place.run(&["report", "torn.jsonl", "--format", "junit"]);
    assert_eq!(torn.exits(2).out, "", "nothing that looks like a report");
    let unknown = place.run(&["run", "s.yaml", "--report", "pdf=x"]);
    assert!(
        unknown.exits(2).err.contains("there are junit, markdown"),
        "{unknown}"
    );
    cut(&place, &[]);
    let nowhere = place.run(&["report", "--format", "junit", "--out", "no/such/folder.xml"]);
    assert!(
        nowhere
            .exits(4)
            .err
            .contains("cannot write no/such/folder.xml"),
        "{nowhere}"
    );
}
