//! Planned slots against taken samples.

use super::{Block, Inline, cell, code, number, plain, say, text, words_of};
use crate::report::signoff::SignOff;
use crate::report::signoff::rows::Covered;
use crate::words::counted;

/// Most gaps that a cell shows; JSON has more.
const GAPS: usize = 20;

pub(super) fn coverage(document: &SignOff) -> Vec<Block<'_>> {
    let rows = document.coverage.iter().map(|it| {
        vec![
            vec![code(&it.cell)],
            cell(it.planned.to_string()),
            cell(it.due.to_string()),
            cell(it.taken.to_string()),
            cell(it.missing.to_string()),
            cell(it.absent.to_string()),
            cell(it.gap_count.to_string()),
        ]
    });
    let columns = vec![
        words_of("cell"),
        number("planned"),
        number("due"),
        number("taken"),
        number("missing amid others"),
        number("nobody sampled"),
        number("gaps"),
    ];
    let mut blocks = vec![plain(columns, rows.collect())];
    let noted = document.coverage.iter().filter(|it| !it.noted.is_empty());
    let noted: Vec<Vec<Inline>> = noted
        .map(|it| {
            let reasons = it.noted.iter();
            let reasons: Vec<String> = reasons.map(|(why, n)| format!("{why} {n}")).collect();
            vec![code(&it.cell), text(format!(": {}", reasons.join(", ")))]
        })
        .collect();
    if !noted.is_empty() {
        blocks.push(say(
            "Why slots have no sample, where the collector noted it:",
        ));
        blocks.push(Block::List(noted));
    }
    let gaps: Vec<Vec<Inline>> = document.coverage.iter().flat_map(gaps).collect();
    if gaps.is_empty() {
        blocks.push(say("No gap: every slot that is due has a sample."));
    } else {
        blocks.push(say(
            "Gaps, each from the planned start of its first slot to that of its last:",
        ));
        blocks.push(Block::List(gaps));
    }
    blocks
}

fn gaps(of: &Covered) -> impl Iterator<Item = Vec<Inline>> {
    let mut gaps: Vec<_> = of.gaps.iter().collect();
    // The largest of them, in their order.
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.slots));
    gaps.truncate(GAPS);
    gaps.sort_by(|a, b| a.from.cmp(&b.from));
    let more = of.gap_count.saturating_sub(gaps.len() as u64);
    let told = gaps.into_iter().map(|gap| {
        let local = gap
            .local
            .as_ref()
            .map_or_else(String::new, |(from, to)| format!(" ({from} to {to})"));
        vec![
            code(&of.cell),
            text(format!(
                ": {} from {} to {}{local}",
                counted(gap.slots, "slot"),
                gap.from,
                gap.to
            )),
        ]
    });
    let more = (more > 0).then(|| {
        let gaps = counted(more, "smaller gap");
        vec![code(&of.cell), text(format!(": {gaps} more"))]
    });
    told.chain(more).collect::<Vec<_>>().into_iter()
}
