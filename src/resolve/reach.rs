//! Promises and limits that a plan cannot keep, each said at its line.

use std::time::Duration;

use super::cells::places;
use crate::objective::Objective;
use crate::objective::metric::Metric;
use crate::objective::quantity::percent;
use crate::plan::budget::{self, Outlook};
use crate::plan::votes::Votes;
use crate::plan::{Cell, Endpoint, Mode, Plan, Sampling};
use crate::spec::{Settings, Spec, SpecError, Written};
use crate::words::counted;

/// Objectives that no relay can be shown to meet within the samples, or votes, allowed.
pub(super) fn out_of_reach(
    spec: &Spec,
    settings: &Settings,
    sampling: &Sampling,
) -> Vec<SpecError> {
    if settings.judge.mode == Mode::Guard {
        return Vec::new();
    }
    let gating = settings.slos.iter().filter(|slo| slo.value.gates());
    if let Some(duration) = sampling.duration {
        return gating
            .filter_map(|slo| too_few_votes(spec, settings, sampling, duration, slo))
            .collect();
    }
    // The region with the fewest samples of its own decides.
    let places = spec.relays().iter().flat_map(|relay| places(spec, relay));
    let shares = places.flatten().map(|region| region.share_ppm);
    let share = u128::from(shares.min().unwrap_or(1_000_000));
    let most = (u128::from(sampling.max_samples) * share).div_ceil(1_000_000);
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    gating
        .filter_map(|slo| {
            let outlook = Outlook::of(&slo.value, &settings.judge)?;
            let needed = outlook.clean_samples();
            if needed <= most {
                return None;
            }
            Some(can_never_pass(slo, &outlook, needed, most))
        })
        .collect()
}

/// Whether a soak is too short for an objective: for its votes, or for its days.
fn too_few_votes(
    spec: &Spec,
    settings: &Settings,
    sampling: &Sampling,
    duration: Duration,
    slo: &Written<Objective>,
) -> Option<SpecError> {
    let outlook = Outlook::of(&slo.value, &settings.judge)?;
    let (objective, bucket) = (&slo.value, settings.judge.bucket);
    let pair_ppm = spec.baseline().map_or(0, |it| it.pair_ppm);
    let votes = Votes::of(objective, sampling, bucket, spec.windows(), pair_ppm);
    let Votes { most, days, .. } = votes?;
    let needed = outlook.clean_samples();
    let whose = objective.window.as_ref();
    let whose = whose.map_or_else(String::new, |window| format!(" of `{window}`"));
    if needed > most {
        // Fewer samples than stretches are fewer votes, too.
        let (why, first) = if most == sampling.max_samples {
            let why = format!("`sampling.max_samples` is {most}");
            (why, "raise `max_samples`")
        } else if objective.metric == Metric::Overhead {
            let why = format!("the pairs give {most} at most");
            (why, "raise `baseline.pair` or `max_samples`")
        } else {
            let why = format!("{} in {} are {most}", shown(bucket), shown(duration));
            (why, "lengthen `sampling.duration`, shorten `judge.bucket`")
        };
        let title = if most < sampling.max_samples {
            "this objective can never pass in so short a soak"
        } else {
            "this objective can never pass with so few samples"
        };
        return Some(
            SpecError::new(slo.span.clone(), title)
                .label(format!(
                    "needs {needed} votes{whose} without a failure; {why}"
                ))
                .help(format!(
                    "{first}, ask for less ({most} clean votes prove at most {}), or set \
                 `judge.mode: guard`",
                    percent(outlook.provable_ppm(most) / 1000 * 1000),
                )),
        );
    }
    (days < settings.judge.min_days).then(|| {
        SpecError::new(
            slo.span.clone(),
            "this objective can never pass on so few days",
        )
        .label(format!(
            "a pass needs {} days{whose}; the soak sees {days}",
            settings.judge.min_days
        ))
        .help("lengthen `sampling.duration`, or lower `judge.min_days`")
    })
}

