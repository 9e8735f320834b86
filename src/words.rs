//! Words and numbers as people read them: durations, shares, counts, lists, the name that was meant.

/// A duration: `840 µs`, `123 ms`, `1.81 s`.
pub fn seconds(value: f64) -> String {
    let scale = Scale::of(value);
    format!("{} {}", scale.number(value), scale.name)
}

/// A range of durations in one unit: `92-118 ms`; a single one where both ends read alike.
pub fn range(low: f64, high: f64) -> String {
    let scale = Scale::of(high);
    let (low, high) = (scale.number(low), scale.number(high));
    if low == high {
        format!("{high} {}", scale.name)
    } else {
        format!("{low}-{high} {}", scale.name)
    }
}

struct Scale {
    factor: f64,
    decimals: usize,
    name: &'static str,
}

impl Scale {
    /// The unit in which a duration has about three digits before it is hard to read.
    fn of(value: f64) -> Self {
        let (factor, name) = if value < 0.000_999_5 {
            (1e6, "µs")
        } else if value < 0.999_5 {
            (1e3, "ms")
        } else {
            (1.0, "s")
        };
        let decimals = if name == "µs" {
            0
        } else {
            decimals(value * factor)
        };
        Self {
            factor,
            decimals,
            name,
        }
    }

    fn number(&self, value: f64) -> String {
        format!("{:.*}", self.decimals, value * self.factor)
    }
}

/// Three digits.
pub fn significant(value: f64) -> String {
    format!("{:.*}", decimals(value), value)
}

/// Decimals that make three digits.
fn decimals(value: f64) -> usize {
    if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    }
}

/// A number with at most so many decimals and no trailing zeros.
pub fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// So many things: `1 sample`, `2 samples`, `2 retries`, `2 days`.
pub fn counted(count: u64, noun: &str) -> String {
    let after_consonant = |stem: &&str| !stem.ends_with(['a', 'e', 'o', 'u']);
    match noun.strip_suffix('y').filter(after_consonant) {
        _ if count == 1 => format!("1 {noun}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {noun}s"),
    }
}

/// A required share as it was written: `95%`, `99.95%`.
pub fn share(share: f64) -> String {
    format!("{}%", trimmed(share * 100.0, 4))
}

/// A lower bound, rounded down, with as many decimals as the `required` share has and one at least.
pub fn at_least(bound: f64, required: f64) -> String {
    rounded(bound, required, f64::floor, 1e-9)
}

/// An upper bound, rounded up, with as many decimals as the `required` share has and one at least.
pub fn at_most(bound: f64, required: f64) -> String {
    rounded(bound, required, f64::ceil, -1e-9)
}

/// `slack` keeps a bound that is a whole number of steps from being moved a step by its last bit.
fn rounded(bound: f64, required: f64, round: fn(f64) -> f64, slack: f64) -> String {
    let required = trimmed(required * 100.0, 4);
    let decimals = required
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len())
        .max(1);
    let steps = 10_f64.powi(i32::try_from(decimals).unwrap_or(1));
    let percent = round(bound * 100.0 * steps + slack).max(0.0) / steps;
    if percent == 0.0 || percent >= 100.0 {
        format!("{percent:.0}%")
    } else {
        format!("{percent:.decimals$}%")
    }
}

/// The name closest to a misspelt one, if any is close enough.
pub(crate) fn did_you_mean<'a>(
    wrong: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if wrong.len() > 64 {
        return None;
    }
    let allowed = (wrong.chars().count() / 3).max(1);
    names
        .into_iter()
        .map(|name| {
            (
                strsim::damerau_levenshtein(&wrong.to_lowercase(), name),
                name,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Names in code marks, separated by commas.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_not_called_many() {
        assert_eq!(counted(0, "sample"), "0 samples");
        assert_eq!(counted(1, "sample"), "1 sample");
        assert_eq!(counted(2, "sample"), "2 samples");
        assert_eq!(counted(1, "retry"), "1 retry");
        assert_eq!(counted(3, "retry"), "3 retries");
        assert_eq!(counted(3, "day"), "3 days");
    }

    #[test]
    fn durations_have_three_digits() {
        assert_eq!(seconds(0.000_84), "840 µs");
        assert_eq!(seconds(0.001_234), "1.23 ms");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(0.123_4), "123 ms");
        assert_eq!(seconds(0.999_9), "1.00 s");
        assert_eq!(seconds(1.812), "1.81 s");
        assert_eq!(seconds(61.0), "61.0 s");
        assert_eq!(seconds(120.0), "120 s");
    }

    #[test]
    fn a_range_has_one_unit() {
        assert_eq!(range(0.092, 0.118), "92-118 ms");
        assert_eq!(range(0.9, 2.6), "0.90-2.60 s");
        assert_eq!(range(0.1181, 0.118), "118 ms");
    }

    #[test]
    fn lower_bounds_are_rounded_down_and_upper_bounds_up() {
        assert_eq!(at_least(0.987_99, 0.95), "98.7%");
        assert_eq!(at_most(0.931_01, 0.95), "93.2%");
        assert_eq!(at_least(0.95, 0.95), "95.0%");
        assert_eq!(at_most(0.95, 0.95), "95.0%");
        assert_eq!(at_least(0.999_51, 0.9995), "99.95%");
        assert_eq!(at_least(0.0, 0.95), "0%");
        assert_eq!(at_most(1.0, 0.95), "100%");
        assert_eq!(at_most(0.999_99, 0.95), "100%");
    }

    #[test]
    fn shares_are_printed_as_written() {
        assert_eq!(share(0.95), "95%");
        assert_eq!(share(0.9995), "99.95%");
    }
}
