//! For a terminal: one line a verdict, and where to look when it is not a pass.

use std::fmt::Write as _;

use super::explain::{Explanation, explain, trace_url};
use super::said::said;
use crate::evidence::{Evidence, Header};
use crate::objective::Objective;
use crate::verdict::{Decision, Inconclusive, Summary, Verdict};
use crate::words;

/// Width of the first column: `INCONCLUSIVE` and two spaces.
pub(super) const FIRST: usize = 14;
/// Width of a line of a verdict.
const COLUMNS: usize = 80;

/// SGR codes, or nothing where colour is off.
#[derive(Clone, Copy)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    pub(super) fn with(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn faint(self, text: &str) -> String {
        self.with("2", text)
    }
}

/// One cell: what was sampled, and a line for each verdict.
pub fn cell(evidence: &Evidence, verdicts: &[Verdict], colour: bool) -> String {
    table(&Summary::with(evidence, verdicts.to_vec()), colour)
}

/// [`cell`], of a summary that is there already.
pub fn table(summary: &Summary, colour: bool) -> String {
    let paint = Paint(colour);
    let mut text = format!("{}  {}\n", paint.bold(&summary.cell), sampled(summary));
    text.push_str(&earlier_runs(summary));
    let outcomes: Vec<String> = summary
        .outcomes
        .iter()
        .filter(|(class, _)| **class != "ok")
        .map(|(class, count)| format!("{class} {count}"))
        .collect();
    if !outcomes.is_empty() {
        let _ = writeln!(text, "  first attempts: {}", outcomes.join(", "));
    }
    text.push_str(&gone_wrong(summary));
    let width = summary
        .objectives
        .iter()
        .map(|objective| objective.text.chars().count())
        .max()
        .unwrap_or(0);
    for (objective, verdict) in summary.objectives.iter().zip(&summary.verdicts) {
        let _ = writeln!(
            text,
            "  {}",
            line(summary, objective, verdict, width, 2, paint)
        );
    }
    text
}

/// What went wrong, the largest groups first, with the samples to look at.
fn gone_wrong(summary: &Summary) -> String {
    const SHOWN: usize = 4;
    let groups = summary.failures.all();
    let mut text = String::new();
    for group in groups.iter().take(SHOWN) {
        let samples: Vec<String> = group
            .telling
            .iter()
            .map(|it| format!("#{}", it.index))
            .collect();
        let _ = writeln!(
            text,
            "  look at {}, {}: {} {} ({})",
            group.party,
            group.phase,
            group.class,
            group.count,
            samples.join(", ")
        );
    }
    text
}

/// What fresh starts after runs that did not pass do to the chance of a false pass.
fn earlier_runs(summary: &Summary) -> String {
    let count = summary.earlier_runs.len();
    if count == 0 {
        return String::new();
    }
    let runs = words::counted(count as u64, "run");
    format!(
        "  a fresh start after {runs} that did not pass: up to {:.1}% chance of a false pass\n  \
         (to go on with a run instead: --continue {})\n",
        summary.false_pass() * 100.0,
        summary.run_id,
    )
}

/// How much was measured: `232 of 232 samples in 12.3 s`.
fn sampled(summary: &Summary) -> String {
    let mut text = format!("{} of {} samples", summary.samples, summary.planned);
    if let (Some(first), Some(last)) = (summary.first_unix_ns, summary.last_unix_ns) {
        let length = std::time::Duration::from_nanos(last.saturating_sub(first));
        let _ = write!(text, " in {}", words::seconds(length.as_secs_f64()));
    }
    let retries = summary.attempts.saturating_sub(summary.samples);
    if retries > 0 {
        let _ = write!(text, ", {}", words::counted(retries, "retry"));
    }
    match summary.continued.len() {
        0 => {}
        1 => text.push_str(", continued"),
        times => {
            let _ = write!(text, ", continued {times} times");
        }
    }
    if summary.torn {
        text.push_str(", last line torn");
    }
    text
}

