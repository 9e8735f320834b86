//! Old against new, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::compared::{length, p, points, wrap};
use crate::compare::Tallied;
use crate::compare::alike::{Unlike, apart};
use crate::compare::regression::{
    ABOVE, ALPHA, Comparison, DIFFERENCE, FALL_POINTS, Finding, Located, Quantile, RATIO, Shares,
    Times,
};
use crate::words::{self, counted};

/// Version of the document.
pub const SCHEMA: u32 = 1;

/// Where what a test says begins.
const INDENT: &str = "             ";

/// One cell, old and new, and what is to be said of it.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The tests.
    pub comparison: Comparison<'a>,
    /// In what the two cells differ.
    pub unlike: Vec<Unlike>,
    /// Further remarks, one sentence each.
    pub notes: Vec<String>,
}

/// All pairs for a terminal, in eighty columns.
pub fn text(pairs: &[Pair<'_>]) -> String {
    let mut out = String::new();
    for pair in pairs {
        one(&mut out, pair);
        out.push('\n');
    }
    let worse = pairs.iter().filter(|it| it.comparison.is_worse()).count();
    let tests: usize = pairs.iter().map(|it| made(&it.comparison)).sum();
    let said = if worse > 0 {
        format!(
            "REGRESSION in {worse} of {}",
            counted(pairs.len() as u64, "cell")
        )
    } else {
        "No regression shown, which does not show that there is none".to_owned()
    };
    let rule = format!(
        "{said}. {}, each p corrected for all of them (Holm), alpha {ALPHA}; what matters is a share that fell \
         by {FALL_POINTS} pt, a median {RATIO:.2} times as long, or new times above old ones in {} \
         of pairs.",
        counted(tests as u64, "test"),
        percent(ABOVE),
    );
    wrap(&mut out, "", "", &rule);
    out
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Tests that were made.
fn made(comparison: &Comparison<'_>) -> usize {
    let shares = comparison.shares.iter();
    shares.filter(|it| it.finding != Finding::NoData).count()
        + usize::from(comparison.times.is_some())
}

fn one(out: &mut String, pair: &Pair<'_>) {
    let comparison = &pair.comparison;
    let (old, new) = (comparison.old, comparison.new);
    let verdict = if comparison.is_worse() {
        "REGRESSION"
    } else {
        "no regression shown"
    };
    wrap(out, "", "  ", &format!("{}: {verdict}", new.header.cell));
    let later = apart(old, new)
        .filter(|_| new.first_unix_ns > old.last_unix_ns)
        .map_or_else(String::new, |gap| format!(", {} later", length(gap)));
    for (word, side, more) in [("old", old, ""), ("new", new, later.as_str())] {
        let said = format!(
            "{word}  {} of run {}{more}",
            counted(side.samples, "sample"),
            side.header.run_id
        );
        wrap(out, "  ", "       ", &said);
    }
    for it in &comparison.shares {
        share(out, it);
    }
    if let Some(it) = &comparison.times {
        times(out, it);
    }
    for it in &comparison.quantiles {
        quantile(out, it);
    }
    for it in &pair.unlike {
        let said = format!("note: not quite alike: {}", it.words);
        wrap(out, "  ", "    ", &said);
    }
    for note in &pair.notes {
        wrap(out, "  ", "    ", &format!("note: {note}"));
    }
}

/// A finding as it stands before a test.
const fn word(finding: Finding) -> &'static str {
    match finding {
        Finding::Worse => "WORSE",
        Finding::Slightly => "slightly",
        Finding::InDoubt => "in doubt",
        Finding::NotShown => "not shown",
        Finding::NoData => "no data",
    }
}

/// What a finding means, where its word does not say it.
const fn meaning(finding: Finding) -> &'static str {
    match finding {
        Finding::Worse | Finding::NotShown | Finding::NoData => "",
        Finding::Slightly => "; worse, but by too little to matter",
        Finding::InDoubt => "; the client of the new run was saturated, so this may be ours",
    }
}

fn head(finding: Finding) -> String {
    format!("  {:<11}", word(finding))
}

fn share(out: &mut String, it: &Shares) {
    let (old, new) = (it.old, it.new);
    let counts = format!(
        "{}  {} of {} -> {} of {}",
        it.question.label(),
        old.good(),
        old.n(),
        new.good(),
        new.n()
    );
    wrap(out, &head(it.finding), INDENT, &counts);
    if let Some(difference) = it.difference {
        let said = format!(
            "{} pt, between {} and {}; p {} (Fisher){}",
            points(difference.estimate),
            points(difference.lower),
            points(difference.upper),
            p(it.adjusted),
            meaning(it.finding),
        );
        wrap(out, INDENT, INDENT, &said);
    }
    if it.undefined != (0, 0) {
        let (before, after) = it.undefined;
        let said = format!("without a value: {before} old, {after} new");
        wrap(out, INDENT, INDENT, &said);
    }
}

