//! The collector at work: its lock is held, and nobody else writes to its files.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::agenda::{Agenda, Head};
use super::journal::Journal;
use super::records::Records;
use super::{
    Caller, Clock, CollectError, Collected, GRACE, LATEST, News, Order, Standing, after, run_id,
};
use crate::evidence::{
    Close, CloseReason, Evidence, Header, LATE, Sample, SelfCheck, Session, SkipReason, Skipped,
};
use crate::measure::purse::{Purse, Reservation, Tariff};
use crate::plan::{Cell, Slot};
use crate::probe::cancel::{Cancel, CancelSwitch, cancel_pair};
use crate::run::folder::file_stem;
use crate::run::header::{Origin, header};

/// Why no more calls are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// No slot is left.
    Over,
    /// The collector's own time is over.
    Paused,
    /// It was told to end.
    Interrupted,
}

/// Samples until the end; see [`super::collect`].
#[expect(
    clippy::too_many_arguments,
    reason = "what the collector was given, and what it found out before it began"
)]
pub(super) async fn sample<C: Clock, R: Caller>(
    order: &Order<'_>,
    started: u64,
    until: Option<u64>,
    place: &str,
    clock: &C,
    caller: &Arc<R>,
    mut cancel: Cancel,
    watch: &mut dyn FnMut(News<'_>),
) -> Result<Collected, CollectError> {
    let mut at_work = AtWork::begin(order, started, until, place, clock, caller)?;
    watch(News::Begins(&at_work.standing()));
    let mut ending = None;
    let mut grace: Option<Instant> = None;
    loop {
        let mut wait = Duration::ZERO;
        if ending.is_none() {
            match at_work.start_due()? {
                Ok(next) => wait = next,
                Err(end) => ending = Some(end),
            }
        }
        if ending.is_some() && at_work.open.is_empty() {
            break;
        }
        watch(News::Goes(&at_work.standing()));
        tokio::select! {
            biased;
            () = cancel.cancelled(), if ending != Some(Ending::Interrupted) => {
                ending = Some(Ending::Interrupted);
                grace = Some(Instant::now() + GRACE);
            }
            () = at(grace), if grace.is_some() => {
                grace = None;
                at_work.off.cancel();
            }
            Some(ended) = at_work.open.join_next_with_id() => {
                if let Some(cell) = at_work.take(ended)? {
                    watch(News::Broke { cell: &cell });
                }
            }
            () = clock.sleep(wait), if ending.is_none() => {}
        }
    }
    let standing = at_work.standing();
    let ending = ending.unwrap_or(Ending::Over);
    at_work.close(ending).await?;
    Ok(match ending {
        Ending::Over => Collected::Over(standing),
        Ending::Paused => Collected::Paused(standing),
        Ending::Interrupted => Collected::Interrupted(standing),
    })
}

/// The moment, or never.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// A call that is open.
struct Open {
    cell: usize,
    slot: SlotName,
    /// What is set aside for it.
    money: Option<Reservation>,
}

/// What is left of a slot once its call is on its way.
struct SlotName {
    id: String,
    index: u64,
    start: Duration,
}

impl SlotName {
    fn of(slot: &Slot) -> Self {
        Self {
            id: slot.id.clone(),
            index: slot.index,
            start: slot.start,
        }
    }

    fn skipped(self, why: SkipReason) -> Skipped {
        Skipped {
            id: self.id,
            index: self.index,
            planned: self.start,
            why,
        }
    }
}

/// What a collector knows of one cell besides its evidence.
#[derive(Clone, Debug, Default)]
struct Counts {
    open: u32,
    abandoned: u64,
    late: u64,
    max_lag: Duration,
    own_failures: u64,
    broken: u64,
}

struct AtWork<'o, C, R> {
    order: &'o Order<'o>,
    cells: Vec<Arc<Cell>>,
    counts: Vec<Counts>,
    tariffs: Vec<Option<Tariff>>,
    purse: Option<Purse>,
    /// When the soak began; planned starts count from it.
    started: u64,
    until: Option<u64>,
    clock: &'o C,
    caller: &'o Arc<R>,
    agenda: Agenda,
    records: Records,
    journal: Journal,
    open: JoinSet<Option<Sample>>,
    calls: HashMap<Id, Open>,
    off: CancelSwitch,
    called_off: Cancel,
    standing: Standing,
}

