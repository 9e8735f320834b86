//! The rows of a campaign: every objective, in every window and region.

use super::beside::{Beside, Finding};
use super::count::{Count, Place};
use super::coverage::Coverage;
use super::decide::{Rules, decide};
use super::soak::{Cell, Soak};
use super::{Campaign, CampaignError, Pool, Role, Row, regions};
use crate::evidence::Evidence;
use crate::objective::Objective;
use crate::plan::Mode;
use crate::plan::budget::{self, Outlook};
use crate::plan::window::{Calendar, UTC};

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

impl Soak<'_> {
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
