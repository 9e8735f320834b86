//! What the document comes to: verdicts, objectives, pairs.

use super::{Block, Inline, Mark, cell, code, number, say, small, text, words_of};
use crate::report::compared::{p, points};
use crate::report::document::heading;
use crate::report::signoff::SignOff;
use crate::report::signoff::rows::Row;
use crate::verdict::campaign::{Beside, Finding, Role};
use crate::words;
use crate::words::counted;

/// What decides the document, in one sentence.
fn headline(document: &SignOff) -> String {
    let state = if document.is_final {
        String::new()
    } else {
        format!(
            "Provisional, as of {}: nothing passes before the end. ",
            document.as_of
        )
    };
    format!(
        "{state}Soak from {} to {}, one vote for {} s; a pass needs {} and speaks of the days that \
         were sampled.",
        document.from,
        document.to,
        document.bucket_s,
        counted(u64::from(document.min_days), "day"),
    )
}

pub(super) fn verdict(document: &SignOff) -> Vec<Block<'_>> {
    let mut blocks = vec![say(headline(document))];
    let rows = document.relays.iter().map(|it| {
        let mark = Mark::of(it.overall);
        let word = Inline::Mark(mark, heading(it.overall).to_owned());
        let met = format!("{} of {} rows that decide are met", it.met, it.deciding);
        (
            Some(mark),
            vec![vec![word], vec![code(&it.relay)], cell(met)],
        )
    });
    blocks.push(Block::Table {
        columns: vec![words_of("verdict"), words_of("relay"), words_of("why")],
        rows: rows.collect(),
    });
    let why = document.relays.iter().flat_map(|it| &it.why);
    let why: Vec<Vec<Inline>> = why.map(|line| cell(line.clone())).collect();
    if !why.is_empty() {
        blocks.push(say("What stands in the way:"));
        blocks.push(Block::List(why));
    }
    blocks.push(Block::Signatures(&document.signatories));
    blocks
}

pub(super) fn objectives(document: &SignOff) -> Vec<Block<'_>> {
    let mut blocks = vec![say(
        "n and failed count samples. Bounds are of the share of good votes, one vote for each \
         stretch of time: samples of one moment may hang together. A gate decides about the relay; \
         a guard decides by a violation only, having too few votes for a pass of its own; what is \
         shown decides nothing.",
    )];
    let mut rules: Vec<&str> = Vec::new();
    for row in &document.rows {
        if !rules.contains(&row.rule.as_str()) {
            rules.push(&row.rule);
        }
    }
    let mut pools: Vec<&str> = Vec::new();
    for row in &document.rows {
        if !pools.contains(&row.pool.as_str()) {
            pools.push(&row.pool);
        }
    }
    for pool in pools {
        let rows = document.rows.iter().filter(|row| row.pool == pool);
        blocks.push(Block::Heading(pool.to_owned()));
        blocks.push(Block::Table {
            columns: vec![
                words_of("verdict"),
                words_of("objective"),
                words_of("where"),
                number("n"),
                number("failed"),
                number("good"),
                number("between"),
                number("target"),
                words_of("rule"),
                number("votes"),
                words_of("worst day"),
            ],
            rows: rows.map(|row| objective(row, &rules)).collect(),
        });
        let found = document.rows.iter().filter(|row| row.pool == pool);
        let found: Vec<Vec<Inline>> = found
            .filter_map(|row| {
                let is_told = row.role != Role::Shown || row.region.is_none();
                let beside = row.beside.as_ref().filter(|it| is_told && it.pairs > 0)?;
                Some(vec![code(&row.name), text(format!(": {}", paired(beside)))])
            })
            .collect();
        if !found.is_empty() {
            blocks.push(say(
                "Beside the trusted upstream, asked the same at the same time:",
            ));
            blocks.push(Block::List(found));
        }
    }
    blocks.push(say("The rules:"));
    let numbered = rules.iter().enumerate();
    blocks.push(Block::List(
        numbered
            .map(|(index, rule)| cell(format!("R{}: {rule}", index + 1)))
            .collect(),
    ));
    blocks
}

fn objective(row: &Row, rules: &[&str]) -> (Option<Mark>, Vec<Vec<Inline>>) {
    let mark = Mark::of_row(row);
    let role = match (row.role, mark) {
        (Role::Gate, Mark::Warning) => "a warning only",
        (role, _) => role.as_str(),
    };
    let mut objective = vec![code(&row.objective)];
    objective.extend(row.remarks.iter().map(|it| small(it.clone())));
    let place = [
        row.window.as_deref().unwrap_or("all hours"),
        row.region.as_deref().unwrap_or_default(),
    ];
    let place: Vec<&str> = place.into_iter().filter(|it| !it.is_empty()).collect();
    let share = row
        .share
        .map_or_else(|| "–".to_owned(), |it| words::at_least(it, 0.9999));
    let is_share = row.required > 0.0;
    let between = format!(
        "{} to {}",
        words::at_least(row.lower, row.required),
        words::at_most(row.upper, row.required)
    );
    let target = format!("≥ {}", words::share(row.required));
    let none = || "–".to_owned();
    let rule = rules.iter().position(|it| *it == row.rule).unwrap_or(0) + 1;
    let worst = row.worst_day.map_or_else(none, |day| {
        format!("{}: {} of {}", day.day, day.failures, day.n)
    });
    (
        Some(mark),
        vec![
            vec![Inline::Mark(mark, row.decision.clone()), small(role)],
            objective,
            cell(place.join(", ")),
            cell(row.n.to_string()),
            cell(row.failures.to_string()),
            cell(share),
            cell(if is_share { between } else { none() }),
            cell(if is_share { target } else { none() }),
            cell(format!("R{rule}")),
            cell(format!("{} of {}", row.votes, row.planned_votes)),
            cell(worst),
        ],
    )
}

/// What pairs say, in words.
pub(in crate::report) fn paired(beside: &Beside) -> String {
    let finding = match beside.finding {
        Finding::RelayAddsFailures => "the relay adds failures",
        Finding::NotTheRelay => "not the relay",
        Finding::UpstreamDown => {
            "the upstream itself breaks it, and the relay adds next to nothing"
        }
        Finding::Undetermined => "undetermined",
    };
    let added = match (beside.added, beside.added_lower, beside.added_upper) {
        (Some(added), Some(lower), Some(upper)) => format!(
            "; added {} pt, between {} and {}",
            points(added),
            points(lower),
            points(upper)
        ),
        _ => String::new(),
    };
    format!(
        "{finding}: of {}, {} failed at the relay only, {} at the upstream only, {} at both{added}; \
         p {}",
        counted(beside.pairs, "pair"),
        beside.relay_only,
        beside.upstream_only,
        beside.both,
        p(beside.p),
    )
}
