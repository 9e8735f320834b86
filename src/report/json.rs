//! For programs: one JSON document, schema-versioned. Members are added, never renamed, within a
//! version.

pub mod schema;

use serde_json::{Value, json};

use super::document::Document;
use super::explain::{Explanation, explain, trace_url};
use crate::attribution::groups::Group;
use crate::evidence::{Evidence, Header};
use crate::forms::steers;
use crate::objective::Objective;
use crate::verdict::{Decision, Inconclusive, Summary, Verdict};

/// Version of the document.
pub const SCHEMA: u32 = 1;

/// All cells and what they come to.
pub fn render(document: &Document<'_>) -> Value {
    let cells: Vec<Value> = document
        .cells
        .iter()
        .map(|one| cell(one.evidence, one.summary))
        .collect();
    json!({
        "schema": SCHEMA,
        "overall": document.overall(),
        "cells": cells,
        "unmeasured": document.unmeasured,
    })
}

/// The text of a JSON document without a character that could steer a terminal, and with a line feed
/// at its end.
///
/// JSON itself demands that of the first 32 characters only; between the quotes, `\u` escapes mean
/// the same to every reader.
pub fn harmless(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if character != '\n' && steers(character) {
            // All of them are in the plane that four digits reach.
            escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            escaped.push(character);
        }
    }
    escaped.push('\n');
    escaped
}

fn cell(evidence: &Evidence, summary: &Summary) -> Value {
    let verdicts: Vec<Value> = summary
        .objectives
        .iter()
        .zip(&summary.verdicts)
        .map(|(objective, verdict)| {
            let explanation = explain(evidence, objective, verdict);
            one(&evidence.header, objective, verdict, explanation.as_ref())
        })
        .collect();
    json!({
        "cell": summary.cell,
        "run_id": summary.run_id,
        "spec": summary.spec_source,
        "overall": summary.overall(),
        "planned": summary.planned,
        "samples": summary.samples,
        "uncounted": summary.uncounted,
        "attempts": summary.attempts,
        "outcomes": summary.outcomes,
        "failures": summary.failures.all().iter().map(|it| group(it)).collect::<Vec<_>>(),
        "first_unix_ns": summary.first_unix_ns,
        "last_unix_ns": summary.last_unix_ns,
        "closed": summary.close.as_ref().map(|close| close.reason),
        "self_check": summary.close.as_ref().map(|close| &close.self_check),
        "torn": summary.torn,
        "continued": summary.continued.iter().map(|it| json!({
            "at_unix_ns": it.at_unix_ns,
            "max_samples": it.max_samples,
        })).collect::<Vec<_>>(),
        "earlier_runs": summary.earlier_runs,
        "false_pass_at_most": summary.false_pass(),
        "verdicts": verdicts,
    })
}

fn group(group: &Group) -> Value {
    let samples: Vec<Value> = group
        .telling
        .iter()
        .map(|it| json!({ "index": it.index, "trace_id": it.trace_id }))
        .collect();
    json!({
        "party": group.party,
        "phase": group.phase,
        "class": group.class,
        "count": group.count,
        "samples": samples,
    })
}

fn one(
    header: &Header,
    objective: &Objective,
    verdict: &Verdict,
    explanation: Option<&Explanation>,
) -> Value {
    let url = trace_url(header);
    let (decision, reason): (_, Option<Inconclusive>) = match verdict.decision {
        Decision::Pass => ("pass", None),
        Decision::Violated => ("violated", None),
        Decision::Inconclusive(reason) => ("inconclusive", Some(reason)),
    };
    json!({
        "objective": verdict.objective,
        "metric": objective.metric,
        "severity": objective.severity,
        "decision": decision,
        "reason": reason,
        "note": verdict.note,
        "n": verdict.n,
        "failures": verdict.failures,
        "undefined": verdict.undefined,
        "ineligible": verdict.ineligible,
        "missing": verdict.missing,
        "required": verdict.required,
        "lower": verdict.lower,
        "upper": verdict.upper,
        "observed": verdict.observed,
        "censored": verdict.censored,
        "further_clean": verdict.further_clean,
        "rule": verdict.rule,
        "failing": verdict.failing,
        "bursty": verdict.bursty,
        "seals": verdict.seals.map(|seals| json!({
            "stops": seals.stops,
            "unsealed": seals.unsealed,
            "allowance": f64::from(seals.allowance_ppm) / 1e6,
            "violated": seals.violated,
        })),
        "look_at": explanation.map(|explanation| json!({
            "party": explanation.party,
            "phase": explanation.phase,
            "alike": explanation.alike,
            "of": explanation.of,
            "samples": explanation.samples,
            "trace_id": explanation.trace_id,
            "traces": explanation.telling.iter().map(|it| json!({
                "index": it.index,
                "trace_id": it.trace_id,
                "phase": it.phase,
                "url": url.as_ref().map(|url| it.address(url, &header.run_id)),
            })).collect::<Vec<_>>(),
            "words": explanation.words,
            "try": explanation.hint,
        })),
    })
}

#[cfg(test)]
mod tests;
