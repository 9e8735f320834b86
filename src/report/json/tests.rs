//! Real reports of all kinds, held to the schema by a validator of somebody else's.

use std::collections::BTreeSet;

use super::*;
use crate::evidence::fixtures::*;
use crate::evidence::{CameTo, CloseReason, Continued, EarlierRun};
use crate::observation::Class;
use crate::report::document::{Cell, Unmeasured};
use crate::verdict::{Bursts, Seals};

/// What the schema says of a document.
fn checked(document: &Value) -> Result<(), String> {
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler
        .add_resource("file:///report.json", schema::document())
        .unwrap();
    let index = compiler
        .compile("file:///report.json", &mut schemas)
        .unwrap();
    schemas
        .validate(document, index)
        .map_err(|error| format!("{error:#}"))
}

/// Reports with everything that one can hold, and with nothing.
fn reports() -> Vec<Value> {
    let objectives = vec![ttft_p95(), parse_success(), tps_p05(), ttft_mean()];
    let mut full = evidence(
        objectives.clone(),
        600,
        (0..60).map(|index| {
            let seen = match index % 4 {
                0 => refused(429),
                1 => truncated(),
                2 => slow(2000),
                _ => good(),
            };
            sample(index, seen)
        }),
    );
    full.header.otel.trace_url = Some("jaeger:http://127.0.0.1:16686".to_owned());
    full.header.earlier_runs = [CameTo::Violated, CameTo::Inconclusive]
        .map(|came_to| EarlierRun {
            run_id: "before".to_owned(),
            came_to,
        })
        .to_vec();
    full.continued = vec![Continued {
        session: "s".to_owned(),
        at_unix_ns: 7,
        plan_digest: String::new(),
        spec_sha256: String::new(),
        max_samples: 700,
        max_duration: None,
        max_tokens: None,
    }];
    let mut summary = Summary::of(&full);
    if let Some(verdict) = summary.verdicts.first_mut() {
        verdict.note = Some("a note".to_owned());
        verdict.bursty = Some(Bursts {
            crowd: 3,
            failures: 4,
            bucket_s: 1.5,
            buckets: 9,
            design_effect: 2.5,
        });
        verdict.seals = Some(Seals {
            stops: 9,
            unsealed: 1,
            allowance_ppm: 20_000,
            violated: false,
        });
    }
    let clean = evidence(
        objectives.clone(),
        600,
        (0..80).map(|it| sample(it, good())),
    );
    let mut torn = evidence(objectives, 600, []);
    torn.torn = true;
    let mut all = Vec::new();
    let plain = [Summary::of(&clean), Summary::of(&torn)];
    let mut judged = vec![
        (&full, summary),
        (&clean, plain[0].clone()),
        (&torn, plain[1].clone()),
    ];
    let reasons = [
        CloseReason::Decided,
        CloseReason::Budget,
        CloseReason::Limit,
        CloseReason::Interrupted,
        CloseReason::Failed,
    ];
    for reason in reasons {
        let mut closed = Summary::of(&clean);
        let mut end = close(reason);
        end.self_check.invalid = (reason == CloseReason::Limit).then(|| "too late".to_owned());
        closed.close = Some(end);
        judged.push((&clean, closed));
    }
    let unmeasured = [true, false].map(|ignored| Unmeasured {
        cell: "a/b/c".to_owned(),
        ignored,
        reason: "no key".to_owned(),
    });
    let cells = judged.iter().map(|(evidence, summary)| Cell {
        evidence,
        summary,
        path: "run/cell.jsonl",
    });
    all.push(render(&Document {
        cells: cells.collect(),
        unmeasured: &unmeasured,
    }));
    all.push(render(&Document {
        cells: Vec::new(),
        unmeasured: &[],
    }));
    all
}

#[test]
fn every_report_is_valid_by_the_schema() {
    for report in reports() {
        if let Err(error) = checked(&report) {
            panic!("{report:#}\n{error}");
        }
    }
}

/// Pointers to every object of a document.
fn objects(at: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.push(at.to_owned());
            for (name, member) in members {
                objects(&format!("{at}/{name}"), member, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                objects(&format!("{at}/{index}"), item, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn a_member_too_many_or_too_few_is_not_valid() {
    let report = reports().remove(0);
    let mut places = Vec::new();
    objects("", &report, &mut places);
    let kinds: BTreeSet<String> = places
        .iter()
        .map(|place| place.trim_matches(|it: char| it == '/' || it.is_ascii_digit()))
        .filter_map(|place| place.rsplit('/').next())
        .map(str::to_owned)
        .collect();
    for kind in [
        "",
        "bursty",
        "cells",
        "continued",
        "earlier_runs",
        "failures",
        "look_at",
        "outcomes",
        "samples",
        "seals",
        "self_check",
        "traces",
        "unmeasured",
        "verdicts",
    ] {
        assert!(kinds.contains(kind), "no `{kind}` in {kinds:?}");
    }
    // One object of each kind will do: those of one kind are alike.
    let mut tried = BTreeSet::new();
    for place in places {
        let kind: String = place.chars().filter(|it| !it.is_ascii_digit()).collect();
        if !tried.insert(kind) {
            continue;
        }
        let mut more = report.clone();
        let object = more.pointer_mut(&place).and_then(Value::as_object_mut);
        let object = object.unwrap();
        let names: Vec<String> = object.keys().cloned().collect();
        object.insert("unknown".to_owned(), json!(1));
        assert!(checked(&more).is_err(), "a member more at `{place}`");
        if place.ends_with("/outcomes") {
            continue;
        }
        for name in names {
            let mut fewer = report.clone();
            let object = fewer.pointer_mut(&place).and_then(Value::as_object_mut);
            object.unwrap().remove(&name);
            let free = name == "invalid";
            assert_eq!(
                checked(&fewer).is_ok(),
                free,
                "without `{name}` at `{place}`"
            );
        }
    }
}

#[test]
fn words_that_no_type_has_are_not_valid() {
    let report = reports().remove(0);
    for place in [
        "/overall",
        "/cells/0/closed",
        "/cells/0/failures/0/class",
        "/cells/0/failures/0/party",
        "/cells/0/verdicts/0/decision",
        "/cells/0/verdicts/0/metric",
        "/cells/0/verdicts/0/reason",
        "/cells/0/verdicts/0/severity",
        "/cells/0/verdicts/0/look_at/phase",
        "/schema",
    ] {
        let mut other = report.clone();
        *other.pointer_mut(place).unwrap() = json!("another");
        assert!(checked(&other).is_err(), "{place}");
    }
    let mut other = report;
    let outcomes = other.pointer_mut("/cells/0/outcomes").unwrap();
    *outcomes = json!({ "ok": 1, Class::HttpError.as_str(): 2 });
    assert!(checked(&other).is_ok());
}
