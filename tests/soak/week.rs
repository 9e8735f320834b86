//! Seven days, three regions: a reboot, a clock set back, a machine that sleeps, collectors started
//! twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use relayproof::evidence::{
    CloseReason, Evidence, SkipReason, check_all, merge, read_segments, segment_files,
};
use relayproof::plan::window::moment;
use relayproof::plan::{Cell, Plan, Slot};
use relayproof::probe::cancel::cancel_pair;
use relayproof::run::collect::{
    CollectError, Collected, LATEST, Order, cells_of, collect, region_of,
};

use crate::virtual_time::{Replay, VirtualClock, machine, planned, recorded};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

const SPEC: &str = r#"relayproof: 1
name: week
relays:
  - { name: alpha, base_url: "http://alpha.example/v1", models: [m], pricing: { m: { input: 1, output: 2 } } }
  - { name: beta, base_url: "http://beta.example/v1", models: [m], pricing: { m: { input: 1, output: 2 } } }
baseline: { name: official, base_url: "http://official.example/v1", pair: 20%, pricing: { m: { input: 1, output: 2 } } }
regions: [hk, usw, fra]
sampling:
  mode: soak
  duration: 7d
  start: 2026-12-01T00:00:00Z
  max_samples: 2016
  limits: { max_cost: 100 USD }
slos: [success_in_4 >= 98%]
"#;

/// The slots of a cell by index.
fn slots(plan: &Plan, cell: &Cell) -> BTreeMap<u64, Slot> {
    let slots: Vec<Slot> = match &cell.beside {
        None => cell.slots(&cell.sampling(&plan.sampling)).collect(),
        Some(name) => {
            let beside = plan.cells.iter().find(|it| it.name() == *name).unwrap();
            let sampling = beside.sampling(&plan.sampling);
            cell.paired_slots(beside, &sampling, plan.pair_ppm)
                .collect()
        }
    };
    slots.into_iter().map(|slot| (slot.index, slot)).collect()
}

/// All evidence of a folder, by cell.
fn evidence(folder: &Path) -> BTreeMap<String, Evidence> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "jsonl") {
            assert_eq!(segment_files(&path).unwrap().len(), 1);
            let evidence = read_segments(&path).unwrap();
            found.insert(evidence.header.cell.clone(), evidence);
        }
    }
    found
}

/// One collector of a test.
struct Collector<'a> {
    plan: &'a Plan,
    region: Option<&'a str>,
    folder: &'a Path,
    clock: &'a Arc<VirtualClock>,
    relays: &'a Arc<Replay>,
}

impl Collector<'_> {
    async fn run(&self, boot: &str, length: Option<Duration>) -> Result<Collected, CollectError> {
        let region = region_of(self.plan, self.region)?;
        let order = Order {
            plan: self.plan,
            cells: cells_of(self.plan, region),
            region,
            folder: self.folder,
            length,
            session: machine(region.unwrap_or("here"), boot),
        };
        let (_switch, cancel) = cancel_pair();
        collect(&order, &**self.clock, self.relays, cancel, &mut |_| {}).await
    }
}

/// What became of each slot of a cell.
fn account(
    plan: &Plan,
    cell: &Cell,
    evidence: &Evidence,
) -> (BTreeSet<u64>, BTreeMap<u64, SkipReason>) {
    let slots = slots(plan, cell);
    let mut taken = BTreeSet::new();
    for sample in &evidence.samples {
        let slot = &slots[&sample.index];
        assert_eq!((&sample.id, sample.planned), (&slot.id, slot.start));
        assert!(sample.lag <= LATEST);
        assert!(taken.insert(sample.index), "{} twice", sample.index);
    }
    let mut skipped = BTreeMap::new();
    for skip in &evidence.skipped {
        let slot = &slots[&skip.index];
        assert_eq!((&skip.id, skip.planned), (&slot.id, slot.start));
        assert!(!taken.contains(&skip.index));
        assert_eq!(skipped.insert(skip.index, skip.why), None);
    }
    (taken, skipped)
}

