//! A soak for a terminal, in eighty columns: what is provisional first, then gaps, every objective in
//! every window and region, and what the pairs say.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::compared::{COLUMNS, length, wrap};
use super::document::heading;
use super::said::said;
use super::signoff::paired;
use super::terminal::{FIRST, Paint, folded};
use crate::plan::window::shown;
use crate::verdict::campaign::{Campaign, Coverage, Gap, Pool, Role, Row};
use crate::verdict::{Decision, Overall};
use crate::words::counted;

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;

/// Gaps of a cell that are named.
const GAPS: usize = 3;

/// The whole soak.
pub fn text(campaign: &Campaign, colour: bool) -> String {
    let paint = Paint(colour);
    let mut out = format!("{}\n", paint.bold(&format!("{}, a soak", campaign.spec)));
    let length = length(std::time::Duration::from_nanos(
        campaign.end_unix_ns.saturating_sub(campaign.start_unix_ns),
    ));
    let words = format!(
        "{length} from {} to {}, one vote for {} s",
        shown(campaign.start_unix_ns),
        shown(campaign.end_unix_ns),
        campaign.bucket_s,
    );
    wrap(&mut out, "  ", "  ", &words);
    if !campaign.is_final {
        let words = format!(
            "PROVISIONAL, as of {}: nothing passes before the end",
            shown(campaign.as_of_unix_ns)
        );
        wrap(&mut out, "  ", "  ", &words);
    }
    for pool in &campaign.pools {
        out.push('\n');
        self::pool(&mut out, pool, paint);
    }
    out.push('\n');
    for (relay, overall) in campaign.relays() {
        let word = heading(overall).to_uppercase();
        let _ = writeln!(out, "{} {relay}", paint.with(code(overall), &word));
    }
    out
}

/// The same for programs.
pub fn json(campaign: &Campaign) -> Value {
    let mut document = json!(campaign);
    document["schema"] = SCHEMA.into();
    document["kind"] = "campaign".into();
    document["overall"] = json!(campaign.overall());
    let relays = campaign.relays().into_iter();
    document["relays"] = relays
        .map(|(relay, overall)| json!({ "relay": relay, "overall": overall }))
        .collect();
    for (pool, one) in campaign.pools.iter().zip(0..) {
        document["pools"][one]["overall"] = json!(pool.overall());
    }
    document
}

const fn code(overall: Overall) -> &'static str {
    match overall {
        Overall::Pass => "32",
        Overall::Violated => "31",
        Overall::Inconclusive | Overall::Nothing => "33",
    }
}

fn pool(out: &mut String, pool: &Pool, paint: Paint) {
    let _ = writeln!(out, "{}", paint.bold(&pool.name));
    for coverage in &pool.coverage {
        covered(out, coverage);
    }
    for row in pool.rows.iter().filter(|row| is_told(row)) {
        self::row(out, pool, row, paint);
    }
    let untold = pool.rows.iter().filter(|row| !is_told(row)).count();
    if untold > 0 {
        let words = format!(
            "and {} of single regions that decide nothing: `relayproof report` of the same files",
            counted(untold as u64, "row")
        );
        wrap(out, "  ", "    ", &words);
    }
}

/// Whether a row is worth its lines: it decides, it is of all regions together, or it is broken.
fn is_told(row: &Row) -> bool {
    row.role != Role::Shown || row.region.is_none() || row.verdict.decision == Decision::Violated
}

fn covered(out: &mut String, coverage: &Coverage) {
    let lost = coverage.missing + coverage.absent;
    let gaps = if lost > 0 {
        format!(", {lost} missing in {}", counted(coverage.gap_count, "gap"))
    } else {
        String::new()
    };
    let words = format!(
        "{}: {} of {} slots sampled{gaps}",
        coverage.cell, coverage.taken, coverage.due
    );
    wrap(out, "  ", "    ", &words);
    let mut largest: Vec<&Gap> = coverage.gaps.iter().collect();
    largest.sort_by_key(|gap| std::cmp::Reverse(gap.slots));
    for gap in largest.into_iter().take(GAPS).filter(|gap| gap.slots > 1) {
        let words = format!(
            "{} from {} to {}",
            counted(gap.slots, "slot"),
            shown(gap.from_unix_ns),
            shown(gap.to_unix_ns)
        );
        wrap(out, "    ", "      ", &words);
    }
}

