//! Collects a soak: starts each planned call at its moment, for as long as it is told to, and puts
//! what comes of it on file.
//!
//! Stateless: which slots there are follows from spec and seed, and which are done from what is on
//! file. Any scheduler may start it, late, twice, or again after its death. A slot whose moment has
//! passed is a gap and is not made up for: another moment is another question.
//!
//! Knows time by a [`Clock`] and relays by a [`Caller`], so that a soak of days is tried in seconds.

mod agenda;
mod campaign;
mod clock;
mod journal;
mod lock;
mod machine;
mod records;
mod relays;
mod sampling;
#[cfg(test)]
pub(super) mod testing;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use campaign::{CampaignError, NAME as PLAN_OF_FOLDER};
pub use clock::SystemClock;
pub use machine::this_machine;
pub use relays::{Relays, Unopened};

use self::lock::Locks;
use crate::evidence::{EvidenceError, Sample, SelfCheck, Session};
use crate::plan::{Cell, Plan, Slot, Timing};
use crate::probe::cancel::Cancel;

/// Latest that a slot is started after its planned moment. It covers a start of the process, a pause
/// of the machine and a small step of its clock; what is later is a gap.
pub const LATEST: Duration = Duration::from_secs(1);

/// How long open calls may still take when the collector is told to end at once. Containers are
/// killed half a minute after they are told.
pub const GRACE: Duration = Duration::from_secs(10);

/// Pause between two looks at a lock that somebody else holds.
const LOOK: Duration = Duration::from_millis(250);

/// The time of day, and how to wait for it.
pub trait Clock: Sync {
    /// Nanoseconds since the epoch, by the wall clock. It may jump, to either side.
    fn now(&self) -> u64;

    /// Waits, at most for this long. It should end earlier, and often, where the wall clock may
    /// jump meanwhile: whoever waits looks at it again.
    fn sleep(&self, at_most: Duration) -> impl Future<Output = ()> + Send;

    /// What is known of the machine's health since it was last asked, for closing lines.
    fn self_check(&self) -> impl Future<Output = SelfCheck> + Send {
        std::future::ready(SelfCheck::default())
    }
}

/// Who makes calls.
pub trait Caller: Send + Sync + 'static {
    /// Makes the call of a slot, `lag` after its planned start; `None` when it was called off.
    fn call(
        &self,
        cell: &Cell,
        slot: Slot,
        lag: Duration,
        off: Cancel,
    ) -> impl Future<Output = Option<Sample>> + Send;

    /// Where the calls of a cell go, for its header.
    fn base_url(&self, cell: &Cell) -> String;
}

/// What to collect.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    /// The plan of a soak.
    pub plan: &'a Plan,
    /// The cells, relays and their baselines, out of those that [`cells_of`] gives.
    pub cells: Vec<&'a Cell>,
    /// From where; `None` where the spec has no regions.
    pub region: Option<&'a str>,
    /// Where evidence goes.
    pub folder: &'a Path,
    /// For how long; `None` until the soak ends.
    pub length: Option<Duration>,
    /// Who collects; its time is set when it begins.
    pub session: Session,
}

/// How far the soak is, as seen by one collector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// Slots of the whole soak in this region.
    pub planned: u64,
    /// Those whose moment has come.
    pub due: u64,
    /// Those with a sample on file.
    pub done: u64,
    /// Calls that are open.
    pub open: u64,
    /// Slots that the cost limit forbade.
    pub forbidden: u64,
    /// US dollars spent, unknown costs at their worst; `None` where there is no limit of cost.
    pub spent_usd: Option<f64>,
    /// The limit of this region.
    pub cap_usd: Option<f64>,
    /// When the next slot starts, nanoseconds since the epoch.
    pub next_unix_ns: Option<u64>,
    /// When the soak ends.
    pub end_unix_ns: u64,
}

impl Standing {
    /// Slots whose moment has passed without a sample.
    pub const fn gaps(&self) -> u64 {
        self.due.saturating_sub(self.done).saturating_sub(self.open)
    }
}

/// What a collector tells whoever watches it. Called between two calls: it must not block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News<'a> {
    /// Somebody else collects; this one waits for it to end.
    Waiting {
        /// What the other one says of itself.
        holder: &'a str,
    },
    /// It begins.
    Begins(&'a Standing),
    /// It goes on.
    Goes(&'a Standing),
    /// A call broke off inside relayproof.
    Broke {
        /// The cell.
        cell: &'a str,
    },
}

/// How collecting ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Collected {
    /// The soak is over: no slot is left.
    Over(Standing),
    /// Its own time is over; the soak goes on.
    Paused(Standing),
    /// It was told to end.
    Interrupted(Standing),
    /// Somebody else collects, and did so until this one's time was over, or it was told to end, or
    /// a third one waits already.
    Elsewhere,
}

