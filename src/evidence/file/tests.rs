//! Files that are whole, torn, foreign, too new, too long, and full disks.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::evidence::CloseReason;
use crate::evidence::fixtures::*;

/// What the last version before the chain wrote.
const UNCHAINED: &str = include_str!("../../../tests/data/evidence/unchained.jsonl");

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cell.jsonl");
    (folder, path)
}

fn written(samples: u64) -> (TempDir, PathBuf) {
    let (folder, path) = place();
    let mut writer = Writer::create(&path, &header(vec![ttft_p95()], 232)).unwrap();
    for index in 0..samples {
        writer.sample(&sample(index, good())).unwrap();
    }
    (folder, path)
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

fn indices(evidence: &Evidence) -> Vec<u64> {
    evidence.samples.iter().map(|sample| sample.index).collect()
}

fn message(error: &EvidenceError) -> String {
    error.to_string()
}

#[test]
fn what_is_written_is_read_back_the_same() {
    let (_folder, path) = place();
    let head = header(vec![ttft_p95(), parse_success()], 232);
    let samples = [
        sample(0, good()),
        sample(1, truncated()),
        retried(2, vec![refused(503), slow(1800)]),
    ];
    let mut writer = Writer::create(&path, &head).unwrap();
    samples.iter().for_each(|one| writer.sample(one).unwrap());
    let end = close(CloseReason::Decided);
    writer.close(&end).unwrap();
    let evidence = read(&path).unwrap();
    assert_eq!(evidence.header, head);
    assert_eq!(evidence.samples, samples);
    assert_eq!(evidence.close, Some(end));
    assert!(!evidence.torn);
}

#[test]
fn numbers_come_back_to_the_last_bit() {
    let (_folder, path) = place();
    let mut writer = Writer::create(&path, &header(vec![], 1)).unwrap();
    let mut seed = 1_u64;
    let mut written = Vec::new();
    for index in 0..2000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut seen = good();
        let value = (seed >> 11) as f64 / 9_007_199_254_740_992.0 / 7.0;
        seen.packets.gap_m2_s2 = Some(value);
        written.push(value);
        writer.sample(&sample(index, seen)).unwrap();
    }
    let changed = read(&path)
        .unwrap()
        .samples
        .iter()
        .zip(written)
        .filter(|(back, value)| back.attempts[0].observation.packets.gap_m2_s2 != Some(*value))
        .count();
    assert_eq!(changed, 0);
}

#[test]
fn each_sample_is_in_the_file_before_the_next() {
    let (_folder, path) = place();
    let mut writer = Writer::create(&path, &header(vec![], 10)).unwrap();
    for index in 0..3 {
        writer.sample(&sample(index, good())).unwrap();
        // Nobody closed or synced: this is what a killed process leaves.
        assert_eq!(read(&path).unwrap().samples.len() as u64, index + 1);
    }
}

#[test]
fn a_torn_last_line_is_left_out_wherever_it_is_cut() {
    let (_folder, path) = written(2);
    let whole = fs::read(&path).unwrap();
    let second = whole.iter().rposition(|byte| *byte == b'{').unwrap();
    let start = whole[..second]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    for end in (start + 1..whole.len()).step_by(7).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..end]).unwrap();
        let evidence = read(&path).unwrap();
        assert!(evidence.torn, "cut at {end}");
        assert_eq!(indices(&evidence), [0], "cut at {end}");
    }
    fs::write(&path, &whole[..start]).unwrap();
    assert!(!read(&path).unwrap().torn);
}

#[test]
fn a_line_torn_inside_a_character_is_left_out() {
    let (_folder, path) = written(1);
    append(
        &path,
        "{\"sample\":{\"id\":\"é".as_bytes().split_last().unwrap().1,
    );
    let evidence = read(&path).unwrap();
    assert!(evidence.torn);
    assert_eq!(indices(&evidence), [0]);
}

#[test]
fn writing_on_cuts_the_torn_end_off() {
    let (_folder, path) = written(2);
    append(&path, b"{\"sample\":{\"id\":");
    let (mut writer, before) = Writer::reopen(&path).unwrap();
    assert!(before.torn);
    writer.sample(&sample(2, good())).unwrap();
    writer.close(&close(CloseReason::Budget)).unwrap();
    let evidence = read(&path).unwrap();
    assert_eq!(indices(&evidence), [0, 1, 2]);
    assert!(!evidence.torn && evidence.close.is_some());
}

