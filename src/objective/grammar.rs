//! Reads an objective's text, and says what to write instead when it makes no sense.

use std::ops::Range;

use super::{Objective, Op, Severity, Statistic};
use crate::objective::metric::{Direction, Metric, Unit};
use crate::objective::quantity;
use crate::words::{did_you_mean, listed};

/// Why a text is no objective, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{title}: {label}")]
pub struct ObjectiveError {
    /// Bytes of the text that are wrong.
    pub at: Range<usize>,
    /// What is wrong.
    pub title: String,
    /// What stands beside the caret.
    pub label: String,
    /// What to write.
    pub help: String,
}

/// One whole in parts per million.
const WHOLE_PPM: u32 = 1_000_000;

/// What kind of value a metric has, and so which objectives make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Seconds; small is good.
    Time,
    /// Tokens per second; large is good.
    Speed,
    /// A share of yes; large is good.
    Success,
    /// A share of yes; small is good.
    Failure,
}

/// The kind of a metric.
const fn kind(metric: Metric) -> Kind {
    match (metric.unit(), metric.direction()) {
        (Unit::Seconds, _) => Kind::Time,
        (Unit::PerSecond, _) => Kind::Speed,
        (Unit::YesNo, Direction::Higher) => Kind::Success,
        (Unit::YesNo, Direction::Lower) => Kind::Failure,
    }
}

impl Kind {
    const fn is_small_good(self) -> bool {
        matches!(self, Self::Time | Self::Failure)
    }

    /// What a quantile, operator and bound of this kind look like.
    const fn example(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Time => (".p95", "<", "1.5s"),
            Self::Speed => (".p05", ">=", "20/s"),
            Self::Success => ("", ">=", "99%"),
            Self::Failure => ("", "<", "1%"),
        }
    }
}

/// An objective of this metric that makes sense.
pub(crate) fn example(metric: Metric) -> String {
    let (quantile, op, bound) = kind(metric).example();
    format!("{metric}{quantile} {op} {bound}")
}

