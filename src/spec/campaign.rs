//! `windows`, `regions` and `baseline`: when, from where, and beside whom samples are drawn.

use std::ops::Range;
use std::time::Duration;

use super::error::SpecError;
use super::reader::{Item, Reader};
use super::relay::{self, RelaySpec};
use super::settings::Settings;
use super::tree::{Node, Value};
use super::{Baseline, inherit};
use crate::objective::metric::Metric;
use crate::objective::quantity;
use crate::plan::window::{self, Daily, Window};
use crate::plan::{Method, Region, Scope, Timing};
use crate::words::{did_you_mean, listed};

/// Most windows, and most regions.
const MOST: usize = 64;

/// What every probe's share comes to.
const WHOLE_PPM: u32 = 1_000_000;

/// Reads `windows`.
pub(super) fn windows(r: &Reader<'_>, item: &Item<'_>) -> Option<Vec<Window>> {
    let items = few(r, item, "window")?;
    let mut windows: Vec<(Window, Range<usize>)> = Vec::new();
    for item in items {
        let Some((window, place)) = one_window(r, &item) else {
            continue;
        };
        match windows.iter().find(|(known, _)| known.name == window.name) {
            Some((_, first)) => twice(r, "windows", &window.name, place, first.clone()),
            None => windows.push((window, place)),
        }
    }
    Some(windows.into_iter().map(|(window, _)| window).collect())
}

fn one_window(r: &Reader<'_>, item: &Item<'_>) -> Option<(Window, Range<usize>)> {
    let mut map = item.map(r)?;
    let name = map.need(
        r,
        "name",
        "give each window a name: `- { name: peak, daily: \"21:00-01:00\", tz: Asia/Shanghai }`",
    );
    let place = name.as_ref().map(Item::span);
    let name = name.and_then(|item| relay::name(r, &item));
    let daily = map.get(r, "daily").map(|item| daily(r, &item));
    let zone = map.get(r, "tz").map(|item| zone(r, &item));
    map.close(r, &[]);
    // A window with a mistake in it is there all the same, for those who name it.
    let window = Window {
        name: name?.to_owned(),
        daily: daily.flatten(),
        zone: zone.flatten().unwrap_or_else(|| window::UTC.to_owned()),
    };
    Some((window, place?))
}

fn daily(r: &Reader<'_>, item: &Item<'_>) -> Option<Daily> {
    let text = item.text(r)?;
    text.parse().ok().or_else(|| {
        r.refuse(
            SpecError::new(item.span(), format!("`{}` is no stretch of a day", item.path))
                .label("expected two times of a day")
                .help("write `\"21:00-01:00\"`: hours and minutes of two digits, in quotes; it may cross midnight"),
        )
    })
}

fn zone(r: &Reader<'_>, item: &Item<'_>) -> Option<String> {
    let wanted = item.text(r)?;
    let known = window::zones();
    if let Some(name) = known.iter().find(|name| *name == wanted) {
        return Some(name.clone());
    }
    let names = || known.iter().map(String::as_str);
    let same = names().find(|name| name.eq_ignore_ascii_case(wanted));
    let city = |name: &&str| {
        let city = name.rsplit('/').next().unwrap_or(name);
        city.eq_ignore_ascii_case(wanted)
    };
    let near = same
        .or_else(|| names().find(city))
        .or_else(|| did_you_mean(wanted, names()));
    let error = SpecError::new(item.span(), format!("there is no time zone `{wanted}`"))
        .label("not in the tz database");
    r.refuse(match near {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help("name a zone of the tz database, like `Asia/Shanghai` or `UTC`"),
    })
}

