//! What was left out, and what was judged otherwise than usual: everything that makes a pass easier
//! to get, or speaks of less than the spec.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Material;
use super::gathered::Gathered;
use crate::evidence::{Evidence, Header};
use crate::forms::named;
use crate::objective::Severity;
use crate::objective::quantity::percent;
use crate::plan::{Mode, OnInconclusive, Tokens, USUAL_BUCKET, USUAL_MIN_DAYS, ZERO_FAILURE};
use crate::words::counted;

/// Confidence of a spec that says nothing.
const USUAL_CONFIDENCE_PPM: u32 = 950_000;

/// The pass account's odds ratio of a spec that says nothing.
const USUAL_RATIO: f64 = crate::stats::sequential::PASS_RATIO;

named! {
    /// Which kind of exception it is.
    ExceptionKind {
        /// Something is not in the evidence.
        Exclusion = "exclusion",
        /// The spec has it judged otherwise than usual.
        Override = "override",
    }
}

/// One thing that was left out or changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Exception {
    /// Which kind it is.
    pub kind: ExceptionKind,
    /// What it is, one sentence.
    pub statement: String,
}

pub(super) fn exceptions(
    evidence: &[&Evidence],
    material: &Material<'_>,
    gathered: &Gathered,
) -> Vec<Exception> {
    let mut all = BTreeSet::new();
    let mut add = |kind, statement: String| {
        all.insert(Exception { kind, statement });
    };
    let headers: Vec<&Header> = evidence.iter().map(|one| &one.header).collect();
    for statement in excluded(&headers, material, gathered) {
        add(ExceptionKind::Exclusion, statement);
    }
    for statement in headers.iter().flat_map(|header| overridden(header)) {
        add(ExceptionKind::Override, statement);
    }
    all.into_iter().collect()
}

fn excluded(headers: &[&Header], material: &Material<'_>, gathered: &Gathered) -> Vec<String> {
    let mut said = Vec::new();
    let own = headers.iter().filter(|it| it.beside.is_none());
    let (own, planned) = (
        own.count() as u64,
        headers.iter().filter_map(|it| it.spec_cells).max(),
    );
    if let Some(planned) = planned.filter(|planned| *planned > own) {
        said.push(format!(
            "{} of the spec's {planned} cells {} no evidence here: ignored, never asked, or not among these files.",
            planned - own,
            if planned - own == 1 { "has" } else { "have" },
        ));
    }
    if let Some(first) = headers.first() {
        let seen: BTreeSet<&str> = headers
            .iter()
            .filter_map(|it| it.region.as_deref())
            .collect();
        let missing: Vec<&str> = first
            .regions
            .iter()
            .map(|region| region.name.as_str())
            .filter(|name| !seen.contains(name))
            .collect();
        if !missing.is_empty() {
            said.push(format!(
                "No evidence from {}: only {} of the spec's {} are judged.",
                missing.join(", "),
                seen.len(),
                counted(first.regions.len() as u64, "region"),
            ));
        }
    }
    let asks_upstream = headers.iter().any(|it| it.pair_ppm > 0);
    if asks_upstream && headers.iter().all(|it| it.beside.is_none()) {
        said.push(
            "The spec names a trusted upstream, and there is no evidence of it: failures could not \
             be told apart."
                .to_owned(),
        );
    }
    if gathered.uncounted > 0 {
        said.push(format!(
            "{} not counted: warm-ups, and calls that the probe itself called off.",
            counted(gathered.uncounted, "sample"),
        ));
    }
    if material.contradictions > 0 {
        said.push(format!(
            "{} in two versions in two files: the one that was started first counts.",
            counted(material.contradictions, "sample"),
        ));
    }
    let earlier: BTreeSet<&str> = headers
        .iter()
        .flat_map(|it| &it.earlier_runs)
        .map(|it| it.run_id.as_str())
        .collect();
    if !earlier.is_empty() {
        said.push(format!(
            "{} of the same plan right before did not pass and {} not part of this: each fresh start \
             adds to the chance of a false pass.",
            counted(earlier.len() as u64, "run"),
            if earlier.len() == 1 { "is" } else { "are" },
        ));
    }
    said
}

fn overridden(header: &Header) -> Vec<String> {
    let mut said = Vec::new();
    // Nothing is promised for the trusted upstream.
    if header.beside.is_some() {
        return said;
    }
    let judge = &header.judge;
    if judge.mode == Mode::Guard {
        said.push(
            "Guard mode: a pass says that no violation was shown, not that a promise was shown to \
             be met."
                .to_owned(),
        );
    }
    if judge.on_inconclusive == OnInconclusive::Warn {
        said.push("An open question is a warning only (`on_inconclusive: warn`).".to_owned());
    }
    if judge.confidence_ppm != USUAL_CONFIDENCE_PPM {
        said.push(format!(
            "Confidence {} in place of {}.",
            percent(judge.confidence_ppm),
            percent(USUAL_CONFIDENCE_PPM)
        ));
    }
    if judge.design_ratio.total_cmp(&USUAL_RATIO).is_ne() {
        let ratio = if judge.design_ratio.is_finite() {
            judge.design_ratio.to_string()
        } else {
            ZERO_FAILURE.to_owned()
        };
        said.push(format!(
            "The pass rule is made for an odds ratio of {ratio} in place of {USUAL_RATIO}."
        ));
    }
    if judge.bucket != USUAL_BUCKET {
        said.push(format!(
            "One vote is {} s in place of {} s.",
            judge.bucket.as_secs_f64(),
            USUAL_BUCKET.as_secs_f64()
        ));
    }
    if judge.min_days != USUAL_MIN_DAYS {
        said.push(format!(
            "A pass needs {} in place of {USUAL_MIN_DAYS}.",
            counted(u64::from(judge.min_days), "day"),
        ));
    }
    if judge.tokens == Tokens::Events {
        said.push("One content event counts as one token (`tokens: events`).".to_owned());
    }
    if let Some(ppm) = header.seal_allowance_ppm.filter(|ppm| *ppm > 0) {
        said.push(format!(
            "{}: up to {} of the normal stops may lack the end mark that the prompt asks for.",
            header.pooled_name(),
            percent(ppm)
        ));
    }
    for objective in &header.objectives {
        if objective.severity == Severity::Warn {
            said.push(format!(
                "`{}` of {} is a warning only (`severity: warn`).",
                objective.text,
                header.pooled_name()
            ));
        }
        if let Some(ppm) = objective
            .confidence_ppm
            .filter(|ppm| *ppm != judge.confidence_ppm)
        {
            said.push(format!(
                "`{}` of {} is judged at a confidence of {}.",
                objective.text,
                header.pooled_name(),
                percent(ppm)
            ));
        }
    }
    said
}
