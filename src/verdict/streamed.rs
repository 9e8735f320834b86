//! A file of evidence judged line by line, in memory that its samples do not fill.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Judge, Summary};
use crate::evidence::{Evidence, EvidenceError, Line, Reader, last_header};

/// Judges a file as [`super::judge()`] judges what was read of it, and keeps of its samples only those
/// that the verdicts name.
///
/// The file is read up to three times: for the budget that the run had at its end, for the verdicts,
/// and as far as the last sample that they name.
///
/// # Errors
/// When the file cannot be read, is of another format, or holds a line that is no record.
pub fn judge_file(path: &Path) -> Result<(Evidence, Summary), EvidenceError> {
    let mut evidence = Evidence::new(last_header(path)?);
    let mut judge = Judge::for_header(&evidence.header);
    let mut counts = Summary::uncounted(&evidence, Vec::new());
    let mut reader = Reader::open(path)?;
    while let Some(line) = reader.next_record()? {
        match line {
            Line::Sample(sample) => {
                judge.take(&sample);
                counts.count(&sample);
                evidence.pass_over();
            }
            Line::Close(_) | Line::Continued(_) | Line::Session(_) | Line::Skipped(_) => {
                evidence.push(line);
            }
        }
    }
    evidence.torn = reader.is_torn();
    judge.invalidate_by(&evidence.earlier);
    let verdicts = judge.finish(evidence.close.as_ref());
    let mut named: BTreeSet<u64> = verdicts
        .iter()
        .flat_map(|verdict| verdict.failing.iter().copied())
        .collect();
    let mut reader = Reader::open(path)?;
    while !named.is_empty()
        && let Some(line) = reader.next_record()?
    {
        if let Line::Sample(sample) = line
            && sample.counts()
            && named.remove(&sample.index)
        {
            evidence.samples.push(*sample);
        }
    }
    let summary = Summary {
        samples: counts.samples,
        uncounted: counts.uncounted,
        attempts: counts.attempts,
        outcomes: counts.outcomes,
        failures: counts.failures,
        first_unix_ns: counts.first_unix_ns,
        last_unix_ns: counts.last_unix_ns,
        ..Summary::uncounted(&evidence, verdicts)
    };
    Ok((evidence, summary))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;
    use crate::evidence::{CloseReason, Continued, Sample, Writer, read};
    use crate::report::explain::explain;

    /// Writes, reads and judges both ways.
    fn both(write: impl FnOnce(&mut Writer)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cell.jsonl");
        let head = header(vec![ttft_p95(), parse_success()], 40);
        let mut writer = Writer::create(&path, &head).unwrap();
        write(&mut writer);
        let all = read(&path).unwrap();
        let (thin, summary) = judge_file(&path).unwrap();
        assert_eq!(summary, Summary::of(&all));
        assert_eq!(thin.header, all.header);
        assert_eq!((&thin.close, &thin.earlier), (&all.close, &all.earlier));
        assert_eq!((&thin.continued, thin.torn), (&all.continued, all.torn));
        for (objective, verdict) in summary.objectives.iter().zip(&summary.verdicts) {
            assert_eq!(
                explain(&thin, objective, verdict),
                explain(&all, objective, verdict)
            );
        }
        assert!(thin.samples.len() <= 32);
    }

    fn samples() -> Vec<Sample> {
        let of = |index| match index % 9 {
            4 => sample(index, truncated()),
            7 => sample(index, slow(2000)),
            _ => sample(index, good()),
        };
        let mut all: Vec<Sample> = (0..60).map(of).collect();
        // Answers end in another order than they start.
        all.swap(3, 8);
        all.swap(20, 31);
        all
    }

    #[test]
    fn a_file_is_judged_as_what_was_read_of_it() {
        both(|_| {});
        both(|writer| samples().iter().for_each(|one| writer.sample(one).unwrap()));
        both(|writer| {
            samples().iter().for_each(|one| writer.sample(one).unwrap());
            // Each id once.
            samples().iter().for_each(|one| writer.sample(one).unwrap());
            writer.close(&close(CloseReason::Budget)).unwrap();
        });
    }

    #[test]
    fn a_run_that_went_on_is_judged_by_its_last_budget() {
        both(|writer| {
            let all = samples();
            let (first, second) = all.split_at(40);
            first.iter().for_each(|one| writer.sample(one).unwrap());
            writer.close(&close(CloseReason::Budget)).unwrap();
            let continued = Continued {
                session: "s".to_owned(),
                at_unix_ns: 9,
                plan_digest: "d".to_owned(),
                spec_sha256: "e".to_owned(),
                max_samples: 60,
                max_tokens: None,
                max_duration: None,
                max_cost_usd: None,
            };
            writer.continued(&continued).unwrap();
            second.iter().for_each(|one| writer.sample(one).unwrap());
            writer.close(&close(CloseReason::Budget)).unwrap();
        });
    }
}
