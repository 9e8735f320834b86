//! `sampling`, `judge` and `slos`: how samples are drawn and judged, and what is promised.

use std::ops::Range;
use std::time::Duration;

use super::duration;
use super::error::{SpecError, position};
use super::reader::{Item, Reader};
use super::tree::Value;
use crate::objective::quantity;
use crate::objective::{Objective, Severity, Statistic};
use crate::plan::{
    Judging, Method, Mode, OnInconclusive, Scope, Stop, Timing, Tokens, USUAL_BUCKET,
    USUAL_MIN_DAYS, ZERO_FAILURE, window,
};

/// A value and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written<T> {
    /// The value.
    pub(crate) value: T,
    /// Bytes of the spec's text.
    pub(crate) span: Range<usize>,
}

/// How samples are drawn, as far as the spec says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Drawing {
    /// Seed.
    pub(crate) seed: Option<u64>,
    /// Starts per second.
    pub(crate) rate_per_s: Option<f64>,
    /// Most samples of a cell.
    pub(crate) max_samples: Option<Written<u64>>,
    /// Most open calls.
    pub(crate) concurrency: Option<u32>,
    /// Uncounted calls first.
    pub(crate) warmup: Option<u32>,
    /// Most tokens of the spec.
    pub(crate) max_tokens: Option<Written<u64>>,
    /// Longest time of a cell.
    pub(crate) max_duration: Option<Duration>,
    /// Most US dollars of the spec.
    pub(crate) max_cost_usd: Option<Written<f64>>,
    /// Now, or spread over a duration.
    pub(crate) mode: Option<Timing>,
    /// Over how long.
    pub(crate) duration: Option<Duration>,
    /// From when, nanoseconds since the epoch.
    pub(crate) start_unix_ns: Option<u64>,
}

impl Drawing {
    /// When samples are drawn.
    pub(crate) fn timing(&self) -> Timing {
        self.mode.unwrap_or_default()
    }
}

/// What a profile may overlay: everything but relays, workloads and telemetry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// How samples are drawn.
    pub(crate) drawing: Drawing,
    /// How they are judged.
    pub(crate) judge: Judging,
    /// About what verdicts speak, where the spec says so.
    pub(crate) scope: Option<Scope>,
    /// What is promised.
    pub(crate) slos: Vec<Written<Objective>>,
}

/// Most samples of a cell that can be asked for.
pub(crate) const MOST_SAMPLES: u64 = 1_000_000;

/// Reads `sampling`.
pub(super) fn drawing(r: &Reader<'_>, item: &Item<'_>) -> Option<Drawing> {
    let mut map = item.map(r)?;
    let written = |item: &Item<'_>, value: Option<u64>| {
        value.map(|value| Written {
            value,
            span: item.span(),
        })
    };
    let mut drawing = Drawing {
        seed: map
            .get(r, "seed")
            .and_then(|item| item.whole(r, 0, u64::MAX)),
        rate_per_s: map
            .get(r, "rate")
            .and_then(|item| item.quantity(r, quantity::rate)),
        max_samples: map
            .get(r, "max_samples")
            .and_then(|item| written(&item, item.whole(r, 1, MOST_SAMPLES))),
        concurrency: map
            .get(r, "concurrency")
            .and_then(|item| item.small(r, 1, 65_536)),
        warmup: map.get(r, "warmup").and_then(|item| item.small(r, 0, 1000)),
        max_tokens: None,
        max_duration: None,
        max_cost_usd: None,
        mode: map
            .get(r, "mode")
            .and_then(|item| item.choice(r, Timing::ALL, Timing::as_str)),
        duration: map
            .get(r, "duration")
            .and_then(|item| item.quantity(r, duration::parse)),
        start_unix_ns: map.get(r, "start").and_then(|item| start(r, &item)),
    };
    if let Some(mut limits) = map.get(r, "limits").and_then(|item| item.map(r)) {
        drawing.max_tokens = limits
            .get(r, "max_tokens")
            .and_then(|item| written(&item, item.quantity(r, quantity::count)));
        drawing.max_duration = limits
            .get(r, "max_duration")
            .and_then(|item| item.quantity(r, duration::parse));
        drawing.max_cost_usd = limits.get(r, "max_cost").and_then(|item| {
            let value = item.quantity(r, quantity::usd)?;
            let span = item.span();
            Some(Written { value, span })
        });
        limits.close(r, &[]);
    }
    map.close(r, &[]);
    Some(drawing)
}