/// Indices of the slots whose planned start lies in a stretch of the soak.
fn within(slots: &BTreeMap<u64, Slot>, from: Duration, to: Duration) -> BTreeSet<u64> {
    slots
        .values()
        .filter(|slot| (from..to).contains(&slot.start))
        .map(|slot| slot.index)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_week_from_three_regions_has_every_slot_once_or_says_why_not() {
    let planned = planned(SPEC);
    let plan = &planned.plan;
    let start = moment("2026-12-01T00:00:00Z").unwrap();
    let (shared, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Each machine has a clock of its own; all begin right an hour before the soak does.
    let before =
        |early: Duration| VirtualClock::new(start - u64::try_from(early.as_nanos()).unwrap());
    let (hk, usw, fra) = (before(HOUR), before(HOUR), before(HOUR));
    let at = |soak: Duration| soak + HOUR;
    let relays = |clock| Replay::new(plan, clock, Box::new(|_, _, _| recorded()));
    let (at_hk, at_usw, at_fra, at_twin) = (relays(&hk), relays(&usw), relays(&fra), relays(&usw));
    let folder = shared.path();
    let collector = |region, folder, clock, relays| Collector {
        plan,
        region: Some(region),
        folder,
        clock,
        relays,
    };

    // Killed on the third day, and started again by its machine two and a half hours later.
    let (killed, back) = (DAY * 2 + HOUR * 12, DAY * 2 + HOUR * 14 + HOUR / 2);
    let reboots = async {
        let it = collector("hk", folder, &hk, &at_hk);
        tokio::select! {
            ended = it.run("first", None) => panic!("{ended:?}"),
            () = hk.until(at(killed)) => {}
        }
        hk.until(at(back)).await;
        it.run("second", None).await
    };
    // Its clock is set back by ten minutes on the fifth day; on the sixth it sleeps for an hour.
    let (set_back, asleep) = (DAY * 4, DAY * 5 + HOUR * 3);
    let collects = async {
        let it = collector("fra", folder, &fra, &at_fra);
        tokio::join!(it.run("only", None), async {
            fra.until(at(set_back)).await;
            fra.jump(-600);
            // True time: the machine's own is ten minutes behind.
            fra.until(at(asleep)).await;
            fra.jump(3600);
        })
        .0
    };
    // Collected all week, and twice more on the way: into the same folder, and by a twin elsewhere.
    let twice = async {
        let it = collector("usw", folder, &usw, &at_usw);
        let spare = collector("usw", folder, &usw, &at_twin);
        let twin = collector("usw", elsewhere.path(), &usw, &at_twin);
        tokio::join!(
            it.run("only", None),
            async {
                usw.until(at(DAY)).await;
                assert_eq!(
                    spare.run("only", Some(HOUR)).await.unwrap(),
                    Collected::Elsewhere
                );
                assert_eq!(at_twin.asked_once(), 0);
            },
            async {
                usw.until(at(DAY * 3)).await;
                let ended = twin.run("only", Some(HOUR * 6)).await.unwrap();
                assert!(matches!(ended, Collected::Paused(_)), "{ended:?}");
            }
        )
        .0
    };
    let (from_hk, from_usw, from_fra) = tokio::join!(reboots, twice, collects);
    for ended in [from_hk, from_usw, from_fra] {
        let Ok(Collected::Over(standing)) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!((standing.due, standing.open), (standing.planned, 0));
        assert_eq!(standing.forbidden, 0);
        assert!(standing.spent_usd.unwrap() <= standing.cap_usd.unwrap());
    }

    let on_file = evidence(folder);
    assert_eq!(on_file.len(), plan.cells.len() + plan.baselines.len());
    let mut taken_in = BTreeMap::new();
    for cell in plan.cells.iter().chain(&plan.baselines) {
        let name = cell.name();
        let region = cell.region.as_ref().unwrap().name.clone();
        let record = &on_file[&name];
        assert_eq!(record.header.started_unix_ns, start);
        let close = record.close.as_ref().unwrap();
        assert_eq!((close.reason, close.abandoned), (CloseReason::Budget, 0));
        let all = slots(plan, cell);
        let (taken, skipped) = account(plan, cell, record);
        *taken_in.entry(region.clone()).or_insert(0) += taken.len();
        let boots: Vec<_> = record
            .sessions
            .iter()
            .filter_map(|it| it.boot_id.as_deref())
            .collect();
        let missing: BTreeSet<u64> = all
            .keys()
            .filter(|index| !taken.contains(index))
            .copied()
            .collect();
        match region.as_str() {
            "hk" => {
                assert_eq!(boots, ["first", "second"], "{name}");
                let down = within(&all, killed, back);
                // What was open when it was killed was sent, and nobody knows what became of it.
                let lost: BTreeSet<u64> = skipped.keys().copied().collect();
                assert!(
                    skipped.values().all(|why| *why == SkipReason::Lost),
                    "{skipped:?}"
                );
                assert!(within(&all, killed - Duration::from_secs(1), killed).is_superset(&lost));
                // A slot of the last second is still in time.
                let in_time = within(&all, back - LATEST, back);
                let gap: BTreeSet<u64> = down.difference(&in_time).chain(&lost).copied().collect();
                assert!(missing.is_superset(&gap), "{name}");
                assert!(
                    down.union(&lost)
                        .copied()
                        .collect::<BTreeSet<_>>()
                        .is_superset(&missing)
                );
                assert!(
                    gap.len() > 1 || cell.beside.is_some(),
                    "{name}: nothing was missed"
                );
            }
            "usw" => {
                assert_eq!((boots, missing.len()), (vec!["only"], 0), "{name}");
            }
            "fra" => {
                assert_eq!(boots, ["only"]);
                // By the machine's clock it slept from ten minutes before until fifty after.
                let from = asleep - Duration::from_secs(600);
                let slept = within(&all, from, from + HOUR);
                let in_time = within(&all, from + HOUR - LATEST, from + HOUR);
                assert!(
                    skipped.values().all(|why| *why == SkipReason::Late),
                    "{skipped:?}"
                );
                let late: BTreeSet<u64> = skipped.into_keys().collect();
                assert_eq!(late, missing, "{name}: each has its reason");
                assert!(slept.is_superset(&late), "{name}");
                assert!(late.len() + in_time.len() >= slept.len(), "{name}");
            }
            other => panic!("{other}"),
        }
    }
    for (region, relays, lost) in [
        ("hk", &at_hk, true),
        ("usw", &at_usw, false),
        ("fra", &at_fra, false),
    ] {
        let asked = relays.asked_once();
        let taken = taken_in[region];
        assert!(
            asked == taken || (lost && asked >= taken),
            "{region}: {asked} {taken}"
        );
    }
    // Chains and all.
    let contents = |folder: &Path| -> BTreeMap<_, _> {
        let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
        let evidence = files.filter(|path| path.extension().is_some_and(|it| it == "jsonl"));
        evidence
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect()
    };
    let paths: Vec<PathBuf> = contents(folder).into_keys().collect();
    let checked = check_all(&paths, 3);
    assert_eq!(
        (checked.files.len(), checked.unreadable.len()),
        (paths.len(), 0)
    );
    assert!(
        checked
            .files
            .iter()
            .all(|file| file.is_whole() && file.chained)
    );

    // What a twin took is there twice, and counts once; nothing contradicts anything but times.
    let twins = evidence(elsewhere.path());
    assert!(twins.len() >= 2 && at_twin.asked_once() > 10);
    for (name, twin) in twins {
        let part = |file: &str, evidence: &Evidence| merge::Part {
            file: file.to_owned(),
            evidence: evidence.clone(),
        };
        let whole = &on_file[&name];
        let merged = merge::merge_cell(vec![part("a", &twin), part("b", whole)]).unwrap();
        assert_eq!(merged.evidence.samples.len(), whole.samples.len(), "{name}");
        assert_eq!(merged.evidence.skipped, []);
        assert_eq!(merged.evidence.sessions.len(), 2);
    }

    // Started once more when all is over, it changes nothing.
    let before = contents(folder);
    let again = collector("usw", folder, &usw, &at_twin)
        .run("third", None)
        .await
        .unwrap();
    assert!(
        matches!(again, Collected::Over(it) if it.gaps() == 0),
        "{again:?}"
    );
    assert_eq!(contents(folder), before);
}
