//! `relayproof collect` as a process: killed, out of disk, started twice, told to end, short of
//! money.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;

use relayproof::evidence::{CloseReason, Evidence, SkipReason, read_segments};
use relayproof::measure::purse::{Nano, Tariff};
use relayproof::plan::{Plan, Slot};
use relayproof::resolve::resolve;
use relayproof::spec;

use crate::place::{Place, Seen, UnderWay, until};
use crate::server::{Server, honest, wait_for_leave};

/// A soak of so many seconds and slots.
fn soak(base_url: &str, seconds: u32, slots: u32, more: &str) -> String {
    format!(
        "relayproof: 1
name: short
relays:
  - name: r
    base_url: \"{base_url}\"
    models: [m]
    pricing: {{ m: {{ input: 1, output: 2 }} }}
sampling: {{ mode: soak, duration: {seconds}s, max_samples: {slots}{more} }}
judge: {{ bucket: 1s, min_days: 1, mode: guard }}
slos: [success_in_4 >= 50%]
"
    )
}

fn plan_of(text: &str) -> Plan {
    resolve(&spec::parse("s.yaml", text, &|_| None).unwrap(), None).unwrap()
}

fn slots(plan: &Plan) -> BTreeMap<u64, Slot> {
    let cell = &plan.cells[0];
    let slots = cell.slots(&cell.sampling(&plan.sampling));
    slots.map(|slot| (slot.index, slot)).collect()
}

/// A relay without fault.
fn willing() -> Server {
    Server::start(|_, _, stream: &mut TcpStream| stream.write_all(honest("m").as_bytes()))
}

const FOLDER: &str = "relayproof-evidence/short";

fn file(place: &Place) -> Option<PathBuf> {
    let entries = fs::read_dir(place.path().join(FOLDER)).ok()?;
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_some_and(|it| it == "jsonl"))
}

fn evidence(place: &Place) -> Evidence {
    read_segments(&file(place).unwrap()).unwrap()
}

fn lines(place: &Place) -> usize {
    let text = file(place).map(|path| fs::read_to_string(path).unwrap_or_default());
    text.unwrap_or_default().matches('\n').count()
}

fn more_lines(place: &Place, more: usize) {
    let before = lines(place);
    until("further lines", || lines(place) >= before + more);
}

/// Holds each slot to a sample, a reason, or a moment at which nobody collected.
fn account(plan: &Plan, evidence: &Evidence) -> (usize, BTreeMap<u64, SkipReason>, usize) {
    let start = evidence.header.started_unix_ns;
    let planned = |slot: &Slot| start + u64::try_from(slot.start.as_nanos()).unwrap();
    let slots = slots(plan);
    let mut taken = BTreeSet::new();
    for sample in &evidence.samples {
        assert_eq!(sample.id, slots[&sample.index].id);
        assert!(taken.insert(sample.index), "slot {} twice", sample.index);
    }
    let mut named = BTreeMap::new();
    for skipped in &evidence.skipped {
        assert!(!taken.contains(&skipped.index));
        assert_eq!(named.insert(skipped.index, skipped.why), None);
    }
    let unnamed = slots
        .values()
        .filter(|slot| !taken.contains(&slot.index) && !named.contains_key(&slot.index));
    let mut missed = 0;
    for slot in unnamed {
        missed += 1;
        let at = planned(slot);
        let mut later = evidence.sessions.iter().filter(|it| it.at_unix_ns > at);
        let next = later
            .next()
            .unwrap_or_else(|| panic!("nobody says why {slot:?} is missing"));
        let behind = evidence.samples.iter().filter(|it| it.index > slot.index);
        for sample in behind {
            let in_time = sample.t0_unix_ns >= next.at_unix_ns;
            assert!(
                in_time,
                "{} was passed over for {}",
                slot.index, sample.index
            );
        }
    }
    (taken.len(), named, missed)
}

