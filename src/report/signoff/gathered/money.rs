//! What was paid, for how much that could be used, and for how many decisions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::digits;
use crate::evidence::Evidence;
use crate::measure::cost::{Charge, Cost};
use crate::objective::metric::Metric;
use crate::plan::Price;
use crate::stats::float;
use crate::verdict::campaign::{Campaign, Role};

/// What one relay's model and workload cost, all regions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostLine {
    /// `relay/model/workload`.
    pub pool: String,
    /// The relay, or the trusted upstream.
    pub relay: String,
    /// It is the trusted upstream, which no objective is about.
    pub is_upstream: bool,
    /// Prices as the spec has them, with the relay's multiplier and its rate of exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Samples.
    pub samples: u64,
    /// Samples whose cost is known from the usage that the relay reported.
    pub known: u64,
    /// US dollars of those; absent without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_usd: Option<f64>,
    /// Samples whose cost is estimated from tokens counted on our side; never part of the known.
    pub estimated: u64,
    /// US dollars of those; absent where nothing was estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_usd: Option<f64>,
    /// Samples whose cost nobody can tell.
    pub unknown: u64,
    /// Samples whose answer could be used.
    pub usable: u64,
    /// Output tokens of those; absent when one of them reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable_tokens: Option<u64>,
    /// Rows that decide about the relay.
    pub rows: u64,
    /// Known US dollars for each of those rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_per_row: Option<f64>,
    /// Known US dollars for each usable answer, the unusable ones paid as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_per_usable_answer: Option<f64>,
    /// Known US dollars for a million output tokens of usable answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_per_million_usable_tokens: Option<f64>,
    /// Some costs are not known, so that those above are lower bounds.
    pub is_lower_bound: bool,
    /// What the relay says that it charged, US dollars; absent: not read back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charged_usd: Option<f64>,
}

#[derive(Default)]
struct Sum {
    relay: String,
    is_upstream: bool,
    price: Option<Price>,
    samples: u64,
    cost: Cost,
    usable: u64,
    tokens: Option<u64>,
}

/// Every pool, by name.
pub(super) fn money(evidence: &[&Evidence], campaign: &Campaign) -> Vec<CostLine> {
    let mut pools: BTreeMap<String, Sum> = BTreeMap::new();
    for one in evidence {
        let header = &one.header;
        let sum = pools.entry(header.pooled_name()).or_insert_with(|| Sum {
            relay: header.relay.clone(),
            is_upstream: header.beside.is_some(),
            price: header.price,
            tokens: Some(0),
            ..Sum::default()
        });
        for sample in one.samples.iter().filter(|sample| sample.counts()) {
            sum.samples += 1;
            let charge = header.price.map(|price| sample.charge(&price));
            sum.cost.add(charge.unwrap_or(Charge::Unknown));
            let usable = Metric::Usable.reading(sample, &header.judge).value();
            if usable.is_some_and(|usable| usable > 0.5) {
                sum.usable += 1;
                let tokens = sample.output_tokens();
                sum.tokens = sum.tokens.and_then(|so_far| so_far.checked_add(tokens?));
            }
        }
    }
    let of = |(pool, sum): (String, Sum)| {
        let rows = campaign.pools.iter().filter(|it| it.name == pool);
        let rows = rows.flat_map(|it| &it.rows);
        let rows = rows.filter(|row| row.role != Role::Shown).count() as u64;
        let usd = sum.price.map(|_| sum.cost.usd);
        let per = |count: u64| Some(digits(usd? / float((count > 0).then_some(count)?)));
        CostLine {
            relay: sum.relay,
            is_upstream: sum.is_upstream,
            price: sum.price,
            samples: sum.samples,
            known: sum.cost.known,
            known_usd: usd.map(digits),
            estimated: sum.cost.estimated,
            estimated_usd: (sum.cost.estimated > 0).then(|| digits(sum.cost.estimated_usd)),
            unknown: sum.cost.unknown,
            usable: sum.usable,
            usable_tokens: sum.tokens,
            rows,
            usd_per_row: per(rows),
            usd_per_usable_answer: per(sum.usable),
            usd_per_million_usable_tokens: sum.tokens.and_then(|tokens| {
                Some(digits(usd? / float((tokens > 0).then_some(tokens)?) * 1e6))
            }),
            is_lower_bound: usd.is_some() && sum.cost.unknown + sum.cost.estimated > 0,
            charged_usd: None,
            pool,
        }
    };
    pools.into_iter().map(of).collect()
}
