//! Pictures as SVG: a distribution against its limit, and an attempt's waterfall.

use std::fmt::Write as _;
use std::time::Duration;

use maud::{Markup, html};

use super::super::distribution::Distribution;
use crate::measure::seconds;
use crate::observation::Phase;
use crate::words;

/// Size of a distribution's picture, and the room for its axes.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;

/// Height of a waterfall's row, and where its bars begin and end.
const ROW: f64 = 24.0;
const BARS: (f64, f64) = (120.0, 530.0);

/// A logarithmic axis of values and a linear one of shares.
struct Axes {
    low: f64,
    high: f64,
}

impl Axes {
    fn of(points: &[(f64, f64)], bound: f64) -> Self {
        let positive = |(value, _): (f64, f64)| (value > 0.0).then_some(value);
        let least = points.iter().copied().find_map(positive).unwrap_or(bound);
        let most = points.last().copied().and_then(positive).unwrap_or(bound);
        Self {
            low: least.min(bound) / 1.3,
            high: most.max(bound) * 1.3,
        }
    }

    fn x(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn y(share: f64) -> f64 {
        TOP + (1.0 - share.clamp(0.0, 1.0)) * (HEIGHT - TOP - BOTTOM)
    }

    /// 1, 2 and 5 of each decade that is in sight; fewer where there are many.
    fn ticks(&self) -> Vec<f64> {
        let (from, to) = (self.low.log10().floor(), self.high.log10().ceil());
        let steps: &[f64] = if to - from > 3.0 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let mut ticks = Vec::new();
        let mut decade = from;
        while decade <= to && ticks.len() < 24 {
            let power = 10_f64.powf(decade);
            ticks.extend(steps.iter().map(|step| step * power));
            decade += 1.0;
        }
        ticks.retain(|tick| (self.low..=self.high).contains(tick));
        ticks
    }
}

/// The share of samples up to each value, with the limit, the share that it asks for, and the
/// interval in which the true share lies.
pub(super) fn distribution(shape: &Distribution) -> Markup {
    let axes = Axes::of(&shape.points, shape.bound);
    let mut path = format!("M{:.1} {:.1}", axes.x(axes.low), Axes::y(shape.below()));
    for (value, share) in &shape.points {
        let _ = write!(path, "H{:.1}V{:.1}", axes.x(*value), Axes::y(*share));
    }
    let _ = write!(path, "H{:.1}", axes.x(axes.high));
    let of_curve = |share: f64| {
        if shape.more_is_better {
            1.0 - share
        } else {
            share
        }
    };
    let (required, lower, upper) = (
        of_curve(shape.required),
        of_curve(shape.lower),
        of_curve(shape.upper),
    );
    let at = axes.x(shape.bound);
    let unit = shape.metric.unit();
    let failed = match shape.failed {
        0 => String::new(),
        1 => " (1 failed)".to_owned(),
        more => format!(" ({more} failed)"),
    };
    html! {
        figure {
            figcaption {
                code { (shape.objective) } ": share of " (shape.total) " samples" (failed) " that is at most a \
                value; dashed the limit and the share it asks for, thick where the true share lies"
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
                aria-label={ "distribution of " (shape.metric) } {
                @for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
                    path class="axis" d={ "M" (LEFT) " " (round(Axes::y(share))) "H" (WIDTH - RIGHT) } {}
                    text x=(LEFT - 6.0) y=(round(Axes::y(share) + 4.0)) text-anchor="end" {
                        (share * 100.0) "%"
                    }
                }
                @for tick in axes.ticks() {
                    path class="axis" d={ "M" (round(axes.x(tick))) " " (HEIGHT - BOTTOM) "v5" } {}
                    text x=(round(axes.x(tick))) y=(HEIGHT - BOTTOM + 20.0) text-anchor="middle" {
                        (unit.shown(tick))
                    }
                }
                path class="band" d={
                    "M" (round(at)) " " (round(Axes::y(lower))) "V" (round(Axes::y(upper)))
                } {}
                path class="limit" d={ "M" (round(at)) " " (TOP) "V" (HEIGHT - BOTTOM) } {}
                path class="limit" d={ "M" (LEFT) " " (round(Axes::y(required))) "H" (WIDTH - RIGHT) } {}
                path class="curve" d=(path) {}
            }
        }
    }
}

/// The phases of one attempt as bars.
pub(super) fn waterfall(rows: &[(Phase, Duration, Duration)], over: Duration) -> Markup {
    let whole = seconds(over).max(1e-6);
    let x = |at: Duration| BARS.0 + (seconds(at) / whole).clamp(0.0, 1.0) * (BARS.1 - BARS.0);
    let height = ROW * rows.len().max(1) as f64 + 6.0;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label="phases of the attempt" {
            @for (index, (phase, from, to)) in rows.iter().enumerate() {
                @let y = ROW * index as f64;
                text x="0" y=(y + 15.0) { (phase) }
                rect class="bar" x=(round(x(*from))) y=(y + 5.0) height="12"
                    width=(round((x(*to) - x(*from)).max(1.0))) {}
                text x=(BARS.1 + 8.0) y=(y + 15.0) {
                    (words::seconds(seconds(to.saturating_sub(*from))))
                }
            }
        }
    }
}

/// A tenth of a pixel is as exact as a picture needs.
pub(super) fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
