//! `relayproof plan FILE`: what a run would send and what it could show, before anything is sent.

mod document;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::{Exit, Format, check, colour, complain, results, run};
use crate::objective::metric::Metric;
use crate::objective::{Objective, Severity};
use crate::plan::budget::{self, Outlook};
use crate::plan::prospects::{Prospects, Scenario};
use crate::plan::{Cell, Endpoint, KeySource, Method, Mode, Plan, Timing, window};
use crate::resolve::resolve;
use crate::words::counted;

/// First starts that are shown.
const STARTS: usize = 6;

/// Arguments of `plan`.
#[derive(clap::Args)]
pub struct Args {
    /// Spec file
    file: PathBuf,
    /// Overlay of the spec
    #[arg(long, env = "RELAYPROOF_PROFILE")]
    profile: Option<String>,
    /// Also say what a relay that is good in this share of its calls has to expect, like 99.5%; as
    /// often as wanted
    #[arg(long, value_name = "PERCENTAGE", value_parser = crate::spec::share)]
    assume: Vec<f64>,
    /// Output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Prints the plan of a spec; its mistakes are no plan and go to stderr.
///
/// # Errors
///
/// When the results cannot be written.
pub fn plan(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let text = match check::text(&args.file) {
        Ok(text) => text,
        Err(mistake) => {
            complain(&mistake);
            return Ok(Exit::Usage);
        }
    };
    let profile = run::named(args.profile.as_deref());
    let plan = check::parse(&args.file, &text).and_then(|spec| resolve(&spec, profile));
    match plan {
        Ok(plan) => {
            let prospects = Prospects::of(&plan, &args.assume);
            match args.format {
                Format::Text => print(&plan, &prospects, profile, out)?,
                Format::Json => results::json(&document::of(&plan, &prospects, profile), out)?,
            }
            Ok(Exit::Pass)
        }
        Err(errors) => {
            complain(errors.render(colour()).trim_end());
            Ok(Exit::Usage)
        }
    }
}

fn print(
    plan: &Plan,
    prospects: &Prospects,
    profile: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
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
        objectives(plan, &first.objectives, prospects, out)?;
        for scenario in &prospects.scenarios {
            expected(plan, &first.objectives, scenario, out)?;
        }
        if plan.sampling.mode == Timing::Soak {
            writeln!(
                out,
                "\nas if each vote were of one sample: with more of them a good relay passes \
                 more often"
            )?;
        }
        writeln!(
            out,
            "\ntogether: at least this often, however the objectives depend on each other,\n\
             and at least as many samples as the one that takes longest"
        )?;
    }
    writeln!(out, "\ncells")?;
    for cell in plan.cells.iter().chain(&plan.baselines) {
        print_cell(plan, cell, out)?;
    }
    totals(plan, prospects, out)
}