/// Reads `regions`: names, or maps with a share.
pub(super) fn regions(r: &Reader<'_>, item: &Item<'_>) -> Option<Vec<Region>> {
    let items = few(r, item, "region")?;
    let mut regions: Vec<(String, Option<u32>, Range<usize>)> = Vec::new();
    for item in items {
        let (name, share) = if matches!(item.node.value, Value::Map(_)) {
            let mut map = item.map(r)?;
            let name = map.need(r, "name", "give each region a name: `- { name: hk }`");
            let share = map
                .get(r, "budget_share")
                .map(|item| item.quantity(r, quantity::share_ppm));
            map.close(r, &[]);
            (name, share)
        } else {
            (Some(item.clone()), None)
        };
        let place = name.as_ref().map(Item::span);
        let name = name.and_then(|item| relay::name(r, &item));
        let (Some(name), Some(place)) = (name, place) else {
            continue;
        };
        let share = match share {
            Some(read) => Some(read?),
            None => None,
        };
        match regions.iter().find(|(known, _, _)| known == name) {
            Some((_, _, first)) => twice(r, "regions", name, place, first.clone()),
            None => regions.push((name.to_owned(), share, place)),
        }
    }
    shares(r, item, &regions)
}

/// The share of each region; those that say none divide what is left.
fn shares(
    r: &Reader<'_>,
    item: &Item<'_>,
    regions: &[(String, Option<u32>, Range<usize>)],
) -> Option<Vec<Region>> {
    let given: u64 = regions
        .iter()
        .filter_map(|(_, share, _)| share.map(u64::from))
        .sum();
    let open = regions.iter().filter(|(_, share, _)| share.is_none());
    let open = u32::try_from(open.count()).unwrap_or(u32::MAX);
    let whole = u64::from(WHOLE_PPM);
    let wrong = if open == 0 {
        given != whole
    } else {
        given >= whole
    };
    let nothing = regions.iter().any(|(_, share, _)| *share == Some(0));
    if wrong || nothing {
        return r.refuse(
            SpecError::new(
                item.key_span.clone(),
                "the shares of the regions are not 100%",
            )
            .label(if nothing {
                "a region without a share".to_owned()
            } else {
                format!(
                    "together {}",
                    quantity::percent(u32::try_from(given).unwrap_or(u32::MAX))
                )
            })
            .help(
                "let `budget_share` come to 100%, or leave it out where the rest is divided evenly",
            ),
        );
    }
    let left = WHOLE_PPM.saturating_sub(u32::try_from(given).unwrap_or(WHOLE_PPM));
    let each = left.checked_div(open).unwrap_or(0);
    let mut rest = left.checked_rem(open).unwrap_or(0);
    let region = |(name, share, _): &(String, Option<u32>, Range<usize>)| Region {
        name: name.clone(),
        share_ppm: share.unwrap_or_else(|| {
            let extra = u32::from(rest > 0);
            rest = rest.saturating_sub(1);
            each + extra
        }),
    };
    Some(regions.iter().map(region).collect())
}

/// Reads `baseline`; it inherits what relays do.
pub(super) fn baseline(
    r: &Reader<'_>,
    item: &Item<'_>,
    defaults: Option<&Node>,
) -> Option<Baseline> {
    let merged = inherit::relay(r, defaults, &[], item.node);
    let pair = merged.child("pair").map(|node| Item {
        node,
        key_span: node.span.clone(),
        path: "baseline.pair".to_owned(),
    });
    let pair_ppm = match pair {
        Some(pair) => pair_share(r, &pair),
        None => Some(USUAL_PAIR_PPM),
    };
    let calls = merged.child("calibration").map(|node| Item {
        node,
        key_span: node.span.clone(),
        path: "baseline.calibration".to_owned(),
    });
    let calibration = match calls {
        Some(calls) => Some(calls.whole(r, FEWEST_CALLS, MOST_CALLS)?),
        None => None,
    };
    let own = Item {
        node: &merged,
        key_span: item.key_span.clone(),
        path: item.path.clone(),
    };
    let relay = relay::read_baseline(r, &own, item.node);
    Some(Baseline {
        relay: relay?,
        pair_ppm: pair_ppm?,
        calibration,
    })
}

/// Calls of a calibration: fewer say nothing, more say no more.
pub(super) const FEWEST_CALLS: u64 = 20;
pub(super) const MOST_CALLS: u64 = 1000;

