//! The first token by hour of the day, and how the values that objectives bound are spread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::super::distribution::Distribution;
use super::super::{Clock, digits};
use crate::evidence::{Evidence, Header, Sample};
use crate::measure::Reading;
use crate::objective::metric::{Metric, Unit};
use crate::objective::{Objective, Statistic};
use crate::plan::window::Calendar;
use crate::stats::quantile::nearest_rank;
use crate::verdict::campaign::{Campaign, Row};

/// The first token of one relay's model and workload, all regions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// `relay/model/workload`.
    pub pool: String,
    /// The relay, or the trusted upstream.
    pub relay: String,
    /// It is the trusted upstream, which no objective is about.
    pub is_upstream: bool,
    /// The limit that an objective sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The hours of the day by the clock of the document, those with a sample.
    pub hours: Vec<Hour>,
    /// How the values are spread that quantile objectives are about.
    pub spread: Vec<Distribution>,
}

/// A limit of the time to the first token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The objective that sets it.
    pub objective: String,
    /// The limit.
    pub seconds: f64,
}

/// One hour of the day, all days together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hour {
    /// 0 to 23.
    pub hour: u8,
    /// It lies in the peak, wholly or in part.
    pub is_peak: bool,
    /// Samples.
    pub n: u64,
    /// Those of them without a first token; they rank behind all others.
    pub failed: u64,
    /// Median in seconds; absent where it falls among the failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// Share of all samples that kept the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
}

/// The limit that a cell's objectives set to the first token; to the trusted upstream that of the
/// cell beside it.
pub(super) fn limit(header: &Header, evidence: &[&Evidence]) -> Option<Limit> {
    let of = |objectives: &[Objective]| {
        let is_limit = |it: &&Objective| {
            it.metric == Metric::Ttft && matches!(it.statistic, Statistic::Quantile(_))
        };
        let first = objectives.iter().find(is_limit)?;
        Some(Limit {
            objective: first.text.clone(),
            seconds: digits(first.bound),
        })
    };
    let Some(beside) = &header.beside else {
        return of(&header.objectives);
    };
    let paired = evidence.iter().find(|it| it.header.cell == *beside)?;
    of(&paired.header.objectives)
}

/// Every pool, in the order of the names of its cells.
pub(super) fn latency(evidence: &[&Evidence], campaign: &Campaign, clock: &Clock) -> Vec<Latency> {
    let mut pools: BTreeMap<String, Vec<&Evidence>> = BTreeMap::new();
    // The one prompt of a calibration says nothing of latency.
    for one in evidence.iter().filter(|it| !it.header.calibration) {
        pools.entry(one.header.pooled_name()).or_default().push(one);
    }
    let of = |(name, cells): (String, Vec<&Evidence>)| {
        let header = &cells.first()?.header;
        let limit = limit(header, evidence);
        let pool = campaign.pools.iter().find(|pool| pool.name == name);
        let rows = pool.map(|it| it.rows.as_slice()).unwrap_or_default();
        Some(Latency {
            relay: header.relay.clone(),
            is_upstream: header.beside.is_some(),
            hours: hours(&cells, limit.as_ref(), clock),
            spread: rows.iter().filter_map(|row| spread(row, &cells)).collect(),
            limit,
            pool: name,
        })
    };
    pools.into_iter().filter_map(of).collect()
}

fn counted<'a>(cells: &'a [&Evidence]) -> impl Iterator<Item = (&'a Header, &'a Sample)> {
    cells.iter().flat_map(|one| {
        let counted = one.samples.iter().filter(|sample| sample.counts());
        counted.map(|sample| (&one.header, sample))
    })
}

fn hours(cells: &[&Evidence], limit: Option<&Limit>, clock: &Clock) -> Vec<Hour> {
    let calendar = Calendar::days(&clock.zone);
    let mut hours: BTreeMap<u8, Vec<f64>> = BTreeMap::new();
    for (header, sample) in counted(cells) {
        let hour = calendar.as_ref().and_then(|it| it.hour(sample.t0_unix_ns));
        if let Some(hour) = hour {
            let first = Metric::Ttft.reading(sample, &header.judge).value();
            hours
                .entry(hour)
                .or_default()
                .push(first.unwrap_or(f64::INFINITY));
        }
    }
    let of = |(hour, mut values): (u8, Vec<f64>)| {
        values.sort_by(f64::total_cmp);
        let n = values.len() as u64;
        let at = |ppm| {
            let rank = usize::try_from(nearest_rank(n, ppm)?.checked_sub(1)?).ok()?;
            values
                .get(rank)
                .copied()
                .filter(|it| it.is_finite())
                .map(digits)
        };
        let within = limit.map(|limit| {
            let within = values.partition_point(|it| *it < limit.seconds);
            digits(crate::stats::float(within as u64) / crate::stats::float(n))
        });
        Hour {
            hour,
            is_peak: clock.is_peak(hour),
            n,
            failed: values.iter().filter(|it| it.is_infinite()).count() as u64,
            p50: at(500_000),
            p95: at(950_000),
            within,
        }
    };
    hours.into_iter().map(of).collect()
}

/// The spread of what a row is about; of rows that decide over all regions, or show them together.
fn spread(row: &Row, cells: &[&Evidence]) -> Option<Distribution> {
    let objective = &row.objective;
    let is_own = row.window == objective.window && row.region.is_none();
    let is_drawn = objective.metric.unit() != Unit::YesNo
        && objective.metric != Metric::Overhead
        && matches!(objective.statistic, Statistic::Quantile(_));
    if !is_own || !is_drawn {
        return None;
    }
    let windows = &cells.first()?.header.windows;
    let window = row.window.as_ref().map(|name| {
        let named = windows.iter().find(|it| it.name == *name)?;
        Calendar::of(named)
    });
    let (mut values, mut failed) = (Vec::new(), 0);
    for (header, sample) in counted(cells) {
        let planned = u64::try_from(sample.planned.as_nanos()).unwrap_or(u64::MAX);
        let planned = header.started_unix_ns.saturating_add(planned);
        let is_in = match &window {
            None => true,
            Some(calendar) => calendar.as_ref().is_some_and(|it| it.holds(planned)),
        };
        if !is_in {
            continue;
        }
        let reading = objective.metric.reading(sample, &header.judge);
        match (reading.value(), reading) {
            (Some(value), _) if value.is_finite() => values.push(value),
            (_, Reading::Undefined | Reading::Ineligible) => {}
            (_, _) => failed += 1,
        }
    }
    let mut drawn = Distribution::of(objective, &row.verdict, &values, failed)?;
    for number in [
        &mut drawn.bound,
        &mut drawn.required,
        &mut drawn.lower,
        &mut drawn.upper,
    ] {
        *number = digits(*number);
    }
    for (value, share) in &mut drawn.points {
        (*value, *share) = (digits(*value), digits(*share));
    }
    Some(drawn)
}
