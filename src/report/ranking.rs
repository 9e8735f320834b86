//! A ranking, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::compared::{COLUMNS, cut, names, points, rate, share, share_up, wrap};
use crate::compare::Question;
use crate::compare::alike::Unlike;
use crate::compare::ranking::{APART, Ranked, Ranking, Score};
use crate::compare::tallied::Rate;
use crate::objective::metric::{Metric, Unit};
use crate::stats::interval::Sides;
use crate::words::counted;

/// Version of the document.
pub const SCHEMA: u32 = 1;

/// One ranking and what is to be said of it.
#[derive(Debug)]
pub struct Table<'a> {
    /// Who stands where.
    pub ranking: Ranking<'a>,
    /// What was asked.
    pub question: &'a Question,
    /// In what its cells differ.
    pub unlike: Vec<Unlike>,
    /// Further remarks, one sentence each.
    pub notes: Vec<String>,
}

/// What the score is, in words: `z = 1.959964 (two-sided 95%)`.
pub(super) fn score_words(score: Score) -> String {
    let sides = match score.sides {
        Sides::One => "one-sided",
        Sides::Two => "two-sided",
    };
    let confidence = crate::objective::quantity::percent(score.confidence_ppm);
    format!("z = {:.6} ({sides} {confidence})", score.z())
}

/// What the share is of.
pub(super) fn asked(question: &Question) -> String {
    let metric = question.metric();
    match metric.unit() {
        Unit::YesNo if metric == Metric::Interruption => {
            "share of calls answered 2xx that were not interrupted".to_owned()
        }
        Unit::YesNo => {
            let definition = metric.definition();
            let share = definition.contains("share");
            format!("{}{definition}", if share { "" } else { "share: " })
        }
        Unit::Seconds | Unit::PerSecond => {
            format!("share of samples within the bound; {}", metric.definition())
        }
    }
}

/// The shortest names that tell the ranked cells apart, in their order.
pub(super) fn names_of(ranking: &Ranking<'_>) -> Vec<String> {
    names(ranking.ranked.iter().map(|it| it.tallied))
}

/// A ranking for a terminal, in eighty columns.
pub fn text(table: &Table<'_>) -> String {
    let ranking = &table.ranking;
    let mut out = String::new();
    if let Some(first) = ranking.ranked.first() {
        let header = &first.tallied.header;
        let title = format!("{}/{}", header.model, header.workload);
        let label = table.question.label();
        wrap(&mut out, "", "  ", &format!("{title}: {label}"));
    }
    wrap(&mut out, "  ", "  ", &asked(table.question));
    let words = score_words(ranking.score);
    let scored = format!("score: lower end of Wilson's interval, {words}");
    wrap(&mut out, "  ", "  ", &scored);
    out.push('\n');
    let names = names_of(ranking);
    rows(&mut out, ranking, &names);
    if !ranking.neighbours.is_empty() {
        out.push('\n');
    }
    between(&mut out, ranking, &names);
    for (at, it) in ranking.ranked.iter().enumerate() {
        if let Some(why) = why_below(it, at, &names) {
            wrap(&mut out, "  ", "  ", &why);
        }
    }
    money(&mut out, ranking, &names);
    for it in &ranking.unmeasured {
        let said = format!("not ranked: {}: nothing was measured", it.header.cell);
        wrap(&mut out, "  ", "    ", &said);
    }
    for it in &table.unlike {
        let said = format!("note: not quite alike: {}", it.words);
        wrap(&mut out, "  ", "    ", &said);
    }
    for note in &table.notes {
        wrap(&mut out, "  ", "    ", &format!("note: {note}"));
    }
    out
}