/// Share of the slots that are paired where the spec does not say: a tenth.
const USUAL_PAIR_PPM: u32 = 100_000;

fn pair_share(r: &Reader<'_>, item: &Item<'_>) -> Option<u32> {
    let ppm = item.quantity(r, quantity::share_ppm)?;
    if ppm > 0 {
        return Some(ppm);
    }
    r.refuse(
        SpecError::new(item.span(), "a baseline without pairs says nothing")
            .label("expected more than 0%")
            .help("write `pair: 10%`, or remove the baseline"),
    )
}

/// What the parts of a campaign say of each other.
pub(super) fn check(r: &Reader<'_>, parts: &Parts<'_>, settings: &Settings) {
    let drawing = &settings.drawing;
    for slo in &settings.slos {
        let Some(name) = &slo.value.window else {
            continue;
        };
        if !parts.windows.iter().any(|window| window.name == *name) {
            let names = || parts.windows.iter().map(|window| window.name.as_str());
            let error = SpecError::new(slo.span.clone(), format!("there is no window `{name}`"))
                .label("this objective is about it");
            r.note(match did_you_mean(name, names()) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None if parts.windows.is_empty() => error.help(format!(
                    "add it: `windows: [{{ name: {name}, daily: \"21:00-01:00\", tz: Asia/Shanghai }}]`"
                )),
                None => error.help(format!("the windows are {}", listed(names()))),
            });
        }
    }
    for slo in &settings.slos {
        if slo.value.metric != Metric::Overhead {
            continue;
        }
        let (label, help) = if parts.baseline.is_none() {
            (
                "nothing to compare the relay with",
                "add a `baseline`, the trusted upstream itself",
            )
        } else if drawing.timing() == Timing::Burst {
            (
                "pairs are drawn in a soak only",
                "set `sampling: { mode: soak, duration: 3d }`",
            )
        } else {
            continue;
        };
        r.note(
            SpecError::new(slo.span.clone(), "`overhead` cannot be measured")
                .label(label)
                .help(help),
        );
    }
    if let Some(mistake) = timing(parts, settings) {
        r.note(mistake);
    }
}

/// Refuses regions of relays that the spec does not have.
pub(super) fn check_relays(r: &Reader<'_>, relays: &[RelaySpec], parts: &Parts<'_>) {
    for relay in relays {
        for name in &relay.regions {
            if !parts.regions.iter().any(|region| region.name == *name) {
                let names = || parts.regions.iter().map(|region| region.name.as_str());
                let error = SpecError::new(
                    parts.regions_place(),
                    format!("relay `{}` names a region `{name}`", relay.relay.name),
                )
                .label("there is no such region");
                r.note(match did_you_mean(name, names()) {
                    Some(near) => error.help(format!("did you mean `{near}`?")),
                    None => error.help("add it to `regions`"),
                });
            }
        }
    }
}

/// What mode, duration and scope say of each other.
fn timing(parts: &Parts<'_>, settings: &Settings) -> Option<SpecError> {
    let drawing = &settings.drawing;
    let at = |title: &str, label: &str, help: &str| {
        Some(
            SpecError::new(parts.sampling(), title)
                .label(label)
                .help(help),
        )
    };
    match (drawing.mode, drawing.duration) {
        (Some(Timing::Soak), None) => at(
            "a soak has a duration",
            "`mode: soak` without `duration`",
            "write `sampling: { mode: soak, duration: 3d }`",
        ),
        (None, Some(_)) => at(
            "samples of a burst are not spread",
            "`duration` without `mode: soak`",
            "add `mode: soak`, or write `limits: { max_duration: … }` for the longest time of a cell",
        ),
        (None, None) if drawing.start_unix_ns.is_some() => at(
            "a burst begins when it is run",
            "`start` without `mode: soak`",
            "add `mode: soak`, or leave `start` out",
        ),
        (Some(Timing::Soak), Some(duration)) => soak(parts, settings, duration),
        (Some(Timing::Burst) | None, _) if settings.scope == Some(Scope::Campaign) => at(
            "a campaign is spread over days",
            "`judge.scope: campaign` needs `mode: soak`",
            "write `sampling: { mode: soak, duration: 3d }`, or leave `scope` out",
        ),
        // A profile may draw the samples of a soak now.
        (Some(Timing::Burst) | None, _) => None,
    }
}

