//! A climb of concurrency, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::compared::{share, share_up, wrap};
use crate::compare::ramp::{Bend, CONFIDENCE, FLAT, Kept, Knee, Step};
use crate::words;
use crate::words::counted;

/// Version of the document.
pub const SCHEMA: u32 = 1;

/// The climb of one cell.
#[derive(Debug)]
pub struct Climb {
    /// `relay/model/workload`.
    pub cell: String,
    /// The steps that were taken, in the order of their streams.
    pub steps: Vec<Step>,
    /// Where it bends; `None` where that was not reached.
    pub knee: Option<Knee>,
    /// Why no further step was taken, where the climb ended before its last one.
    pub stopped: Option<String>,
}

/// A climb for a terminal, in eighty columns.
pub fn text(climb: &Climb) -> String {
    let mut out = format!("{}\n", climb.cell);
    let loop_words = "closed loop: so many calls are open at all times, and one starts when another \
                      one ends; a slow relay is asked less";
    wrap(&mut out, "  ", "  ", loop_words);
    if climb.steps.is_empty() {
        out.push_str("  no step was taken\n");
    } else {
        speeds(&mut out, &climb.steps);
        promises(&mut out, &climb.steps);
        failures(&mut out, &climb.steps);
    }
    out.push('\n');
    wrap(&mut out, "  ", "  ", &conclusion(climb));
    if let Some(why) = &climb.stopped {
        wrap(&mut out, "  ", "    ", &format!("no further step: {why}"));
    }
    for step in &climb.steps {
        for note in notes(step) {
            let said = format!("note: {}: {note}", streams(step.streams));
            wrap(&mut out, "  ", "    ", &said);
        }
    }
    out
}

fn speeds(out: &mut String, steps: &[Step]) {
    let _ = writeln!(
        out,
        "\n  {:>7}  {:>6}  {:>9}  {:>9}  {:>10}  {:>10}  {:>10}",
        "streams", "calls", "answers/s", "tokens/s", "per stream", "ttft p50", "ttft p95"
    );
    for step in steps {
        let _ = writeln!(
            out,
            "  {:>7}  {:>6}  {:>9}  {:>9}  {:>10}  {:>10}  {:>10}",
            step.streams,
            step.calls,
            rate(step.answers_per_s),
            rate(step.tokens_per_s),
            rate(step.tps),
            time(step.ttft_p50),
            time(step.ttft_p95),
        );
    }
}

fn promises(out: &mut String, steps: &[Step]) {
    let promised = steps.first().map_or(&[][..], |step| &step.kept);
    for (place, promise) in promised.iter().enumerate() {
        let _ = writeln!(out, "\n  {}", promise.objective.text);
        for step in steps {
            let Some(kept) = step.kept.get(place) else {
                continue;
            };
            let (good, n) = (kept.tally.good(), kept.tally.n());
            let row = format!(
                "  {:>7}  {:>15}  {:>7}  {:>18}  {}",
                step.streams,
                format!("{good} of {n}"),
                kept.tally.share().map_or_else(|| "-".to_owned(), share),
                format!(
                    "{} to {}",
                    share(kept.interval.lower),
                    share_up(kept.interval.upper)
                ),
                if kept.is_broken() { "broken" } else { "" },
            );
            let _ = writeln!(out, "{}", row.trim_end());
        }
    }
}

fn failures(out: &mut String, steps: &[Step]) {
    let failed = |step: &Step| step.refused + step.server_errors + step.interrupted > 0;
    if !steps.iter().any(failed) {
        out.push_str("\n  no call was answered 429 or 5xx or broke off\n");
        return;
    }
    let _ = writeln!(
        out,
        "\n  {:>7}  {:>15}  {:>15}  {:>15}",
        "streams", "429", "5xx", "broke off"
    );
    for step in steps {
        let of = |count: u64| match share_of(count, step.calls) {
            Some(of) => format!("{count} ({})", share(of)),
            None => "-".to_owned(),
        };
        let _ = writeln!(
            out,
            "  {:>7}  {:>15}  {:>15}  {:>15}",
            step.streams,
            of(step.refused),
            of(step.server_errors),
            of(step.interrupted),
        );
    }
}