#[test]
fn a_soak_that_is_killed_and_runs_out_of_disk_has_each_slot_once_or_a_gap_that_is_known() {
    let (server, place) = (willing(), Place::new());
    let text = soak(&server.base_url(), 20, 200, "");
    place.write("s.yaml", &text);
    for _ in 0..3 {
        let killed = UnderWay::start(place.command(&["collect", "s.yaml"]));
        more_lines(&place, 12);
        killed.signal("-KILL");
        assert_eq!(killed.ends().status.code(), None);
    }
    let before = fs::read(file(&place).unwrap()).unwrap();
    // Room for some more lines; an error instead of a signal for whoever writes beyond.
    let room = format!("trap '' XFSZ; ulimit -f {}", before.len() / 512 + 20);
    let full = place.through_shell(&room, &["collect", "s.yaml"]).output();
    let full = Seen::of(full.unwrap());
    full.exits(4)
        .complains("error: short: cannot write the evidence file relayproof-evidence/");
    assert!(!evidence(&place).torn);
    let last = place.run(&["collect", "s.yaml"]);
    last.exits(0)
        .says("the soak is over")
        .says(" of 200 slots sampled, ");

    let after = fs::read(file(&place).unwrap()).unwrap();
    assert!(after.starts_with(&before), "what was on record stays");
    let evidence = evidence(&place);
    let (taken, named, missed) = account(&plan_of(&text), &evidence);
    assert_eq!(taken + named.len() + missed, 200);
    assert!(taken > 60, "{last}");
    let gaps = named.len() + missed;
    last.says(&format!("{taken} of 200 slots sampled, {gaps} gap"));
    assert_eq!(evidence.sessions.len(), 5);
    let close = evidence.close.as_ref().unwrap();
    assert_eq!(close.reason, CloseReason::Budget);
    // Whatever was sent is there, or said to be lost.
    let lost = named
        .values()
        .filter(|why| **why == SkipReason::Lost)
        .count();
    let asked = server.requests() as usize;
    assert!(
        (taken..=taken + lost).contains(&asked),
        "{asked} {taken} {lost}"
    );
    place.run(&["verify", FOLDER]).exits(0).says(": whole, ");

    // Once more changes nothing, and sends nothing.
    place
        .run(&["collect", "s.yaml"])
        .exits(0)
        .says("the soak is over");
    assert_eq!(fs::read(file(&place).unwrap()).unwrap(), after);
    assert_eq!(server.requests() as usize, asked);
}

#[test]
fn a_second_collector_waits_and_takes_over_and_a_third_one_leaves() {
    let (server, place) = (willing(), Place::new());
    let text = soak(&server.base_url(), 15, 150, "");
    place.write("s.yaml", &text);
    let first = UnderWay::start(place.command(&["collect", "s.yaml"]));
    more_lines(&place, 5);
    let second = UnderWay::start(place.command(&["collect", "s.yaml"]));
    second.hears("collects already; this process takes over when that one ends");
    let third = place.run(&["collect", "s.yaml"]);
    third
        .exits(0)
        .says("another process collects")
        .complains("note: short: process ");
    first.signal("-KILL");
    first.ends();
    second.ends().exits(0).says("the soak is over");
    let evidence = evidence(&place);
    let (taken, named, missed) = account(&plan_of(&text), &evidence);
    assert_eq!(evidence.sessions.len(), 2);
    assert!(taken > 100, "{taken} {named:?} {missed}");
}

#[test]
fn a_collector_ends_when_its_time_is_over_or_it_is_told_to_and_the_soak_goes_on() {
    let (server, place) = (willing(), Place::new());
    place.write("s.yaml", &soak(&server.base_url(), 3600, 36_000, ""));
    let some = place.run(&["collect", "s.yaml", "--for", "2s"]);
    some.exits(0).says("its time is over, the soak goes on");
    assert_eq!(evidence(&place).close.unwrap().reason, CloseReason::Paused);
    let told = UnderWay::start(place.command(&["collect", "s.yaml"]));
    more_lines(&place, 5);
    told.signal("-TERM");
    told.ends()
        .exits(0)
        .says("interrupted, the soak goes on")
        .complains("open ones have ten seconds");
    let evidence = evidence(&place);
    assert_eq!(evidence.close.unwrap().reason, CloseReason::Interrupted);
    assert_eq!((evidence.earlier.len(), evidence.sessions.len()), (1, 2));
    let abandoned = |why| why == SkipReason::Abandoned;
    let skipped = &evidence.skipped;
    assert!(
        !skipped.iter().any(|it| abandoned(it.why)),
        "the relay is quick: {skipped:?}"
    );
}

