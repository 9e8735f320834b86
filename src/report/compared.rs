//! What both reports of a comparison have in common: names, numbers, lines of eighty columns.

use std::fmt::Write as _;
use std::time::Duration;

use crate::compare::Tallied;
use crate::compare::tallied::Rate;
use crate::words;

/// Width of what is printed.
pub(super) const COLUMNS: usize = 80;

/// A share with two decimals, rounded down, so that 100% is all of them.
pub(super) fn share(share: f64) -> String {
    words::at_least(share, 0.9999)
}

/// An upper bound of a share, rounded up.
pub(super) fn share_up(share: f64) -> String {
    words::at_most(share, 0.9999)
}

/// A difference of shares in percentage points, with its sign.
pub(super) fn points(difference: f64) -> String {
    let points = difference * 100.0;
    // No minus before a zero.
    let points = if points.abs() < 0.005 { 0.0 } else { points };
    format!("{points:+.2}").replace("+0.00", "0.00")
}

/// US dollars for a million tokens, in about three digits.
pub(super) fn rate(rate: Rate) -> String {
    match rate {
        Rate::Usd(usd) => usd_text(usd),
        Rate::AtLeast(usd) => format!(">= {}", usd_text(usd)),
        Rate::Unknown => "unknown".to_owned(),
        Rate::NothingUsable => "none usable".to_owned(),
    }
}

/// US dollars in about three digits.
pub(super) fn usd_text(usd: f64) -> String {
    let decimals = if usd >= 99.95 {
        0
    } else if usd >= 9.995 {
        1
    } else if usd >= 0.0995 || usd == 0.0 {
        2
    } else if usd >= 0.00995 {
        3
    } else {
        6
    };
    format!("{usd:.decimals$}")
}

/// A p-value.
pub(super) fn p(p: f64) -> String {
    if p < 0.0001 {
        "under 0.0001".to_owned()
    } else {
        let text = format!("{p:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A length of time in the largest unit that fits: `3.2 h`.
pub fn length(of: Duration) -> String {
    let seconds = of.as_secs_f64();
    let (factor, unit) = if seconds < 120.0 {
        return words::seconds(seconds);
    } else if seconds < 7200.0 {
        (60.0, "min")
    } else if seconds < 172_800.0 {
        (3600.0, "h")
    } else {
        (86_400.0, "days")
    };
    format!("{:.1} {unit}", seconds / factor)
}

/// The shortest names that tell cells apart: the relay, with its model, its run or its file where
/// others are called the same.
pub(super) fn names<'a>(cells: impl IntoIterator<Item = &'a Tallied>) -> Vec<String> {
    let cells: Vec<&Tallied> = cells.into_iter().collect();
    let forms: [fn(&Tallied) -> String; 4] = [
        |it| it.header.relay.clone(),
        |it| it.header.cell.clone(),
        |it| format!("{} ({})", it.header.relay, it.header.run_id),
        |it| format!("{} ({})", it.header.relay, it.source),
    ];
    let named =
        |form: fn(&Tallied) -> String| -> Vec<String> { cells.iter().map(|it| form(it)).collect() };
    let unique = |names: &Vec<String>| {
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair.first() != pair.last())
    };
    forms
        .into_iter()
        .map(named)
        .find(unique)
        .unwrap_or_else(|| named(|it| it.source.clone()))
}

/// A text cut to so many characters, with `…` where it was cut.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Adds words as lines that fit, the first after `first` and the others after `rest`. A word that
/// is too long for any line gets one of its own.
pub(super) fn wrap(out: &mut String, first: &str, rest: &str, words: &str) {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in words.split(' ') {
        let width = line.chars().count() + usize::from(!empty) + word.chars().count();
        if !empty && width > COLUMNS {
            let _ = writeln!(out, "{line}");
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::header;

    #[test]
    fn lines_are_wrapped_between_words() {
        let mut out = String::new();
        wrap(&mut out, "note: ", "      ", "word ".repeat(30).trim_end());
        assert!(out.lines().count() == 2, "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= COLUMNS));
        assert!(out.starts_with("note: word") && out.contains("\n      word"));
    }

    #[test]
    fn numbers_are_short_and_round_to_the_careful_side() {
        assert_eq!(share(0.999_999), "99.99%");
        assert_eq!(share(1.0), "100%");
        assert_eq!(share_up(0.991_801), "99.19%");
        assert_eq!(points(-0.05), "-5.00");
        assert_eq!(points(0.012_34), "+1.23");
        assert_eq!((points(-1e-9), points(0.0)), ("0.00".into(), "0.00".into()));
        assert_eq!(p(0.000_001), "under 0.0001");
        assert_eq!((p(0.01), p(1.0)), ("0.01".into(), "1".into()));
        assert_eq!(rate(Rate::Usd(0.75)), "0.75");
        assert_eq!(rate(Rate::AtLeast(12.345)), ">= 12.3");
        assert_eq!(rate(Rate::Usd(0.000_012_3)), "0.000012");
        assert_eq!(length(Duration::from_secs(11_520)), "3.2 h");
        assert_eq!(cut("abcdef", 4), "abc…");
    }

    #[test]
    fn names_are_as_long_as_they_must_be() {
        let cell = |relay: &str, model: &str, run: &str, source: &str| {
            let mut header = header(Vec::new(), 1);
            header.relay = relay.to_owned();
            header.cell = format!("{relay}/{model}/chat");
            header.run_id = run.to_owned();
            Tallied::new(header, source.to_owned(), Vec::new())
        };
        let all = |cells: &[Tallied]| names(cells);
        let a = cell("a", "m", "r1", "f1");
        assert_eq!(all(&[a.clone(), cell("b", "m", "r1", "f2")]), ["a", "b"]);
        assert_eq!(
            all(&[a.clone(), cell("a", "n", "r1", "f2")]),
            ["a/m/chat", "a/n/chat"]
        );
        assert_eq!(
            all(&[a.clone(), cell("a", "m", "r2", "f2")]),
            ["a (r1)", "a (r2)"]
        );
        assert_eq!(all(&[a, cell("a", "m", "r1", "f2")]), ["a (f1)", "a (f2)"]);
    }
}