/// What the settings of a soak say of each other.
fn soak(parts: &Parts<'_>, settings: &Settings, duration: Duration) -> Option<SpecError> {
    let (drawing, judge) = (&settings.drawing, &settings.judge);
    let (place, title, label, help) = if drawing.rate_per_s.is_some() {
        (
            parts.sampling(),
            "the rate of a soak follows from its samples and duration",
            "`rate` with `mode: soak`",
            "leave `rate` out and set `max_samples`",
        )
    } else if drawing.warmup.is_some_and(|calls| calls > 0) {
        (
            parts.sampling(),
            "a soak does not warm up",
            "`warmup` with `mode: soak`",
            "leave `warmup` out: each sample stands for its moment",
        )
    } else if parts.holds_open {
        (
            parts.place("workloads"),
            "the calls of a soak start at planned moments",
            "`concurrency` with `mode: soak`",
            "leave `concurrency` out, or hold calls open in a spec of its own that runs now",
        )
    } else if settings.scope == Some(Scope::Run) {
        (
            parts.judge(),
            "a soak is judged as a campaign",
            "`judge.scope` is `run`",
            "leave `scope` out",
        )
    } else if judge.method != Method::Sequential {
        (
            parts.judge(),
            "a campaign is judged sequentially",
            "`judge.method` is another one",
            "leave `method` out: each stretch of time is one vote",
        )
    } else if duration < judge.bucket {
        (
            parts.judge(),
            "this soak is shorter than one vote",
            "`judge.bucket` is longer than `sampling.duration`",
            "lengthen `sampling.duration`, or shorten `judge.bucket`",
        )
    } else if drawing.start_unix_ns.is_none() && parts.regions.len() > 1 {
        (
            parts.sampling(),
            "probes of several regions need one beginning",
            "`regions` without `sampling.start`",
            "write `start: 2026-12-01T00:00:00Z`, so that all of them plan the same slots",
        )
    } else {
        return None;
    };
    Some(SpecError::new(place, title).label(label).help(help))
}

/// Parts of the document that are checked against each other, and where they stand.
pub(super) struct Parts<'a> {
    pub(super) root: &'a Node,
    pub(super) windows: &'a [Window],
    pub(super) regions: &'a [Region],
    pub(super) baseline: Option<&'a Baseline>,
    /// Whether a workload holds calls open instead of starting them at a rate.
    pub(super) holds_open: bool,
}

impl Parts<'_> {
    fn place(&self, key: &str) -> Range<usize> {
        let Value::Map(entries) = &self.root.value else {
            return 0..0;
        };
        let found = entries.iter().find(|entry| entry.key == key);
        found.map_or(0..0, |entry| entry.key_span.clone())
    }

    fn judge(&self) -> Range<usize> {
        self.place("judge")
    }

    fn sampling(&self) -> Range<usize> {
        self.place("sampling")
    }

    fn regions_place(&self) -> Range<usize> {
        self.place("regions")
    }
}

fn few<'n>(r: &Reader<'_>, item: &Item<'n>, what: &str) -> Option<Vec<Item<'n>>> {
    let items = item.filled_list(r, what)?;
    if items.len() <= MOST {
        return Some(items);
    }
    r.refuse(
        SpecError::new(
            item.key_span.clone(),
            format!("`{}` is too long", item.path),
        )
        .label(format!("the limit is {MOST}"))
        .help("remove some"),
    )
}

fn twice(r: &Reader<'_>, what: &str, name: &str, second: Range<usize>, first: Range<usize>) {
    r.note(
        SpecError::new(second, format!("two {what} are called `{name}`"))
            .label("second time")
            .also(first, "first time")
            .help("rename one of the two"),
    );
}