#[test]
fn a_call_that_is_open_when_the_collector_must_end_is_said_to_be_abandoned() {
    let place = Place::new();
    let server = Server::start(|_, _, stream: &mut TcpStream| wait_for_leave(stream));
    place.write(
        "s.yaml",
        &soak(&server.base_url(), 3600, 36_000, ", concurrency: 3"),
    );
    let run = UnderWay::start(place.command(&["collect", "s.yaml"]));
    until("open calls", || server.requests() == 3);
    more_lines(&place, 2);
    run.signal("-INT");
    run.ends().exits(0).says("interrupted");
    let evidence = evidence(&place);
    let why = |wanted| {
        evidence
            .skipped
            .iter()
            .filter(|it| it.why == wanted)
            .count()
    };
    assert_eq!(why(SkipReason::Abandoned), 3);
    assert!(
        why(SkipReason::Concurrency) > 0,
        "three were open, and no more may be"
    );
    assert_eq!(evidence.close.unwrap().abandoned, 3);
}

#[test]
fn what_cannot_be_collected_is_refused_with_a_way_out() {
    let place = Place::new();
    let url = "http://127.0.0.1:9/v1";
    let text = soak(url, 3600, 20, "");
    place.write("s.yaml", &text);
    place.run(&["collect", "s.yaml", "--for", "100ms"]).exits(0);
    place.write("s.yaml", &text.replace(">= 50%", ">= 40%"));
    place
        .run(&["collect", "s.yaml"])
        .exits(2)
        .complains("holds the evidence of another plan")
        .complains("--evidence");
    place
        .run(&["collect", "s.yaml", "--evidence", "other", "--for", "100ms"])
        .exits(0);
    let regions = text
        .replace("name: short\n", "name: far\nregions: [hk, usw]\n")
        .replace(
            "duration: 3600s",
            "duration: 3600s, start: 2026-12-01T00:00:00Z",
        );
    place.write("far.yaml", &regions);
    place
        .run(&["collect", "far.yaml"])
        .exits(2)
        .complains("far.yaml is collected from hk, usw: say which of them this is");
    place
        .run(&["collect", "far.yaml", "--region", "mars"])
        .exits(2)
        .complains("far.yaml has no region `mars`; it has hk, usw");
    place.write("burst.yaml", &format!("relayproof: 1\nrelays: [{{ name: r, base_url: \"{url}\", models: [m] }}]\nslos: [parse_success >= 50%]\n"));
    place
        .run(&["collect", "burst.yaml"])
        .exits(2)
        .complains("burst.yaml is no soak; `relayproof run burst.yaml` samples it");
    place
        .run(&["collect", "s.yaml", "far.yaml", "--evidence", "e"])
        .exits(2)
        .complains("`--evidence` names the folder of one soak");
    place.write(
        "keyed.yaml",
        &text.replace(
            "models: [m]",
            "models: [m]\n    api_key: { env: NO_SUCH_KEY }",
        ),
    );
    place
        .run(&["collect", "keyed.yaml", "--evidence", "k"])
        .exits(4)
        .complains("ignored: r/m/default: NO_SUCH_KEY is not set")
        .complains("nothing can be measured");
}

/// What a cell has spent, every unknown cost at its worst.
fn spent(plan: &Plan, evidence: &Evidence) -> f64 {
    let tariff = Tariff::of(&plan.cells[0]).unwrap();
    let samples = evidence.samples.iter().map(|it| tariff.of_sample(it).usd());
    let sent = evidence
        .skipped
        .iter()
        .filter(|it| it.why.was_sent())
        .count() as f64;
    samples.sum::<f64>() + sent * tariff.call().usd()
}

