//! `relayproof collect`: sample a soak, each planned call at its moment.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::run::{load, named};
use super::{Exit, complain, with_causes};
use crate::plan::Cell;
use crate::plan::window::shown;
use crate::probe::cancel::Cancel;
use crate::run::Planned;
use crate::run::collect::{
    CollectError, Collected, News, Order, Relays, Standing, SystemClock, cells_of, collect,
    region_of, this_machine,
};
use crate::session::Collecting;

/// Folder of the evidence of all soaks, where no other is named.
const EVIDENCE: &str = "relayproof-evidence";

/// Pause between two lines about how far it is, for a log.
const CALM: Duration = Duration::from_secs(600);
/// The same, for somebody who watches.
const WATCHED: Duration = Duration::from_secs(30);

/// Arguments of `collect`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Spec files, with `sampling: { mode: soak }`
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Overlay of the specs
    #[arg(long, env = "RELAYPROOF_PROFILE")]
    profile: Option<String>,
    /// Where this probe stands; one of the spec's regions
    #[arg(long, value_name = "NAME", env = "RELAYPROOF_REGION")]
    region: Option<String>,
    /// Folder of the evidence of this soak [default: relayproof-evidence/NAME OF THE SPEC]
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
    /// End after so long, like 10m or 6h; the soak goes on when it is collected again
    #[arg(long = "for", value_name = "DURATION", value_parser = crate::spec::duration)]
    length: Option<Duration>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let plans = match load(&args.files, named(args.profile.as_deref())) {
        Ok(plans) => plans,
        Err(mistakes) => {
            complain(mistakes.trim_end());
            return Ok(Exit::Usage);
        }
    };
    if args.evidence.is_some() && plans.len() > 1 {
        complain(
            "error: `--evidence` names the folder of one soak, and there are several specs\n  = \
             help: leave it out, or collect them one by one",
        );
        return Ok(Exit::Usage);
    }
    let mut soaks = Vec::new();
    for planned in &plans {
        match Soak::of(planned, args) {
            Ok(soak) => soaks.push(soak),
            Err(error) => {
                complain(&format!("error: {}", with_causes(&error)));
                return Ok(Exit::Usage);
            }
        }
    }
    let threads = Collecting::start(
        "interrupted: no more calls are started, open ones have ten seconds, and what is on file stays",
    );
    let threads = match threads {
        Ok(threads) => threads,
        Err(error) => {
            complain(&format!("error: {}", with_causes(&error)));
            return Ok(Exit::NotMeasured);
        }
    };
    let work = soaks
        .iter()
        .map(|soak| soak.collect(args.length, threads.cancel()));
    let ended = threads
        .runtime()
        .block_on(async { futures_util::future::join_all(work).await });
    let mut exit = Exit::Pass;
    for (soak, ended) in soaks.iter().zip(ended) {
        let Ended { collected, whole } = ended;
        match collected {
            Some(Ok(collected)) => soak.print(&collected, out)?,
            Some(Err(error)) => {
                complain(&format!("error: {}: {}", soak.name(), with_causes(&error)));
                exit = exit_of(
                    exit,
                    if error.is_usage() {
                        Exit::Usage
                    } else {
                        Exit::NotMeasured
                    },
                );
            }
            None => complain(&format!("error: {}: nothing can be measured", soak.name())),
        }
        if !whole {
            exit = exit_of(exit, Exit::NotMeasured);
        }
    }
    Ok(exit)
}

/// The graver of two: a mistake of the user's, then a failure of ours.
fn exit_of(a: Exit, b: Exit) -> Exit {
    if a == Exit::Usage || b == Exit::Usage {
        Exit::Usage
    } else if a == Exit::NotMeasured || b == Exit::NotMeasured {
        Exit::NotMeasured
    } else {
        a
    }
}

/// One spec's soak, from one region.
struct Soak<'a> {
    planned: &'a Planned,
    region: Option<&'a str>,
    folder: PathBuf,
}

/// How one soak ended.
struct Ended {
    /// `None` where no relay could be asked.
    collected: Option<Result<Collected, CollectError>>,
    /// Whether every cell was collected whose relay is to be asked.
    whole: bool,
}

impl<'a> Soak<'a> {
    fn of(planned: &'a Planned, args: &Args) -> Result<Self, CollectError> {
        let plan = &planned.plan;
        let usual = || Path::new(EVIDENCE).join(crate::run::folder_name(&plan.name));
        Ok(Self {
            region: region_of(plan, named(args.region.as_deref()))?,
            folder: args.evidence.clone().unwrap_or_else(usual),
            planned,
        })
    }

