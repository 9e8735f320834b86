//! The table as Markdown: the reference in `docs/spec.md`.

use super::{Key, Kind, all};
use crate::objective::metric::{Direction, Metric, Unit};

/// The keys of the map at a place (`relays[]`, empty for the document itself) as a Markdown table;
/// `None` where no map has this place.
pub fn table(place: &str) -> Option<String> {
    let table = all().iter().find(|table| table.place == place)?;
    let mut out = String::from("| key | type | default | meaning |\n|---|---|---|---|\n");
    for key in table.keys() {
        let usual = match (key.must, key.usual) {
            (true, _) => "required",
            (false, "") => "none",
            (false, usual) => usual,
        };
        out.push_str(&format!(
            "| `{}` | {} | {usual} | {} |\n",
            key.name,
            in_words(key),
            key.meaning
        ));
    }
    Some(out)
}

/// Which metrics take which statistic, unit and direction, as a Markdown table.
pub fn objectives() -> String {
    let mut out = String::from("| metrics | statistic | unit | direction |\n|---|---|---|---|\n");
    for (unit, better, rest) in [
        (
            Unit::Seconds,
            Direction::Lower,
            "`.p50` and above, or `.mean` | `ms`, `s` | `<`, `<=`",
        ),
        (
            Unit::PerSecond,
            Direction::Higher,
            "`.p50` and below, or `.mean` | `/s` | `>`, `>=`",
        ),
        (Unit::YesNo, Direction::Higher, "none | `%` | `>`, `>=`"),
        (Unit::YesNo, Direction::Lower, "none | `%` | `<`, `<=`"),
    ] {
        let names: Vec<String> = Metric::ALL
            .iter()
            .filter(|it| (it.unit(), it.direction()) == (unit, better))
            .map(|it| format!("`{it}`"))
            .collect();
        out.push_str(&format!("| {} | {rest} |\n", names.join(" ")));
    }
    out
}

fn in_words(key: &Key) -> String {
    if key.shown.is_empty() {
        of(&key.kind)
    } else {
        key.shown.to_owned()
    }
}

fn of(kind: &Kind) -> String {
    match kind {
        Kind::Exactly(value) => format!("`{value}`"),
        Kind::True => "`true`".to_owned(),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Whole(min, max) => format!("{min} to {max}"),
        Kind::Number(min, max) => format!("{min} to {max}"),
        Kind::Text | Kind::Plain | Kind::Variable => "text".to_owned(),
        Kind::Name => "name".to_owned(),
        Kind::Url | Kind::ProxyUrl | Kind::TraceUrl => "URL".to_owned(),
        Kind::Words(words) => {
            let words: Vec<String> = words().iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Kind::Duration => "duration".to_owned(),
        Kind::DurationOrZero => "duration, or `0`".to_owned(),
        Kind::Rate => "rate".to_owned(),
        Kind::Share => "percentage".to_owned(),
        Kind::Money => "amount in USD".to_owned(),
        Kind::Daily => "`HH:MM-HH:MM`".to_owned(),
        Kind::Moment => "date and time".to_owned(),
        Kind::Count => "count".to_owned(),
        Kind::Objective { .. } => "objective".to_owned(),
        Kind::Retried => "status, or `connect`".to_owned(),
        Kind::Single => "single value".to_owned(),
        Kind::Texts | Kind::Command => "list of texts".to_owned(),
        Kind::List(item) | Kind::Anything(item) => format!("list of {}s", of(item)),
        Kind::Map(_) | Kind::Params | Kind::Fault => "map".to_owned(),
        Kind::MapOf(value, _) => format!("map of {}s", of(value)),
        Kind::Either(kinds) => kinds.iter().map(of).collect::<Vec<_>>().join(", "),
    }
}
