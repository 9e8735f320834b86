//! A week that is collected on virtual time and judged: slow evenings of one relay, an outage of the
//! upstream that everybody shares, a reboot, and a region that was collected twice.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use relayproof::evidence::{Attempt, Evidence, merge, read_segments};
use relayproof::observation::{Class, Ending, Finding as Wrong, Phase};
use relayproof::plan::window::{Calendar, moment};
use relayproof::plan::{Cell, Plan, Slot};
use relayproof::probe::cancel::cancel_pair;
use relayproof::run::collect::{Collected, Order, cells_of, collect, region_of};
use relayproof::verdict::campaign::{Campaign, Finding, Role, Row, judge_campaign};
use relayproof::verdict::{Decision, Inconclusive, Overall};

use crate::virtual_time::{Replay, VirtualClock, machine, planned, recorded};

const SPEC: &str = r#"relayproof: 1
name: week
relays:
  - { name: alpha, base_url: "http://alpha.example/v1", models: [m] }
  - { name: beta, base_url: "http://beta.example/v1", models: [m] }
baseline: { name: official, base_url: "http://official.example/v1", pair: 50% }
regions: [hk, usw, fra]
windows: [{ name: peak, daily: "21:00-01:00", tz: Asia/Shanghai }]
sampling:
  mode: soak
  duration: 7d
  start: 2026-12-01T00:00:00Z
  max_samples: 3024
slos:
  - success_in_4 >= 99%
  - { expect: ttft.p95 < 2.5s, window: peak }
"#;

const HOUR: Duration = Duration::from_secs(3600);

/// What each relay, and the upstream, answers at a moment.
fn script(cell: &Cell, slot: &Slot, at: u64) -> Vec<Attempt> {
    let hours = |text: &str| moment(text).unwrap();
    // Nine in the morning to five in the afternoon in Shanghai, for relays and upstream alike.
    let outage = hours("2026-12-03T01:00:00Z")..hours("2026-12-03T09:00:00Z");
    let mut attempts = recorded();
    let seen = &mut attempts[0].observation;
    if outage.contains(&at) {
        seen.status = Some(503);
        seen.ending = Ending::Refused;
        seen.last_phase = Phase::Head;
        seen.findings = vec![Wrong {
            class: Class::HttpError,
            phase: Phase::Head,
            at: None,
            offset: None,
            event: None,
            detail: String::new(),
        }];
        seen.parse_ok = false;
        seen.usage = None;
        seen.timeline.first_event = None;
        seen.timeline.first_token = None;
        seen.timeline.last_token = None;
        seen.timeline.end_mark = None;
        return attempts;
    }
    let local = Calendar::days("Asia/Shanghai").unwrap().hour(at).unwrap();
    let evening = !(1..21).contains(&local);
    if cell.relay.name == "beta" && evening && slot.index.is_multiple_of(3) {
        let wait = Duration::from_secs(12);
        let time = &mut seen.timeline;
        for moment in [
            &mut time.first_event,
            &mut time.first_token,
            &mut time.last_token,
            &mut time.end_mark,
        ] {
            *moment = moment.map(|it| it + wait);
        }
        time.over += wait;
    }
    attempts
}

fn read(folder: &Path) -> Vec<merge::Part> {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .map(|path| merge::Part {
            file: path.display().to_string(),
            evidence: read_segments(&path).unwrap(),
        })
        .collect()
}

async fn collected(
    plan: &Plan,
    region: &str,
    folder: &Path,
    clock: &Arc<VirtualClock>,
    boot: &str,
    length: Option<Duration>,
) -> Collected {
    let region = region_of(plan, Some(region)).unwrap();
    let relays = Replay::new(plan, clock, Box::new(script));
    let order = Order {
        plan,
        cells: cells_of(plan, region),
        region,
        folder,
        length,
        session: machine(region.unwrap(), boot),
    };
    let (_switch, cancel) = cancel_pair();
    collect(&order, &**clock, &relays, cancel, &mut |_| {})
        .await
        .unwrap()
}

fn row<'c>(campaign: &'c Campaign, relay: &str, name: &str) -> &'c Row {
    let pool = campaign
        .pools
        .iter()
        .find(|pool| pool.relay == relay)
        .unwrap();
    let found = pool.rows.iter().find(|row| row.to_string() == name);
    found.unwrap_or_else(|| panic!("no row `{name}` of {relay}"))
}

