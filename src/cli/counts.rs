//! `relayproof judge --from COUNTS`: verdicts on counts that a database made.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use serde_json::json;

use super::results::{self, printable};
use super::{Exit, Format, complain, with_causes};
use crate::verdict::counts::{Counted, judge_counts};
use crate::verdict::{Decision, Overall, Verdict};

/// Longest line that is read.
const MOST_BYTES: u64 = 64 * 1024;

/// Judges lines of counts and prints what they come to.
///
/// # Errors
/// When the results cannot be printed.
pub(super) fn judge(
    from: &Path,
    is_final: bool,
    format: Format,
    out: &mut dyn Write,
) -> io::Result<Exit> {
    let verdicts = match read(from)
        .and_then(|rows| judge_counts(&rows, is_final).map_err(|error| with_causes(&error)))
    {
        Ok(verdicts) => verdicts,
        Err(mistake) => {
            complain(&format!("error: {}", printable(&mistake)));
            return Ok(Exit::Usage);
        }
    };
    let overall = verdicts.iter().map(|(_, verdict)| match verdict.decision {
        Decision::Pass => Overall::Pass,
        Decision::Violated => Overall::Violated,
        Decision::Inconclusive(_) => Overall::Inconclusive,
    });
    let overall = overall.max().unwrap_or(Overall::Nothing);
    let mut cells: BTreeMap<&str, Vec<&Verdict>> = BTreeMap::new();
    for (cell, verdict) in &verdicts {
        cells.entry(cell).or_default().push(verdict);
    }
    match format {
        Format::Json => {
            let cells: Vec<_> = cells
                .iter()
                .map(|(cell, verdicts)| json!({ "cell": cell, "verdicts": verdicts }))
                .collect();
            let document =
                json!({ "schema": 1, "kind": "counts", "overall": overall, "cells": cells });
            results::json(&document, out)?;
        }
        Format::Text => {
            for (cell, verdicts) in &cells {
                writeln!(out, "{}", printable(cell))?;
                for verdict in verdicts {
                    writeln!(out, "{}", printable(&line(verdict)))?;
                }
            }
        }
    }
    Ok(match overall {
        Overall::Pass => Exit::Pass,
        Overall::Violated => Exit::Violated,
        Overall::Inconclusive => Exit::Inconclusive,
        Overall::Nothing => Exit::NotMeasured,
    })
}

fn line(verdict: &Verdict) -> String {
    let word = match verdict.decision {
        Decision::Pass => "PASS",
        Decision::Violated => "VIOLATED",
        Decision::Inconclusive(_) => "INCONCLUSIVE",
    };
    // Lower bounds are rounded down and upper ones up, so that none claims more than is shown.
    let lower = (verdict.lower * 1e3).floor() / 10.0;
    let upper = (verdict.upper * 1e3).ceil() / 10.0;
    let mut line = format!(
        "  {word:<13} {:<26} {} of {}, {lower}% to {upper}%",
        verdict.objective,
        verdict.n - verdict.failures,
        verdict.n,
    );
    if let Decision::Inconclusive(reason) = verdict.decision {
        let _ = write!(line, " ({reason})");
    }
    line
}

fn read(from: &Path) -> Result<Vec<Counted>, String> {
    let cannot = |error: io::Error| format!("cannot read {}: {error}", from.display());
    let mut input = BufReader::new(File::open(from).map_err(cannot)?);
    let (mut rows, mut line, mut number) = (Vec::new(), Vec::new(), 0_u64);
    loop {
        line.clear();
        number += 1;
        let mut bounded = input.by_ref().take(MOST_BYTES + 1);
        let read = bounded.read_until(b'\n', &mut line).map_err(cannot)?;
        if read == 0 {
            return Ok(rows);
        }
        if line.len() as u64 > MOST_BYTES {
            return Err(format!("{}:{number}: no row is so long", from.display()));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        rows.push(serde_json::from_slice(&line).map_err(|error| {
            format!(
                "{}:{number}: {error}; a row is \
                 {{\"cell\": …, \"objective\": …, \"n\": 40, \"failures\": 0}}, with \"bucket\" for \
                 votes",
                from.display()
            )
        })?);
    }
}
