//! One attempt as text: its phases as bars, what was found on it, whose fault it looks like.
//!
//! Shared by `probe` and `inspect`; within 80 columns, and no character of a relay's steers a
//! terminal.

use std::fmt::Write as _;
use std::time::Duration;

use super::results::printable;
use crate::attribution::{Blame, way_out};
use crate::observation::{Finding, Observation, Timeline};
use crate::report::waterfall::phases;
use crate::words::counted;

/// Width of a waterfall's bars.
const BAR: usize = 34;

/// Width of what is printed.
pub(super) const COLUMNS: usize = 80;

/// Width of the words that lines begin with.
pub(super) const LABEL: usize = 10;

/// A line for each phase that happened.
pub(super) fn bars(line: &Timeline) -> String {
    let mut text = String::new();
    for (phase, from, to) in phases(line) {
        push(&mut text, &bar(phase.as_str(), from, to, line.over));
    }
    text
}

/// Findings, warnings, where to look and what came back, each as a labelled line.
pub(super) fn facts(seen: &Observation, blame: &Blame) -> String {
    let mut text = String::new();
    for finding in &seen.findings {
        push(&mut text, &labelled("found", &found(finding)));
    }
    for warning in &seen.warnings {
        push(&mut text, &labelled("odd", warning.as_str()));
    }
    if seen.class().is_some() {
        let place = format!("{}, phase {}: {}", blame.party, blame.phase, blame.rule);
        push(&mut text, &labelled("look at", &place));
        if let Some(way_out) = way_out(seen) {
            push(&mut text, &labelled("try", way_out));
        }
    }
    if seen.status.is_some() {
        push(&mut text, &labelled("answer", &answer(seen)));
    }
    text
}

/// Status, HTTP version and TLS version.
pub(super) fn answered(seen: &Observation) -> String {
    let mut line = String::new();
    match seen.status {
        Some(status) => write!(line, "{status}").ok(),
        None => write!(line, "no answer").ok(),
    };
    if let Some(version) = &seen.connection.http_version {
        write!(line, "  HTTP/{version}").ok();
    }
    if let Some(version) = &seen.connection.tls_version {
        write!(line, ", TLS {version}").ok();
    }
    line
}

/// A labelled line, broken between words where it gets too long; a word that is too long by itself
/// is cut.
pub(super) fn labelled(label: &str, words: &str) -> String {
    let room = COLUMNS - LABEL;
    let mut text = format!("{label:<LABEL$}");
    let mut taken = 0;
    for word in printable(words).split_whitespace() {
        let word: String = match word.char_indices().nth(room) {
            None => word.to_owned(),
            Some(_) => word.chars().take(room - 1).chain(['…']).collect(),
        };
        let width = word.chars().count();
        if taken > 0 && taken + 1 + width > room {
            text.push('\n');
            text.push_str(&" ".repeat(LABEL));
            taken = 0;
        }
        if taken > 0 {
            text.push(' ');
            taken += 1;
        }
        text.push_str(&word);
        taken += width;
    }
    text
}

pub(super) fn push(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

fn bar(name: &str, from: Duration, to: Duration, over: Duration) -> String {
    let whole = over.as_secs_f64().max(1e-6);
    let column = |at: Duration| ((at.as_secs_f64() / whole) * BAR as f64).round() as usize;
    let start = column(from).min(BAR);
    let end = column(to).clamp(start, BAR);
    let (start, filled) = if end > start {
        (start, "█".repeat(end - start))
    } else {
        (start.min(BAR - 1), "▏".to_owned())
    };
    let lane = format!("{}{filled}", " ".repeat(start));
    format!(
        "  {name:<12}{:>11}  {lane:<BAR$}  at {}",
        human(to.saturating_sub(from)),
        human(to)
    )
}

pub(super) fn human(length: Duration) -> String {
    let us = length.as_micros();
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}

fn found(finding: &Finding) -> String {
    let mut line = format!("{} in phase {}", finding.class, finding.phase);
    if let Some(at) = finding.at {
        write!(line, " at {}", human(at)).ok();
    }
    if let Some(event) = finding.event {
        write!(line, ", event {event}").ok();
    }
    if let Some(offset) = finding.offset {
        write!(line, ", body byte {offset}").ok();
    }
    if !finding.detail.is_empty() {
        write!(line, ": {}", finding.detail).ok();
    }
    line
}

fn answer(seen: &Observation) -> String {
    let mut line = format!(
        "{} in {}, {}, {}",
        counted(seen.packets.chars, "character"),
        counted(seen.packets.count, "packet"),
        counted(seen.counts.events, "event"),
        counted(seen.counts.body_bytes, "byte"),
    );
    if let Some(reason) = &seen.finish_reason {
        write!(line, ", finish reason {reason}").ok();
    }
    if let Some(output) = seen.usage.and_then(|usage| usage.output) {
        write!(line, ", {} reported", counted(output, "token")).ok();
    }
    if let Some(model) = &seen.model {
        write!(line, ", model {model}").ok();
    }
    line
}
