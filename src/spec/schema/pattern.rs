//! Regular expressions for texts with a form of their own.
//!
//! Only what every dialect of regular expressions knows: no look-around, no flags.

use crate::objective::metric::{Direction, Metric, Unit};

/// A placeholder stands in the text, so that only a run can say what it will be.
pub(super) const FILLED: &str = r"\$\{(vars|env)\.";

/// Digits, with a point among them or not.
const NUMBER: &str = r"[0-9]+(\.[0-9]+)?";

/// The form, or any text with a placeholder in it.
pub(super) fn or_filled(form: &str) -> String {
    format!("^({form})$|{FILLED}")
}

pub(super) fn duration() -> String {
    format!("{NUMBER}(us|ms|s|m|h|d)")
}

pub(super) fn duration_or_zero() -> String {
    format!("{}|0", duration())
}

pub(super) fn rate() -> String {
    format!("{NUMBER}/(s|min|h)")
}

pub(super) fn share() -> String {
    format!("({NUMBER})%")
}

pub(super) fn money() -> String {
    format!(r"{NUMBER}\s*USD")
}

pub(super) const fn daily() -> &'static str {
    r"([01][0-9]|2[0-3]):[0-5][0-9]\s*-\s*(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)"
}

pub(super) const fn moment() -> &'static str {
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})"
}

pub(super) fn count() -> String {
    format!("{NUMBER}[kMG]?")
}

/// A name: no slash, no white space at its ends.
pub(super) fn name() -> &'static str {
    r"[^/\s]([^/]{0,62}[^/\s])?"
}

pub(super) fn base_url() -> &'static str {
    r"https?://[^\s/?#@]+(/[^\s?#]*)?"
}

pub(super) fn proxy_url() -> &'static str {
    r"(https?|socks5h?)://\S+"
}

/// Objectives that gate, or with `mean` any.
pub(super) fn objective(mean: bool) -> String {
    // Large is good or small is good, and the quantile looks at the other end.
    let upper = r"\.p0{0,2}[5-9][0-9](\.[0-9]{1,4})?";
    let lower = r"\.p(0{0,3}[1-9](\.[0-9]{1,4})?|0{0,2}[1-4][0-9](\.[0-9]{1,4})?|0{0,2}50(\.0{1,4})?|0{1,4}\.[0-9]{0,3}[1-9][0-9]{0,3})";
    let or_mean = |quantile: &str| {
        if mean {
            format!(r"({quantile}|\.mean)")
        } else {
            quantile.to_owned()
        }
    };
    let share = r"0*[0-9]{1,2}(\.[0-9]+)?\s*%";
    let forms = [
        (
            named(|unit, _| unit == Unit::Seconds),
            or_mean(upper),
            "<=?",
            format!(r"{NUMBER}\s*m?s"),
        ),
        (
            named(|unit, _| unit == Unit::PerSecond),
            or_mean(lower),
            ">=?",
            format!(r"{NUMBER}\s*/s"),
        ),
        (
            named(|unit, better| unit == Unit::YesNo && better == Direction::Higher),
            String::new(),
            ">=?",
            share.to_owned(),
        ),
        (
            named(|unit, better| unit == Unit::YesNo && better == Direction::Lower),
            String::new(),
            "<=?",
            share.to_owned(),
        ),
    ];
    let forms: Vec<String> = forms
        .iter()
        .map(|(names, statistic, op, bound)| format!(r"({names}){statistic}\s*{op}\s*{bound}"))
        .collect();
    format!(r"\s*({})\s*", forms.join("|"))
}

/// Metrics of a kind, as alternatives.
fn named(of: fn(Unit, Direction) -> bool) -> String {
    let names: Vec<&str> = Metric::ALL
        .iter()
        .filter(|it| of(it.unit(), it.direction()))
        .map(|it| it.as_str())
        .collect();
    names.join("|")
}
