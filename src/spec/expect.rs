//! What an answer must be like, and where the detectors of odd streams draw their lines.

use super::duration;
use super::error::SpecError;
use super::reader::{Item, Reader};
use crate::expect::{Detect, Expect, Shape};
use crate::objective::quantity;

/// Reads the conditions of one workload.
pub(super) fn read(r: &Reader<'_>, item: &Item<'_>) -> Option<Expect> {
    let mut map = item.map(r)?;
    let mut texts = |key| {
        let read = map.get(r, key).and_then(|item| item.texts(r));
        read.unwrap_or_default()
    };
    let expect = Expect {
        finish_reason: texts("finish_reason"),
        contains: texts("contains"),
        not_contains: texts("not_contains"),
        min_chars: map
            .get(r, "min_chars")
            .and_then(|item| item.whole(r, 1, 1_000_000)),
        shape: map.get(r, "shape").and_then(|item| shape(r, &item)),
        detect: map
            .get(r, "detect")
            .and_then(|item| detect(r, &item))
            .unwrap_or_default(),
        seal_allowance_ppm: map
            .get(r, "seal_allowance")
            .and_then(|item| seal_allowance(r, &item))
            .unwrap_or_else(|| Expect::default().seal_allowance_ppm),
    };
    map.close(r, &["not_regex", "regex", "json_schema_file"]);
    Some(expect)
}

/// The shape of a whole answer: one of its kinds.
fn shape(r: &Reader<'_>, item: &Item<'_>) -> Option<Shape> {
    let mut map = item.map(r)?;
    let lines = map.get(r, "numbered_lines");
    let lines = lines.map(|item| item.small(r, 1, 10_000).map(Shape::NumberedLines));
    let json = map.get(r, "json");
    let json = json.map(|item| item.texts(r).map(Shape::Json));
    map.close(r, &["json_schema_file"]);
    match (lines, json) {
        (Some(shape), None) | (None, Some(shape)) => shape,
        (None, None) | (Some(_), Some(_)) => r.refuse(
            SpecError::new(item.span(), format!("`{}` is one shape", item.path))
                .label("expected one of its keys")
                .help("write `numbered_lines: 5`, or `json: [member]`"),
        ),
    }
}

fn detect(r: &Reader<'_>, item: &Item<'_>) -> Option<Detect> {
    let mut map = item.map(r)?;
    let mut detect = Detect::default();
    for (key, length) in [
        ("burst_gap", &mut detect.burst_gap),
        ("block_pause", &mut detect.block_pause),
    ] {
        if let Some(read) = map
            .get(r, key)
            .and_then(|item| item.quantity(r, duration::parse))
        {
            *length = read;
        }
    }
    for (key, count) in [
        ("least_tokens", &mut detect.least_tokens),
        ("least_chars", &mut detect.least_chars),
        ("heap_events", &mut detect.heap_events),
        ("heap_tokens", &mut detect.heap_tokens),
        ("block_events", &mut detect.block_events),
        ("blocks", &mut detect.blocks),
        ("put_bytes", &mut detect.put_bytes),
        ("id_changes", &mut detect.id_changes),
    ] {
        let read = map.get(r, key);
        if let Some(read) = read.and_then(|item| item.whole(r, 1, 1_000_000)) {
            *count = read;
        }
    }
    let growths = map.get(r, "growths");
    if let Some(read) = growths.and_then(|item| item.small(r, 1, 1_000_000)) {
        detect.growths = read;
    }
    let tolerance = map.get(r, "length_tolerance");
    if let Some(read) = tolerance.and_then(|item| item.quantity(r, quantity::share_ppm)) {
        detect.length_tolerance_ppm = read;
    }
    map.close(r, &[]);
    Some(detect)
}

/// A share of missing seals that still says something of the others.
fn seal_allowance(r: &Reader<'_>, item: &Item<'_>) -> Option<u32> {
    let ppm = item.quantity(r, quantity::share_ppm)?;
    if ppm <= 500_000 {
        return Some(ppm);
    }
    r.refuse(
        SpecError::new(item.span(), format!("`{}` is out of bounds", item.path))
            .label("expected 50% at most")
            .help("`2%` is usual, `0%` counts every missing seal against the relay"),
    )
}
