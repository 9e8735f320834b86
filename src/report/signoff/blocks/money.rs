//! What calls cost.

use super::{Block, Inline, cell, code, number, plain, say, text, words_of};
use crate::report::compared::usd_text;
use crate::report::signoff::SignOff;
use crate::report::signoff::gathered::CostLine;

pub(super) fn cost(document: &SignOff) -> Vec<Block<'_>> {
    let none = || "–".to_owned();
    let rows = document.cost.iter().map(|it| {
        let usd = |amount: Option<f64>| amount.map_or_else(none, usd_text);
        let bound = |amount: Option<f64>| match amount {
            Some(amount) if it.is_lower_bound => format!("≥ {}", usd_text(amount)),
            Some(amount) => usd_text(amount),
            None => none(),
        };
        let estimated = match it.estimated {
            0 => "none".to_owned(),
            n => format!("{} ({n})", usd(it.estimated_usd)),
        };
        vec![
            vec![code(&it.pool)],
            cell(match it.known_usd {
                Some(known) => format!("{} ({})", usd_text(known), it.known),
                None => "no price".to_owned(),
            }),
            cell(estimated),
            cell(it.unknown.to_string()),
            cell(bound(it.usd_per_row)),
            cell(bound(it.usd_per_usable_answer)),
            cell(bound(it.usd_per_million_usable_tokens)),
            cell(
                it.charged_usd
                    .map_or_else(|| "not read back".to_owned(), usd_text),
            ),
        ]
    });
    let columns = vec![
        words_of("relay/model/workload"),
        number("known (samples)"),
        number("estimated (samples)"),
        number("unknown samples"),
        number("per verdict row"),
        number("per usable answer"),
        number("per million usable tokens"),
        number("charged"),
    ];
    let mut blocks = vec![
        say(
            "US dollars by the tokens that the relay reported. What is unknown is in no sum, and \
             what is estimated never in what is known; unusable answers are paid for by the usable \
             ones.",
        ),
        plain(columns, rows.collect()),
    ];
    let prices: Vec<Vec<Inline>> = document.cost.iter().filter_map(price).collect();
    if !prices.is_empty() {
        blocks.push(say("Prices for a million tokens, as the spec has them:"));
        blocks.push(Block::List(prices));
    }
    blocks
}

fn price(line: &CostLine) -> Option<Vec<Inline>> {
    let price = line.price?;
    let cached = price
        .cached_input
        .map_or_else(|| "as any other".to_owned(), |it| it.to_string());
    let unit = match price.fx {
        Some(fx) => format!("credits, {fx} for a US dollar"),
        None => "US dollars".to_owned(),
    };
    Some(vec![
        code(&line.pool),
        text(format!(
            ": prompt {}, from the cache {cached}, answer {}; times {}; in {unit}",
            price.input, price.output, price.multiplier
        )),
    ])
}
