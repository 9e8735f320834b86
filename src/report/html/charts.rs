//! Pictures of a soak as SVG: the first token by hour of the day, failures by day.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use maud::{Markup, html};

use super::super::signoff::{Clock, DayFailures, Latency};
use super::plot::round;
use crate::attribution::Party;
use crate::words;

/// Size of a picture, and the room for its axes.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;
/// Days below which each has its own mark on the axis.
const MARKED: usize = 8;

fn y(value: f64, most: f64) -> f64 {
    TOP + (1.0 - (value / most).clamp(0.0, 1.0)) * (HEIGHT - TOP - BOTTOM)
}

/// A round number that is not below another: 1, 2 or 5 times a power of ten.
fn ceiling(most: f64) -> f64 {
    let power = 10_f64.powf(most.max(1e-6).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let enough = steps.into_iter().find(|step| *step >= most);
    enough.unwrap_or(10.0 * power)
}

/// Lines and marks of the axis of values.
fn grid(most: f64, label: &dyn Fn(f64) -> String) -> Markup {
    html! {
        @for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
            @let at = round(y(share * most, most));
            path class="axis" d={ "M" (LEFT) " " (at) "H" (WIDTH - RIGHT) } {}
            @if share == 0.0 || share == 0.5 || share == 1.0 {
                text x=(LEFT - 6.0) y=(at + 4.0) text-anchor="end" { (label(share * most)) }
            }
        }
    }
}

/// Median and 95th percentile of the first token over the hours of the day, with the limit, and the
/// peak shaded.
pub(super) fn hours(pool: &Latency, clock: &Clock) -> Markup {
    if pool.hours.is_empty() {
        return html! {};
    }
    let column = (WIDTH - LEFT - RIGHT) / 24.0;
    let x = |hour: u8| LEFT + (f64::from(hour) + 0.5) * column;
    let values = pool.hours.iter().flat_map(|it| [it.p50, it.p95]).flatten();
    let limit = pool.limit.as_ref().map(|it| it.seconds);
    let most = ceiling(values.chain(limit).fold(0.0, f64::max));
    let line = |of: &dyn Fn(usize) -> Option<f64>| {
        let (mut path, mut before) = (String::new(), None);
        for (index, hour) in pool.hours.iter().enumerate() {
            let Some(value) = of(index) else {
                before = None;
                continue;
            };
            let joins = before == hour.hour.checked_sub(1) && before.is_some();
            let pen = if joins { 'L' } else { 'M' };
            let (at, height) = (x(hour.hour), y(value, most));
            let _ = write!(path, "{pen}{at:.1} {height:.1}");
            if !joins {
                // A single hour is a dot.
                let _ = write!(path, "h0.1");
            }
            before = Some(hour.hour);
        }
        path
    };
    let at = |index: usize| pool.hours.get(index);
    html! {
        figure {
            figcaption {
                code { (pool.pool) } ": time to the first token by hour, clocks of " (clock.zone)
                "; thick the 95th percentile, thin the median, crosses where it is a failure"
                @if limit.is_some() { ", dashed the limit" }
                @if clock.peak.is_some() { ", shaded the peak" }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
                aria-label={ "time to the first token by hour of " (pool.pool) } {
                @for hour in (0..24).filter(|hour| clock.is_peak(*hour)) {
                    rect class="peak" x=(round(x(hour) - column / 2.0)) y=(TOP)
                        width=(round(column)) height=(HEIGHT - TOP - BOTTOM) {}
                }
                (grid(most, &|at| if at > 0.0 { words::seconds(at) } else { "0".to_owned() }))
                @for hour in (0..24).step_by(3) {
                    text x=(round(x(hour))) y=(HEIGHT - BOTTOM + 20.0) text-anchor="middle" {
                        (format!("{hour:02}"))
                    }
                }
                @if let Some(limit) = limit {
                    path class="limit" d={
                        "M" (LEFT) " " (round(y(limit, most))) "H" (WIDTH - RIGHT)
                    } {}
                }
                path class="median" d=(line(&|index| at(index)?.p50)) {}
                path class="curve" d=(line(&|index| at(index)?.p95)) {}
                @for hour in pool.hours.iter().filter(|it| it.n > 0 && it.p95.is_none()) {
                    text class="failure" x=(round(x(hour.hour))) y=(TOP + 10.0)
                        text-anchor="middle" { "×" }
                }
            }
        }
    }
}

/// Failed first attempts of a relay, a bar a day, by whom to look at.
pub(super) fn days(relay: &str, days: &[DayFailures]) -> Markup {
    let float = crate::stats::float;
    let failed = |it: &DayFailures| it.parties.values().sum::<u64>();
    let most = days.iter().map(failed).max().unwrap_or(0);
    if most == 0 {
        return html! {};
    }
    let most = ceiling(float(most)).max(4.0);
    let column = (WIDTH - LEFT - RIGHT) / float(days.len() as u64);
    let bar = (column * 0.7).min(60.0);
    let seen: BTreeSet<&str> = days
        .iter()
        .flat_map(|it| it.parties.keys())
        .map(String::as_str)
        .collect();
    let parties = Party::ALL.iter().filter(|it| seen.contains(it.as_str()));
    let parties: Vec<&Party> = parties.collect();
    let every = days.len().div_ceil(MARKED).max(1);
    html! {
        figure {
            figcaption {
                code { (relay) } ": failed first attempts by day, by whom to look at: "
                @for (index, party) in parties.iter().enumerate() {
                    @if index > 0 { ", " }
                    span class={ "swatch party-" (party) } {} " " (party)
                }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
                aria-label={ "failures by day of " (relay) } {
                (grid(most, &|value| format!("{value:.0}")))
                @for (index, day) in days.iter().enumerate() {
                    @let middle = LEFT + (float(index as u64) + 0.5) * column;
                    @for (party, from, to) in stacked(day, &parties) {
                        rect class={ "party-" (party) } x=(round(middle - bar / 2.0))
                            y=(round(y(float(to), most))) width=(round(bar))
                            height=(round(y(float(from), most) - y(float(to), most))) {}
                    }
                    @if index % every == 0 {
                        text x=(round(middle)) y=(HEIGHT - BOTTOM + 20.0) text-anchor="middle" {
                            (day.day.to_string().get(5..).unwrap_or_default())
                        }
                    }
                }
            }
        }
    }
}

/// The parties of a day, each on top of those before it.
fn stacked<'a>(day: &DayFailures, parties: &[&'a Party]) -> Vec<(&'a Party, u64, u64)> {
    let mut below = 0;
    let mut bars = Vec::new();
    for party in parties {
        let count = day.parties.get(party.as_str()).copied().unwrap_or(0);
        if count > 0 {
            bars.push((*party, below, below + count));
            below += count;
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (most, wanted) in [(0.9, 1.0), (1.0, 1.0), (1.2, 2.0), (37.0, 50.0), (0.3, 0.5)] {
            assert!((ceiling(most) - wanted).abs() < 1e-9, "{most}");
        }
        assert!(ceiling(0.0) > 0.0);
    }
}
