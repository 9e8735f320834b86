//! Copies, duplicate runs, contradictions, other plans, and files in any order.

use proptest::prelude::*;
use proptest::sample::SizeRange;

use super::*;
use crate::evidence::fixtures::*;
use crate::evidence::{ChainValue, CloseReason, Line, Segment};

/// A probe's file: its header says who and when.
fn part(host: &str, started: u64, samples: impl IntoIterator<Item = Sample>) -> Part {
    let mut evidence = evidence(vec![ttft_p95()], 232, samples);
    evidence.header.host = host.to_owned();
    evidence.header.started_unix_ns = started;
    evidence.header.core_digest = "core".to_owned();
    Part {
        file: format!("{host}/cell.jsonl"),
        evidence,
    }
}

fn ended(mut part: Part, at_unix_ns: u64) -> Part {
    let close = Close {
        at_unix_ns,
        ..close(CloseReason::Budget)
    };
    part.evidence.push(Line::Close(close));
    part
}

fn named(mut part: Part, file: &str) -> Part {
    part.file = file.to_owned();
    part
}

fn indices(merged: &Merged) -> Vec<u64> {
    merged.evidence.samples.iter().map(|it| it.index).collect()
}

#[test]
fn what_several_probes_saw_is_one_record_by_slot() {
    let a = ended(part("a", 20, [3, 1].map(|it| sample(it, good()))), 90);
    let b = ended(part("b", 10, [2, 0].map(|it| sample(it, slow(1800)))), 80);
    let merged = merge_cell(vec![a.clone(), b]).unwrap();
    assert_eq!(indices(&merged), [0, 1, 2, 3]);
    assert_eq!(merged.evidence.samples[3], a.evidence.samples[0]);
    assert_eq!(merged.evidence.header.host, "b", "the first to begin");
    assert_eq!(merged.evidence.close.map(|it| it.at_unix_ns), Some(90));
    assert_eq!(merged.evidence.earlier.len(), 1);
    let hosts: Vec<&str> = merged.sources.iter().map(|it| &*it.header.host).collect();
    assert_eq!(hosts, ["b", "a"]);
    assert_eq!((merged.duplicates, merged.contradictions), (0, vec![]));
}

#[test]
fn a_file_that_was_copied_counts_once_also_where_the_copy_came_too_early() {
    let samples = || (0..4).map(|it| sample(it, good()));
    let whole = ended(part("a", 10, samples()), 90);
    let copy = named(whole.clone(), "backup/cell.jsonl");
    let early = named(part("a", 10, samples().take(2)), "early/cell.jsonl");
    let merged = merge_cell(vec![early, copy, whole.clone()]).unwrap();
    assert_eq!(merged.evidence, whole.evidence);
    assert_eq!(merged.duplicates, 6);
    assert_eq!(merged.contradictions, []);
    let source = &merged.sources[..];
    assert_eq!(source.len(), 1);
    assert_eq!(source[0].file, "a/cell.jsonl");
    assert_eq!(source[0].copies, ["backup/cell.jsonl", "early/cell.jsonl"]);
}

#[test]
fn of_two_versions_of_a_sample_the_earlier_counts_and_both_are_named() {
    let first = sample(1, truncated());
    let mut again = sample(1, good());
    again.t0_unix_ns += 5;
    let a = part("a", 10, [sample(0, good()), again.clone()]);
    let b = part("b", 20, [first.clone()]);
    let merged = merge_cell(vec![a, b]).unwrap();
    assert_eq!(merged.evidence.samples, [sample(0, good()), first.clone()]);
    let place = |file: &str, sample, of: &Sample| Place {
        file: file.to_owned(),
        sample,
        index: 1,
        t0_unix_ns: of.t0_unix_ns,
    };
    assert_eq!(
        merged.contradictions,
        [Contradiction {
            id: first.id.clone(),
            counted: place("b/cell.jsonl", 1, &first),
            dropped: place("a/cell.jsonl", 2, &again),
        }]
    );
}

#[test]
fn a_source_that_was_cut_off_leaves_the_whole_without_a_close() {
    let a = ended(part("a", 10, [sample(0, good())]), 90);
    let b = part("b", 20, [sample(1, good())]);
    let merged = merge_cell(vec![a, b]).unwrap();
    assert_eq!(merged.evidence.close, None);
    assert_eq!(merged.evidence.earlier.len(), 1);
    assert_eq!(merged.sources[1].close, None);
}

#[test]
fn what_an_earlier_session_says_against_itself_is_kept() {
    let mut a = ended(part("a", 10, [sample(0, good())]), 50);
    a.evidence.close.as_mut().unwrap().self_check.invalid = Some("too late".to_owned());
    let b = ended(part("b", 20, [sample(1, good())]), 90);
    let merged = merge_cell(vec![b, a]).unwrap();
    let invalid = merged.evidence.earlier[0].self_check.invalid.as_deref();
    assert_eq!(invalid, Some("too late"));
}

#[test]
fn the_largest_budget_holds() {
    let a = part("a", 10, [sample(0, good())]);
    let mut b = part("b", 20, [sample(1, good())]);
    b.evidence.header.sampling.max_samples = 500;
    b.evidence.header.plan_digest = "wider".to_owned();
    let header = merge_cell(vec![a, b]).unwrap().evidence.header;
    assert_eq!(header.sampling.max_samples, 500);
    assert_eq!((&*header.plan_digest, &*header.host), ("wider", "a"));
}

