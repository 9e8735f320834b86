//! For a terminal: one line a verdict, and where to look when it is not a pass.

use std::fmt::Write as _;

use super::explain::{Explanation, explain, trace_url};
use crate::evidence::{Evidence, Header};
use crate::measure::metric::Metric;
use crate::measure::words;
use crate::plan::{Mode, OnInconclusive};
use crate::spec::objective::{Objective, Severity, Statistic};
use crate::verdict::{Decision, Inconclusive, Summary, Verdict};

/// Width of the first column: `INCONCLUSIVE` and two spaces.
const FIRST: usize = 14;
/// Width of a line of a verdict.
const COLUMNS: usize = 80;

/// SGR codes, or nothing where colour is off.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn bold(self, text: &str) -> String {
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
    let runs = if count == 1 {
        "1 run"
    } else {
        &format!("{count} runs")
    };
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
        let _ = write!(text, ", {retries} retries");
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
    let found = found(objective, verdict);
    let joint = if found.is_empty() { "" } else { "; " };
    let mut text = format!("{:<width$}  {found}", objective.text);
    match verdict.decision {
        Decision::Pass => {}
        Decision::Violated => {
            if verdict.required > 0.0 {
                let _ = write!(text, " (must be {})", words::share(verdict.required));
            }
        }
        Decision::Inconclusive(reason) => {
            let _ = write!(text, "{joint}{}", why(reason, verdict));
            if let Some(more) = verdict.further_clean.filter(|&more| more > 0) {
                let samples = if more == 1 { "sample" } else { "samples" };
                let _ = write!(text, ", {more} more clean {samples} would settle it");
            }
        }
    }
    if let (Decision::Pass | Decision::Violated, Some(note)) = (verdict.decision, &verdict.note) {
        let _ = write!(text, "; {note}");
    } else if verdict.decision == Decision::Pass && summary.judging.mode == Mode::Guard {
        text.push_str("; shown to meet it");
    }
    if let Some(bursts) = &verdict.bursty {
        let _ = write!(
            text,
            "; bursty: {} of {} failures within {}",
            bursts.crowd,
            bursts.failures,
            words::seconds(bursts.bucket_s)
        );
    }
    let lenient = match verdict.decision {
        Decision::Pass => false,
        Decision::Violated => objective.severity == Severity::Warn,
        Decision::Inconclusive(_) => {
            objective.severity == Severity::Warn
                || summary.judging.on_inconclusive == OnInconclusive::Warn
        }
    };
    if lenient {
        text.push_str("; a warning only");
    }
    let hanging = format!("\n{}", " ".repeat(indent + FIRST));
    let lines = folded(&text, COLUMNS - FIRST - indent);
    format!("{word}{}", lines.join(&hanging))
}

/// A text as lines of at most so many characters: broken behind a comma or semicolon where there is
/// one not too early, else between words.
fn folded(text: &str, room: usize) -> Vec<&str> {
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

/// What was observed, and between which bounds the share of good samples lies.
fn found(objective: &Objective, verdict: &Verdict) -> String {
    let mut parts = Vec::new();
    if let Some(observed) = observed(objective, verdict) {
        parts.push(observed);
    }
    if verdict.n > 0 && objective.statistic != Statistic::Mean {
        parts.push(counted(objective.metric, verdict));
    }
    parts.join("; ")
}

fn counted(metric: Metric, verdict: &Verdict) -> String {
    let good = verdict.n - verdict.failures.min(verdict.n);
    let mut text = format!("{good} of {}{}", verdict.n, how(metric));
    let lower = || words::at_least(verdict.lower, verdict.required);
    let upper = || words::at_most(verdict.upper, verdict.required);
    // The bound that the decision rests on; both where it rests on neither.
    match verdict.decision {
        Decision::Pass if verdict.lower > 0.0 => {
            let _ = write!(text, ", at least {}", lower());
        }
        Decision::Violated if verdict.lower <= 0.0 => {
            let _ = write!(text, ", at most {}", upper());
        }
        Decision::Inconclusive(_) if verdict.upper >= 1.0 => {
            let _ = write!(text, ", at least {}", lower());
        }
        Decision::Pass | Decision::Violated | Decision::Inconclusive(_) => {
            let _ = write!(text, ", between {} and {}", lower(), upper());
        }
    }
    text
}

/// What a good sample is.
const fn how(metric: Metric) -> &'static str {
    match metric {
        Metric::Dns
        | Metric::Connect
        | Metric::Tls
        | Metric::Ttfb
        | Metric::FirstEvent
        | Metric::Ttft
        | Metric::Total
        | Metric::MaxGap => " in time",
        Metric::Tps => " fast enough",
        Metric::Jitter => " steady",
        Metric::Interruption => " whole",
        Metric::HttpSuccess
        | Metric::ParseSuccess
        | Metric::RetrySuccess
        | Metric::SuccessIn4
        | Metric::Usable
        | Metric::ModelMatch
        | Metric::UsageMatch => "",
    }
}

/// The observed statistic; for a share the counts say it all.
fn observed(objective: &Objective, verdict: &Verdict) -> Option<String> {
    let name = match objective.statistic {
        Statistic::Quantile(ppm) => quantile_name(ppm),
        Statistic::Mean => "mean".to_owned(),
        Statistic::Rate => return None,
    };
    if verdict.censored {
        // The value at this rank is that of a failed sample: there is none.
        return Some(format!("{name} is a failure"));
    }
    let value = words::value(objective.metric.unit(), verdict.observed?);
    Some(format!("{name} {value}"))
}

/// `p95`, `p99.9`, `p05`.
fn quantile_name(ppm: u32) -> String {
    let (whole, rest) = (ppm / 10_000, ppm % 10_000);
    let decimals = format!("{rest:04}");
    let decimals = decimals.trim_end_matches('0');
    if decimals.is_empty() {
        format!("p{whole:02}")
    } else {
        format!("p{whole:02}.{decimals}")
    }
}

fn why(reason: Inconclusive, verdict: &Verdict) -> String {
    let words = match reason {
        Inconclusive::Budget => "all planned samples are used",
        Inconclusive::CannotPass => "can no longer pass with the planned samples",
        Inconclusive::StoppedEarly => "stopped early",
        Inconclusive::InvalidRun => "the run is invalid, which says nothing of the relay",
        Inconclusive::UndefinedMetric => "too many samples without a value",
        Inconclusive::Bursty => "failures come in bursts",
        Inconclusive::BaselineDown => "the baseline failed too",
        Inconclusive::MissingSlots => "would pass without gaps",
        Inconclusive::NoData => "nothing was measured",
    };
    match &verdict.note {
        // How a run ended is the same for all its verdicts; a failure block says it once.
        Some(note) if reason != Inconclusive::StoppedEarly => format!("{words} ({note})"),
        Some(_) | None => words.to_owned(),
    }
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
    let mut first = format!(
        "look at: {}, phase {}",
        explanation.party, explanation.phase
    );
    if explanation.alike < explanation.of {
        let _ = write!(
            first,
            " ({} of {} failures alike)",
            explanation.alike, explanation.of
        );
    }
    let samples: Vec<String> = explanation.samples.iter().map(u64::to_string).collect();
    let noun = if samples.len() == 1 {
        "sample"
    } else {
        "samples"
    };
    let mut lines = vec![
        first,
        format!("{noun} {}: {}", samples.join(", "), explanation.words),
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