#[test]
fn the_cost_limit_of_a_soak_holds_over_kills_and_what_it_forbids_is_named() {
    // Half of the answers never say what they cost.
    let server = Server::start(|number, _, stream: &mut TcpStream| {
        let whole = honest("m");
        let length = if number % 2 == 0 {
            whole.len()
        } else {
            whole.len() / 2
        };
        stream.write_all(&whole.as_bytes()[..length])
    });
    let place = Place::new();
    let free = plan_of(&soak(&server.base_url(), 8, 160, ""));
    let call = Tariff::of(&free.cells[0]).unwrap().call();
    let cap = call.times(8).usd();
    let text = soak(
        &server.base_url(),
        8,
        160,
        &format!(", limits: {{ max_cost: {cap} USD }}"),
    );
    let plan = plan_of(&text);
    place.write("s.yaml", &text);
    let killed = UnderWay::start(place.command(&["collect", "s.yaml"]));
    more_lines(&place, 8);
    killed.signal("-KILL");
    killed.ends();
    let last = place.run(&["collect", "s.yaml"]);
    last.exits(0).says(" by the cost limit)");
    let evidence = evidence(&place);
    let (taken, named, _) = account(&plan, &evidence);
    let forbidden = named
        .values()
        .filter(|why| **why == SkipReason::Cost)
        .count();
    assert!(forbidden > 0 && taken > 8, "{last}");
    let spent = spent(&plan, &evidence);
    assert!(spent <= cap, "{spent} of {cap}");
    assert!(
        spent > cap - 2.0 * call.usd(),
        "and not much of it is left: {spent} of {cap}"
    );
    assert!(plan.cells[0].price.is_some() && call > Nano::default());
}

/// A burst of 200 streams and more at once, at an embedded relay whose usage comes after so long, if
/// at all.
fn burst(first_token: &str, cap: f64) -> String {
    format!(
        "relayproof: 1
name: burst
relays:
  - name: r
    simulate: {{ first_token: {first_token}, tokens: 8, faults: [{{ truncate: 50% }}] }}
    models: [m]
    pricing: {{ m: {{ input: 1, output: 2 }} }}
sampling: {{ rate: 400/s, max_samples: 3000, concurrency: 1000, limits: {{ max_cost: {cap} USD }} }}
judge: {{ method: wilson, mode: guard }}
slos: [success_in_4 >= 1%]
"
    )
}

#[test]
fn the_cost_limit_of_a_burst_holds_with_hundreds_of_streams_whose_usage_comes_late_or_never() {
    let free = plan_of(&burst("1s", 1000.0));
    let call = Tariff::of(&free.cells[0]).unwrap().call();
    for (first_token, calls) in [("3s", 260), ("700ms", 420)] {
        let place = Place::new();
        let cap = call.times(calls).usd();
        let text = burst(first_token, cap);
        let plan = plan_of(&text);
        place.write("s.yaml", &text);
        let seen = place.run(&["run", "s.yaml", "--run-id", "r"]);
        let evidence = place.evidence("r");
        let reason = evidence.close.as_ref().unwrap().reason;
        assert_eq!(reason, CloseReason::Limit, "{seen}");
        assert!(spent(&plan, &evidence) <= cap);
        // At each start: what had ended by then at what it cost, what was open at its worst.
        let tariff = Tariff::of(&plan.cells[0]).unwrap();
        let ends: Vec<(u64, u64, f64)> = evidence
            .samples
            .iter()
            .map(|it| {
                let last = it.attempts.last().unwrap();
                let took = last.start + last.observation.timeline.over;
                let took = u64::try_from(took.as_nanos()).unwrap();
                (
                    it.t0_unix_ns,
                    it.t0_unix_ns + took,
                    tariff.of_sample(it).usd(),
                )
            })
            .collect();
        let (mut most_open, mut most) = (0, 0.0_f64);
        for (now, _, _) in &ends {
            let open = ends
                .iter()
                .filter(|(t0, end, _)| t0 <= now && now < end)
                .count();
            let ended = ends.iter().filter(|(_, end, _)| end <= now);
            let sum = ended.map(|(_, _, cost)| cost).sum::<f64>() + open as f64 * call.usd();
            most_open = most_open.max(open);
            most = most.max(sum);
        }
        assert!(most <= cap + 1e-9, "{first_token}: {most} of {cap}");
        assert!(most_open >= 200, "{first_token}: only {most_open} at once");
        assert!(
            evidence.samples.len() as u64 >= calls,
            "{first_token}: as many as must fit"
        );
    }
}

#[test]
fn a_collector_says_at_once_what_it_does_and_when_it_ends() {
    let (server, place) = (willing(), Place::new());
    place.write("s.yaml", &soak(&server.base_url(), 3600, 20, ""));
    let seen = place.run(&["collect", "s.yaml", "--for", "100ms"]);
    seen.exits(0)
        .complains("short: 0 of 20 slots sampled, 0 gaps, next at 20");
    assert!(seen.err.lines().count() <= 2, "{seen}");
}
