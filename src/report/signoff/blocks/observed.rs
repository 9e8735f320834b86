//! What went wrong, and how long answers took.

use super::{Block, Inline, Picture, cell, code, number, plain, say, shown, text, words_of};
use crate::forms::steers;
use crate::report::signoff::{Named, SignOff};
use crate::words;

pub(super) fn failures(document: &SignOff) -> Vec<Block<'_>> {
    let failures = &document.failures;
    if failures.groups.is_empty() {
        return vec![say("None: nothing was wrong with any first attempt.")];
    }
    let rows = failures.groups.iter().map(|it| {
        let mut telling = Vec::new();
        for (index, one) in it.telling.iter().enumerate() {
            if index > 0 {
                telling.push(text(", "));
            }
            telling.push(named(one));
        }
        vec![
            vec![code(&it.relay)],
            cell(it.party.to_string()),
            cell(it.phase.to_string()),
            cell(it.class.to_string()),
            cell(it.count.to_string()),
            telling,
        ]
    });
    let columns = vec![
        words_of("relay"),
        words_of("look at"),
        words_of("phase"),
        words_of("class"),
        number("samples"),
        words_of("such as"),
    ];
    let mut blocks = vec![
        say("A party is where to look first, and no verdict. First attempts are counted."),
        plain(columns, rows.collect()),
    ];
    let days = failures.days.iter().filter(|it| !it.parties.is_empty());
    let rows = days.map(|it| {
        let parties = it.parties.iter();
        let parties: Vec<String> = parties.map(|(name, n)| format!("{name} {n}")).collect();
        let failed: u64 = it.parties.values().sum();
        vec![
            vec![code(&it.relay)],
            cell(it.day.to_string()),
            cell(it.n.to_string()),
            cell(failed.to_string()),
            cell(parties.join(", ")),
        ]
    });
    let columns = vec![
        words_of("relay"),
        words_of("day"),
        number("samples"),
        number("failed"),
        words_of("by whom to look at"),
    ];
    for of_relay in failures.days.chunk_by(|a, b| a.relay == b.relay) {
        let has_any = of_relay.iter().any(|it| !it.parties.is_empty());
        if let Some(first) = of_relay.first().filter(|_| has_any) {
            blocks.push(Block::Picture(Picture::Days(&first.relay, of_relay)));
        }
    }
    blocks.push(plain(columns, rows.collect()));
    blocks
}

fn named(one: &Named) -> Inline {
    let name = format!("{} #{}", one.cell, one.index);
    let is_web = |url: &&String| {
        let web = url.starts_with("http://") || url.starts_with("https://");
        web && !url.chars().any(|c| steers(c) || c.is_whitespace())
    };
    match one.url.as_ref().filter(is_web) {
        Some(url) => Inline::Link {
            text: shown(name),
            url: url.clone(),
        },
        None => text(name),
    }
}

pub(super) fn latency(document: &SignOff) -> Vec<Block<'_>> {
    let clock = &document.clock;
    let peak = clock
        .peak
        .as_ref()
        .and_then(|it| Some((&it.name, it.daily?)));
    let peak = match peak {
        Some((name, daily)) => {
            format!(" Hours that the window {name}, {daily}, touches are marked with an asterisk.")
        }
        None => String::new(),
    };
    let mut blocks = vec![say(format!(
        "Time to the first token, hours by the clocks of {}. A sample without a first token ranks \
         behind all others.{peak}",
        clock.zone
    ))];
    for pool in &document.latency {
        blocks.push(Block::Heading(if pool.is_upstream {
            format!("{} (the trusted upstream)", pool.pool)
        } else {
            pool.pool.clone()
        }));
        blocks.push(Block::Picture(Picture::Latency(pool)));
        let limit = match &pool.limit {
            Some(limit) => format!(
                "The limit is {}, of `{}`.",
                words::seconds(limit.seconds),
                limit.objective
            ),
            None => "No objective sets a limit to the first token.".to_owned(),
        };
        blocks.push(say(limit));
        let seconds = |at: Option<f64>, n: u64| match at {
            Some(at) => words::seconds(at),
            None if n > 0 => "a failure".to_owned(),
            None => "–".to_owned(),
        };
        let rows = pool.hours.iter().map(|it| {
            let mark = if it.is_peak { " *" } else { "" };
            vec![
                cell(format!("{:02}{mark}", it.hour)),
                cell(it.n.to_string()),
                cell(it.failed.to_string()),
                cell(seconds(it.p50, it.n)),
                cell(seconds(it.p95, it.n)),
                cell(
                    it.within
                        .map_or_else(|| "–".to_owned(), |it| words::at_least(it, 0.9999)),
                ),
            ]
        });
        let columns = vec![
            words_of("hour"),
            number("n"),
            number("without a token"),
            number("p50"),
            number("p95"),
            number("within the limit"),
        ];
        blocks.push(plain(columns, rows.collect()));
    }
    blocks
}