impl<'o, C: Clock, R: Caller> AtWork<'o, C, R> {
    /// Reads what is on file, and names what the last process had sent and did not record.
    fn begin(
        order: &'o Order<'o>,
        started: u64,
        until: Option<u64>,
        place: &str,
        clock: &'o C,
        caller: &'o Arc<R>,
    ) -> Result<Self, CollectError> {
        let plan = order.plan;
        let now = clock.now();
        let session = Session {
            at_unix_ns: now,
            ..order.session.clone()
        };
        let purse = plan.cost_cap(order.region).map(Purse::new);
        let tariffs: Vec<Option<Tariff>> = match &purse {
            Some(_) => order.cells.iter().map(|cell| Tariff::of(cell)).collect(),
            None => vec![None; order.cells.len()],
        };
        let mut standing = Standing {
            end_unix_ns: after(started, plan.sampling.duration.unwrap_or_default()),
            cap_usd: purse.as_ref().map(|purse| purse.cap().usd()),
            ..Standing::default()
        };
        let from = nanos_between(started, now).saturating_sub(LATEST);
        let from = if now < started { Duration::ZERO } else { from };
        for (_, start) in order.cells.iter().flat_map(|cell| plan.soak_starts(cell)) {
            standing.planned += 1;
            standing.due += u64::from(start < from);
        }
        let path = |cell: &&Cell| order.folder.join(format!("{}.jsonl", file_stem(cell)));
        let paths = order.cells.iter().map(path).collect();
        let mut earlier = |cell: usize, evidence: &Evidence| {
            let there = |why: SkipReason| move |it: &&Skipped| it.why == why;
            standing.done += evidence.samples.len() as u64;
            standing.forbidden += evidence
                .skipped
                .iter()
                .filter(there(SkipReason::Cost))
                .count() as u64;
            if let (Some(purse), Some(Some(tariff))) = (&purse, tariffs.get(cell)) {
                for sample in &evidence.samples {
                    purse.spend(tariff.of_sample(sample));
                }
                let sent = evidence.skipped.iter().filter(|it| it.why.was_sent());
                purse.spend(tariff.call().times(sent.count() as u64));
            }
        };
        let records = Records::open(paths, session, &mut earlier)?;
        let (journal, were_open) =
            Journal::open(order.folder, place).map_err(folder("open", order.folder))?;
        let handle = journal.handle().map_err(folder("open", journal.path()))?;
        records.sync_too(journal.path().to_owned(), handle);
        let (off, called_off) = cancel_pair();
        let mut at_work = Self {
            cells: order
                .cells
                .iter()
                .map(|cell| Arc::new((*cell).clone()))
                .collect(),
            counts: vec![Counts::default(); order.cells.len()],
            agenda: Agenda::new(plan, &order.cells, from),
            order,
            tariffs,
            purse,
            started,
            until,
            clock,
            caller,
            records,
            journal,
            open: JoinSet::new(),
            calls: HashMap::new(),
            off,
            called_off,
            standing,
        };
        for (cell, known) in order.cells.iter().enumerate() {
            if !were_open.iter().any(|(id, _)| *id == known.id) {
                continue;
            }
            for (index, start) in plan.soak_starts(known) {
                let lost = were_open.contains(&(known.id.clone(), index));
                if lost && !at_work.records.is_settled(cell, index) {
                    let slot = plan.soak_slot(known, index, start);
                    at_work.skip(cell, SlotName::of(&slot), SkipReason::Lost)?;
                    at_work.spend_a_call(cell);
                }
            }
        }
        at_work.strike_off()?;
        Ok(at_work)
    }

    fn standing(&self) -> Standing {
        let next = self
            .agenda
            .next_start()
            .map(|start| after(self.started, start));
        Standing {
            open: self.open.len() as u64,
            spent_usd: self.purse.as_ref().map(|purse| purse.spent().usd()),
            next_unix_ns: next,
            ..self.standing
        }
    }

    /// Starts every call whose moment has come, and says how long there is until the next one, or
    /// why there is none.
    fn start_due(&mut self) -> Result<Result<Duration, Ending>, CollectError> {
        loop {
            let now = self.clock.now();
            let Some(next) = self.agenda.next_start() else {
                return Ok(Err(Ending::Over));
            };
            let due = after(self.started, next);
            if let Some(until) = self.until
                && now >= until.min(due)
                && due >= until
            {
                return Ok(Err(Ending::Paused));
            }
            if due > now {
                let wake = self.until.map_or(due, |until| until.min(due));
                return Ok(Ok(Duration::from_nanos(wake.saturating_sub(now))));
            }
            if let Some(head) = self.agenda.pop() {
                self.standing.due += 1;
                self.meet(head, Duration::from_nanos(now - due))?;
            }
        }
    }

    /// A slot whose moment came so long ago: starts its call, or says why not.
    fn meet(&mut self, head: Head, lag: Duration) -> Result<(), CollectError> {
        let Head { start, cell, index } = head;
        let Some(asked) = self.cells.get(cell).cloned() else {
            return Ok(());
        };
        if self.records.is_settled(cell, index) {
            return Ok(());
        }
        let slot = self.order.plan.soak_slot(&asked, index, start);
        if lag > LATEST {
            return self.skip(cell, SlotName::of(&slot), SkipReason::Late);
        }
        let open = self.counts.get(cell).map_or(0, |counts| counts.open);
        if open >= self.order.plan.sampling.concurrency {
            return self.skip(cell, SlotName::of(&slot), SkipReason::Concurrency);
        }
        let money = match (&self.purse, self.tariffs.get(cell)) {
            (Some(purse), Some(Some(tariff))) => match purse.reserve(tariff.call()) {
                Some(money) => Some(money),
                None => {
                    self.standing.forbidden += 1;
                    return self.skip(cell, SlotName::of(&slot), SkipReason::Cost);
                }
            },
            // Without a price only embedded relays come this far, which cost nothing.
            (Some(_) | None, _) => None,
        };
        if let Err(source) = self.journal.sends(&asked.id, slot.index) {
            if let Some(money) = money {
                money.give_back();
            }
            return Err(folder("write", self.journal.path())(source));
        }
        if let Some(counts) = self.counts.get_mut(cell) {
            counts.open += 1;
            counts.late += u64::from(lag > LATE);
            counts.max_lag = counts.max_lag.max(lag);
        }
        let name = SlotName::of(&slot);
        let (caller, off) = (Arc::clone(self.caller), self.called_off.clone());
        let call = async move { caller.call(&asked, slot, lag, off).await };
        let task = self.open.spawn(call).id();
        let slot = name;
        self.calls.insert(task, Open { cell, slot, money });
        Ok(())
    }