#[tokio::test(start_paused = true)]
async fn a_week_gives_the_right_verdicts_blame_and_gaps() {
    let planned = planned(SPEC);
    let plan = &planned.plan;
    let start = moment("2026-12-01T00:00:00Z").unwrap();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [all, twin] = [folders[0].path(), folders[1].path()];
    let clock = || VirtualClock::new(start - 1_000_000_000);
    let (hk, usw, fra) = (clock(), clock(), clock());
    tokio::join!(
        // Two and a half hours away on the fifth day, at night in Hong Kong.
        async {
            let until = HOUR * (4 * 24 + 18);
            collected(plan, "hk", all, &hk, "first", Some(until)).await;
            hk.until(until + HOUR * 5 / 2).await;
            collected(plan, "hk", all, &hk, "second", None).await
        },
        collected(plan, "usw", all, &usw, "only", None),
        collected(plan, "fra", all, &fra, "only", None),
        // A second machine in the same place, which nobody knew of.
        async {
            usw.until(HOUR * 30).await;
            collected(plan, "usw", twin, &usw, "spare", Some(HOUR * 20)).await
        },
    );

    let judged = |parts: Vec<merge::Part>| {
        let merged = merge::merge(parts).unwrap();
        let evidence: Vec<Evidence> = merged.into_iter().map(|one| one.evidence).collect();
        judge_campaign(&evidence, moment("2026-12-09T00:00:00Z").unwrap()).unwrap()
    };
    let parts = || [read(twin), read(all)].concat();
    assert!(
        read(twin)
            .iter()
            .any(|part| part.evidence.samples.len() > 10)
    );
    let campaign = judged(parts());
    assert!(campaign.is_final);

    // Evenings: one relay keeps its promise about them, the other one does not.
    let peak = "ttft.p95 < 2.5s @peak";
    assert_eq!(
        row(&campaign, "alpha", peak).verdict.decision,
        Decision::Pass
    );
    let slow = row(&campaign, "beta", peak);
    assert_eq!(slow.verdict.decision, Decision::Violated);
    let blamed = slow.beside.unwrap().finding;
    assert_eq!(blamed, Finding::RelayAddsFailures, "the upstream was quick");
    for region in ["hk", "usw", "fra"] {
        let name = format!("{peak} in {region}");
        let own = row(&campaign, "beta", &name);
        assert_eq!(
            (own.role, own.verdict.decision),
            (Role::Gate, Decision::Violated)
        );
        assert!(
            own.against_rest.is_some_and(|it| !it.is_worse),
            "{region} is as the others"
        );
    }

    // The outage breaks everybody's promise, and is nobody's fault but the upstream's.
    for relay in ["alpha", "beta"] {
        let broken = row(&campaign, relay, "success_in_4 >= 99%");
        let down = Decision::Inconclusive(Inconclusive::BaselineDown);
        assert_eq!(broken.verdict.decision, down, "{relay}");
        assert_eq!(broken.beside.unwrap().finding, Finding::UpstreamDown);
        assert_eq!(broken.worst_day().unwrap().day.to_string(), "2026-12-03");
    }
    assert_eq!(
        campaign.relays(),
        [
            ("alpha", Overall::Inconclusive),
            ("beta", Overall::Violated)
        ]
    );

    // The reboot is a gap of one region and no failure; what was collected twice counts once.
    for pool in &campaign.pools {
        for coverage in &pool.coverage {
            let name = &coverage.cell;
            let lost = coverage.planned - coverage.taken;
            if coverage.region.as_deref() == Some("hk") {
                assert_eq!(coverage.gap_count, 1, "{name}");
                let gap = coverage.gaps[0];
                let hours = Duration::from_nanos(gap.to_unix_ns - gap.from_unix_ns);
                assert!(hours < HOUR * 5 / 2, "{name}: {hours:?}");
                assert_eq!(
                    (gap.slots, coverage.missing + coverage.absent),
                    (lost, lost)
                );
            } else {
                assert_eq!((lost, coverage.gap_count), (0, 0), "{name}");
            }
        }
    }

    // Neither the twin nor the order of the files changes anything.
    assert_eq!(judged(read(all)), campaign);
    let mut reversed = parts();
    reversed.reverse();
    assert_eq!(judged(reversed), campaign);
}
