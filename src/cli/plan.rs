//! `relayproof plan FILE`: what a run would send and what it could show, before anything is sent.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::cli::{Exit, check, colour, complain};
use crate::plan::budget::{self, Outlook};
use crate::plan::{self, Cell, Endpoint, KeySource, Method, Mode, Plan};
use crate::spec::objective::{Objective, Severity};

/// First starts that are shown.
const STARTS: usize = 6;

/// Prints the plan of a spec; its mistakes are no plan and go to stderr.
///
/// # Errors
///
/// When the results cannot be written.
pub fn plan(file: &Path, profile: Option<&str>, out: &mut dyn Write) -> io::Result<Exit> {
    let text = match check::text(file) {
        Ok(text) => text,
        Err(mistake) => {
            complain(&mistake);
            return Ok(Exit::Usage);
        }
    };
    let plan = check::parse(file, &text).and_then(|spec| plan::resolve(&spec, profile));
    match plan {
        Ok(plan) => {
            print(&plan, profile, out)?;
            Ok(Exit::Pass)
        }
        Err(errors) => {
            complain(errors.render(colour()).trim_end());
            Ok(Exit::Usage)
        }
    }
}

fn print(plan: &Plan, profile: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    let with = profile.map_or_else(String::new, |name| format!(", profile {name}"));
    writeln!(out, "{}  ({}{with})", plan.name, plan.source)?;
    writeln!(
        out,
        "plan {}  seed {}",
        &plan.digest[..16.min(plan.digest.len())],
        plan.sampling.seed
    )?;
    writeln!(out)?;
    sampling(plan, out)?;
    if let Some(first) = plan.cells.first() {
        objectives(plan, &first.objectives, out)?;
    }
    writeln!(out, "\ncells")?;
    for cell in &plan.cells {
        print_cell(plan, cell, out)?;
    }
    totals(plan, out)
}

fn sampling(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let drawn = &plan.sampling;
    let calls = drawn.max_samples + u64::from(drawn.warmup);
    let last = plan
        .cells
        .first()
        .map_or(Duration::ZERO, |cell| budget::last_start(cell, drawn));
    let warmup = match drawn.warmup {
        0 => String::new(),
        n => format!(" after {n} warm-up calls"),
    };
    writeln!(
        out,
        "each cell: at most {} samples{warmup}, {}, last start after about {}",
        drawn.max_samples,
        rate(drawn.rate_per_s),
        rough(last),
    )?;
    let judge = &plan.judge;
    let rule = match judge.method {
        Method::Sequential => "sequential: stops as soon as everything is decided",
        Method::Wilson => "wilson: one look when all samples are in",
    };
    writeln!(out, "judged {rule}")?;
    if judge.mode == Mode::Guard {
        writeln!(out, "guard mode: a pass means \"not shown to violate\"")?;
    }
    if let Some(limit) = drawn.max_duration {
        writeln!(out, "a cell is cut off after {}", rough(limit))?;
        if last > limit {
            writeln!(
                out,
                "note: not all of {calls} calls start before that; what is open then stays open"
            )?;
        }
    }
    writeln!(out)
}

fn objectives(plan: &Plan, objectives: &[Objective], out: &mut dyn Write) -> io::Result<()> {
    let most = plan.sampling.max_samples;
    let width = objectives
        .iter()
        .map(|it| it.text.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(9, 34);
    writeln!(
        out,
        "{:width$}  {:>7}  {:>8}  {:>16}",
        "objective", "clean n", "failures", "undecidable"
    )?;
    for objective in objectives {
        let outlook = Outlook::of(objective, &plan.judge);
        let clean = outlook
            .as_ref()
            .map_or_else(|| "-".to_owned(), |it| it.clean_samples().to_string());
        let tolerated = outlook
            .as_ref()
            .and_then(|it| it.tolerated(most))
            .map_or_else(|| "-".to_owned(), |n| n.to_string());
        let grey = outlook.as_ref().and_then(Outlook::grey_zone).map_or_else(
            || "-".to_owned(),
            |(low, high)| format!("{:.2}-{:.2}%", low * 100.0, high * 100.0),
        );
        let note = if objective.severity == Severity::Warn {
            "  warns only"
        } else if objective.gates() {
            ""
        } else {
            "  never waited for"
        };
        writeln!(
            out,
            "{:width$}  {clean:>7}  {tolerated:>8}  {grey:>16}{note}",
            objective.text
        )?;
    }
    writeln!(
        out,
        "clean n: fewest samples that pass; failures: most that still pass at {most};\n\
         undecidable: true failure rates that no number of samples decides"
    )
}

fn print_cell(plan: &Plan, cell: &Cell, out: &mut dyn Write) -> io::Result<()> {
    let ignored = match (&cell.ignored, &cell.relay.api_key) {
        (Some(why), _) => format!("  ignored: {why}"),
        (None, Some(KeySource::Env(name))) => format!("  key from {name}"),
        (None, Some(KeySource::File(_))) => "  key from a file".to_owned(),
        (None, Some(KeySource::Command(_))) => "  key from a command".to_owned(),
        (None, None) => String::new(),
    };
    let place = match &cell.relay.endpoint {
        Endpoint::Url(url) => url.as_str(),
        Endpoint::Simulate(_) => "embedded relay",
    };
    writeln!(out, "  {}", cell.name())?;
    writeln!(out, "    {place}{ignored}")?;
    writeln!(
        out,
        "    up to {} tokens; the last answer is there after {} at most",
        grouped(budget::tokens_of(cell, &plan.sampling)),
        rough(budget::longest_cell(cell, &plan.sampling)),
    )?;
    let starts: Vec<String> = cell
        .slots(&plan.sampling)
        .take(STARTS)
        .map(|slot| format!("{:.2}s", slot.start.as_secs_f64()))
        .collect();
    writeln!(out, "    starts {} …", starts.join(" "))
}

fn totals(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let calls = plan.sampling.max_samples + u64::from(plan.sampling.warmup);
    let requests = calls.saturating_mul(plan.cells.len() as u64);
    let tokens = plan.cells.iter().fold(0, |sum: u64, cell| {
        sum.saturating_add(budget::tokens_of(cell, &plan.sampling))
    });
    let limit = plan.sampling.max_tokens.map_or_else(
        || "no limit set".to_owned(),
        |it| format!("limit {}", grouped(it)),
    );
    writeln!(
        out,
        "\nin all: at most {} calls and {} tokens ({limit})",
        grouped(requests),
        grouped(tokens)
    )
}

/// Starts per second in the unit that reads best.
fn rate(per_s: f64) -> String {
    let number = |value: f64| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if per_s >= 10.0 {
        format!("{}/s", number(per_s))
    } else if per_s * 60.0 >= 1.0 {
        format!("{}/min", number(per_s * 60.0))
    } else {
        format!("{}/h", number(per_s * 3600.0))
    }
}

/// A length to two units.
fn rough(length: Duration) -> String {
    let seconds = length.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) => format!("{:.1}s", length.as_secs_f64()),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, minutes, _) => format!("{hours}h {minutes}m"),
    }
}

/// A count with its thousands set apart.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_rates_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(rate(2.0), "120/min");
        assert_eq!(rate(100.0), "100/s");
        assert_eq!(rate(0.01), "36/h");
        assert_eq!(rough(Duration::from_millis(2300)), "2.3s");
        assert_eq!(rough(Duration::from_secs(3725)), "1h 2m");
    }
}