/// How samples are judged where the spec does not say.
pub(super) const fn usual_judging() -> Judging {
    Judging {
        method: Method::Sequential,
        confidence_ppm: 950_000,
        mode: Mode::Prove,
        on_inconclusive: OnInconclusive::Fail,
        stop: Stop::All,
        design_ratio: 5.0,
        futility: true,
        tokens: Tokens::Usage,
        scope: Scope::Run,
        bucket: USUAL_BUCKET,
        min_days: USUAL_MIN_DAYS,
    }
}

/// Reads when a soak begins.
fn start(r: &Reader<'_>, item: &Item<'_>) -> Option<u64> {
    let text = item.text(r)?;
    window::moment(text).or_else(|| {
        r.refuse(
            SpecError::new(item.span(), format!("`{}` is no moment", item.path))
                .label("expected date, time and offset")
                .help("write `2026-12-01T00:00:00Z`, or `2026-12-01T08:00:00+08:00`"),
        )
    })
}

/// Reads `judge`; and about what verdicts speak, where it says so.
pub(super) fn judging(r: &Reader<'_>, item: &Item<'_>) -> Option<(Judging, Option<Scope>)> {
    let mut map = item.map(r)?;
    let usual = usual_judging();
    let read = Judging {
        method: map
            .get(r, "method")
            .and_then(|item| item.choice(r, Method::ALL, Method::as_str))
            .unwrap_or(usual.method),
        confidence_ppm: map
            .get(r, "confidence")
            .and_then(|item| confidence(r, &item))
            .unwrap_or(usual.confidence_ppm),
        mode: map
            .get(r, "mode")
            .and_then(|item| item.choice(r, Mode::ALL, Mode::as_str))
            .unwrap_or(usual.mode),
        on_inconclusive: map
            .get(r, "on_inconclusive")
            .and_then(|item| item.choice(r, OnInconclusive::ALL, OnInconclusive::as_str))
            .unwrap_or(usual.on_inconclusive),
        stop: map
            .get(r, "stop")
            .and_then(|item| item.choice(r, Stop::ALL, Stop::as_str))
            .unwrap_or(usual.stop),
        design_ratio: map
            .get(r, "design_ratio")
            .and_then(|item| design_ratio(r, &item))
            .unwrap_or(usual.design_ratio),
        futility: map
            .get(r, "futility")
            .and_then(|item| item.flag(r))
            .unwrap_or(usual.futility),
        tokens: map
            .get(r, "tokens")
            .and_then(|item| item.choice(r, Tokens::ALL, Tokens::as_str))
            .unwrap_or(usual.tokens),
        // What samples are drawn decides about it where the spec does not.
        scope: usual.scope,
        bucket: map
            .get(r, "bucket")
            .and_then(|item| bucket(r, &item))
            .unwrap_or(usual.bucket),
        min_days: map
            .get(r, "min_days")
            .and_then(|item| item.small(r, 1, 366))
            .unwrap_or(usual.min_days),
    };
    let scope = map
        .get(r, "scope")
        .and_then(|item| item.choice(r, Scope::ALL, Scope::as_str));
    map.close(r, &[]);
    Some((read, scope))
}

/// How long one vote lasts: no shorter than a second, no longer than a day.
fn bucket(r: &Reader<'_>, item: &Item<'_>) -> Option<Duration> {
    let bucket = item.quantity(r, duration::parse)?;
    if (Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&bucket) {
        return Some(bucket);
    }
    r.refuse(
        SpecError::new(item.span(), format!("`{}` is out of bounds", item.path))
            .label("expected a second to a day")
            .help("`10m` is usual; five times the length of a disturbance is enough"),
    )
}

/// A design ratio: a number, or the word for an infinite one.
fn design_ratio(r: &Reader<'_>, item: &Item<'_>) -> Option<f64> {
    if item.is(ZERO_FAILURE) {
        return Some(f64::INFINITY);
    }
    if let Value::Text(text) = &item.node.value
        && item.node.filled.is_none()
    {
        return r.refuse(
            SpecError::new(
                item.span(),
                format!("`{}` cannot be {}", item.path, item.shown(r)),
            )
            .label("expected a number from 2 to 20, or `zero_failure`")
            .help(if text.parse::<f64>().is_ok() {
                "write the number without quotes"
            } else {
                "`zero_failure` allows no failure and needs the fewest samples"
            }),
        );
    }
    item.number(r, 2.0, 20.0)
}

