//! The evidence of one soak, slot by slot, and the rows that are made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::beside::{Beside, Finding};
use super::count::{Count, Place};
use super::coverage::Coverage;
use super::decide::{Rules, decide};
use super::{CLOSING, Campaign, CampaignError, Pool, Role, Row, regions};
use crate::evidence::{Evidence, Sample};
use crate::objective::Objective;
use crate::plan::budget::{self, Outlook};
use crate::plan::window::{Calendar, UTC};
use crate::plan::{self, Mode, Timing};

/// Judges the evidence of one soak: one piece for each cell, those of the trusted upstream among
/// them. Slots after `as_of_unix_ns` are not due yet.
///
/// # Errors
/// When it is not evidence of one soak, each cell once.
pub fn judge_campaign(
    evidence: &[Evidence],
    as_of_unix_ns: u64,
) -> Result<Campaign, CampaignError> {
    let soak = Soak::of(evidence, as_of_unix_ns)?;
    let mut names: Vec<String> = Vec::new();
    for cell in soak.cells.iter().filter(|cell| !cell.is_upstream()) {
        let name = cell.evidence.header.pooled_name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let pools: Result<Vec<Pool>, CampaignError> =
        names.into_iter().map(|name| soak.pool(name)).collect();
    let header = &soak.first().header;
    Ok(Campaign {
        spec: header.spec_name.clone(),
        spec_sha256: header.spec_sha256.clone(),
        plan_digest: header.plan_digest.clone(),
        start_unix_ns: soak.start,
        end_unix_ns: soak.end,
        as_of_unix_ns: soak.as_of,
        is_final: soak.is_final(),
        bucket_s: header.judge.bucket.as_secs_f64(),
        min_days: header.judge.min_days,
        pools: pools?,
    })
}

/// Everything that the rows of a campaign are made from.
pub(super) struct Soak<'a> {
    cells: Vec<Cell<'a>>,
    pub(super) start: u64,
    end: u64,
    as_of: u64,
    /// Stretches in which a region sampled anything at all.
    pub(super) present: BTreeMap<String, BTreeSet<u64>>,
}

/// One cell, its planned starts beside what became of them.
pub(super) struct Cell<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) slots: Vec<Planned<'a>>,
}

/// A slot, and the sample that it led to.
#[derive(Clone, Copy)]
pub(super) struct Planned<'a> {
    pub(super) index: u64,
    /// From the start of the soak.
    pub(super) start: Duration,
    /// The sample, where it says something of the relay.
    pub(super) sample: Option<&'a Sample>,
}

impl Cell<'_> {
    const fn is_upstream(&self) -> bool {
        self.evidence.header.beside.is_some()
    }

    pub(super) fn region(&self) -> &str {
        self.evidence.header.region.as_deref().unwrap_or_default()
    }
}

impl<'a> Soak<'a> {
    fn of(evidence: &'a [Evidence], as_of: u64) -> Result<Self, CampaignError> {
        let first = &evidence.first().ok_or(CampaignError::Nothing)?.header;
        let mut seen = BTreeSet::new();
        for one in evidence {
            let header = &one.header;
            let cell = || header.cell.clone();
            if header.sampling.mode != Timing::Soak {
                let run = header.run_id.clone();
                return Err(CampaignError::NotASoak { cell: cell(), run });
            }
            if header.plan_digest != first.plan_digest {
                return Err(CampaignError::TwoPlans {
                    cell: cell(),
                    found: header.plan_digest.clone(),
                    wanted: first.plan_digest.clone(),
                });
            }
            if !seen.insert(&header.cell_id) {
                return Err(CampaignError::Twice { cell: cell() });
            }
        }
        let duration = first.sampling.duration.unwrap_or_default();
        let start = first.started_unix_ns;
        let mut cells: Vec<Cell<'_>> = evidence.iter().map(|one| cell(one, evidence)).collect();
        // In the order of their names, whatever the order of the files.
        cells.sort_by(|a, b| a.evidence.header.cell.cmp(&b.evidence.header.cell));
        let bucket = first.judge.bucket;
        let mut present: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for cell in &cells {
            let stretches = present.entry(cell.region().to_owned()).or_default();
            let taken = cell.slots.iter().filter(|slot| slot.sample.is_some());
            stretches.extend(taken.map(|slot| stretch(slot.start, bucket)));
        }
        let end = start.saturating_add(nanos(duration));
        Ok(Self {
            cells,
            start,
            end,
            // Once all is over it makes no difference how long ago.
            as_of: as_of.min(end.saturating_add(nanos(CLOSING))),
            present,
        })
    }

