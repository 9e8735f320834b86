//! Runs that end before their time: killed, interrupted, out of disk. What was measured stays.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use relayproof::evidence::{CloseReason, Evidence};
use relayproof::verdict::judge;

use crate::place::{Place, Seen, UnderWay, timed, until};
use crate::server::{Server, honest, wait_for_leave};

/// Calls that may be open at the same time.
const OPEN: usize = 4;

/// Answers that come before the relay falls silent.
const ANSWERED: usize = 12;

/// A relay that answers twelve requests and then leaves all others waiting, until it is told to go
/// on: a run at it stands still with [`ANSWERED`] samples on record and [`OPEN`] calls open.
struct Moody {
    server: Server,
    willing: Arc<AtomicBool>,
}

impl Moody {
    fn start() -> Self {
        let willing = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&willing);
        let server = Server::start(move |number, _, stream: &mut TcpStream| {
            if number < ANSWERED as u64 || told.load(Ordering::SeqCst) {
                stream.write_all(honest("m").as_bytes())
            } else {
                wait_for_leave(stream)
            }
        });
        Self { server, willing }
    }

    fn spec(&self) -> String {
        format!(
            "relayproof: 1
relays:
  - {{ name: r, base_url: \"{}\", models: [m] }}
sampling: {{ rate: 40/s, max_samples: 40, concurrency: {OPEN} }}
judge: {{ method: wilson }}
slos: [parse_success >= 50%]
",
            self.server.base_url()
        )
    }

    /// A run that stands still in mid-air.
    fn stuck(&self, place: &Place) -> UnderWay {
        place.write("s.yaml", &self.spec());
        let run = UnderWay::start(place.command(&["run", "s.yaml", "--run-id", "r"]));
        let all = (ANSWERED + OPEN) as u64;
        until("all requests", || self.server.requests() == all);
        until("all answers on record", || lines(place) == ANSWERED + 1);
        run
    }
}

/// Whole lines of evidence so far.
fn lines(place: &Place) -> usize {
    if !place.of_run("r").exists() {
        return 0;
    }
    let text = fs::read_to_string(place.evidence_file("r")).unwrap_or_default();
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn indices(evidence: &Evidence) -> Vec<u64> {
    evidence.samples.iter().map(|it| it.index).collect()
}

#[test]
fn a_killed_run_loses_the_calls_that_were_open_and_no_more() {
    let (moody, place) = (Moody::start(), Place::new());
    let run = moody.stuck(&place);
    run.signal("-KILL");
    assert_eq!(run.ends().status.code(), None);

    let evidence = place.evidence("r");
    assert_eq!(evidence.samples.len(), ANSWERED);
    assert_eq!(moody.server.requests() as usize - ANSWERED, OPEN);
    place
        .run(&["judge", "runs/r"])
        .exits(3)
        .says("12 of 40 samples")
        .says("INCONCLUSIVE");

    // A line that was being written is torn, which spoils no other.
    let file = place.evidence_file("r");
    let before = fs::read(&file).unwrap();
    let mut torn = fs::OpenOptions::new().append(true).open(&file).unwrap();
    torn.write_all(br#"{"sample":{"id":"0123"#).unwrap();
    drop(torn);
    place
        .run(&["judge", "runs/r"])
        .exits(3)
        .says("12 of 40 samples")
        .says("last line torn");
    place
        .run(&["verify", "runs/r"])
        .exits(0)
        .says(": whole, 13 lines")
        .says("torn end")
        .says("no closing line");

    // The same run goes on behind what is on record.
    moody.willing.store(true, Ordering::SeqCst);
    let resumed = place.run(&["run", "s.yaml", "--run-id", "r"]);
    resumed.passes();
    let after = fs::read(&file).unwrap();
    assert!(
        after.starts_with(&before),
        "what was on record stays as it is"
    );
    let evidence = place.evidence("r");
    let (old, new) = indices(&evidence).split_at_checked(ANSWERED).map_or_else(
        || panic!("{evidence:?}"),
        |(old, new)| (old.to_vec(), new.to_vec()),
    );
    let next = old.iter().max().unwrap() + 1;
    let mut new = new;
    new.sort_unstable();
    assert_eq!(new, (next..40).collect::<Vec<_>>(), "after {old:?}");
    let sent = (ANSWERED + OPEN + new.len()) as u64;
    assert_eq!(moody.server.requests(), sent, "none is asked twice");
    let judged = place.run(&["judge", "runs/r"]);
    assert_eq!(judged.status.code(), resumed.status.code());
    assert!(resumed.out.starts_with(&judged.out), "{resumed}\n{judged}");

    // The chain goes on behind what was killed and torn.
    let whole = place.run(&["verify", "runs/r"]);
    whole.exits(0).says(": whole, ");
    assert!(
        !whole.out.contains("torn") && !whole.out.contains("no closing line"),
        "{whole}"
    );

    // A run that is through is not sampled again.
    place.run(&["run", "s.yaml", "--run-id", "r"]).passes();
    assert_eq!(moody.server.requests(), sent);
}

#[test]
fn an_interrupted_run_keeps_its_evidence_says_where_and_goes_on_when_asked() {
    let (moody, place) = (Moody::start(), Place::new());
    let run = moody.stuck(&place);
    run.signal("-INT");
    let (seen, took) = timed(|| run.ends());
    seen.exits(3)
        .complains("interrupted: sampling ends, the evidence so far is kept in runs/r")
        .says("the run was interrupted");
    assert!(took < Duration::from_secs(30), "{took:?}");

    let evidence = place.evidence("r");
    let close = evidence.close.as_ref().unwrap();
    assert_eq!(close.reason, CloseReason::Interrupted);
    assert_eq!(
        (evidence.samples.len(), close.abandoned),
        (ANSWERED, OPEN as u64)
    );
    let judged = place.run(&["judge", "runs/r"]);
    judged.exits(3);
    assert!(seen.out.starts_with(&judged.out), "{seen}\n{judged}");

    moody.willing.store(true, Ordering::SeqCst);
    place.run(&["run", "s.yaml", "--run-id", "r"]).passes();
    let evidence = place.evidence("r");
    assert_eq!(
        evidence.close.as_ref().unwrap().reason,
        CloseReason::Decided
    );
    assert_eq!(evidence.earlier.len(), 1);
    let mut indices = indices(&evidence);
    let count = indices.len();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), count, "no slot twice");
    assert_eq!(indices.last(), Some(&39));
}

#[test]
fn a_runner_that_ends_the_run_gets_the_evidence_whole_as_well() {
    let (moody, place) = (Moody::start(), Place::new());
    let run = moody.stuck(&place);
    run.signal("-TERM");
    run.ends().exits(3).says("the run was interrupted");
    let close = place.evidence("r").close.unwrap();
    assert_eq!(close.reason, CloseReason::Interrupted);
}

#[test]
#[cfg(target_os = "linux")]
fn a_second_interrupt_ends_the_run_at_once() {
    let (moody, place) = (Moody::start(), Place::new());
    moody.willing.store(true, Ordering::SeqCst);
    place.write("s.yaml", &moody.spec());
    place.run(&["run", "s.yaml", "--run-id", "r"]).passes();
    // Another process of the same run, which waits for the cell's lock for as long as it is held.
    let lock = place.evidence_file("r").with_extension("lock");
    let lock = fs::File::open(lock).unwrap();
    lock.lock().unwrap();
    let run = UnderWay::start(place.command(&["run", "s.yaml", "--run-id", "r"]));
    until("a second process", || waits_for_lock(&place));
    run.signal("-INT");
    run.hears("interrupted: sampling ends");
    run.signal("-INT");
    let (seen, took) = timed(|| run.ends());
    assert_eq!(seen.status.code(), Some(130), "{seen}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    drop(lock);
}

#[cfg(target_os = "linux")]
/// Whether some process waits for a lock, as the system sees it.
fn waits_for_lock(place: &Place) -> bool {
    use std::os::unix::fs::MetadataExt;
    let lock = place.evidence_file("r").with_extension("lock");
    let inode = fs::metadata(lock).unwrap().ino().to_string();
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks
        .lines()
        .any(|line| line.contains("->") && line.contains(&format!(":{inode} ")))
}

#[test]
fn an_interrupted_probe_measured_nothing() {
    let (moody, place) = (Moody::start(), Place::new());
    let url = moody.server.base_url();
    for _ in 0..ANSWERED {
        place.run(&["probe", &url]).exits(0);
    }
    let probe = UnderWay::start(place.command(&["probe", &url, "--format", "json"]));
    until("the request", || {
        moody.server.requests() == ANSWERED as u64 + 1
    });
    probe.signal("-INT");
    let seen = probe.ends();
    seen.exits(4).complains("interrupted");
    assert_eq!(seen.out, "");
}

#[test]
fn a_full_disk_is_our_failure_and_nothing_counts_that_is_not_on_record() {
    let (moody, place) = (Moody::start(), Place::new());
    moody.willing.store(true, Ordering::SeqCst);
    place.write("s.yaml", &moody.spec());
    // 24 KiB a file, and an error instead of a signal for whoever writes beyond.
    let mut command = place.through_shell(
        "trap '' XFSZ; ulimit -f 48",
        &["run", "s.yaml", "--run-id", "r"],
    );
    let seen = Seen::of(command.output().unwrap());
    seen.exits(4)
        .complains("error: r/m/default: cannot write the evidence file runs/r/")
        .complains("nothing was measured");
    assert!(!seen.out.contains("PASS"), "{seen}");

    let evidence = place.evidence("r");
    assert!(!evidence.torn, "half a line was taken back");
    assert!((1..40).contains(&evidence.samples.len()));
    assert_eq!(evidence.close, None);
    assert!(evidence.samples.len() as u64 <= moody.server.requests());
    assert_eq!(judge(&evidence)[0].n, evidence.samples.len() as u64);
    place.run(&["judge", "runs/r"]).exits(3);
    let lines = format!(": whole, {} lines", evidence.samples.len() + 1);
    place.run(&["verify", "runs/r"]).exits(0).says(&lines);

    // With room again, the run goes on.
    place.run(&["run", "s.yaml", "--run-id", "r"]).passes();
    place.run(&["verify", "runs/r"]).exits(0).says(": whole, ");
}
