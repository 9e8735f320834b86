//! `BAGGAGE` from the environment: which of its entries are copied onto the suite's span.
//!
//! Pure. Baggage is for anybody's use, users and sessions among it, so only names on a list pass:
//! those of pipelines, and those that `RELAYPROOF_BAGGAGE_KEYS` adds. Nothing of it is sent to a
//! relay.

use super::clean::{looks_secret, names_a_secret, percent_decoded};
use super::spans::bounded;

/// Names that pass without being asked for.
const PREFIXES: &[&str] = &["cicd.", "vcs.", "deployment.", "test."];

/// Longest baggage that the convention asks anybody to read; longer is as if it were not set.
const MAX_BYTES: usize = 8192;

/// Most entries that the convention asks anybody to read.
const MAX_MEMBERS: usize = 64;

/// Most entries that are copied.
const MAX_COPIED: usize = 16;

/// The entries that may be shown, decoded and cut; `more` names further ones, joined by commas.
///
/// Of two entries with one name the later one wins; properties behind a `;` are not copied.
pub(super) fn shown(baggage: &str, more: &str) -> Vec<(String, String)> {
    if baggage.len() > MAX_BYTES {
        return Vec::new();
    }
    let listed = |name: &str| {
        PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || more.split(',').any(|more| more.trim() == name)
    };
    let mut shown: Vec<(String, String)> = Vec::new();
    for member in baggage.split(',').take(MAX_MEMBERS) {
        let member = member.split(';').next().unwrap_or_default();
        let Some((name, value)) = member.split_once('=') else {
            continue;
        };
        let name = name.trim();
        let passes = is_name(name) && listed(name) && !names_a_secret(name);
        let value = percent_decoded(value.trim())
            .filter(|value| passes && !looks_secret(value) && !value.chars().any(char::is_control));
        let Some(value) = value else {
            continue;
        };
        shown.retain(|(earlier, _)| earlier != name);
        if shown.len() < MAX_COPIED {
            shown.push((name.to_owned(), bounded(&value).to_owned()));
        }
    }
    shown
}

/// Whether a name is a token of HTTP, and short enough for an attribute.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(shown: &[(String, String)]) -> Vec<(&str, &str)> {
        shown
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }

    #[test]
    fn names_on_the_list_are_copied_and_others_are_not() {
        let baggage = "cicd.pipeline.name=nightly%20run;ttl=1, team = a%3Db ,user.id=4711,empty";
        assert_eq!(
            pairs(&shown(baggage, "")),
            [("cicd.pipeline.name", "nightly run")]
        );
        assert_eq!(
            pairs(&shown(baggage, "team, other")),
            [("cicd.pipeline.name", "nightly run"), ("team", "a=b")]
        );
    }

    #[test]
    fn secrets_do_not_pass_even_where_they_are_asked_for() {
        let baggage = "team=sk-canary-5f1d0c9a,api_key=abc,vcs.url=https://u:p@host/,test.ok=1,\
                       test.note=%0d%0aforged,test.bad=%ff";
        assert_eq!(pairs(&shown(baggage, "team,api_key")), [("test.ok", "1")]);
    }

    #[test]
    fn the_limits_of_the_convention_hold() {
        let long = format!("test.a=1,test.b={}", "x".repeat(MAX_BYTES));
        assert_eq!(shown(&long, ""), []);
        let many: Vec<_> = (0..200).map(|i| format!("test.n{i}={i}")).collect();
        assert_eq!(shown(&many.join(","), "").len(), MAX_COPIED);
        let late = format!("{}test.late=1", "a=b,".repeat(MAX_MEMBERS));
        assert_eq!(
            shown(&late, ""),
            [],
            "members beyond the limit are not read"
        );
        let wide = format!("test.wide={}", "é".repeat(400));
        assert!(shown(&wide, "").iter().all(|(_, value)| value.len() <= 256));
    }

    #[test]
    fn the_later_of_two_entries_wins_and_a_value_may_hold_an_equals_sign() {
        assert_eq!(
            pairs(&shown("test.a=1,test.a=2=3,=x,tést=4", "tést")),
            [("test.a", "2=3")]
        );
    }
}