/// One verdict: `PASS  ttft.p95 < 1.5s  p95 123 ms; 232 of 232 in time, …`, folded where it is
/// longer than a line, which begins after `indent` columns.
fn line(
    summary: &Summary,
    objective: &Objective,
    verdict: &Verdict,
    width: usize,
    indent: usize,
    paint: Paint,
) -> String {
    let (word, code) = match verdict.decision {
        Decision::Pass => ("PASS", "32"),
        Decision::Violated => ("VIOLATED", "31"),
        Decision::Inconclusive(_) => ("INCONCLUSIVE", "33"),
    };
    // Padded before it is painted: the codes take no room on the screen.
    let word = paint.with(code, &format!("{word:<FIRST$}"));
    let text = format!(
        "{:<width$}  {}",
        objective.text,
        said(&summary.judging, objective, verdict)
    );
    let hanging = format!("\n{}", " ".repeat(indent + FIRST));
    let lines = folded(&text, COLUMNS - FIRST - indent);
    format!("{word}{}", lines.join(&hanging))
}

/// A text as lines of at most so many characters: broken behind a comma or semicolon where there is
/// one not too early, else between words.
pub(super) fn folded(text: &str, room: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(room) {
        let (fits, _) = rest.split_at(end);
        // A space right behind what fits is a place to break as well.
        let fits = if rest[end..].starts_with(' ') {
            &rest[..=end]
        } else {
            fits
        };
        let behind = |mark: &str| {
            fits.rfind(mark)
                .map(|at| at + 1)
                .filter(|at| *at > room / 3)
        };
        let mark = behind("; ").max(behind(", "));
        let Some(at) = mark.or_else(|| fits.rfind(' ').filter(|at| *at > 0)) else {
            break;
        };
        lines.push(rest[..at].trim_end());
        rest = rest[at..].trim_start();
    }
    lines.push(rest);
    lines
}

/// Why a test fails: the verdict, where to look, the samples that show it with the addresses of
/// their traces where the evidence knows them, and the rule.
pub fn failure(evidence: &Evidence, verdict: &Verdict, path: &str, colour: bool) -> String {
    let paint = Paint(colour);
    let Some(objective) = evidence
        .header
        .objectives
        .iter()
        .find(|objective| objective.text == verdict.objective)
    else {
        return format!("{}: not an objective of this cell\n", verdict.objective);
    };
    let summary = Summary::with(evidence, Vec::new());
    let indent = " ".repeat(FIRST);
    let mut text = line(&summary, objective, verdict, 0, 0, paint);
    text.push('\n');
    if let Some(explanation) = explain(evidence, objective, verdict) {
        for part in look_at(&explanation, &evidence.header) {
            let _ = writeln!(text, "{indent}{part}");
        }
    }
    if let (Decision::Inconclusive(Inconclusive::StoppedEarly), Some(note)) =
        (verdict.decision, &verdict.note)
    {
        let _ = writeln!(text, "{indent}stopped: {note}");
    }
    let rule = format!("rule: {}", verdict.rule);
    let _ = writeln!(text, "{indent}{}", paint.faint(&rule));
    let _ = writeln!(
        text,
        "{indent}{}",
        paint.faint(&format!("evidence: {path}"))
    );
    text
}

/// The lines of an explanation.
fn look_at(explanation: &Explanation, header: &Header) -> Vec<String> {
    let mut lines = vec![
        format!("look at: {}", explanation.place()),
        explanation.shown_by(),
    ];
    match trace_url(header) {
        Some(url) => {
            for it in &explanation.telling {
                lines.push(format!("trace {} of sample {}:", it.trace_id, it.index));
                // Never folded: it is to be clicked on.
                lines.push(it.address(&url, &header.run_id));
            }
        }
        None => lines.push(format!("trace {}", explanation.trace_id)),
    }
    if let Some(hint) = explanation.hint {
        lines.push(format!("try: {hint}"));
    }
    lines
}

/// Failure blocks of everything in a cell that is not a pass.
pub fn failures(evidence: &Evidence, verdicts: &[Verdict], path: &str, colour: bool) -> String {
    verdicts
        .iter()
        .filter(|verdict| verdict.decision != Decision::Pass)
        .map(|verdict| failure(evidence, verdict, path, colour))
        .collect()
}

#[cfg(test)]
mod tests;
