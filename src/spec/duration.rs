//! Durations: a number and one of six units.

use std::time::Duration;

use crate::objective::quantity::{Wrong, decimal, rounded, split};

/// Longest duration that is accepted: a year.
const LONGEST_US: f64 = 365.0 * 24.0 * 3600.0 * 1e6;

/// Microseconds in one unit; the whole list.
const DURATION_UNITS: &[(&str, f64)] = &[
    ("us", 1.0),
    ("ms", 1e3),
    ("s", 1e6),
    ("m", 60e6),
    ("h", 3600e6),
    ("d", 86_400e6),
];

/// `1.5s`, `150ms`: a number and one of us, ms, s, m, h, d, nothing between them.
pub(super) fn parse(text: &str) -> Result<Duration, Wrong> {
    let wrong = |why: String, way_out: String| Wrong {
        wanted: "a duration",
        why,
        way_out,
    };
    let (number, unit) = split(text);
    let Some(value) = decimal(number) else {
        return Err(wrong(
            "no number".to_owned(),
            "write a number and a unit, like `1.5s` or `150ms`".to_owned(),
        ));
    };
    if unit.is_empty() {
        return Err(wrong(
            "no unit".to_owned(),
            format!("write `{number}s` or `{number}ms`"),
        ));
    }
    let Some((_, micros)) = DURATION_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(wrong(
            format!("unknown unit `{}`", unit.trim()),
            "the units are `us`, `ms`, `s`, `m`, `h` and `d`, without a space".to_owned(),
        ));
    };
    let micros = value * micros;
    if micros > LONGEST_US {
        return Err(wrong(
            "longer than a year".to_owned(),
            "write a shorter time".to_owned(),
        ));
    }
    if micros < 1.0 {
        return Err(wrong(
            "shorter than a microsecond".to_owned(),
            "write a longer time".to_owned(),
        ));
    }
    Ok(Duration::from_micros(rounded(micros)))
}

/// [`parse`], or a zero with or without a unit.
pub(super) fn parse_or_zero(text: &str) -> Result<Duration, Wrong> {
    let (number, unit) = split(text);
    let zero = decimal(number) == Some(0.0) && DURATION_UNITS.iter().any(|(name, _)| *name == unit);
    if zero || text == "0" {
        Ok(Duration::ZERO)
    } else {
        parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_six_units_and_nothing_else_are_durations() {
        assert_eq!(parse("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(parse("7d"), Ok(Duration::from_secs(604_800)));
        for text in [
            "", "s", "1", "1.5 s", "1.5sec", "1min", "-1s", "1e3s", ".5s", "1.s", "1..5s", "1w",
            "9999999h", "0s", "0.0001us", "1s2ms", "inf", "NaNs",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_offered_as_seconds_and_milliseconds() {
        let wrong = parse("1500").unwrap_err();
        assert_eq!(wrong.way_out, "write `1500s` or `1500ms`");
    }

    #[test]
    fn a_zero_is_a_duration_only_where_it_makes_sense() {
        assert_eq!(parse_or_zero("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_or_zero("0"), Ok(Duration::ZERO));
        assert!(parse("0s").is_err());
        assert!(parse_or_zero("0w").is_err());
    }
}
