//! The numbers, side by side.

use std::fmt;

use super::rounds::{Round, Row};
use super::task::{Client, Load};

/// All rows as a Markdown table.
pub(crate) struct Table<'a>(pub(crate) &'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| streams | client | telemetry | CPU s per 1,000 tokens | to bare | peak MiB \
             | KiB a further stream | first token off by: median ms | p99 ms | loop lag p99 ms | notes |"
        )?;
        writeln!(f, "|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---|")?;
        for row in self.0 {
            self.row(row, f)?;
        }
        for row in self
            .0
            .iter()
            .filter(|row| row.client != Client::Bare && row.telemetry)
        {
            if let Some(off) = self.like(row, row.load, row.client, false) {
                self.pairs(row, off, f)?;
            }
        }
        Ok(())
    }
}

impl Table<'_> {
    fn row(&self, row: &Row, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = self.like(row, row.load, Client::Bare, false);
        let per_stream = self.per_stream(row);
        let shown = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.2}"));
        let lag = |round: &Round| Some(round.measured.loop_lag_us? as f64 / 1e3);
        writeln!(
            f,
            "| {} | {} | {} | {:.4} | {} | {:.1} | {} | {:.3} | {:.3} | {} | {} |",
            row.load.streams,
            match row.client {
                Client::Reqwest => "reqwest",
                Client::Raw => "raw",
                Client::Bare => "bare reqwest",
            },
            if row.telemetry { "on" } else { "off" },
            cpu(row),
            shown(bare.map(|bare| cpu(row) / cpu(bare))),
            median(row, peak_mib),
            shown(per_stream),
            median(row, |round| quantile_ms(round, 50)),
            median(row, |round| quantile_ms(round, 99)),
            shown(
                row.rounds
                    .iter()
                    .map(lag)
                    .collect::<Option<Vec<_>>>()
                    .map(middle)
            ),
            notes(row),
        )
    }

    /// What telemetry costs, on beside off in the same turn; and how far apart rounds without it
    /// are, for that much is chance.
    fn pairs(&self, on: &Row, off: &Row, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = || on.rounds.iter().zip(&off.rounds);
        let more = pairs().map(|(on, off)| {
            100.0 * (on.measured.cpu_ns as f64 / off.measured.cpu_ns as f64 - 1.0)
        });
        let more = sorted(more.collect());
        let cpu = |round: &Round| round.measured.cpu_ns as f64;
        let alone = sorted(off.rounds.iter().map(cpu).collect());
        let chance = 100.0 * span(&alone) / middle(alone);
        writeln!(
            f,
            "\ntelemetry at {} streams, {:?}, {} pairs:\n\
             CPU {:+.1} % (median; {}); off alone spans {chance:.1} %",
            on.load.streams,
            on.client,
            on.rounds.len(),
            middle(more.clone()),
            ends(&more, "%"),
        )?;
        let ttft = |round: &Round| round.measured.ttft_ns.map(|ttft| ttft as f64 / 1e3);
        let shift = pairs().map(|(on, off)| Some(ttft(on)? - ttft(off)?));
        let shift = sorted(shift.flatten().collect());
        let alone = sorted(off.rounds.iter().filter_map(ttft).collect());
        writeln!(
            f,
            "median ttft {:+.0} µs (median; {}); off alone spans {:.0} µs around {:.0} µs",
            middle(shift.clone()),
            ends(&shift, "µs"),
            span(&alone),
            middle(alone.clone()),
        )
    }

    fn like(&self, to: &Row, load: Load, client: Client, telemetry: bool) -> Option<&Row> {
        self.0.iter().find(|row| {
            !std::ptr::eq(*row, to)
                && row.load.streams == load.streams
                && row.client == client
                && row.telemetry == telemetry
        })
    }

    /// What each stream beyond those of the load before costs.
    fn per_stream(&self, row: &Row) -> Option<f64> {
        let fewer = self.0.iter().rfind(|other| {
            other.load.streams < row.load.streams
                && other.load.streams > 1
                && (other.client, other.telemetry) == (row.client, row.telemetry)
        })?;
        let more = f64::from(row.load.streams - fewer.load.streams);
        Some((median(row, peak_mib) - median(fewer, peak_mib)) * 1024.0 / more)
    }
}

/// CPU seconds per 1,000 tokens.
fn cpu(row: &Row) -> f64 {
    let tokens = row.load.samples as f64 * f64::from(row.load.shape.tokens);
    median(row, |round| {
        round.measured.cpu_ns as f64 / 1e9 / tokens * 1e3
    })
}

fn peak_mib(round: &Round) -> f64 {
    round.measured.peak_kib as f64 / 1024.0
}

fn quantile_ms(round: &Round, percent: usize) -> f64 {
    let rank = (round.errors_ns.len() * percent).div_ceil(100).max(1);
    round
        .errors_ns
        .get(rank - 1)
        .map_or(f64::NAN, |error| *error as f64 / 1e6)
}

fn notes(row: &Row) -> String {
    let mut notes = Vec::new();
    for round in &row.rounds {
        let measured = &round.measured;
        // One stream after the other is held back on purpose.
        if let Some(why) = measured.invalid.as_ref().filter(|_| row.load.streams > 1) {
            notes.push(format!("invalid_run: {why}"));
        }
        if measured.failed > 0 {
            notes.push(format!("{} samples failed", measured.failed));
        }
        if round.errors_ns.len() as u64 != row.load.samples {
            notes.push(format!("{} first tokens", round.errors_ns.len()));
        }
        if measured.drift_ns.abs() > 100_000 {
            notes.push(format!("clocks drifted by {} µs", measured.drift_ns / 1000));
        }
    }
    notes.join("; ")
}

fn median(row: &Row, value: impl Fn(&Round) -> f64) -> f64 {
    middle(row.rounds.iter().map(value).collect())
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// From the least to the most of sorted values.
fn span(sorted: &[f64]) -> f64 {
    match sorted {
        [first, .., last] => last - first,
        _ => 0.0,
    }
}

/// The least and the most of sorted values, in words.
fn ends(sorted: &[f64], unit: &str) -> String {
    match sorted {
        [first, .., last] => format!("{first:+.1} to {last:+.1} {unit}"),
        _ => "one".to_owned(),
    }
}

fn middle(values: Vec<f64>) -> f64 {
    let values = sorted(values);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