/// The parts of an objective with their places.
struct Parts<'t> {
    metric: (&'t str, Range<usize>),
    statistic: Option<(&'t str, Range<usize>)>,
    op: (Op, Range<usize>),
    number: (&'t str, Range<usize>),
    unit: (&'t str, Range<usize>),
}

/// Most characters of an objective.
const LONGEST: usize = 200;

impl Objective {
    /// Reads `METRIC[.pNN[.N] | .mean] OP NUMBER[UNIT]`; severity, confidence and place are left
    /// at their defaults.
    pub fn parse(text: &str) -> Result<Self, ObjectiveError> {
        let parts = split(text)?;
        let metric = metric(&parts)?;
        let kind = kind(metric);
        let statistic = statistic(&parts, metric, kind)?;
        let bound = bound(&parts, metric, kind)?;
        direction(&parts, statistic, kind)?;
        let written = parts.statistic.as_ref().map_or("", |(text, _)| text);
        let objective = Self {
            text: format!(
                "{metric}{written} {} {}{}",
                parts.op.0, parts.number.0, parts.unit.0
            ),
            metric,
            statistic,
            op: parts.op.0,
            bound,
            confidence_ppm: None,
            severity: Severity::Gate,
            window: None,
            line: 1,
            column: 1,
        };
        provable(&parts, &objective)?;
        Ok(objective)
    }
}

fn wrong(at: Range<usize>, title: &str, label: impl Into<String>, help: String) -> ObjectiveError {
    ObjectiveError {
        at,
        title: title.to_owned(),
        label: label.into(),
        help,
    }
}

fn split(text: &str) -> Result<Parts<'_>, ObjectiveError> {
    const TITLE: &str = "this is not an objective";
    const FORM: &str = "the form is `METRIC[.pNN] OP NUMBER[UNIT]`, like `ttft.p95 < 1.5s`";
    let broken = |at: Range<usize>, label: &str| wrong(at, TITLE, label, FORM.to_owned());
    if text.len() > LONGEST {
        return Err(broken(0..text.len(), "longer than any objective"));
    }
    let skip = |from: usize| from + text[from..].len() - text[from..].trim_start().len();
    let run = |from: usize, accept: fn(char) -> bool| {
        let rest = &text[from..];
        from..from + rest.find(|c| !accept(c)).unwrap_or(rest.len())
    };

    let metric = run(skip(0), |c| {
        c.is_ascii_alphanumeric() || c == '_' || c == '-'
    });
    if metric.is_empty() {
        return Err(broken(0..text.len(), "expected the name of a metric"));
    }
    let statistic = run(metric.end, |c| {
        c.is_ascii_alphanumeric() || c == '.' || c == '_'
    });
    let op = run(skip(statistic.end), |c| "<>=!≤≥~".contains(c));
    let known = Op::ALL.iter().find(|it| it.as_str() == &text[op.clone()]);
    let Some(known) = known else {
        let at = if op.is_empty() {
            op.start..text.len().max(op.start)
        } else {
            op
        };
        return Err(broken(at, "expected `<`, `<=`, `>` or `>=`"));
    };
    let number = run(skip(op.end), |c| c.is_ascii_digit() || c == '.');
    if quantity::decimal(&text[number.clone()]).is_none() {
        let at = number.start..text.len();
        return Err(broken(at, "expected a number"));
    }
    let unit = run(skip(number.end), |c| c.is_alphabetic() || "%/µ".contains(c));
    let end = skip(unit.end);
    if end < text.len() {
        let more = text[end..].trim_end();
        let joined = ["and", "or", "&&", "||", ","]
            .iter()
            .any(|word| more.starts_with(word));
        let at = end..end + more.len();
        return Err(if joined {
            wrong(
                at,
                "an objective is one condition",
                "a second one begins here",
                "write each condition as an item of `slos`".to_owned(),
            )
        } else {
            broken(at, "expected the end of the objective")
        });
    }
    let part = |range: Range<usize>| (&text[range.clone()], range);
    Ok(Parts {
        metric: part(metric),
        statistic: (!statistic.is_empty()).then(|| part(statistic)),
        op: (*known, op),
        number: part(number),
        unit: part(unit),
    })
}

fn metric(parts: &Parts<'_>) -> Result<Metric, ObjectiveError> {
    let (name, at) = &parts.metric;
    if let Some(found) = Metric::ALL.iter().find(|it| it.as_str() == *name) {
        return Ok(*found);
    }
    let names = || Metric::ALL.iter().map(|it| it.as_str());
    let help = did_you_mean(name, names()).map_or_else(
        || format!("the metrics are {}", listed(names())),
        |near| format!("did you mean `{near}`?"),
    );
    Err(wrong(
        at.clone(),
        &format!("unknown metric `{name}`"),
        "no such metric",
        help,
    ))
}

fn statistic(parts: &Parts<'_>, metric: Metric, kind: Kind) -> Result<Statistic, ObjectiveError> {
    let rest = parts.rest(kind);
    let (quantile, ..) = kind.example();
    let Some((written, at)) = &parts.statistic else {
        return match kind {
            Kind::Success | Kind::Failure => Ok(Statistic::Rate),
            Kind::Time | Kind::Speed => Err(wrong(
                parts.metric.1.clone(),
                &format!("`{metric}` needs a quantile"),
                "of which samples?",
                format!("write `{metric}{quantile} {rest}`"),
            )),
        };
    };
    if matches!(kind, Kind::Success | Kind::Failure) {
        return Err(wrong(
            at.clone(),
            &format!("`{metric}` is a share of the samples and has no `{written}`"),
            "nothing belongs here",
            format!("write `{metric} {rest}`"),
        ));
    }
    match *written {
        ".mean" => return Ok(Statistic::Mean),
        ".max" | ".min" => {
            return Err(wrong(
                at.clone(),
                &format!("`{written}` can never be shown to hold"),
                "no number of samples proves something of all calls",
                format!(
                    "ask for nearly all: `{metric}{} {rest}`",
                    if kind.is_small_good() { ".p99" } else { ".p01" }
                ),
            ));
        }
        _ => {}
    }
    let ppm = written
        .strip_prefix(".p")
        .filter(|digits| {
            digits
                .split('.')
                .all(|part| !part.is_empty() && part.len() <= 4)
        })
        .and_then(quantity::decimal)
        .filter(|percent| *percent > 0.0 && *percent < 100.0);
    let Some(percent) = ppm else {
        return Err(wrong(
            at.clone(),
            &format!("`{written}` is no statistic"),
            "expected `.pNN` between `.p0.1` and `.p99.9`, or `.mean`",
            format!("write `{metric}{quantile} {rest}`"),
        ));
    };
    let ppm = ppm_of(percent);
    let half = WHOLE_PPM / 2;
    let mirrored = || {
        let percent = quantity::percent(WHOLE_PPM - ppm);
        let percent = percent.trim_end_matches('%');
        let zero = if percent
            .split('.')
            .next()
            .is_some_and(|whole| whole.len() < 2)
        {
            "0"
        } else {
            ""
        };
        format!("{metric}.p{zero}{percent}")
    };
    if kind.is_small_good() && ppm < half {
        return Err(wrong(
            at.clone(),
            &format!("`{metric}{written}` looks at the best samples only"),
            "small is good here: promise an upper quantile",
            format!("write `{} {rest}`", mirrored()),
        ));
    }
    if kind == Kind::Speed && ppm > half {
        return Err(wrong(
            at.clone(),
            &format!("`{metric}{written}` looks at the best samples only"),
            "large is good here: promise a lower quantile",
            format!("write `{} {rest}`", mirrored()),
        ));
    }
    Ok(Statistic::Quantile(ppm))
}

fn bound(parts: &Parts<'_>, metric: Metric, kind: Kind) -> Result<f64, ObjectiveError> {
    let (number, number_at) = &parts.number;
    let (unit, unit_at) = &parts.unit;
    let subject = format!(
        "{metric}{} {}",
        parts.statistic.as_ref().map_or("", |(text, _)| text),
        parts.op.0
    );
    let value = quantity::decimal(number).unwrap_or_default();
    let at = if unit.is_empty() {
        number_at.clone()
    } else {
        unit_at.clone()
    };
    let (.., example) = kind.example();
    let bad_unit = |expected: &str, way_out: String| {
        let (title, label) = if unit.is_empty() {
            (
                format!("`{metric}` needs a unit"),
                format!("expected {expected} behind the number"),
            )
        } else {
            (
                format!("`{unit}` is no unit of `{metric}`"),
                format!("expected {expected}"),
            )
        };
        wrong(at.clone(), &title, label, way_out)
    };
    let bound = match kind {
        Kind::Time => match *unit {
            "s" => value,
            "ms" => value / 1e3,
            "" => {
                return Err(bad_unit(
                    "`ms` or `s`",
                    format!("write `{subject} {number}ms` or `{subject} {number}s`"),
                ));
            }
            _ => {
                return Err(bad_unit(
                    "`ms` or `s`",
                    format!("write it like `{subject} {example}`"),
                ));
            }
        },
        Kind::Speed => match *unit {
            "/s" => value,
            "" => return Err(bad_unit("`/s`", format!("write `{subject} {number}/s`"))),
            _ => {
                return Err(bad_unit(
                    "`/s`",
                    format!("write it like `{subject} {example}`"),
                ));
            }
        },
        Kind::Success | Kind::Failure => {
            let written = format!("{number}{unit}");
            match quantity::share_ppm(&written) {
                Ok(ppm) => f64::from(ppm) / f64::from(WHOLE_PPM),
                Err(fault) if *unit == "%" => {
                    return Err(wrong(
                        number_at.start..unit_at.end,
                        &format!("`{metric}` must be {}", fault.wanted),
                        fault.why,
                        fault.way_out,
                    ));
                }
                Err(_) => {
                    let meant = if value <= 1.0 { value * 100.0 } else { value };
                    let way_out = match quantity::share_ppm(&format!("{meant}%")) {
                        Ok(ppm) => format!("write `{subject} {}`", quantity::percent(ppm)),
                        Err(_) => format!("write it like `{subject} {example}`"),
                    };
                    return Err(bad_unit("`%`", way_out));
                }
            }
        }
    };
    let longest = 24.0 * 3600.0;
    if kind == Kind::Time && (bound <= 0.0 || bound > longest)
        || kind == Kind::Speed && bound <= 0.0
    {
        return Err(wrong(
            number_at.start..unit_at.end,
            &format!("no `{metric}` can be like this"),
            "out of bounds",
            format!("write it like `{subject} {example}`"),
        ));
    }
    Ok(bound)
}

/// Refuses a promise that the value be bad.
fn direction(parts: &Parts<'_>, statistic: Statistic, kind: Kind) -> Result<(), ObjectiveError> {
    if parts.right_op(kind) == parts.op.0 {
        return Ok(());
    }
    let name = parts.metric.0;
    let written = match statistic {
        Statistic::Rate => "",
        Statistic::Quantile(_) | Statistic::Mean => {
            parts.statistic.as_ref().map_or("", |(text, _)| text)
        }
    };
    Err(wrong(
        parts.op.1.clone(),
        &format!("this objective asks for a bad `{name}`"),
        if kind.is_small_good() {
            "small is good here"
        } else {
            "large is good here"
        },
        format!("write `{name}{written} {}`", parts.rest(kind)),
    ))
}

/// Refuses a share that no number of samples can prove, and one that promises nothing.
fn provable(parts: &Parts<'_>, objective: &Objective) -> Result<(), ObjectiveError> {
    if objective.statistic != Statistic::Rate {
        return Ok(());
    }
    let at = parts.number.1.start..parts.unit.1.end;
    let metric = objective.metric;
    let kind = kind(metric);
    let (.., op, _) = kind.example();
    let all = if kind.is_small_good() { 0.0 } else { 1.0 };
    let (title, label, bound) = if objective.bound == all {
        (
            "this objective can never be shown to hold",
            "no number of samples proves something of all calls",
            if kind.is_small_good() {
                "0.1%"
            } else {
                "99.9%"
            },
        )
    } else if objective.bound == 1.0 - all {
        (
            "this objective promises nothing",
            "every relay meets it",
            kind.example().2,
        )
    } else {
        return Ok(());
    };
    Err(wrong(
        at,
        title,
        label,
        format!("write `{metric} {op} {bound}`"),
    ))
}

/// A percentage in parts per million.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=1000000 before the cast"
)]
fn ppm_of(percent: f64) -> u32 {
    (percent * 1e4).round().clamp(0.0, 1e6) as u32
}

impl Parts<'_> {
    /// The operator, turned round where it asks for a bad value.
    const fn right_op(&self, kind: Kind) -> Op {
        match (self.op.0, kind.is_small_good()) {
            (Op::Less | Op::More, true) => Op::Less,
            (Op::AtMost | Op::AtLeast, true) => Op::AtMost,
            (Op::Less | Op::More, false) => Op::More,
            (Op::AtMost | Op::AtLeast, false) => Op::AtLeast,
        }
    }

    /// The right operator, and the bound as written.
    fn rest(&self, kind: Kind) -> String {
        format!("{} {}{}", self.right_op(kind), self.number.0, self.unit.0)
    }
}
