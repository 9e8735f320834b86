//! What `verify` says of the chains of evidence files, for people and programs.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::super::results::printable;
use crate::evidence::check::{Checked, CheckedSet};
use crate::evidence::{ChainValue, Header};

/// One line for each file, one for each alteration, and the root of all.
pub(super) fn text(
    set: &CheckedSet,
    expected: Option<ChainValue>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for file in &set.files {
        let path = file.path.display().to_string();
        let line = format!("{path}: {}", standing(file));
        writeln!(out, "{}", printable(&line))?;
        for it in &file.alterations {
            let line = format!("  {path}:{}: {}", it.line, it.how);
            writeln!(out, "{}", printable(&line))?;
        }
        let untold = file.altered - file.alterations.len() as u64;
        if untold > 0 {
            writeln!(out, "  and {untold} more; see --show")?;
        }
    }
    if set.files.is_empty() {
        return Ok(());
    }
    let count = set.files.len();
    let files = if count == 1 { "file" } else { "files" };
    writeln!(out, "evidence root {} ({count} {files})", set.root())?;
    match expected {
        Some(root) if set.comes_to(root) => writeln!(out, "as expected: {root}"),
        Some(root) => writeln!(
            out,
            "NOT AS EXPECTED: {root} is the root of other evidence, or of more or fewer lines"
        ),
        None => Ok(()),
    }
}

/// A file in one line.
fn standing(file: &Checked) -> String {
    let word = match (file.is_whole(), file.chained) {
        (true, true) => "whole",
        (true, false) => "unchained (of a version without the chain: a change cannot be seen)",
        (false, _) => "ALTERED",
    };
    let mut text = format!("{word}, {} lines", file.lines);
    if let Some(segment) = file.header.as_ref().and_then(|header| header.segment) {
        text.push_str(&format!(", segment {}", segment.number));
    }
    if file.is_whole() {
        text.push_str(&format!(", root {}", file.root));
    }
    if file.torn {
        text.push_str(", torn end (a line that was being written, and never counted)");
    }
    if !file.closed {
        text.push_str(", no closing line at the end");
    }
    text
}

/// The same as one JSON value.
pub(super) fn json(set: &CheckedSet, expected: Option<ChainValue>) -> Value {
    let files: Vec<Value> = set.files.iter().map(file).collect();
    let unreadable: Vec<String> = set.unreadable.iter().map(ToString::to_string).collect();
    json!({
        "whole": set.is_whole(),
        "root": set.root(),
        "expected": expected,
        "as_expected": expected.map(|root| set.comes_to(root)),
        "files": files,
        "unreadable": unreadable,
    })
}

fn file(file: &Checked) -> Value {
    let of = |member: fn(&Header) -> &String| file.header.as_ref().map(member);
    let segment = file.header.as_ref().and_then(|header| header.segment);
    json!({
        "file": file.path.display().to_string(),
        "cell": of(|header| &header.cell),
        "cell_id": of(|header| &header.cell_id),
        "run_id": of(|header| &header.run_id),
        "segment": segment.map(|segment| segment.number),
        "whole": file.is_whole(),
        "chained": file.chained,
        "lines": file.lines,
        "samples": file.samples,
        "root": file.root,
        "torn": file.torn,
        "closed": file.closed,
        "altered": file.altered,
        "alterations": file.alterations,
    })
}