    /// Puts on file what came of a call; gives the name of the cell where it broke off inside us.
    fn take(
        &mut self,
        ended: Result<(Id, Option<Sample>), JoinError>,
    ) -> Result<Option<String>, CollectError> {
        let (task, sample, broke) = match ended {
            Ok((task, sample)) => (task, sample, false),
            Err(error) => (error.id(), None, true),
        };
        let Some(Open { cell, slot, money }) = self.calls.remove(&task) else {
            return Ok(None);
        };
        if let Some(counts) = self.counts.get_mut(cell) {
            counts.open -= 1;
            counts.abandoned += u64::from(sample.is_none() && !broke);
            counts.broken += u64::from(broke);
            let own = sample.as_ref().is_some_and(Sample::failed_for_our_want);
            counts.own_failures += u64::from(own);
        }
        match sample {
            Some(sample) => {
                if let (Some(money), Some(Some(tariff))) = (money, self.tariffs.get(cell)) {
                    money.settle(tariff.of_sample(&sample));
                }
                self.record(cell, |records, header| {
                    records.sample(cell, &sample, header)
                })?;
                self.standing.done += 1;
            }
            // What it has cost by then nobody says: its money is gone.
            None => {
                drop(money);
                let why = if broke {
                    SkipReason::Lost
                } else {
                    SkipReason::Abandoned
                };
                self.skip(cell, slot, why)?;
            }
        }
        if self.open.is_empty() {
            self.strike_off()?;
        }
        Ok(broke
            .then(|| self.cells.get(cell).map(|it| it.name()))
            .flatten())
    }

    fn skip(&mut self, cell: usize, slot: SlotName, why: SkipReason) -> Result<(), CollectError> {
        let skipped = slot.skipped(why);
        self.record(cell, |records, header| {
            records.skipped(cell, &skipped, header)
        })
    }

    fn record(
        &mut self,
        cell: usize,
        write: impl FnOnce(
            &mut Records,
            &dyn Fn() -> Header,
        ) -> Result<(), crate::evidence::EvidenceError>,
    ) -> Result<(), CollectError> {
        let Some(known) = self.cells.get(cell) else {
            return Ok(());
        };
        let plan = self.order.plan;
        let header = || {
            let origin = Origin {
                run_id: run_id(plan),
                started_unix_ns: self.started,
                base_url: self.caller.base_url(known),
                trace_url: None,
            };
            header(plan, known, origin)
        };
        write(&mut self.records, &header)?;
        Ok(())
    }

    /// A call that was sent and of which nothing is known.
    fn spend_a_call(&self, cell: usize) {
        if let (Some(purse), Some(Some(tariff))) = (&self.purse, self.tariffs.get(cell)) {
            purse.spend(tariff.call());
        }
    }

    fn strike_off(&mut self) -> Result<(), CollectError> {
        let struck = self.journal.none_open();
        struck.map_err(folder("write", self.journal.path()))
    }

    /// Ends the session in every file to which it wrote.
    async fn close(self, ending: Ending) -> Result<(), CollectError> {
        let facts = self.clock.self_check().await;
        let at_unix_ns = self.clock.now();
        let reason = match ending {
            Ending::Over => CloseReason::Budget,
            Ending::Paused => CloseReason::Paused,
            Ending::Interrupted => CloseReason::Interrupted,
        };
        let close = |cell: usize| {
            let counts = self.counts.get(cell).cloned().unwrap_or_default();
            let broke = counts.broken;
            Close {
                reason: if broke == 0 {
                    reason
                } else {
                    CloseReason::Failed
                },
                at_unix_ns,
                abandoned: counts.abandoned,
                // Each sample says how late it was, and each slot that was missed why: one bad hour
                // does not spoil a week.
                self_check: SelfCheck {
                    late_starts: counts.late,
                    max_lag: counts.max_lag,
                    own_failures: counts.own_failures,
                    invalid: None,
                    ..facts.clone()
                },
                error: (broke > 0).then(|| format!("{broke} calls broke off inside the probe")),
            }
        };
        self.records.close(&close)?;
        Ok(())
    }
}

/// Time from one moment to a later one.
const fn nanos_between(from: u64, to: u64) -> Duration {
    Duration::from_nanos(to.saturating_sub(from))
}

fn folder(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CollectError {
    let path = path.to_owned();
    move |source| CollectError::Folder {
        action,
        path,
        source,
    }
}