/// A confidence: above one half and below one.
fn confidence(r: &Reader<'_>, item: &Item<'_>) -> Option<u32> {
    let ppm = item.quantity(r, quantity::share_ppm)?;
    if (500_001..=999_999).contains(&ppm) {
        Some(ppm)
    } else {
        r.refuse(
            SpecError::new(item.span(), format!("`{}` is out of bounds", item.path))
                .label("expected more than 50% and less than 100%")
                .help("`95%` is usual"),
        )
    }
}

/// Reads `slos`.
pub(super) fn slos(r: &Reader<'_>, item: &Item<'_>) -> Option<Vec<Written<Objective>>> {
    let items = item.filled_list(r, "objective")?;
    let mut slos: Vec<Written<Objective>> = Vec::with_capacity(items.len());
    for item in items {
        let Some(read) = promise(r, &item) else {
            continue;
        };
        let first = slos.iter().find(|slo| slo.value.text == read.value.text);
        if let Some(first) = first {
            r.note(
                SpecError::new(
                    read.span.clone(),
                    format!("`{}` is promised twice", read.value.text),
                )
                .label("second time")
                .also(first.span.clone(), "first time")
                .help("remove one of the two"),
            );
        } else {
            slos.push(read);
        }
    }
    Some(slos)
}

/// A promise: a string, or a map with `expect`.
fn promise(r: &Reader<'_>, item: &Item<'_>) -> Option<Written<Objective>> {
    let (text, level, sure, window) = if matches!(item.node.value, Value::Map(_)) {
        let mut map = item.map(r)?;
        let text = map.need(
            r,
            "expect",
            "write `{ expect: ttft.p95 < 1.5s, severity: warn }`",
        );
        let level = map
            .get(r, "severity")
            .and_then(|item| item.choice(r, Severity::ALL, Severity::as_str));
        let sure = map
            .get(r, "confidence")
            .and_then(|item| confidence(r, &item));
        let window = map
            .get(r, "window")
            .and_then(|item| super::relay::name(r, &item))
            .map(str::to_owned);
        map.close(r, &["region", "relay"]);
        (text?, level.unwrap_or(Severity::Gate), sure, window)
    } else {
        (item.clone(), Severity::Gate, None, None)
    };
    let mut objective = objective(r, &text)?;
    objective.severity = level;
    objective.confidence_ppm = sure;
    if let Some(window) = window {
        objective.text = format!("{} @{window}", objective.text);
        objective.window = Some(window);
    }
    if objective.statistic == Statistic::Mean && objective.severity == Severity::Gate {
        return r.refuse(
            SpecError::new(text.span(), "a mean cannot gate")
                .label("one very slow call moves a mean as far as many slow ones")
                .help(format!(
                    "promise a quantile, or warn only: `{{ expect: {}, severity: warn }}`",
                    objective.text
                )),
        );
    }
    Some(Written {
        value: objective,
        span: text.span(),
    })
}

fn objective(r: &Reader<'_>, item: &Item<'_>) -> Option<Objective> {
    let text = item.text(r)?;
    match Objective::parse(text) {
        Ok(mut objective) => {
            (objective.line, objective.column) = position(r.text(), item.node.span.start);
            Some(objective)
        }
        Err(error) => r.refuse(
            SpecError::new(inside(r, item, text, &error.at), error.title)
                .label(error.label)
                .help(error.help),
        ),
    }
}

/// Where a part of a text stands in the file; the whole value where escapes or interpolation make
/// the two differ.
fn inside(r: &Reader<'_>, item: &Item<'_>, text: &str, at: &Range<usize>) -> Range<usize> {
    let span = item.span();
    let written = r.slice(&span);
    let quoted = written.len() >= 2 && written.get(1..written.len() - 1) == Some(text);
    let shift = if written == text {
        0
    } else if quoted {
        1
    } else {
        return span;
    };
    let start = span.start + shift + at.start;
    let end = span.start + shift + at.end;
    start..end.max(start)
}