/// The table itself; the names give way where it is too wide.
fn rows(out: &mut String, ranking: &Ranking<'_>, names: &[String]) {
    let priced = ranking
        .ranked
        .iter()
        .any(|it| it.tallied.paid.cost.is_some());
    let cells: Vec<[String; 5]> = ranking
        .ranked
        .iter()
        .map(|it| {
            let tally = it.counts.tally;
            [
                format!("{:.6}", it.score()),
                format!("{} of {}", tally.good(), tally.n()),
                tally.share().map_or_else(String::new, share),
                format!(
                    "{} to {}",
                    share(it.interval.lower),
                    share_up(it.interval.upper)
                ),
                if priced {
                    rate(it.tallied.paid.per_million())
                } else {
                    String::new()
                },
            ]
        })
        .collect();
    let heads = [
        "score",
        "good",
        "share",
        "between",
        if priced { "USD/Mtok" } else { "" },
    ];
    let mut widths = heads.map(|head| head.chars().count());
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let rest: usize = widths
        .iter()
        .filter(|width| **width > 0)
        .map(|it| it + 2)
        .sum();
    let longest = names.iter().map(|name| name.chars().count()).max();
    let room = COLUMNS.saturating_sub(7 + rest).max(8);
    let name_width = longest.unwrap_or(0).max("relay".len()).min(room);
    let mut line = |rank: &str, name: &str, row: &[String; 5]| {
        let name = cut(name, name_width);
        let mut text = format!("  {rank:>4} {name:<name_width$}");
        for (cell, width) in row.iter().zip(widths).filter(|(_, width)| *width > 0) {
            let _ = write!(text, "  {cell:>width$}");
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line("", "relay", &heads.map(str::to_owned));
    let mut above = 0;
    for ((it, name), row) in ranking.ranked.iter().zip(names).zip(&cells) {
        let tie = if it.place == above { "≈ " } else { "" };
        line(&format!("{tie}{}", it.place), name, row);
        above = it.place;
    }
}

/// How far each is from the next.
fn between(out: &mut String, ranking: &Ranking<'_>, names: &[String]) {
    for ((it, above), below) in ranking
        .neighbours
        .iter()
        .zip(names)
        .zip(names.iter().skip(1))
    {
        let difference = it.difference;
        let said = format!(
            "{above} minus {below}: {} pt, between {} and {}{}",
            points(difference.estimate),
            points(difference.lower),
            points(difference.upper),
            if it.tied {
                "; ≈ not shown to differ"
            } else {
                ""
            }
        );
        wrap(out, "  ", "    ", &said);
    }
}

/// Why one that looks no worse than the one above it is below.
pub(super) fn why_below(it: &Ranked<'_>, at: usize, names: &[String]) -> Option<String> {
    let outrank = it.outrank?;
    let (own, above) = (names.get(at)?, names.get(outrank.above)?);
    let tally = it.counts.tally;
    let clean = match (outrank.samples, tally.failures()) {
        (Some(n), 0) => format!("{} would be needed", counted(n, "clean sample")),
        (Some(n), failures) => format!(
            "{} with no more than its {} would be needed",
            counted(n, "sample"),
            counted(failures, "failure")
        ),
        (None, _) => "no number of samples within reach would be enough".to_owned(),
    };
    Some(format!(
        "{own} is below {above}: {} of {} can come from a true share of {} to {}; n too small: \
         {clean} to outrank {above}.",
        tally.good(),
        tally.n(),
        share(it.interval.lower),
        share_up(it.interval.upper),
    ))
}

/// What the prices mean, and which are only bounds.
fn money(out: &mut String, ranking: &Ranking<'_>, names: &[String]) {
    let mut said = prices(ranking, names).into_iter();
    if let Some(meaning) = said.next() {
        wrap(out, "  ", "    ", &meaning);
    }
    for it in said {
        wrap(out, "    ", "      ", &it);
    }
}

/// What the prices mean, then which are unknown or only bounds; nothing where there are none.
pub(super) fn prices(ranking: &Ranking<'_>, names: &[String]) -> Vec<String> {
    let paid = || ranking.ranked.iter().map(|it| &it.tallied.paid);
    if paid().all(|it| it.cost.is_none()) {
        return Vec::new();
    }
    let mut said = vec![
        "USD/Mtok: US dollars for a million output tokens of usable answers, the unusable ones \
         paid as well"
            .to_owned(),
    ];
    for (paid, name) in paid().zip(names) {
        match paid.cost {
            None => said.push(format!("{name}: no price in its spec")),
            Some(cost) if cost.unknown > 0 => said.push(format!(
                "{name}: the cost of {} of {} is unknown (no final usage), not 0",
                cost.unknown,
                counted(cost.known + cost.unknown, "sample"),
            )),
            Some(_) => {}
        }
    }
    said
}

/// All rankings as one document.
pub fn json(tables: &[Table<'_>], score: Score) -> Value {
    json!({
        "schema": SCHEMA,
        "kind": "ranking",
        "score": {
            "bound": "wilson",
            "confidence": f64::from(score.confidence_ppm) / 1e6,
            "sides": match score.sides { Sides::One => "one", Sides::Two => "two" },
            "z": score.z(),
        },
        "apart": { "interval": "newcombe", "correction": "holm", "confidence": APART },
        "rankings": tables.iter().map(one).collect::<Vec<_>>(),
    })
}

fn one(table: &Table<'_>) -> Value {
    let ranking = &table.ranking;
    let names = names_of(ranking);
    let name = |at: usize| names.get(at).cloned().unwrap_or_default();
    let relays: Vec<Value> = ranking
        .ranked
        .iter()
        .enumerate()
        .map(|(at, it)| contestant(it, at, &names))
        .collect();
    let neighbours: Vec<Value> = ranking
        .neighbours
        .iter()
        .enumerate()
        .map(|(at, it)| {
            json!({
                "above": name(at),
                "below": name(at + 1),
                "difference": it.difference.estimate,
                "lower": it.difference.lower,
                "upper": it.difference.upper,
                "tied": it.tied,
                "tested_at": it.confidence,
            })
        })
        .collect();
    let unmeasured: Vec<&str> = ranking
        .unmeasured
        .iter()
        .map(|it| it.header.cell.as_str())
        .collect();
    let header = ranking.ranked.first().map(|it| &it.tallied.header);
    json!({
        "model": header.map(|it| &it.model),
        "workload": header.map(|it| &it.workload),
        "question": table.question.label(),
        "metric": table.question.metric(),
        "relays": relays,
        "neighbours": neighbours,
        "unmeasured": unmeasured,
        "unlike": table.unlike.iter().map(|it| it.aspect).collect::<Vec<_>>(),
        "notes": table.notes,
    })
}

fn contestant(it: &Ranked<'_>, at: usize, names: &[String]) -> Value {
    let (tallied, tally, paid) = (it.tallied, it.counts.tally, &it.tallied.paid);
    let (usd, is_lower_bound) = match paid.per_million() {
        Rate::Usd(usd) => (Some(usd), Some(false)),
        Rate::AtLeast(usd) => (Some(usd), Some(true)),
        Rate::Unknown | Rate::NothingUsable => (None, None),
    };
    json!({
        "place": it.place,
        "name": names.get(at),
        "relay": tallied.header.relay,
        "cell": tallied.header.cell,
        "run_id": tallied.header.run_id,
        "evidence": tallied.source,
        "score": it.score(),
        "n": tally.n(),
        "good": tally.good(),
        "share": tally.share(),
        "lower": it.interval.lower,
        "upper": it.interval.upper,
        "undefined": it.counts.undefined,
        "ineligible": it.counts.ineligible,
        "unsealed": it.counts.unsealed,
        "samples": tallied.samples,
        "outrank": it.outrank.map(|outrank| json!({
            "above": names.get(outrank.above),
            "samples": outrank.samples,
        })),
        "price": {
            "usd_per_million_usable_output_tokens": usd,
            "is_lower_bound": is_lower_bound,
            "usd": paid.cost.map(|cost| cost.usd),
            "known_samples": paid.cost.map(|cost| cost.known),
            "unknown_samples": paid.cost.map(|cost| cost.unknown),
            "usable": paid.usable,
            "usable_output_tokens": paid.usable_tokens,
        },
    })
}