#[test]
fn a_file_without_a_whole_first_line_is_no_evidence() {
    let (_folder, path) = written(0);
    let whole = fs::read(&path).unwrap();
    for torn in [&whole[..0], &whole[..40], &whole[..whole.len() - 1]] {
        fs::write(&path, torn).unwrap();
        for error in [read(&path).unwrap_err(), Writer::reopen(&path).unwrap_err()] {
            assert!(
                message(&error).contains("ends before its first line does"),
                "{error}"
            );
        }
    }
}

#[test]
fn another_format_is_refused_by_name() {
    let (_folder, path) = place();
    fs::write(&path, "{\"schema\":2,\"whatever\":1}\n").unwrap();
    let error = message(&read(&path).unwrap_err());
    assert!(
        error.contains("cell.jsonl:1: evidence of format 2"),
        "{error}"
    );
    assert!(error.contains("reads format 1"), "{error}");
    fs::write(&path, "hello\n").unwrap();
    let error = message(&read(&path).unwrap_err());
    assert!(
        error.contains("cell.jsonl:1: not a line of evidence"),
        "{error}"
    );
}

#[test]
fn a_broken_line_is_named_by_its_number() {
    let (_folder, path) = written(1);
    append(&path, b"{\"sample\":{}}\n");
    let error = message(&read(&path).unwrap_err());
    assert!(
        error.contains("cell.jsonl:3: not a line of evidence"),
        "{error}"
    );
}

#[test]
fn a_sample_without_an_attempt_is_refused() {
    let (_folder, path) = place();
    let mut writer = Writer::create(&path, &header(vec![], 1)).unwrap();
    writer.sample(&retried(0, vec![])).unwrap();
    let error = message(&read(&path).unwrap_err());
    assert!(
        error.contains("cell.jsonl:2: a sample without an attempt"),
        "{error}"
    );
}

#[test]
fn what_a_later_minor_version_adds_is_read_over() {
    let (_folder, path) = written(1);
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace(
        "{\"schema\":1,",
        "{\"schema\":1,\"new_in_header\":{\"a\":[1]},",
    );
    let text = text.replace("{\"sample\":{", "{\"sample\":{\"new_in_sample\":null,");
    fs::write(&path, text + "{\"remark\":\"a new kind of line\"}\n").unwrap();
    let evidence = read(&path).unwrap();
    assert_eq!(indices(&evidence), [0]);
    assert!(!evidence.torn);
}

#[test]
fn a_sample_that_was_written_twice_counts_once() {
    let (_folder, path) = written(2);
    let (mut writer, _) = Writer::reopen(&path).unwrap();
    writer.sample(&sample(1, slow(3000))).unwrap();
    let evidence = read(&path).unwrap();
    assert_eq!(indices(&evidence), [0, 1]);
    assert_eq!(
        evidence.samples[1],
        sample(1, good()),
        "the first one stands"
    );
}

#[test]
fn samples_after_a_closing_line_open_the_file_again() {
    let (_folder, path) = written(1);
    let (mut writer, _) = Writer::reopen(&path).unwrap();
    writer.close(&close(CloseReason::Interrupted)).unwrap();
    writer.sample(&sample(1, good())).unwrap();
    let evidence = read(&path).unwrap();
    assert_eq!(evidence.close, None);
    assert_eq!(evidence.earlier, [close(CloseReason::Interrupted)]);
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let (_folder, path) = written(1);
    append(&path, &vec![b'x'; usize::try_from(MAX_LINE).unwrap() + 10]);
    let error = message(&read(&path).unwrap_err());
    assert!(
        error.contains("cell.jsonl:3: a line of more than 4194304 bytes"),
        "{error}"
    );
}

