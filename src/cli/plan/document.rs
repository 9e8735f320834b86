//! A plan for programs: one JSON document, schema-versioned.

use serde_json::{Value, json};

use crate::objective::Objective;
use crate::plan::budget::{self, Outlook};
use crate::plan::prospects::{Prospects, Scenario};
use crate::plan::{Cell, Endpoint, Plan};

/// Version of the document; members are added, never renamed, within a version.
const SCHEMA: u32 = 1;

pub(super) fn of(plan: &Plan, prospects: &Prospects, profile: Option<&str>) -> Value {
    let objectives = plan.cells.first().map_or(&[][..], |it| &it.objectives);
    let objectives: Vec<Value> = objectives
        .iter()
        .zip(&prospects.outlooks)
        .zip(&prospects.most)
        .map(|((it, outlook), most)| objective(it, outlook.as_ref(), *most))
        .collect();
    let scenarios: Vec<Value> = prospects.scenarios.iter().map(scenario).collect();
    let all = plan.cells.iter().chain(&plan.baselines);
    let cells: Vec<Value> = all.map(|it| cell(it, plan, prospects)).collect();
    json!({
        "schema": SCHEMA,
        "name": plan.name,
        "spec": plan.source,
        "spec_sha256": plan.spec_sha256,
        "digest": plan.digest,
        "profile": profile,
        "sampling": plan.sampling,
        "judge": plan.judge,
        "objectives": objectives,
        "scenarios": scenarios,
        "cells": cells,
    })
}

fn objective(objective: &Objective, outlook: Option<&Outlook>, most: u64) -> Value {
    json!({
        "objective": objective.text,
        "metric": objective.metric,
        "severity": objective.severity,
        "waited_for": objective.gates() && outlook.is_some(),
        "required": outlook.map(|it| f64::from(it.required_ppm()) / 1e6),
        "confidence": outlook.map(|it| f64::from(it.confidence_ppm()) / 1e6),
        "clean_samples": outlook.map(Outlook::clean_samples),
        "most": most,
        "tolerated_failures": outlook.and_then(|it| it.tolerated(most)),
        "undecidable": outlook
            .and_then(Outlook::grey_zone)
            .map(|(low, high)| json!({ "from": low, "to": high })),
    })
}

fn scenario(scenario: &Scenario) -> Value {
    let forecasts: Vec<Value> = scenario
        .forecasts
        .iter()
        .map(|forecast| {
            forecast.map_or(Value::Null, |it| {
                json!({
                    "share": it.share,
                    "pass": it.pass,
                    "violated": it.violated,
                    "samples": it.samples,
                })
            })
        })
        .collect();
    json!({
        "relay": if scenario.assumed.is_some() { "assumed" } else { "fifth_of_allowed_odds" },
        "assumed": scenario.assumed,
        "objectives": forecasts,
        "together": scenario.together.map(|it| json!({
            "pass_at_least": it.pass,
            "samples_at_least": it.samples,
        })),
    })
}

fn cell(cell: &Cell, plan: &Plan, prospects: &Prospects) -> Value {
    let own = cell.sampling(&plan.sampling);
    let calls = plan.calls_of(cell);
    json!({
        "cell": cell.name(),
        "id": cell.id,
        "base_url": match &cell.relay.endpoint {
            Endpoint::Url(url) => Some(url),
            Endpoint::Simulate(_) => None,
        },
        "ignored": cell.ignored,
        "concurrency": cell.workload.concurrency,
        "max_calls": calls,
        "max_tokens": budget::tokens_of(cell, calls),
        "max_cost_usd": budget::cost_of(cell, calls),
        "expected_cost_usd": prospects
            .expected_calls(plan, cell)
            .and_then(|expected| budget::cost_of(cell, expected)),
        "expected_calls": prospects.expected_calls(plan, cell),
        "expected_tokens": prospects.expected_tokens(plan, cell),
        "last_start_s": budget::last_start(cell, &own).as_secs_f64(),
        "longest_s": budget::longest_cell(cell, &own).as_secs_f64(),
    })
}