#[test]
fn files_of_other_plans_are_refused_by_name() {
    let a = part("a", 10, [sample(0, good())]);
    let mut b = part("b", 20, [sample(1, good())]);
    b.evidence.header.core_digest = "other".to_owned();
    for merged in [
        merge_cell(vec![b.clone(), a.clone()]).map(|_| ()),
        merge(vec![b, a.clone()]).map(|_| ()),
    ] {
        let text = merged.unwrap_err().to_string();
        assert_eq!(
            text,
            "a/cell.jsonl and b/cell.jsonl are not of one campaign: their core_digest differs \
             (`core`, `other`); judge them apart, or leave one out"
        );
    }
    let mut b = part("b", 20, [sample(1, good())]);
    b.evidence.header.cell_id = "another".to_owned();
    let text = merge_cell(vec![a.clone(), b.clone()])
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("their cell_id differs (`cell`, `another`)"),
        "{text}"
    );
    // Each cell has a record of its own.
    let ids: Vec<String> = merge(vec![a, b])
        .unwrap()
        .into_iter()
        .map(|it| it.evidence.header.cell_id)
        .collect();
    assert_eq!(ids, ["another", "cell"]);
}

#[test]
fn files_of_versions_without_a_core_digest_must_be_of_one_plan() {
    let old = |host: &str, plan: &str| {
        let mut part = part(host, 10, [sample(0, good())]);
        part.evidence.header.core_digest.clear();
        part.evidence.header.plan_digest = plan.to_owned();
        part
    };
    assert!(merge_cell(vec![old("a", "p"), old("b", "p")]).is_ok());
    let text = merge_cell(vec![old("a", "p"), old("b", "q")])
        .unwrap_err()
        .to_string();
    assert!(text.contains("plan_digest"), "{text}");
}

#[test]
fn a_later_segment_alone_and_nothing_at_all_are_refused() {
    let mut a = part("a", 10, [sample(0, good())]);
    a.evidence.header.segment = Some(Segment {
        number: 2,
        previous: ChainValue::START,
    });
    let text = merge_cell(vec![a]).unwrap_err().to_string();
    assert!(text.contains("a/cell.jsonl is segment 2"), "{text}");
    assert_eq!(merge_cell(vec![]), Err(MergeError::Nothing));
    assert_eq!(merge(vec![]), Ok(vec![]));
}

/// Files of three probes whose samples overlap, agree and contradict each other.
fn parts() -> impl Strategy<Value = Vec<Part>> {
    let one = (
        0..3_u64,
        0..3_u64,
        prop::collection::vec((0..6_u64, 0..3_u64, any::<bool>()), SizeRange::from(0..6)),
        prop::option::of(0..3_u64),
        any::<bool>(),
        0..3_u64,
    );
    let part = one.prop_map(|(host, started, samples, end, torn, budget)| {
        let samples = samples.into_iter().map(|(index, shift, fine)| {
            let mut one = sample(index, if fine { good() } else { truncated() });
            one.t0_unix_ns += shift;
            one
        });
        // A reader gives each id of a file once.
        let mut once: Vec<Sample> = Vec::new();
        for sample in samples {
            if once.iter().all(|it| it.id != sample.id) {
                once.push(sample);
            }
        }
        let mut part = part(&format!("h{host}"), started, once);
        part.evidence.torn = torn;
        part.evidence.header.sampling.max_samples += budget;
        match end {
            Some(at) => ended(part, at),
            None => part,
        }
    });
    let numbered = |parts: Vec<Part>| {
        let named = parts.into_iter().enumerate();
        named.map(|(at, part)| named_by(part, at)).collect()
    };
    prop::collection::vec(part, 1..6).prop_map(numbered)
}

fn named_by(part: Part, at: usize) -> Part {
    let file = format!("{at}.jsonl");
    named(part, &file)
}

proptest! {
    #[test]
    fn the_order_of_the_files_changes_nothing(
        (parts, shuffled) in parts().prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle()))
    ) {
        prop_assert_eq!(merge_cell(parts), merge_cell(shuffled));
    }

    #[test]
    fn each_id_is_there_once_and_as_some_file_has_it(parts in parts()) {
        let merged = merge_cell(parts.clone()).unwrap();
        let mut given: Vec<&Sample> = parts.iter().flat_map(|it| &it.evidence.samples).collect();
        let all = given.len();
        for sample in &merged.evidence.samples {
            prop_assert!(given.contains(&sample));
            let earlier = |it: &&Sample| it.id == sample.id && it.t0_unix_ns < sample.t0_unix_ns;
            prop_assert!(!given.iter().any(earlier));
        }
        given.sort_by(|a, b| a.id.cmp(&b.id));
        given.dedup_by(|a, b| a.id == b.id);
        prop_assert_eq!(merged.evidence.samples.len(), given.len());
        let dropped = merged.duplicates + merged.contradictions.len() as u64;
        prop_assert_eq!(given.len() as u64 + dropped, all as u64);
    }

    #[test]
    fn merging_what_was_merged_with_a_copy_of_a_part_changes_no_sample(parts in parts()) {
        let once = merge_cell(parts.clone()).unwrap();
        let copy = named(parts[0].clone(), "copy.jsonl");
        let twice = merge_cell([parts, vec![copy]].concat()).unwrap();
        prop_assert_eq!(once.evidence.samples, twice.evidence.samples);
        prop_assert_eq!(once.evidence.close, twice.evidence.close);
        prop_assert_eq!(once.sources.len(), twice.sources.len());
    }
}
