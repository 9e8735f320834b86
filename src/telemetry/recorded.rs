//! Evidence on disk as the spans that its run has sent, or would have.
//!
//! Reads line by line, so that memory does not grow with the samples. Sends nothing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use opentelemetry_sdk::trace::SpanData;

use super::spans::{
    CaseEnd, CaseTally, CellSpans, SampleFacts, SuiteInfo, SuiteSpan, SuiteStatus, Window, plan_of,
};
use crate::evidence::{Close, EvidenceError, Header, Line, Reader, Sample};
use crate::verdict::{Verdict, judge_file};

/// One run, as far as its evidence is at hand.
pub(super) struct Run {
    /// Its name.
    pub(super) run_id: String,
    /// Host name of the probe.
    pub(super) host: String,
    /// Its specs.
    pub(super) suites: Vec<Suite>,
}

/// One spec of a run.
pub(super) struct Suite {
    span: SuiteSpan,
    /// The cells, in the order of their files.
    pub(super) cells: Vec<Cell>,
}

/// The evidence of one cell.
pub(super) struct Cell {
    path: PathBuf,
    /// First line, with the budget of the last time that the run went on.
    pub(super) header: Header,
    close: Option<Close>,
    verdicts: Vec<Verdict>,
    spans: CellSpans,
}

/// What is drawn of a cell's samples, one after the other.
pub(super) type EachSample<'a> = dyn FnMut(&Sample, Vec<SpanData>) -> ControlFlow<()> + 'a;

/// Two texts that name something together: a run and its host, a spec and its plan.
type Pair = (String, String);

/// Reads the headers and verdicts of evidence files, and puts together what belongs together.
pub(super) fn runs(files: &[PathBuf]) -> Result<Vec<Run>, EvidenceError> {
    let mut cells: BTreeMap<Pair, BTreeMap<Pair, Vec<Cell>>> = BTreeMap::new();
    for path in files {
        let cell = Cell::open(path)?;
        let header = &cell.header;
        let run = (header.run_id.clone(), header.host.clone());
        let suite = (header.spec_name.clone(), plan_of(header).to_owned());
        let suites = cells.entry(run).or_default();
        suites.entry(suite).or_default().push(cell);
    }
    let runs = cells.into_iter().map(|((run_id, host), suites)| {
        let suites = suites.into_values();
        let suites = suites.filter_map(|cells| Suite::new(&run_id, cells));
        Run {
            suites: suites.collect(),
            run_id,
            host,
        }
    });
    Ok(runs.collect())
}

impl Suite {
    /// `None` without a cell.
    fn new(run_id: &str, cells: Vec<Cell>) -> Option<Self> {
        // The budget may have grown for some of them only.
        let widest = cells
            .iter()
            .max_by_key(|it| it.header.sampling.max_samples)?;
        let info = SuiteInfo::of(&widest.header, cells.len() as u64);
        // The context of the CI job is not in evidence.
        let span = SuiteSpan::new(run_id, info, None);
        Some(Self { span, cells })
    }

    /// The spans of the cells and their verdicts; `tallies` are those of the cells.
    pub(super) fn draw_cells(&self, tallies: &[CaseTally]) -> Vec<(&Cell, Vec<SpanData>)> {
        let each = self.cells.iter().zip(tallies);
        each.map(|(cell, tally)| (cell, cell.spans.case(&self.span, tally, cell.end())))
            .collect()
    }

    /// The span of the suite with those of its cells and verdicts.
    pub(super) fn draw(&self, tallies: &[CaseTally]) -> Vec<SpanData> {
        let cells = self.draw_cells(tallies).into_iter();
        let mut spans: Vec<SpanData> = cells.flat_map(|(_, spans)| spans).collect();
        let mut window: Option<Window> = None;
        for (cell, tally) in self.cells.iter().zip(tallies) {
            let own = cell.spans.window(tally, cell.end());
            window = Some(window.map_or(own, |all| all.with(own)));
        }
        let status = SuiteStatus::of(
            self.cells
                .iter()
                .map(|it| (&it.header, it.close.as_ref(), &*it.verdicts)),
        );
        spans.extend(window.map(|window| self.span.draw(window, Some(status))));
        spans
    }

    /// Draws the samples of one of the cells, and counts them.
    pub(super) fn samples(
        &self,
        cell: &Cell,
        each: &mut EachSample<'_>,
    ) -> Result<CaseTally, EvidenceError> {
        let case = self.span.case_context(&cell.header);
        let mut tally = CaseTally::default();
        let mut reader = Reader::open(&cell.path)?;
        while let Some(line) = reader.next_record()? {
            let Line::Sample(sample) = line else { continue };
            let facts = SampleFacts::of(&cell.header, &sample);
            tally.take(&sample, &facts);
            let spans = cell.spans.sample(&sample, &facts, Some(&case));
            if each(&sample, spans).is_break() {
                break;
            }
        }
        Ok(tally)
    }
}

impl Cell {
    fn open(path: &Path) -> Result<Self, EvidenceError> {
        let (evidence, summary) = judge_file(path)?;
        Ok(Self {
            path: path.to_owned(),
            spans: CellSpans::new(&evidence.header),
            header: evidence.header,
            close: evidence.close,
            verdicts: summary.verdicts,
        })
    }

    /// Its proper end; a cell that is not closed has none, and no verdict was sent of it.
    fn end(&self) -> Option<CaseEnd<'_>> {
        self.close.as_ref().map(|close| CaseEnd {
            at_unix_ns: close.at_unix_ns,
            verdicts: &self.verdicts,
        })
    }
}
