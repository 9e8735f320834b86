//! Documents of weeks that were made up.

use std::time::Duration;

use super::fixtures::{document, files, final_one};
use super::*;
use crate::evidence::fixtures::good;
use crate::signals::Seen;
use crate::verdict::campaign::fixtures::{ALPHA, recorded, week_among};

#[test]
fn it_says_what_each_relay_comes_to_and_why() {
    let document = final_one();
    let relays: Vec<(&str, Overall)> = document
        .relays
        .iter()
        .map(|it| (it.relay.as_str(), it.overall))
        .collect();
    assert_eq!(
        relays,
        [("alpha", Overall::Violated), ("beta", Overall::Violated)]
    );
    let alpha = &document.relays[0];
    assert!(alpha.met < alpha.deciding);
    assert!(
        alpha
            .why
            .iter()
            .any(|it| it.contains("ttft.p95 < 1.5s @peak")),
        "{:?}",
        alpha.why
    );
    assert_eq!(document.overall, Overall::Violated);
    assert!(document.is_final);
    let titles: Vec<&str> = parts(&document).iter().map(|it| it.title).collect();
    assert_eq!(titles.len(), 11, "{titles:?}");
}

#[test]
fn failures_are_counted_by_relay_party_and_day_and_lead_to_their_traces() {
    let document = final_one();
    let failed: u64 = document.failures.groups.iter().map(|it| it.count).sum();
    let by_day = document
        .failures
        .days
        .iter()
        .flat_map(|it| it.parties.values());
    assert_eq!(failed, by_day.sum::<u64>());
    let of = |relay: &'static str| {
        document
            .failures
            .groups
            .iter()
            .filter(move |it| it.relay == relay)
    };
    assert_eq!(of("alpha").count(), 0, "a slow answer is whole");
    let edge = of("beta").next().unwrap();
    assert_eq!(edge.party.as_str(), "relay-gateway");
    let telling = &edge.telling[0];
    let url = telling.url.as_deref().unwrap();
    assert!(url.starts_with("http://127.0.0.1:16686/trace/"), "{url}");
    assert!(url.contains(&telling.trace_id), "{url}");
}

#[test]
fn hours_show_the_evenings_and_the_peak_by_the_clocks_of_its_zone() {
    let document = final_one();
    assert_eq!(document.clock.zone, "Asia/Shanghai");
    let alpha = document
        .latency
        .iter()
        .find(|it| it.relay == "alpha")
        .unwrap();
    assert_eq!(alpha.hours.len(), 24);
    let peak: Vec<u8> = alpha
        .hours
        .iter()
        .filter(|it| it.is_peak)
        .map(|it| it.hour)
        .collect();
    assert_eq!(peak, [0, 21, 22, 23]);
    for hour in &alpha.hours {
        let p95 = hour.p95.unwrap();
        assert_eq!(p95 > 1.5, hour.is_peak, "{hour:?}");
        assert_eq!(hour.within.unwrap() < 1.0, hour.is_peak, "{hour:?}");
    }
    let n: u64 = alpha.hours.iter().map(|it| it.n).sum();
    let taken = document
        .coverage
        .iter()
        .filter(|it| it.cell.starts_with("alpha/") && it.beside.is_none());
    assert_eq!(n, taken.map(|it| it.taken).sum::<u64>());
    let spread = &alpha.spread[0];
    assert_eq!(spread.objective, "ttft.p95 < 1.5s @peak");
    let peak: u64 = alpha
        .hours
        .iter()
        .filter(|it| it.is_peak)
        .map(|it| it.n)
        .sum();
    // A window holds planned starts, an hour real ones; here they are the same.
    assert_eq!(spread.total, peak);
}

#[test]
fn gaps_are_named_in_utc_and_by_the_clocks_of_the_peak() {
    let document = final_one();
    let hk = document
        .coverage
        .iter()
        .filter(|it| it.region.as_deref() == Some("hk"));
    for cell in hk.filter(|it| it.beside.is_none()) {
        let gap = &cell.gaps[0];
        assert_eq!(cell.gap_count, 1);
        assert!(gap.from.starts_with("2026-12-02T16:"), "{gap:?}");
        let (local, _) = gap.local.as_ref().unwrap();
        assert!(
            local.starts_with("2026-12-03T00:") && local.ends_with("+08:00"),
            "{local}"
        );
    }
}

#[test]
fn money_is_known_or_unknown_and_never_zero_for_want_of_a_price() {
    let document = final_one();
    let of = |relay: &str| document.cost.iter().find(|it| it.relay == relay).unwrap();
    let alpha = of("alpha");
    // 12 tokens at 1 USD and 21 at 2 USD a million.
    let each = 54e-6;
    let usd = alpha.known_usd.unwrap();
    assert!((usd - each * alpha.samples as f64).abs() < 1e-6, "{usd}");
    assert!((alpha.usd_per_usable_answer.unwrap() - each).abs() < 1e-9);
    assert!((alpha.usd_per_million_usable_tokens.unwrap() - each / 21.0 * 1e6).abs() < 1e-6);
    assert_eq!((alpha.unknown, alpha.is_lower_bound), (0, false));
    assert!(alpha.rows > 0 && alpha.usd_per_row.is_some());
    let beta = of("beta");
    assert_eq!((beta.known_usd, beta.usd_per_usable_answer), (None, None));
    assert_eq!(beta.unknown, beta.samples);
    assert!(of("official").is_upstream);
    let text = markdown(&document);
    assert!(
        text.contains("not read back") && text.contains("no price"),
        "{text}"
    );
}

