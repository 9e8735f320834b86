//! Values with a unit: rates, counts and shares. Each has a closed list of spellings.

/// Why a value with a unit cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// What it should be: `a duration`.
    pub(crate) wanted: &'static str,
    /// What is wrong with it.
    pub(crate) why: String,
    /// What to write.
    pub(crate) way_out: String,
}

/// `120/min`, `100/s`, `30/h`: starts per second.
pub(crate) fn rate(text: &str) -> Result<f64, Wrong> {
    let wrong = |why: &str| Wrong {
        wanted: "a rate",
        why: why.to_owned(),
        way_out: "write a number and `/s`, `/min` or `/h`, like `120/min`".to_owned(),
    };
    let (number, unit) = split(text);
    let value = decimal(number).ok_or_else(|| wrong("no number"))?;
    let per_s = match unit {
        "/s" => value,
        "/min" => value / 60.0,
        "/h" => value / 3600.0,
        "" => return Err(wrong("no unit")),
        _ => return Err(wrong("unknown unit")),
    };
    if per_s <= 0.0 {
        return Err(wrong("nothing would be sent"));
    }
    if per_s > 10_000.0 {
        return Err(wrong("more than 10000/s"));
    }
    Ok(per_s)
}

/// `8M`, `10k`, `500`: a whole number.
pub(crate) fn count(text: &str) -> Result<u64, Wrong> {
    let wrong = |why: &str| Wrong {
        wanted: "a count",
        why: why.to_owned(),
        way_out: "write a whole number, like `500`, `10k` or `8M`".to_owned(),
    };
    let (number, unit) = split(text);
    let value = decimal(number).ok_or_else(|| wrong("no number"))?;
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return Err(wrong("unknown suffix")),
    };
    let value = value * factor;
    if (value - value.round()).abs() > 1e-6 {
        return Err(wrong("not a whole number"));
    }
    if !(1.0..=1e15).contains(&value) {
        return Err(wrong("out of bounds"));
    }
    Ok(rounded(value))
}

/// `25 USD`, `0.5USD`: an amount of money.
pub(crate) fn usd(text: &str) -> Result<f64, Wrong> {
    let wrong = |why: &str| Wrong {
        wanted: "an amount of money",
        why: why.to_owned(),
        way_out: "write a number and `USD`, like `25 USD`".to_owned(),
    };
    let (number, unit) = split(text);
    let value = decimal(number).ok_or_else(|| wrong("no number"))?;
    match unit.trim_start() {
        "USD" => {}
        "" => return Err(wrong("no unit")),
        _ => return Err(wrong("unknown unit")),
    }
    if value <= 0.0 {
        return Err(wrong("nothing could be sent"));
    }
    if value > 1e9 {
        return Err(wrong("more than 1000000000"));
    }
    Ok(value)
}

/// `99%`, `99.5%`, `0.01%`: parts per million; a bare number is refused.
pub(crate) fn share_ppm(text: &str) -> Result<u32, Wrong> {
    let wrong = |why: &str, way_out: String| Wrong {
        wanted: "a percentage",
        why: why.to_owned(),
        way_out,
    };
    let (number, unit) = split(text);
    let example = || "write a percentage, like `99.5%`".to_owned();
    let value = decimal(number).ok_or_else(|| wrong("no number", example()))?;
    if unit != "%" {
        let meant = if value <= 1.0 { value * 100.0 } else { value };
        return Err(if unit.is_empty() && meant <= 100.0 {
            wrong("no `%`", format!("write `{}%`", trimmed(meant)))
        } else {
            wrong("no `%`", example())
        });
    }
    if value > 100.0 {
        return Err(wrong("more than 100%", example()));
    }
    let ppm = value * 1e4;
    if (ppm - ppm.round()).abs() > 1e-6 {
        return Err(wrong(
            "finer than 0.0001%",
            "write at most four digits after the point".to_owned(),
        ));
    }
    Ok(u32::try_from(rounded(ppm)).unwrap_or(u32::MAX))
}

/// Parts per million as a percentage, without needless digits.
pub(crate) fn percent(ppm: u32) -> String {
    format!("{}%", trimmed(f64::from(ppm) / 1e4))
}

/// A number with at most four digits after the point, without needless zeros.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The number at the start of a text, and the rest.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}

/// Digits with at most one point among them; no sign, no exponent.
pub(crate) fn decimal(number: &str) -> Option<f64> {
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let points = number.bytes().filter(|b| *b == b'.').count();
    let plain = digits > 0
        && digits <= 18
        && points <= 1
        && !number.starts_with('.')
        && !number.ends_with('.');
    if plain { number.parse().ok() } else { None }
}

/// The nearest whole number of a value that was checked to be in range.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers bound the value; the cast saturates"
)]
pub(crate) fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_needs_its_sign() {
        assert_eq!(share_ppm("99%"), Ok(990_000));
        assert_eq!(share_ppm("99.95%"), Ok(999_500));
        assert_eq!(share_ppm("100%"), Ok(1_000_000));
        assert_eq!(share_ppm("99").unwrap_err().way_out, "write `99%`");
        assert_eq!(share_ppm("0.99").unwrap_err().way_out, "write `99%`");
        assert!(share_ppm("99.00001%").is_err());
        assert!(share_ppm("101%").is_err());
        assert!(share_ppm("99 %").is_err());
    }

    #[test]
    fn rates_are_per_second_per_minute_or_per_hour() {
        assert_eq!(rate("120/min"), Ok(2.0));
        assert_eq!(rate("100/s"), Ok(100.0));
        assert_eq!(rate("36/h"), Ok(0.01));
        for text in ["0/s", "120", "120/day", "/s", "1000000/s", "120 / min"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_take_three_suffixes() {
        assert_eq!(count("500"), Ok(500));
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("1.5M"), Ok(1_500_000));
        for text in ["0", "1.5", "10K", "8 M", "9999999G"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percentages_are_printed_without_needless_digits() {
        assert_eq!(percent(950_000), "95%");
        assert_eq!(percent(999_500), "99.95%");
        assert_eq!(percent(1), "0.0001%");
    }
}