fn sampling(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    if plan.sampling.mode == Timing::Soak {
        return soak(plan, out);
    }
    let drawn = &plan.sampling;
    let calls = most_calls(plan);
    // Of a cell that goes at the rate, where there is one.
    let last = plan
        .cells
        .iter()
        .find(|cell| cell.workload.concurrency.is_none())
        .map_or(Duration::ZERO, |cell| budget::last_start(cell, drawn));
    let warmup = match drawn.warmup {
        0 => String::new(),
        n => format!(" after {}", counted(n.into(), "warm-up call")),
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
        Method::Exact => "exact: one look when all samples are in",
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

/// How the samples of a soak are drawn and judged.
fn soak(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let drawn = &plan.sampling;
    let start = drawn
        .start_unix_ns
        .map_or_else(|| "its first collecting".to_owned(), window::shown);
    writeln!(
        out,
        "a soak: {} samples of each relay, model and workload, spread over {} from {start}",
        grouped(drawn.max_samples),
        rough(drawn.duration.unwrap_or_default()),
    )?;
    for region in &plan.regions {
        writeln!(
            out,
            "  {}: {} of the samples and of the money",
            region.name,
            exactly(f64::from(region.share_ppm) / 1e6)
        )?;
    }
    writeln!(
        out,
        "judged at its end: {} are one vote, however many samples they hold,\n\
         and a pass needs {}",
        rough(plan.judge.bucket),
        counted(plan.judge.min_days.into(), "day"),
    )?;
    if plan.judge.mode == Mode::Guard {
        writeln!(out, "guard mode: a pass means \"not shown to violate\"")?;
    }
    writeln!(out)
}

/// Width of the column of objectives.
fn width(objectives: &[Objective]) -> usize {
    let longest = objectives.iter().map(|it| it.text.chars().count()).max();
    longest.unwrap_or(0).clamp(9, 28)
}

fn objectives(
    plan: &Plan,
    objectives: &[Objective],
    prospects: &Prospects,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Prospects { outlooks, most, .. } = prospects;
    let is_soak = plan.sampling.mode == Timing::Soak;
    let width = width(objectives);
    writeln!(
        out,
        "{:width$}  {:>7}  {:>8}  {:>12}",
        "objective", "clean n", "failures", "undecidable"
    )?;
    for ((objective, outlook), &most) in objectives.iter().zip(outlooks).zip(most) {
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
        let votes = if is_soak {
            format!("  of {most} votes")
        } else {
            String::new()
        };
        let note = if objective.severity == Severity::Warn {
            "  warns only"
        } else if objective.gates() {
            ""
        } else {
            "  never waited for"
        };
        writeln!(
            out,
            "{:width$}  {clean:>7}  {tolerated:>8}  {grey:>12}{note}{votes}",
            objective.text
        )?;
    }
    if is_soak {
        writeln!(
            out,
            "clean n: fewest votes that pass; failures: most whole votes lost that still pass;\n\
             votes: those to be expected; undecidable: true failure rates that no number decides"
        )?;
    } else {
        let most = most.first().copied().unwrap_or(0);
        writeln!(
            out,
            "clean n: fewest samples that pass; failures: most that still pass at {most};\n\
             undecidable: true failure rates that no number of samples decides"
        )?;
    }
    rare(objectives, outlooks, out)
}

/// Says of an objective that is only about calls that failed at first how few those are.
fn rare(
    objectives: &[Objective],
    outlooks: &[Option<Outlook>],
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = objectives.iter().zip(outlooks);
    let about_failures = all.filter(|(it, _)| it.metric == Metric::RetrySuccess);
    for clean in about_failures.filter_map(|(_, outlook)| Some(outlook.as_ref()?.clean_samples())) {
        writeln!(
            out,
            "retry_success counts calls that failed at first: for {clean} of them a relay that\n\
             fails 1% takes {} calls; success_in_4 counts all calls",
            grouped(clean.saturating_mul(100))
        )?;
    }
    Ok(())
}

/// What a relay of stated quality has to expect.
fn expected(
    plan: &Plan,
    objectives: &[Objective],
    scenario: &Scenario,
    out: &mut dyn Write,
) -> io::Result<()> {
    let counts = match plan.sampling.mode {
        Timing::Burst => "samples",
        Timing::Soak => "votes",
    };
    let width = width(objectives);
    let title = match scenario.assumed {
        None => "a relay at a fifth of the allowed failure odds".to_owned(),
        Some(share) => format!("a relay that is good in {} of its calls", exactly(share)),
    };
    writeln!(out, "\n{title}")?;
    writeln!(
        out,
        "  {:width$}  {:>8}  {:>7}  {:>8}  {:>7}",
        "objective", "good in", "passes", "violated", counts
    )?;
    for (objective, forecast) in objectives.iter().zip(&scenario.forecasts) {
        let text = &objective.text;
        match forecast {
            Some(forecast) => writeln!(
                out,
                "  {text:width$}  {:>8}  {:>7}  {:>8}  {:>7.0}",
                exactly(forecast.share),
                chance(forecast.pass),
                chance(forecast.violated),
                forecast.samples,
            )?,
            None => writeln!(out, "  {text:width$}  {0:>8}  {0:>7}  {0:>8}  {0:>7}", "-")?,
        }
    }
    if let Some(together) = scenario.together
        && objectives.len() > 1
    {
        writeln!(
            out,
            "  {:width$}  {:>8}  {:>7}  {:>8}  {:>7.0}",
            "together",
            "",
            chance(together.pass),
            "",
            together.samples,
        )?;
    }
    Ok(())
}

/// A probability in percent; one that is not certain does not read as if it were.
fn chance(probability: f64) -> String {
    if probability > 0.9995 && probability < 1.0 - 1e-9 {
        ">99.9%".to_owned()
    } else if probability < 0.0005 && probability > 1e-9 {
        "<0.1%".to_owned()
    } else {
        format!("{:.1}%", probability * 100.0)
    }
}

/// A share in percent, with at most three digits after the point.
fn exactly(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn print_cell(plan: &Plan, cell: &Cell, out: &mut dyn Write) -> io::Result<()> {
    let own = cell.sampling(&plan.sampling);
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
        grouped(budget::tokens_of(cell, plan.calls_of(cell))),
        rough(budget::longest_cell(cell, &own)),
    )?;
    if let Some(streams) = cell.workload.concurrency {
        return writeln!(
            out,
            "    {streams} calls held open: one starts when another one ends, at no rate"
        );
    }
    let starts: Vec<String> = if plan.sampling.mode == Timing::Soak {
        let first = plan.soak_starts(cell).take(STARTS);
        first.map(|(_, start)| rough(start)).collect()
    } else {
        let first = cell.slots(&own).take(STARTS);
        first
            .map(|slot| format!("{:.2}s", slot.start.as_secs_f64()))
            .collect()
    };
    writeln!(
        out,
        "    {}, starts {} …",
        counted(plan.calls_of(cell), "call"),
        starts.join(" ")
    )
}

fn totals(plan: &Plan, prospects: &Prospects, out: &mut dyn Write) -> io::Result<()> {
    let all = || plan.cells.iter().chain(&plan.baselines);
    let requests = all().fold(0, |sum: u64, cell| sum.saturating_add(plan.calls_of(cell)));
    let tokens = all().fold(0, |sum: u64, cell| {
        sum.saturating_add(budget::tokens_of(cell, plan.calls_of(cell)))
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
    )?;
    cost(plan, &|cell| plan.calls_of(cell), out)?;
    // A soak takes them all.
    let is_soak = plan.sampling.mode == Timing::Soak;
    if is_soak || prospects.expected_samples().is_none() {
        return Ok(());
    }
    let calls = |cell: &Cell| prospects.expected_calls(plan, cell).unwrap_or(0);
    let expected = all().fold(0, |sum: u64, cell| sum.saturating_add(calls(cell)));
    let tokens = all().fold(0, |sum: u64, cell| {
        sum.saturating_add(prospects.expected_tokens(plan, cell).unwrap_or(0))
    });
    writeln!(
        out,
        "of relays at a fifth of the allowed failure odds, expected:\n\
         {} calls or more, up to {} tokens",
        grouped(expected),
        grouped(tokens)
    )?;
    cost(plan, &calls, out)
}

/// Most calls to a cell.
fn most_calls(plan: &Plan) -> u64 {
    plan.sampling.max_samples + u64::from(plan.sampling.warmup)
}

/// What so many calls to each cell cost at most, as far as the spec has prices.
fn cost(plan: &Plan, calls: &dyn Fn(&Cell) -> u64, out: &mut dyn Write) -> io::Result<()> {
    let paid = |it: &&Cell| matches!(it.relay.endpoint, Endpoint::Url(_));
    let costs: Vec<Option<f64>> = plan
        .cells
        .iter()
        .chain(&plan.baselines)
        .filter(paid)
        .map(|cell| budget::cost_of(cell, calls(cell)))
        .collect();
    let known: f64 = costs.iter().flatten().sum();
    match costs.iter().filter(|it| it.is_none()).count() {
        unknown if unknown == costs.len() => Ok(()),
        0 => writeln!(out, "cost: up to {} USD", money(known)),
        unknown => writeln!(
            out,
            "cost: up to {} USD, without {} whose price is unknown",
            money(known),
            counted(unknown as u64, "cell"),
        ),
    }
}

/// An amount with two digits that say something.
fn money(amount: f64) -> String {
    if amount >= 1.0 {
        format!("{amount:.2}")
    } else {
        format!("{amount:.4}")
    }
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
        assert_eq!(chance(1.0), "100.0%");
        assert_eq!(chance(0.99996), ">99.9%");
        assert_eq!(chance(0.00004), "<0.1%");
        assert_eq!(chance(0.0), "0.0%");
        assert_eq!(chance(0.9398), "94.0%");
        assert_eq!(exactly(0.99798), "99.798%");
        assert_eq!(exactly(0.995), "99.5%");
        assert_eq!(exactly(1.0), "100%");
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