#[test]
fn the_relays_own_ids_of_its_failures_are_listed_and_the_rest_counted() {
    let document = final_one();
    let beta = document
        .requests
        .iter()
        .find(|it| it.relay == "beta")
        .unwrap();
    assert_eq!(beta.listed.len(), 100);
    assert!(beta.more > 0);
    let named = beta.listed.iter().filter(|it| !it.ids.is_empty());
    for one in named {
        assert_eq!(
            one.ids,
            [("x-request-id".to_owned(), format!("req-{}", one.index))]
        );
        assert_eq!(one.status, Some(503));
    }
    let times: Vec<&str> = beta.listed.iter().map(|it| it.at.as_str()).collect();
    assert!(times.is_sorted());
    let alpha = document
        .requests
        .iter()
        .find(|it| it.relay == "alpha")
        .unwrap();
    assert!(
        alpha.listed[0].why.contains("first token after 3.00 s"),
        "{:?}",
        alpha.listed[0]
    );
}

#[test]
fn what_makes_a_pass_easier_is_said() {
    let said = |document: &SignOff| -> String {
        let all = document.exceptions.iter();
        all.map(|it| format!("{}: {}\n", it.kind, it.statement))
            .collect()
    };
    let all = said(&final_one());
    assert!(
        all.contains("override: `ttft.p50 < 400ms` of alpha/m/default is a warning only"),
        "{all}"
    );
    assert!(!all.contains("exclusion"), "{all}");
    let half: Vec<Evidence> = files()
        .into_iter()
        .filter(|it| it.header.region.as_deref() == Some("hk") && it.header.beside.is_none())
        .collect();
    let half = document(half, "2026-12-09T00:00:00Z");
    let some = said(&half);
    for wanted in [
        "exclusion: No evidence from usw: only 1 of the spec's 2 regions are judged.",
        "exclusion: 2 of the spec's 4 cells have no evidence here",
        "there is no evidence of it: failures could not be told apart",
    ] {
        assert!(some.contains(wanted), "{wanted} in {some}");
    }
}

#[test]
fn what_was_not_tested_follows_from_what_was() {
    let all = final_one().not_tested.join("\n");
    for wanted in [
        "Any model but m.",
        "only streams were asked for",
        "from hk, usw.",
        "reqwest does not show them",
        "slots, which have no sample",
        "The trusted upstream at",
    ] {
        assert!(all.contains(wanted), "{wanted} in {all}");
    }
    let early: Vec<Evidence> = recorded(
        &week_among(ALPHA, 800, "slos: [success_in_4 >= 95%]\n"),
        |_, slot| (slot.start < Duration::from_secs(6 * 3600)).then(good),
    );
    let early = document(early, "2026-12-01T00:00:00Z");
    assert!(!early.is_final);
    let some = early.not_tested.join("\n");
    for wanted in [
        "The rest of the soak",
        "no trusted upstream was asked",
        "Days other than the 1 day from 2026-12-01 to 2026-12-01",
        "fewer than seven days",
        "The hours 06, 07,",
        "the spec names no prices",
    ] {
        assert!(some.contains(wanted), "{wanted} in {some}");
    }
    let text = markdown(&early);
    assert!(
        text.starts_with("# Sign-off of week: inconclusive (provisional)\n"),
        "{text}"
    );
}

#[test]
fn signals_are_shown_as_such_and_their_absence_is_not_called_a_pass() {
    let mut document = final_one();
    let heading = "## 6. Signals of authenticity\n\n";
    let text = markdown(&document);
    assert!(
        text.contains("| nothing | `alpha/m/default` | prompt tokens |"),
        "{text}"
    );
    assert!(text.contains("no proof either"), "{text}");
    document.signals[0].seen = Seen::Signal;
    let text = markdown(&document);
    assert!(text.contains("| ⚠️ signal | `alpha/m/default` |"), "{text}");
    assert!(text.contains("<br>besides deceit: "), "{text}");
    document.signals.clear();
    assert!(markdown(&document).contains(&format!("{heading}Not looked at.\n")));
}

#[test]
fn neither_the_order_of_files_and_samples_nor_copies_change_a_byte() {
    let forth = final_one();
    let mut other = files();
    other.push(other[1].clone());
    other.reverse();
    for one in &mut other {
        one.samples.reverse();
    }
    // Once all is over, a later look is no other one.
    let back = document(other, "2027-03-01T00:00:00Z");
    assert_eq!(forth.json().unwrap(), back.json().unwrap());
    assert_eq!(markdown(&forth), markdown(&back));
    let text = forth.json().unwrap();
    assert!(text.ends_with("}\n"));
    assert_eq!(serde_json::from_str::<SignOff>(&text).unwrap(), forth);
}

#[test]
fn no_text_of_a_relay_steers_a_terminal_or_leaves_its_cell() {
    let mut all = files();
    let hostile = "\u{1b}[2J\u{202e}a|b`c<script>";
    for one in &mut all {
        for sample in &mut one.samples {
            for (_, value) in &mut sample.attempts[0].observation.headers {
                hostile.clone_into(value);
            }
        }
    }
    let document = document(all, "2026-12-09T00:00:00Z");
    let json = document.json().unwrap();
    let text = markdown(&document);
    assert!(json.contains("\\u001b[2J\\u202ea|b`c<script>"), "{json}");
    for form in [&json, &text] {
        assert!(!form.contains('\u{1b}') && !form.contains('\u{202e}'));
    }
    assert!(text.contains("[2J\u{fffd}a\\|b c<script>`"), "{text}");
}