fn conclusion(climb: &Climb) -> String {
    let Some(knee) = &climb.knee else {
        return match climb.steps.last() {
            Some(last) => format!("knee: not reached up to {}", streams(last.streams)),
            None => "knee: unknown".to_owned(),
        };
    };
    let carried = knee.streams.map_or_else(
        || "none of these steps is carried".to_owned(),
        |it| format!("knee: {}", streams(it)),
    );
    format!("{carried}; {}", why(&knee.bend))
}

/// What shows the knee, in words.
fn why(bend: &Bend) -> String {
    match bend {
        Bend::Broken { at, kept } => format!(
            "at {} `{}` is broken: {} of {} calls keep it, at most {} where {} is promised",
            streams(*at),
            kept.objective.text,
            kept.tally.good(),
            kept.tally.n(),
            share_up(kept.interval.upper),
            words::share(f64::from(kept.required_ppm) / 1e6),
        ),
        Bend::Flat { at, rise, more } => format!(
            "at {} throughput changed by {:+.0}% for {:+.0}% streams",
            streams(*at),
            rise * 100.0,
            more * 100.0,
        ),
    }
}

fn notes(step: &Step) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &step.invalid {
        notes.push(format!("says nothing of the relay: {why}"));
    }
    if let Some(lag) = step.doubt_s {
        let lag = words::seconds(lag);
        notes.push(format!("our own lag of up to {lag} may be in its times"));
    }
    if step.abandoned > 0 {
        let calls = counted(step.abandoned, "call");
        notes.push(format!(
            "{calls} still open at its end; the intervals allow for either outcome"
        ));
    }
    if step.calls < u64::from(step.streams) {
        notes.push(format!(
            "only {} ended, fewer than its streams",
            counted(step.calls, "call")
        ));
    }
    notes
}

/// `1 stream`, `8 streams`.
fn streams(count: u32) -> String {
    counted(count.into(), "stream")
}

fn share_of(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| crate::stats::float(count) / crate::stats::float(of))
}