/// A duration in the largest unit that divides it.
fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{duration:?}"),
        _ if seconds.is_multiple_of(86_400) => format!("{}d", seconds / 86_400),
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

fn can_never_pass(
    slo: &Written<Objective>,
    outlook: &Outlook,
    needed: u64,
    most: u64,
) -> SpecError {
    let provable = outlook.provable_ppm(most);
    // As the user wrote it: `p95`, or the share of a yes/no metric.
    let subject = slo.value.text.split(' ').next().unwrap_or_default();
    let share = subject.split_once('.').map_or_else(
        || percent(outlook.required_ppm()),
        |(_, quantile)| quantile.to_owned(),
    );
    SpecError::new(
        slo.span.clone(),
        "this objective can never pass with so few samples",
    )
    .label(format!(
        "{share} at {} confidence needs {needed} samples without a failure; \
         `sampling.max_samples` is {most}",
        percent(outlook.confidence_ppm()),
    ))
    .help(format!(
        "raise `max_samples` to {needed}, ask for less ({most} clean samples prove at most \
         {}), or set `judge.mode: guard`",
        percent(provable / 1000 * 1000),
    ))
}

/// A worst case that the spec's own limit would cut short.
pub(super) fn too_many_tokens(settings: &Settings, plan: &Plan) -> Option<SpecError> {
    let limit = settings.drawing.max_tokens.as_ref()?;
    let all = || plan.cells.iter().chain(&plan.baselines);
    let worst = all().fold(0, |sum: u64, cell| {
        sum.saturating_add(budget::tokens_of(cell, plan.calls_of(cell)))
    });
    if worst <= limit.value {
        return None;
    }
    let first = plan.cells.first().map_or(0, |cell| plan.calls_of(cell));
    let alike = all().all(|cell| plan.calls_of(cell) == first);
    let (label, most) = if alike {
        let cells = counted(plan.cells.len() as u64, "cell");
        (
            format!("{first} calls to each of {cells} use up to {worst} tokens"),
            first,
        )
    } else {
        let calls = all().fold(0, |sum: u64, cell| sum.saturating_add(plan.calls_of(cell)));
        let label = format!("{calls} calls use up to {worst} tokens");
        (label, plan.sampling.max_samples)
    };
    // In proportion: what a limit allows of the calls.
    let fitting = u128::from(limit.value) * u128::from(most) / u128::from(worst.max(1));
    let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
    let fitting = fitting.saturating_sub(u64::from(plan.sampling.warmup));
    let fewer = if fitting > 0 {
        format!("lower `max_samples` to {fitting}")
    } else {
        "test fewer cells or ask for shorter answers".to_owned()
    };
    Some(
        SpecError::new(
            limit.span.clone(),
            "this plan can use more tokens than its limit",
        )
        .label(label)
        .help(format!(
            "raise the limit to {worst}, {fewer}, or lower `max_tokens` of the workloads"
        )),
    )
}

/// A cap on what calls cost needs their prices.
pub(super) fn unpriced<'a>(
    settings: &Settings,
    mut cells: impl Iterator<Item = &'a Cell>,
) -> Option<SpecError> {
    let limit = settings.drawing.max_cost_usd.as_ref()?;
    let embedded = |cell: &Cell| matches!(cell.relay.endpoint, Endpoint::Simulate(_));
    let cell = cells.find(|cell| cell.price.is_none() && !embedded(cell))?;
    Some(
        SpecError::new(
            limit.span.clone(),
            "a limit of cost cannot be kept without prices",
        )
        .label(format!(
            "`{}` says no price for `{}`",
            cell.relay.name, cell.model
        ))
        .help(format!(
            "add `pricing: {{ {}: {{ input: 0.15, output: 0.60 }} }}` to it, in dollars per \
             million tokens, or limit `max_tokens` instead",
            cell.model
        )),
    )
}