    fn first(&self) -> &'a Evidence {
        // `of` refuses evidence without a file.
        self.cells[0].evidence
    }

    fn is_final(&self) -> bool {
        self.end.saturating_add(nanos(CLOSING)) <= self.as_of
    }

    /// Whether all answers of a stretch that begins with this slot's are in.
    pub(super) fn is_due(&self, start: Duration, bucket: Duration) -> bool {
        let next = u32::try_from(stretch(start, bucket) + 1).unwrap_or(u32::MAX);
        let closes = nanos(bucket.saturating_mul(next)).saturating_add(nanos(CLOSING));
        self.is_final() || self.start.saturating_add(closes) <= self.as_of
    }

    fn upstream_of(&self, cell: &Cell<'_>) -> Option<&Cell<'a>> {
        let name = cell.evidence.header.cell.as_str();
        let beside = |it: &&Cell<'_>| it.evidence.header.beside.as_deref() == Some(name);
        self.cells.iter().find(beside)
    }

    fn pool(&self, name: String) -> Result<Pool, CampaignError> {
        let cells: Vec<&Cell<'_>> = self
            .cells
            .iter()
            .filter(|cell| !cell.is_upstream() && cell.evidence.header.pooled_name() == name)
            .collect();
        let Some(first) = cells.first() else {
            return Err(CampaignError::Nothing);
        };
        let header = &first.evidence.header;
        let mut rows = Vec::new();
        for objective in &header.objectives {
            rows.extend(self.rows(objective, objective.window.as_deref(), &cells)?);
            if objective.window.is_none() {
                for window in header.windows.iter().filter(|it| it.daily.is_some()) {
                    let shown = self.rows(objective, Some(&window.name), &cells)?;
                    rows.extend(shown.into_iter().map(|row| Row {
                        role: Role::Shown,
                        ..row
                    }));
                }
            }
        }
        let coverage = cells
            .iter()
            .copied()
            .chain(cells.iter().filter_map(|cell| self.upstream_of(cell)))
            .map(|cell| Coverage::of(self, cell))
            .collect();
        Ok(Pool {
            name,
            relay: header.relay.clone(),
            model: header.model.clone(),
            workload: header.workload.clone(),
            judging: header.judge.clone(),
            rows,
            coverage,
        })
    }

    /// One objective in one window: all regions together, then each of them.
    fn rows(
        &self,
        objective: &Objective,
        window: Option<&str>,
        cells: &[&Cell<'_>],
    ) -> Result<Vec<Row>, CampaignError> {
        let header = &self.first().header;
        let named = window.and_then(|name| header.windows.iter().find(|it| it.name == name));
        let calendar = match named {
            Some(window) => Calendar::of(window),
            None => Calendar::days(UTC),
        };
        let zone = || named.map_or_else(|| UTC.to_owned(), |window| window.zone.clone());
        let calendar = calendar.ok_or_else(|| CampaignError::Zone { zone: zone() })?;
        let counts: Vec<Count> = cells
            .iter()
            .map(|cell| {
                let place = Place {
                    soak: self,
                    cell,
                    upstream: self.upstream_of(cell),
                    calendar: &calendar,
                };
                Count::of(objective, &place)
            })
            .collect();
        let judging = &cells[0].evidence.header.judge;
        let accounts = budget::accounts(
            &cells[0].evidence.header.objectives,
            cells[0].evidence.header.seal_allowance_ppm,
        );
        let regions = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        // Where each region has votes enough for a pass of its own, each of them has to pass.
        let clean = Outlook::among(objective, judging, accounts).map(|it| it.clean_samples());
        let each_can_pass = judging.mode == Mode::Guard
            || counts
                .iter()
                .all(|count| clean.is_none_or(|n0| count.planned_votes() >= n0));
        let apart = regions > 1 && each_can_pass;
        let rules = |accounts: u32| Rules {
            objective,
            judging,
            accounts,
            is_final: self.is_final(),
            seal_allowance_ppm: cells[0].evidence.header.seal_allowance_ppm,
        };
        let together = counts.iter().fold(Count::default(), Count::with);
        let pooled = together.beside(objective, judging, self.is_final());
        let row = |count: &Count, region: Option<String>, role: Role, accounts: u32| {
            let beside = count.beside(objective, judging, self.is_final());
            // The few pairs of one region may leave open what those of all regions show.
            let says = |it: &&Beside| it.finding != Finding::Undetermined;
            let telling = beside.as_ref().filter(says).or(pooled.as_ref());
            let (verdict, votes) = decide(count, &rules(accounts), telling);
            Row {
                objective: objective.clone(),
                window: window.map(str::to_owned),
                region,
                role,
                verdict,
                votes,
                planned_votes: count.planned_votes(),
                days: count.days(),
                beside,
                against_rest: None,
                failing: count.failing().to_vec(),
            }
        };
        let mut rows = vec![row(
            &together,
            None,
            if apart { Role::Shown } else { Role::Gate },
            accounts,
        )];
        if regions > 1 {
            let role = if apart { Role::Gate } else { Role::Guard };
            let split = if apart {
                accounts
            } else {
                accounts.saturating_mul(regions)
            };
            let against = regions::against_rest(&counts);
            for ((cell, count), against) in cells.iter().zip(&counts).zip(against) {
                let region = Some(cell.region().to_owned());
                rows.push(Row {
                    against_rest: against,
                    ..row(count, region, role, split)
                });
            }
        }
        Ok(rows)
    }
}

/// The slots of a cell; of the trusted upstream those of its pairs.
fn cell<'a>(evidence: &'a Evidence, all: &'a [Evidence]) -> Cell<'a> {
    let header = &evidence.header;
    let taken: BTreeMap<u64, &Sample> = evidence
        .samples
        .iter()
        .filter(|sample| sample.counts())
        .map(|sample| (sample.index, sample))
        .collect();
    let slot = |(index, start): (u64, Duration)| Planned {
        index,
        start,
        sample: taken.get(&index).copied(),
    };
    let slots = match &header.beside {
        None => (0..)
            .zip(plan::starts(&header.sampling, &header.cell))
            .map(slot)
            .collect(),
        Some(beside) => {
            // Its own starts lie within half a second of those that it is paired with.
            let sampling = all
                .iter()
                .find(|it| it.header.cell == *beside)
                .map_or(&header.sampling, |it| &it.header.sampling);
            (0..)
                .zip(plan::starts(sampling, beside))
                .filter(|(index, _)| {
                    plan::is_paired(&header.cell_id, sampling.seed, *index, header.pair_ppm)
                })
                .map(slot)
                .collect()
        }
    };
    Cell { evidence, slots }
}

/// The stretch of time that holds an offset from the start.
pub(super) fn stretch(start: Duration, bucket: Duration) -> u64 {
    u64::try_from(start.as_micros() / bucket.as_micros().max(1)).unwrap_or(u64::MAX)
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
