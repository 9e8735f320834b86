//! One recorded sample as text within 80 columns, or as JSON.

use serde_json::{Value, json};

use super::find::Found;
use super::repeat::Repeat;
use crate::attribution::blame;
use crate::cli::results::printable;
use crate::cli::waterfall::{self, LABEL, human, labelled, push};
use crate::evidence::{Attempt, Sample};
use crate::measure::{Outcome, Reading};
use crate::objective::Objective;
use crate::report::explain::address_of;

/// The sample for people.
pub(super) fn as_text(found: &Found, repeat: &Repeat, colour: bool) -> String {
    let (header, sample) = (&found.header, &found.sample);
    let mut text = String::new();
    let kind = if sample.warmup { "warm-up" } else { "sample" };
    let name = format!("{} of {}", sample.index, header.cell);
    push(&mut text, &labelled(kind, &name));
    push(&mut text, &labelled("id", &sample.id));
    push(
        &mut text,
        &labelled(
            "run",
            &format!("{}, spec {}", header.run_id, header.spec_source),
        ),
    );
    push(
        &mut text,
        &labelled("file", &found.path.display().to_string()),
    );
    let start = format!(
        "{}, {} after its plan at {}",
        utc(sample.t0_unix_ns),
        human(sample.lag),
        human(sample.planned)
    );
    push(&mut text, &labelled("t0", &start));
    for (number, attempt) in sample.attempts.iter().enumerate() {
        text.push_str(&one_attempt(
            attempt,
            number + 1,
            sample.attempts.len(),
            colour,
        ));
    }
    text.push('\n');
    for objective in &header.objectives {
        if let Some(words) = missed(objective, sample, found) {
            push(&mut text, &labelled("misses", &words));
        }
    }
    push(&mut text, &labelled("trace id", &sample.trace_id));
    if let Some(url) = trace_url(found) {
        push(
            &mut text,
            &format!("{:<LABEL$}{}", "trace", printable(&url)),
        );
    }
    text.push('\n');
    for note in &repeat.notes {
        push(&mut text, &labelled("note", note));
    }
    push(&mut text, &format!("to repeat it:\n{}", repeat.curl));
    text
}

/// One attempt: how it began, its phases, what was found.
fn one_attempt(attempt: &Attempt, number: usize, of: usize, colour: bool) -> String {
    let seen = &attempt.observation;
    let mut text = String::from("\n");
    if let Some(wait) = &attempt.backoff {
        let asked = wait.retry_after.map_or_else(String::new, |asked| {
            format!("; Retry-After was {}", human(asked))
        });
        push(
            &mut text,
            &labelled("waited", &format!("{}{asked}", human(wait.length))),
        );
    }
    let at = if number > 1 {
        format!(", {} after t0", human(attempt.start))
    } else {
        String::new()
    };
    let head = format!(
        "attempt {number} of {of}{at}: {}",
        waterfall::answered(seen)
    );
    push(&mut text, &printable(&head));
    text.push_str(&waterfall::bars(&seen.timeline));
    text.push('\n');
    let outcome = seen.outcome();
    let shown = match (colour, outcome) {
        (false, _) => outcome.to_owned(),
        (true, "ok") => format!("\x1b[32m{outcome}\x1b[0m"),
        (true, _) => format!("\x1b[31m{outcome}\x1b[0m"),
    };
    push(&mut text, &format!("{:<LABEL$}{shown}", "outcome"));
    text.push_str(&waterfall::facts(seen, &blame(seen)));
    for unmet in &seen.unmet {
        push(&mut text, &labelled("unmet", &format!("expect.{unmet}")));
    }
    for gap in seen.packets.longest.iter().take(3) {
        let words = format!(
            "{} until {}, packet {}",
            human(gap.length),
            human(gap.at),
            gap.packet
        );
        push(&mut text, &labelled("gap", &words));
    }
    text
}

/// What the sample means for an objective that it does not keep.
fn missed(objective: &Objective, sample: &Sample, found: &Found) -> Option<String> {
    if !sample.counts() {
        return None;
    }
    let judging = &found.header.judge;
    let outcome = objective.outcome(sample, judging);
    let value = match objective.metric.reading(sample, judging) {
        Reading::Value(value)
        | Reading::Rate {
            per_second: value, ..
        } => {
            format!(": {}", objective.metric.unit().shown(value))
        }
        Reading::Worst => ": the worst value".to_owned(),
        Reading::Burst => ": came in one burst".to_owned(),
        Reading::Unsealed => ": without its seal".to_owned(),
        Reading::Undefined | Reading::Ineligible => String::new(),
    };
    match outcome {
        Outcome::Bad => Some(format!("{}{value}", objective.text)),
        Outcome::Undefined => Some(format!("{}: no value", objective.text)),
        Outcome::Good | Outcome::Ineligible => None,
    }
}

fn trace_url(found: &Found) -> Option<String> {
    address_of(&found.header, &found.sample)
}

/// The sample for programs: one JSON document, schema 1.
pub(super) fn as_json(found: &Found, repeat: &Repeat) -> Value {
    let (header, sample) = (&found.header, &found.sample);
    let attempts: Vec<Value> = sample
        .attempts
        .iter()
        .map(|attempt| {
            let blame = blame(&attempt.observation);
            json!({
                "outcome": attempt.observation.outcome(),
                "look_at": blame,
                "record": attempt,
            })
        })
        .collect();
    let missed: Vec<String> = header
        .objectives
        .iter()
        .filter_map(|objective| missed(objective, sample, found))
        .collect();
    json!({
        "schema": 1,
        "cell": header.cell,
        "index": sample.index,
        "warmup": sample.warmup,
        "id": sample.id,
        "run_id": header.run_id,
        "file": found.path.display().to_string(),
        "spec": header.spec_source,
        "t0": utc(sample.t0_unix_ns),
        "t0_unix_ns": sample.t0_unix_ns,
        "trace_id": sample.trace_id,
        "trace_url": trace_url(found),
        "attempts": attempts,
        "misses": missed,
        "repeat": repeat.curl,
        "notes": repeat.notes,
    })
}

/// A moment as people write it, in UTC.
fn utc(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Eras of 400 years, the year taken to begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:03} UTC",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60,
        unix_ns / 1_000_000 % 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00.000 UTC");
        assert_eq!(
            utc(1_764_547_199_999_000_000),
            "2025-11-30 23:59:59.999 UTC"
        );
        assert_eq!(
            utc(1_767_225_600_007_000_000),
            "2026-01-01 00:00:00.007 UTC"
        );
    }
}