fn rate(value: Option<f64>) -> String {
    match value {
        None => "unknown".to_owned(),
        Some(value) if value >= 99.95 => format!("{value:.0}"),
        Some(value) if value >= 9.995 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn time(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.is_finite() => words::seconds(value),
        Some(_) => "never".to_owned(),
    }
}

/// Climbs as one JSON document.
pub fn json(run_id: &str, climbs: &[Climb]) -> Value {
    json!({
        "schema": SCHEMA,
        "run_id": run_id,
        "loop": "closed",
        "confidence": CONFIDENCE,
        "flat": FLAT,
        "cells": climbs.iter().map(cell).collect::<Vec<_>>(),
    })
}

fn cell(climb: &Climb) -> Value {
    json!({
        "cell": climb.cell,
        "steps": climb.steps.iter().map(step).collect::<Vec<_>>(),
        "knee": climb.knee.as_ref().map(|knee| json!({
            "streams": knee.streams,
            "because": match &knee.bend {
                Bend::Broken { at, kept: broken } => json!({
                    "what": "broken",
                    "at": at,
                    "objective": broken.objective.text,
                    "upper": broken.interval.upper,
                    "required": f64::from(broken.required_ppm) / 1e6,
                }),
                Bend::Flat { at, rise, more } => json!({
                    "what": "flat",
                    "at": at,
                    "throughput_rise": rise,
                    "streams_rise": more,
                }),
            },
        })),
        "conclusion": conclusion(climb),
        "stopped": climb.stopped,
    })
}

/// A step; a time that is infinite has no number in JSON and is told from one that is unknown.
fn step(step: &Step) -> Value {
    let time = |value: Option<f64>| match value {
        Some(value) if value.is_infinite() => json!("never"),
        value => json!(value),
    };
    json!({
        "streams": step.streams,
        "calls": step.calls,
        "abandoned": step.abandoned,
        "answers": step.answers,
        "answers_per_s": step.answers_per_s,
        "tokens_per_s": step.tokens_per_s,
        "tokens_per_s_of_a_stream": step.tps,
        "ttft_p50_s": time(step.ttft_p50),
        "ttft_p95_s": time(step.ttft_p95),
        "objectives": step.kept.iter().map(kept).collect::<Vec<_>>(),
        "http_429": step.refused,
        "http_429_share": share_of(step.refused, step.calls),
        "http_5xx": step.server_errors,
        "http_5xx_share": share_of(step.server_errors, step.calls),
        "interrupted": step.interrupted,
        "interrupted_share": share_of(step.interrupted, step.calls),
        "ended": step.ended,
        "invalid": step.invalid,
        "own_lag_s": step.doubt_s,
    })
}

fn kept(kept: &Kept) -> Value {
    json!({
        "objective": kept.objective.text,
        "n": kept.tally.n(),
        "good": kept.tally.good(),
        "share": kept.tally.share(),
        "lower": kept.interval.lower,
        "upper": kept.interval.upper,
        "required": f64::from(kept.required_ppm) / 1e6,
        "broken": kept.is_broken(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::ramp::knee;
    use crate::evidence::fixtures::*;
    use crate::evidence::{CloseReason, Evidence, Line};
    use crate::observation::Observation;

    fn step(streams: u32, seen: Vec<Observation>) -> Step {
        let mut header = header(vec![ttft_p95(), parse_success()], 40);
        header.concurrency = Some(streams);
        let mut evidence = Evidence::new(header);
        for (index, seen) in (0..).zip(seen) {
            evidence.push(Line::Sample(Box::new(sample(index, seen))));
        }
        evidence.push(Line::Close(close(CloseReason::Budget)));
        Step::of(&evidence)
    }

    fn climb(steps: Vec<Step>) -> Climb {
        Climb {
            cell: "nova/large/chat".to_owned(),
            knee: knee(&steps),
            steps,
            stopped: None,
        }
    }

    #[test]
    fn a_climb_reads_in_eighty_columns() {
        let refusing = [vec![good(); 10], vec![refused(429); 30]].concat();
        let climb = climb(vec![step(4, vec![good(); 40]), step(8, refusing)]);
        let text = text(&climb);
        let expected = "\
nova/large/chat
  closed loop: so many calls are open at all times, and one starts when another
  one ends; a slow relay is asked less

  streams   calls  answers/s   tokens/s  per stream    ttft p50    ttft p95
        4      40       7.66        161        50.0      120 ms      120 ms
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("       never\n"), "{text}");
        assert!(
            text.contains("8         10 of 40   25.00%    14.18% to 40.20%  broken"),
            "{text}"
        );
        assert!(text.contains("      30 (75.00%)"), "{text}");
        assert!(
            text.contains("knee: 4 streams; at 8 streams `ttft.p95 < 1.5s` is broken"),
            "{text}"
        );
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            assert!(!line.ends_with(' '), "{line:?}");
        }
    }

    #[test]
    fn what_was_not_reached_is_not_claimed() {
        let mut whole = climb(vec![step(4, vec![good(); 40])]);
        assert!(text(&whole).contains("knee: not reached up to 4 streams"));
        whole.stopped = Some("interrupted".to_owned());
        assert!(text(&whole).contains("no further step: interrupted"));
        let none = text(&climb(Vec::new()));
        assert!(none.contains("no step was taken") && none.contains("knee: unknown"));
        let bad = text(&climb(vec![step(1, vec![refused(503); 40])]));
        assert!(
            bad.contains("none of these steps is carried; at 1 stream"),
            "{bad}"
        );
    }

    #[test]
    fn the_document_has_the_numbers_and_no_infinity() {
        let document = json("run", &[climb(vec![step(1, vec![refused(429); 40])])]);
        let step = &document["cells"][0]["steps"][0];
        assert_eq!(document["loop"], "closed");
        assert_eq!(step["ttft_p95_s"], "never");
        assert_eq!(step["http_429"], 40);
        assert_eq!(step["http_429_share"], 1.0);
        assert_eq!(step["tokens_per_s_of_a_stream"], Value::Null);
        assert_eq!(step["ended"], "budget");
        let knee = &document["cells"][0]["knee"];
        assert_eq!(knee["streams"], Value::Null);
        assert_eq!(knee["because"]["what"], "broken");
    }
}