fn times(out: &mut String, it: &Times) {
    let median = it.ratio.map_or_else(
        || "a median is a failure".to_owned(),
        |ratio| format!("median x{ratio:.2}"),
    );
    let said = format!(
        "ttft  {median}; new above old in {:.1}% of pairs; p {} (Mann-Whitney){}",
        it.above * 100.0,
        p(it.adjusted),
        meaning(it.finding)
    );
    wrap(out, &head(it.finding), INDENT, &said);
}

fn quantile(out: &mut String, it: &Quantile) {
    let (Some(old), Some(new)) = (it.old, it.new) else {
        return;
    };
    let said = format!(
        "p{}  {} -> {} (no test)",
        it.ppm / 10_000,
        located(old),
        located(new)
    );
    wrap(out, INDENT, INDENT, &said);
}

/// `1.20 s (1.10 s to 1.31 s)`.
fn located(it: Located) -> String {
    let value = |at: f64| {
        if at.is_finite() {
            words::seconds(at)
        } else {
            "failure".to_owned()
        }
    };
    let mut text = value(it.value);
    let _ = match (it.lower, it.upper) {
        (Some(low), Some(high)) if low.is_finite() && high.is_finite() => {
            write!(text, " ({})", words::range(low, high))
        }
        (Some(low), Some(high)) => write!(text, " ({} to {})", value(low), value(high)),
        (Some(low), None) => write!(text, " ({} or more)", value(low)),
        (None, Some(high)) => write!(text, " ({} or less)", value(high)),
        (None, None) => Ok(()),
    };
    text
}

/// All pairs as one document.
pub fn json(pairs: &[Pair<'_>]) -> Value {
    json!({
        "schema": SCHEMA,
        "kind": "regression",
        "regression": pairs.iter().any(|it| it.comparison.is_worse()),
        "alpha": ALPHA,
        "correction": "holm",
        "matters": {
            "share_points": FALL_POINTS,
            "median_ratio": RATIO,
            "above": ABOVE,
        },
        "difference": { "interval": "newcombe", "confidence": DIFFERENCE },
        "cells": pairs.iter().map(cell).collect::<Vec<_>>(),
    })
}

fn cell(pair: &Pair<'_>) -> Value {
    let comparison = &pair.comparison;
    let shares: Vec<Value> = comparison.shares.iter().map(share_json).collect();
    let quantiles: Vec<Value> = comparison.quantiles.iter().map(quantile_json).collect();
    json!({
        "cell": comparison.new.header.cell,
        "regression": comparison.is_worse(),
        "old": side(comparison.old),
        "new": side(comparison.new),
        "shares": shares,
        "ttft": comparison.times.map(|it| json!({
            "finding": it.finding,
            "median_ratio": it.ratio,
            "above": it.above,
            "p": it.p,
            "adjusted_p": it.adjusted,
            "test": "mann_whitney",
        })),
        "ttft_quantiles": quantiles,
        "unlike": pair.unlike.iter().map(|it| it.aspect).collect::<Vec<_>>(),
        "notes": pair.notes,
    })
}

fn side(tallied: &Tallied) -> Value {
    json!({
        "cell": tallied.header.cell,
        "run_id": tallied.header.run_id,
        "evidence": tallied.source,
        "samples": tallied.samples,
        "first_unix_ns": tallied.first_unix_ns,
        "last_unix_ns": tallied.last_unix_ns,
    })
}

fn share_json(it: &Shares) -> Value {
    json!({
        "question": it.question.label(),
        "metric": it.question.metric(),
        "finding": it.finding,
        "old": { "n": it.old.n(), "good": it.old.good(), "undefined": it.undefined.0 },
        "new": { "n": it.new.n(), "good": it.new.good(), "undefined": it.undefined.1 },
        "difference": it.difference.map(|it| it.estimate),
        "lower": it.difference.map(|it| it.lower),
        "upper": it.difference.map(|it| it.upper),
        "p": it.p,
        "adjusted_p": it.adjusted,
        "test": "fisher",
    })
}

fn quantile_json(it: &Quantile) -> Value {
    // JSON has no infinity: what is a failure has no value and says so.
    let located = |of: Option<Located>| {
        of.map(|it| {
            let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
            json!({
                "seconds": finite(Some(it.value)),
                "lower_seconds": finite(it.lower),
                "upper_seconds": finite(it.upper),
                "is_failure": !it.value.is_finite(),
            })
        })
    };
    json!({
        "quantile": f64::from(it.ppm) / 1e6,
        "old": located(it.old),
        "new": located(it.new),
    })
}