/// Why collecting failed; never the relay's fault.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The plan is of a burst.
    #[error("{0} is no soak; `relayproof run {0}` samples it")]
    NotASoak(String),
    /// Regions, and none was named.
    #[error(
        "{spec} is collected from {known}: say which of them this is (`--region NAME`, or RELAYPROOF_REGION)"
    )]
    NoRegion {
        /// The spec.
        spec: String,
        /// Its regions.
        known: String,
    },
    /// A region that is not in the spec.
    #[error("{spec} has no region `{wanted}`; it has {known}")]
    UnknownRegion {
        /// The spec.
        spec: String,
        /// What was named.
        wanted: String,
        /// Its regions.
        known: String,
    },
    /// The folder's plan.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// The folder.
    #[error("cannot {action} {}", path.display())]
    Folder {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The record cannot be kept; nothing is sent that cannot be recorded.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
}

impl CollectError {
    /// Whether the command line or the spec is at fault, and not this machine.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::NotASoak(_) | Self::NoRegion { .. } | Self::UnknownRegion { .. } => true,
            Self::Campaign(error) => matches!(error, CampaignError::OtherPlan { .. }),
            Self::Folder { .. } | Self::Evidence(_) => false,
        }
    }
}

/// The region of a plan that a probe stands in: as it is named, or none where the spec has none.
///
/// # Errors
/// When the plan is no soak, has regions and none is named, or not the one that is named.
pub fn region_of<'p>(plan: &'p Plan, named: Option<&str>) -> Result<Option<&'p str>, CollectError> {
    if plan.sampling.mode != Timing::Soak {
        return Err(CollectError::NotASoak(plan.source.clone()));
    }
    if plan.regions.is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = plan.regions.iter().map(|it| it.name.as_str()).collect();
    let (spec, known) = (plan.source.clone(), names.join(", "));
    let Some(wanted) = named else {
        return Err(CollectError::NoRegion { spec, known });
    };
    let found = names.into_iter().find(|name| *name == wanted);
    found.map(Some).ok_or_else(|| CollectError::UnknownRegion {
        spec,
        wanted: wanted.to_owned(),
        known,
    })
}

/// The cells that are sampled from a region, relays first, then the trusted upstream beside them.
pub fn cells_of<'p>(plan: &'p Plan, region: Option<&str>) -> Vec<&'p Cell> {
    let all = plan.cells.iter().chain(&plan.baselines);
    all.filter(|cell| cell.region.as_ref().map(|it| it.name.as_str()) == region)
        .collect()
}

/// The name that all collectors of a plan share, wherever and whenever they run: trace ids follow
/// from it.
pub fn run_id(plan: &Plan) -> String {
    let digest: String = plan.digest.chars().take(12).collect();
    format!("soak-{digest}")
}

/// Collects until the soak ends, the order's own time is over, or it is called off.
///
/// Evidence is whole at every moment: a sample is on disk before it counts, and what a killed
/// process had sent is named by the next one.
///
/// # Errors
/// When the folder, a lock or an evidence file cannot be used. What is on disk by then stays, and
/// the next collector goes on behind it.
pub async fn collect<C: Clock, R: Caller>(
    order: &Order<'_>,
    clock: &C,
    caller: &Arc<R>,
    mut cancel: Cancel,
    watch: &mut dyn FnMut(News<'_>),
) -> Result<Collected, CollectError> {
    let began = clock.now();
    let started = campaign::begin(order.folder, order.plan, began)?;
    let until = order.length.map(|length| after(began, length));
    let place = order
        .region
        .map_or_else(|| "collect".to_owned(), super::folder::component);
    let locks = Locks::new(order.folder, &place);
    let failed = |source| CollectError::Folder {
        action: "lock",
        path: locks.path().to_owned(),
        source,
    };
    let note = format!(
        "process {} on {}, since {}\n",
        order.session.pid,
        order.session.host,
        crate::plan::window::shown(began),
    );
    let mut waits = None;
    let _held = loop {
        if let Some(held) = locks.collect(&note).map_err(failed)? {
            break held;
        }
        if waits.is_none() {
            let holder = locks.holder();
            watch(News::Waiting { holder: &holder });
            waits = locks.wait(&note).map_err(failed)?;
            if waits.is_none() {
                return Ok(Collected::Elsewhere);
            }
        }
        let over = until.is_some_and(|until| clock.now() >= until);
        if over || cancel.is_cancelled() {
            return Ok(Collected::Elsewhere);
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = clock.sleep(LOOK) => {}
        }
    };
    drop(waits);
    sampling::sample(order, started, until, &place, clock, caller, cancel, watch).await
}

/// A moment, so long after another one.
fn after(unix_ns: u64, length: Duration) -> u64 {
    unix_ns.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}
