//! A verdict in words, the same in every report: what was observed, the counts, the bound that the
//! decision rests on, and why nothing was decided.

use std::fmt::Write as _;

use crate::objective::metric::Metric;
use crate::objective::{Objective, Severity, Statistic};
use crate::plan::{Judging, Mode, OnInconclusive};
use crate::verdict::{Decision, Inconclusive, Verdict};
use crate::words;

/// All of it on one line, without the objective and the decision.
pub(super) fn said(judging: &Judging, objective: &Objective, verdict: &Verdict) -> String {
    let found = found(objective, verdict);
    let joint = if found.is_empty() { "" } else { "; " };
    let mut text = found;
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
                let samples = words::counted(more, "more clean sample");
                let _ = write!(text, ", {samples} would settle it");
            }
        }
    }
    if let (Decision::Pass | Decision::Violated, Some(note)) = (verdict.decision, &verdict.note) {
        let _ = write!(text, "; {note}");
    } else if verdict.decision == Decision::Pass && judging.mode == Mode::Guard {
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
            objective.severity == Severity::Warn || judging.on_inconclusive == OnInconclusive::Warn
        }
    };
    if lenient {
        text.push_str("; a warning only");
    }
    text
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
        | Metric::MaxGap
        | Metric::Overhead => " in time",
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
pub(super) fn observed(objective: &Objective, verdict: &Verdict) -> Option<String> {
    let name = match objective.statistic {
        Statistic::Quantile(ppm) => quantile_name(ppm),
        Statistic::Mean => "mean".to_owned(),
        Statistic::Rate => return None,
    };
    if verdict.censored {
        // The value at this rank is that of a failed sample: there is none.
        return Some(format!("{name} is a failure"));
    }
    let value = objective.metric.unit().shown(verdict.observed?);
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

pub(super) fn why(reason: Inconclusive, verdict: &Verdict) -> String {
    let words = match reason {
        Inconclusive::Budget => "all planned samples are used",
        Inconclusive::CannotPass => "can no longer pass with the planned samples",
        Inconclusive::StoppedEarly => "stopped early",
        Inconclusive::InvalidRun => "the run is invalid, which says nothing of the relay",
        Inconclusive::UndefinedMetric => "too many samples without a value",
        Inconclusive::Bursty => "failures come in bursts",
        Inconclusive::BaselineDown => "the baseline failed too",
        Inconclusive::MissingSlots => "what is missing stands in the way of a pass",
        Inconclusive::NoData => "nothing was measured",
    };
    match &verdict.note {
        // How a run ended is the same for all its verdicts; a failure block says it once.
        Some(note) if reason != Inconclusive::StoppedEarly => format!("{words} ({note})"),
        Some(_) | None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_named_as_they_are_written() {
        assert_eq!(quantile_name(950_000), "p95");
        assert_eq!(quantile_name(50_000), "p05");
        assert_eq!(quantile_name(999_000), "p99.9");
    }
}