    fn name(&self) -> String {
        let name = &self.planned.plan.name;
        match self.region {
            Some(region) => format!("{name} from {region}"),
            None => name.clone(),
        }
    }

    async fn collect(&self, length: Option<Duration>, cancel: Cancel) -> Ended {
        let plan = &self.planned.plan;
        let mut cells = cells_of(plan, self.region);
        cells.retain(|cell| match crate::run::not_asked(cell) {
            Some(why) => {
                complain(&format!("ignored: {}: {why}", cell.name()));
                false
            }
            None => true,
        });
        let (relays, unopened) = Relays::open(plan, &cells, &self.planned.base).await;
        for failed in &unopened {
            complain(&format!(
                "error: {}: {}",
                failed.cell,
                with_causes(&failed.error)
            ));
        }
        cells.retain(|cell: &&Cell| relays.has(cell));
        if cells.is_empty() {
            return Ended {
                collected: None,
                whole: false,
            };
        }
        let order = Order {
            plan,
            cells,
            region: self.region,
            folder: &self.folder,
            length,
            session: this_machine(),
        };
        let (clock, relays) = (SystemClock::start(), Arc::new(relays));
        let mut teller = Teller::new(self.name());
        let mut tell = |news: News<'_>| teller.tell(&news);
        let collected = collect(&order, &clock, &relays, cancel, &mut tell).await;
        if let Some(relays) = Arc::into_inner(relays) {
            relays.stop().await;
        }
        Ended {
            collected: Some(collected),
            whole: unopened.is_empty() && !teller.broke,
        }
    }

    fn print(&self, collected: &Collected, out: &mut dyn Write) -> io::Result<()> {
        let (name, folder) = (self.name(), self.folder.display());
        let (words, standing) = match collected {
            Collected::Over(standing) => ("the soak is over", standing),
            Collected::Paused(standing) => ("its time is over, the soak goes on", standing),
            Collected::Interrupted(standing) => ("interrupted, the soak goes on", standing),
            Collected::Elsewhere => {
                return writeln!(
                    out,
                    "{name}: another process collects; evidence in {folder}"
                );
            }
        };
        writeln!(
            out,
            "{name}: {words}: {}; evidence in {folder}",
            said(standing)
        )
    }
}

/// Says on stderr how far a soak is, now and then.
struct Teller {
    name: String,
    said: Option<Instant>,
    every: Duration,
    broke: bool,
}

impl Teller {
    fn new(name: String) -> Self {
        let watched = io::stderr().is_terminal();
        Self {
            name,
            said: None,
            every: if watched { WATCHED } else { CALM },
            broke: false,
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "how often to speak is the terminal's business"
    )]
    fn tell(&mut self, news: &News<'_>) {
        let name = &self.name;
        match news {
            News::Waiting { holder } => complain(&format!(
                "note: {name}: {holder} collects already; this process takes over when that one ends"
            )),
            News::Broke { cell } => {
                self.broke = true;
                complain(&format!(
                    "error: {cell}: a call broke off inside relayproof"
                ));
            }
            News::Begins(standing) => {
                self.said = Some(Instant::now());
                complain(&format!("{name}: {}", under_way(standing)));
            }
            News::Goes(standing) => {
                let now = Instant::now();
                if self
                    .said
                    .is_none_or(|said| now.duration_since(said) >= self.every)
                {
                    self.said = Some(now);
                    complain(&format!("{name}: {}", under_way(standing)));
                }
            }
        }
    }
}

/// What is done, in words.
fn said(standing: &Standing) -> String {
    let Standing { planned, done, .. } = standing;
    let gaps = match standing.gaps() {
        1 => "1 gap".to_owned(),
        gaps => format!("{gaps} gaps"),
    };
    let mut text = format!("{done} of {planned} slots sampled, {gaps}");
    if standing.forbidden > 0 {
        text.push_str(&format!(" ({} by the cost limit)", standing.forbidden));
    }
    if let (Some(spent), Some(cap)) = (standing.spent_usd, standing.cap_usd) {
        text.push_str(&format!(", at most {spent:.4} of {cap:.2} USD spent"));
    }
    text
}

/// What is done and what comes, in words.
fn under_way(standing: &Standing) -> String {
    let next = standing.next_unix_ns.map_or_else(
        || "no further slot".to_owned(),
        |at| format!("next at {}", shown(at)),
    );
    let ends = shown(standing.end_unix_ns);
    format!("{}, {next}, ends {ends}", said(standing))
}
