//! `pricing`: what a relay charges for the tokens of its models.

use std::collections::BTreeMap;

use crate::plan::Price;
use crate::spec::error::SpecError;
use crate::spec::reader::{Item, MOST_ITEMS, Reader};
use crate::spec::tree::{Filled, Value};
use crate::words::{did_you_mean, listed};

/// Highest price of a million tokens.
const MOST: f64 = 1_000_000.0;
/// Lowest number of credits that a dollar buys.
const LEAST_FX: f64 = 0.000_001;
/// What a price looks like.
const EXAMPLE: &str = "{ input: 0.15, output: 0.60 }";

/// Prices by model; each model must be one of `models`, where those could be read.
pub(super) fn read(
    r: &Reader<'_>,
    item: &Item<'_>,
    models: Option<&[String]>,
) -> BTreeMap<String, Price> {
    let mut prices = BTreeMap::new();
    let Some(map) = item.map(r) else {
        return prices;
    };
    if map.free().count() > MOST_ITEMS {
        r.note(
            SpecError::new(
                item.key_span.clone(),
                format!("`{}` is too long", item.path),
            )
            .label(format!("the limit is {MOST_ITEMS} models"))
            .help("name only the models that this relay is asked for"),
        );
        return prices;
    }
    for (entry, item) in map.free() {
        let model = entry.key.as_str();
        if let Some(models) = models
            && !models.iter().any(|known| known == model)
        {
            let names = || models.iter().map(String::as_str);
            let error = SpecError::new(
                entry.key_span.clone(),
                format!(
                    "`{}` is the price of a model that is not asked for",
                    item.path
                ),
            )
            .label("not in `models` of this relay");
            r.note(match did_you_mean(model, names()) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help(format!("the models are {}", listed(names()))),
            });
        }
        if let Some(price) = price(r, &item) {
            prices.insert(model.to_owned(), price);
        }
    }
    prices
}

fn price(r: &Reader<'_>, item: &Item<'_>) -> Option<Price> {
    if item.node.filled == Some(Filled::Failed) {
        return None;
    }
    if !matches!(item.node.value, Value::Map(_)) {
        return r.refuse(
            SpecError::new(item.span(), format!("`{}` must be a map", item.path))
                .label(format!("found {}", item.node.kind()))
                .help(format!(
                    "write dollars per million tokens, like `{EXAMPLE}`"
                )),
        );
    }
    let mut map = item.map(r)?;
    let need = format!("write dollars per million tokens, like `{EXAMPLE}`");
    let input = map
        .need(r, "input", &need)
        .and_then(|item| item.number(r, 0.0, MOST));
    let cached_input = map
        .get(r, "cached_input")
        .and_then(|item| item.number(r, 0.0, MOST));
    let output = map
        .need(r, "output", &need)
        .and_then(|item| item.number(r, 0.0, MOST));
    let multiplier = map
        .get(r, "multiplier")
        .and_then(|item| item.number(r, 0.0, MOST));
    let fx = map
        .get(r, "fx")
        .and_then(|item| item.number(r, LEAST_FX, MOST));
    map.close(r, &[]);
    Some(Price {
        input: input?,
        cached_input,
        output: output?,
        multiplier: multiplier.unwrap_or(1.0),
        fx,
    })
}