#[test]
fn a_record_that_could_not_be_read_back_is_not_written() {
    let (_folder, path) = written(1);
    let length = fs::metadata(&path).unwrap().len();
    let (mut writer, _) = Writer::reopen(&path).unwrap();
    let mut huge = good();
    huge.fingerprint = Some("x".repeat(usize::try_from(MAX_LINE).unwrap()));
    assert!(matches!(
        writer.sample(&sample(1, huge)),
        Err(EvidenceError::RecordTooLong { .. })
    ));
    assert_eq!(fs::metadata(&path).unwrap().len(), length);
}

#[test]
fn evidence_is_never_written_over() {
    let (_folder, path) = written(3);
    let error = Writer::create(&path, &header(vec![], 1)).unwrap_err();
    assert!(
        message(&error).contains("cannot create the evidence file"),
        "{error}"
    );
    assert_eq!(read(&path).unwrap().samples.len(), 3);
}

#[test]
fn a_missing_file_is_named() {
    let (_folder, path) = place();
    let error = message(&read(&path).unwrap_err());
    assert!(error.contains("cannot open the evidence file"), "{error}");
    assert!(error.contains("cell.jsonl"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_that_says_so() {
    let full = Path::new("/dev/full");
    let mut writer = Writer {
        path: full.to_owned(),
        file: OpenOptions::new().append(true).open(full).unwrap(),
        length: 0,
        dirty: false,
        spoilt: false,
        chain: Some(ChainValue::START),
        buffer: Vec::new(),
    };
    let error = writer.sample(&sample(0, good())).unwrap_err();
    assert_eq!(message(&error), "cannot write the evidence file /dev/full");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("No space left"), "{cause}");
}

/// The lines of a file and the value at the end of each.
fn chain_of(path: &Path) -> Vec<Option<ChainValue>> {
    let text = fs::read(path).unwrap();
    let lines = text.split(|byte| *byte == b'\n');
    let mut values: Vec<_> = lines.map(value_of).collect();
    assert_eq!(values.pop(), Some(None), "the last line has its line feed");
    values
}

/// Holds a file to a chain from its first line to its last.
fn assert_chained(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let mut before = ChainValue::START;
    for line in text.lines() {
        let (record, rest) = line.rsplit_once(",\"chain\":\"").unwrap();
        before = before.then(record.as_bytes());
        assert_eq!(rest, format!("{before}\"}}"));
    }
}

#[test]
fn each_line_follows_the_one_before_also_where_a_torn_end_was_cut_off() {
    let (_folder, path) = written(2);
    append(&path, b"{\"sample\":{\"id\":");
    let (mut writer, _) = Writer::reopen(&path).unwrap();
    writer.sample(&sample(2, good())).unwrap();
    writer.close(&close(CloseReason::Budget)).unwrap();
    assert_chained(&path);
    assert_eq!(writer.chain(), *chain_of(&path).last().unwrap());
    assert_eq!(writer.length(), fs::metadata(&path).unwrap().len());
}

#[test]
fn a_file_of_a_version_without_the_chain_stays_without() {
    let (_folder, path) = place();
    fs::write(&path, UNCHAINED).unwrap();
    let (mut writer, before) = Writer::reopen(&path).unwrap();
    assert_eq!(before.samples.len(), 12);
    writer.sample(&sample(12, good())).unwrap();
    assert_eq!(writer.chain(), None);
    assert_eq!(chain_of(&path), [None; 15]);
    assert_eq!(read(&path).unwrap().samples.len(), 13);
}

#[test]
fn nothing_is_written_behind_a_line_that_lost_its_value() {
    let (_folder, path) = written(2);
    append(&path, b"{\"remark\":\"of another hand\"}\n");
    let length = fs::metadata(&path).unwrap().len();
    let error = message(&Writer::reopen(&path).unwrap_err());
    assert!(
        error.contains("cell.jsonl:4: the line has no chain value"),
        "{error}"
    );
    assert_eq!(fs::metadata(&path).unwrap().len(), length);
}

#[test]
#[cfg(target_os = "linux")]
fn what_a_failed_write_left_is_cut_off_before_the_next_line() {
    let (_folder, path) = written(1);
    let (mut writer, _) = Writer::reopen(&path).unwrap();
    append(&path, b"{\"sample\":{\"id\":");
    writer.spoilt = true;
    writer.sample(&sample(1, good())).unwrap();
    assert_chained(&path);
    assert_eq!(indices(&read(&path).unwrap()), [0, 1]);
}