fn row(out: &mut String, pool: &Pool, row: &Row, paint: Paint) {
    let weighs = row.comes_to(&pool.judging) != Overall::Pass;
    let (word, code) = match row.verdict.decision {
        Decision::Pass => ("PASS", "32"),
        // What decides nothing is not shouted.
        Decision::Violated if weighs => ("VIOLATED", "31"),
        Decision::Inconclusive(_) if weighs => ("INCONCLUSIVE", "33"),
        Decision::Violated => ("violated", "2"),
        Decision::Inconclusive(_) => ("inconclusive", "2"),
    };
    // Padded before it is painted: the codes take no room on the screen.
    let word = paint.with(code, &format!("{word:<FIRST$}"));
    let mut text = format!(
        "{row}  {}",
        said(&pool.judging, &row.objective, &row.verdict)
    );
    let _ = write!(text, "; {} of {} votes", row.votes, row.planned_votes);
    match row.role {
        Role::Gate => {}
        Role::Guard => text.push_str("; a guard"),
        Role::Shown => text.push_str("; shown only"),
    }
    if let Some(day) = row.worst_day().filter(|day| day.failures > 0) {
        let _ = write!(
            text,
            "; worst day {}: {} of {} failed",
            day.day, day.failures, day.n
        );
    }
    if row.against_rest.is_some_and(|it| it.is_worse) {
        text.push_str("; worse than the other regions");
    }
    let hanging = format!("\n{}", " ".repeat(FIRST + 2));
    let lines = folded(&text, COLUMNS - FIRST - 2);
    let _ = writeln!(out, "  {word}{}", lines.join(&hanging));
    // Pairs of all regions, once for each promise.
    let is_whole = row.region.is_none() && row.window == row.objective.window;
    let beside = row.beside.as_ref().filter(|it| is_whole && it.pairs > 0);
    if let Some(beside) = beside {
        let indent = " ".repeat(FIRST + 2);
        let words = format!("beside the upstream: {}", paired(beside));
        wrap(out, &indent, &indent, &words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::signoff::fixtures;
    use crate::verdict::campaign::fixtures::at;
    use crate::verdict::campaign::judge_campaign;

    fn judged(as_of: &str) -> Campaign {
        judge_campaign(&fixtures::files(), at(as_of)).unwrap()
    }

    #[test]
    fn a_soak_fits_eighty_columns_and_says_gaps_pairs_and_worst_days() {
        let text = text(&judged("2026-12-09T00:00:00Z"), false);
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}\n{text}");
        }
        for wanted in [
            "  VIOLATED      ttft.p95 < 1.5s @peak",
            "worst day 2026-12-0",
            "slots from 2026-12-02T16:",
            "beside the upstream: the relay adds failures",
            "\nVIOLATED alpha\nVIOLATED beta\n",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
        assert!(!text.contains("PROVISIONAL"), "{text}");
    }

    #[test]
    fn what_is_provisional_is_said_first() {
        let text = text(&judged("2026-12-01T00:00:00Z"), false);
        let at = text
            .find("PROVISIONAL, as of 2026-12-01T00:00:00Z")
            .unwrap();
        assert!(at < text.find("alpha/").unwrap(), "{text}");
    }

    #[test]
    fn the_json_form_reads_back_as_the_campaign() {
        let campaign = judged("2026-12-09T00:00:00Z");
        let document = json(&campaign);
        assert_eq!(document["overall"], "violated");
        assert_eq!(document["relays"][1]["relay"], "beta");
        let back: Campaign = serde_json::from_value(document).unwrap();
        assert_eq!(back, campaign);
    }
}
