//! A small real file, damaged at every byte and every line; files that belong together.

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::evidence::fixtures::*;
use crate::evidence::{CloseReason, SEGMENT_BYTES, Segments, Writer, segment_files};

/// Evidence of three samples, closed.
fn small() -> (TempDir, PathBuf, Vec<u8>) {
    written(SEGMENT_BYTES, 3)
}

fn written(bound: u64, samples: u64) -> (TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cell.jsonl");
    let mut writer = Segments::create(&path, &header(vec![], 232), bound).unwrap();
    for index in 0..samples {
        let seen = if index == 1 { truncated() } else { good() };
        writer.sample(&sample(index, seen)).unwrap();
    }
    writer.close(&close(CloseReason::Budget)).unwrap();
    let bytes = fs::read(&path).unwrap();
    (folder, path, bytes)
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes
        .split_inclusive(|it| *it == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

fn of(path: &Path, bytes: &[u8]) -> Checked {
    fs::write(path, bytes).unwrap();
    check(path, 10).unwrap()
}

/// The lines at which something is wrong, with what.
fn wrong(checked: &Checked) -> Vec<(u64, String)> {
    let said = checked.alterations.iter();
    said.map(|it| (it.line, it.how.to_string())).collect()
}

#[test]
fn what_nobody_touched_is_whole() {
    let (_folder, path, bytes) = small();
    let checked = of(&path, &bytes);
    assert!(checked.is_whole() && checked.chained && checked.closed && !checked.torn);
    assert_eq!((checked.lines, checked.samples), (5, 3));
    assert_eq!(checked.stated, Some(checked.root));
    assert_eq!(checked.cell_id(), "cell");
}

#[test]
fn no_byte_can_be_another_one_unseen() {
    let (_folder, path, bytes) = small();
    let whole = of(&path, &bytes);
    let mut end = 0;
    let values: Vec<_> = lines(&bytes)
        .iter()
        .map(|line| {
            end += line.len();
            end - 3 - 64..end - 3
        })
        .collect();
    let mut line = 1;
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let checked = of(&path, &changed);
        let what = format!("byte {at} of line {line}: {}", changed[at].escape_ascii());
        assert!(!checked.is_whole(), "{what}");
        // A line that lost its end is one with the next, and the last one is then a tail.
        let first = checked.alterations[0].line;
        let is_last = at + 1 == bytes.len();
        assert_eq!(first, line, "{what}");
        assert_eq!(checked.torn, is_last, "{what}");
        // The root is made from what a line says, and not from what it states as its value.
        let value = values.iter().any(|range| range.contains(&at));
        let digit = matches!(changed[at], b'0'..=b'9' | b'a'..=b'f');
        assert_eq!(checked.root == whole.root, value && digit, "{what}");
        line += u64::from(bytes[at] == b'\n');
    }
}

#[test]
fn a_removed_line_is_found_unless_it_is_the_last() {
    let (_folder, path, bytes) = small();
    let whole = lines(&bytes);
    for at in 0..whole.len() {
        let mut fewer = whole.clone();
        fewer.remove(at);
        let checked = of(&path, &fewer.concat());
        let is_last = at + 1 == whole.len();
        assert_eq!(checked.is_whole(), is_last, "line {}", at + 1);
        if is_last {
            // Nothing in the file tells; the closing line and the root do.
            assert!(!checked.closed);
            assert_ne!(checked.root, of(&path, &bytes).root);
        } else {
            assert_eq!(checked.alterations[0].line, at as u64 + 1);
        }
    }
}

#[test]
fn lines_that_changed_places_and_copies_of_lines_are_found() {
    let (_folder, path, bytes) = small();
    let whole = lines(&bytes);
    for at in 0..whole.len() - 1 {
        let mut swapped = whole.clone();
        swapped.swap(at, at + 1);
        let checked = of(&path, &swapped.concat());
        assert_eq!(checked.alterations[0].line, at as u64 + 1);
    }
    for at in 0..whole.len() {
        let mut doubled = whole.clone();
        doubled.insert(at, whole[at].clone());
        let checked = of(&path, &doubled.concat());
        assert_eq!(checked.alterations[0].line, at as u64 + 2);
        if (1..4).contains(&at) {
            let repeated = format!("the sample of line {} once more", at + 1);
            assert!(wrong(&checked).contains(&(at as u64 + 2, repeated)));
        }
    }
    let swapped = [&whole[0], &whole[2], &whole[1], &whole[3], &whole[4]];
    let checked = of(&path, &swapped.map(Vec::as_slice).concat());
    let (line, what) = wrong(&checked).swap_remove(1);
    assert_eq!(line, 3);
    assert!(
        what.contains("it was written behind what is line 1 now"),
        "{what}"
    );
}

#[test]
fn a_line_that_was_put_in_by_hand_is_found() {
    let (_folder, path, bytes) = small();
    let whole = lines(&bytes);
    let made: &[u8] = b"{\"sample\":{\"id\":\"x\"}}\n";
    for at in 1..=whole.len() {
        let text = [whole[..at].concat(), made.to_vec(), whole[at..].concat()].concat();
        let checked = of(&path, &text);
        assert_eq!(checked.alterations[0].line, at as u64 + 1);
        let (_, what) = wrong(&checked).swap_remove(0);
        assert!(what.contains("has no chain value"), "{what}");
    }
    // One with a chain value of its own making follows nothing.
    let (_other, elsewhere, _) = written(SEGMENT_BYTES, 9);
    let foreign = lines(&fs::read(elsewhere).unwrap()).swap_remove(8);
    let checked = of(&path, &[bytes, foreign].concat());
    assert_eq!(wrong(&checked)[0].0, 6);
}

#[test]
fn a_torn_end_is_told_and_is_no_alteration_wherever_it_is_cut() {
    let (_folder, path, bytes) = small();
    let end = bytes.len() - lines(&bytes).last().unwrap().len();
    for cut in end + 1..bytes.len() {
        let checked = of(&path, &bytes[..cut]);
        assert!(
            checked.is_whole() && checked.torn && !checked.closed,
            "{cut}"
        );
        assert_eq!(checked.lines, 4);
    }
    let checked = of(&path, &[&bytes, b"hello".as_slice()].concat());
    assert!(checked.torn && !checked.is_whole());
    assert_eq!(checked.alterations[0].line, 6);
}

#[test]
fn going_on_behind_a_torn_end_leaves_the_chain_whole() {
    let (_folder, path, bytes) = small();
    for cut in (bytes.len() / 2..bytes.len()).step_by(31) {
        fs::write(&path, &bytes[..cut]).unwrap();
        let (mut writer, _) = Writer::reopen(&path).unwrap();
        writer.sample(&sample(9, good())).unwrap();
        let checked = check(&path, 10).unwrap();
        assert!(checked.is_whole() && !checked.torn, "cut at {cut}");
    }
}

#[test]
fn a_file_of_a_version_without_the_chain_is_told_as_such() {
    let (_folder, path, _) = small();
    let old = include_bytes!("../../../tests/data/evidence/unchained.jsonl");
    let checked = of(&path, old);
    assert!(checked.is_whole() && !checked.chained && checked.closed);
    assert_eq!((checked.lines, checked.samples), (14, 12));
    // Its root tells what it cannot tell itself.
    let mut changed = old.to_vec();
    let digit = changed.windows(3).position(|it| it == b"12,").unwrap();
    changed[digit] = b'9';
    let altered = of(&path, &changed);
    assert!(altered.is_whole());
    assert_ne!(altered.root, checked.root);
    let mut doubled = lines(old);
    doubled.insert(4, doubled[3].clone());
    let twice = of(&path, &doubled.concat());
    assert_eq!(
        wrong(&twice),
        [(5, "the sample of line 4 once more".to_owned())]
    );
    let broken = [old.as_slice(), b"{\"sample\":{}}\n"].concat();
    assert!(
        wrong(&of(&path, &broken))[0]
            .1
            .starts_with("no line of evidence")
    );
}

#[test]
fn what_is_no_evidence_cannot_be_read() {
    let (_folder, path, bytes) = small();
    for text in [
        b"".as_slice(),
        b"hello\n",
        b"{\"schema\":2}\n",
        &bytes[..40],
    ] {
        fs::write(&path, text).unwrap();
        assert!(check(&path, 10).is_err());
    }
    assert!(check(&path.with_extension("gone"), 10).is_err());
}

#[test]
fn segments_in_a_row_are_whole_and_a_change_at_the_end_of_one_is_found() {
    let (_folder, path, _) = written(3_000, 20);
    let files = segment_files(&path).unwrap();
    assert!(files.len() > 4);
    let set = check_all(&files, 10);
    assert!(set.is_whole());
    let last = set.files.last().unwrap();
    assert!(last.closed && set.comes_to(last.root) && set.comes_to(set.root()));
    assert!(!set.comes_to(set.files[0].root));

    // Another order, or other names, change nothing.
    let mut reversed = files.clone();
    reversed.reverse();
    let renamed = path.with_file_name("renamed.jsonl");
    fs::rename(&files[1], &renamed).unwrap();
    reversed[files.len() - 2] = renamed.clone();
    let again = check_all(&reversed, 10);
    assert!(again.is_whole());
    assert_eq!(again.root(), set.root());
    fs::rename(&renamed, &files[1]).unwrap();

    // The last line of a segment, which the segment alone cannot miss.
    let whole = fs::read(&files[2]).unwrap();
    let mut fewer = lines(&whole);
    fewer.pop();
    fs::write(&files[2], fewer.concat()).unwrap();
    let cut = check_all(&files, 10);
    assert!(cut.files[2].is_whole());
    let (line, what) = wrong(&cut.files[3]).swap_remove(0);
    assert_eq!(line, 1);
    assert!(what.contains("segment 3 does not end with"), "{what}");

    // Bytes behind the end of a segment that others follow are from another hand.
    fs::write(&files[2], [&whole, b"{\"sample\":".as_slice()].concat()).unwrap();
    assert!(!check_all(&files, 10).files[2].is_whole());
    fs::write(&files[2], &whole).unwrap();

    // A whole segment.
    let without: Vec<PathBuf> = [&files[..2], &files[3..]].concat();
    let gap = check_all(&without, 10);
    let (_, what) = wrong(&gap.files[2]).swap_remove(0);
    assert!(
        what.contains("segment 3, which this one follows, is not among"),
        "{what}"
    );
    assert_ne!(gap.root(), set.root());
}

#[test]
fn no_byte_of_a_further_segment_can_be_another_one_unseen() {
    let (_folder, path, _) = written(3_000, 5);
    let files = segment_files(&path).unwrap();
    let bytes = fs::read(&files[1]).unwrap();
    let header = lines(&bytes).swap_remove(0).len();
    for at in 0..header {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&files[1], &changed).unwrap();
        assert!(!check_all(&files, 10).is_whole(), "byte {at}");
    }
}
