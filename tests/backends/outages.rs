//! Programs that are killed, slow or wrong while the real command runs: no verdict moves, and what
//! was lost is said.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use relayproof::telemetry::spans::{CellSpans, SampleFacts};

use crate::programs::{Backends, binaries};
use crate::receiver::{Mode, Receiver};
use crate::runs::{self, Account, Over, Run};

/// One relay that keeps its word and one that cannot, both far from any doubt.
const PLAIN: &str = "\
relayproof: 1
name: plain
relays:
  - name: honest
    simulate: { first_token: 20ms, token_gap: 1ms, tokens: 20 }
  - name: broken
    simulate: { first_token: 20ms, token_gap: 1ms, tokens: 20, faults: [{ truncate: 70% }] }
sampling: { rate: 20/s, max_samples: 30, seed: 3 }
judge: { method: exact }
slos:
  - http_success >= 80%
  - interruption < 20%
";

/// What it comes to.
const VERDICTS: [&str; 4] = [
    "PASS: http_success >= 80%",
    "PASS: interruption < 20%",
    "PASS: http_success >= 80%",
    "VIOLATED: interruption < 20%",
];

/// Some eight seconds of one relay, long enough for something to die in them.
const LONG: &str = "\
relayproof: 1
name: long
relays:
  - name: relay
    simulate: { tls: true, first_token: 20ms, token_gap: 2ms, tokens: 20, faults: [{ truncate: 20% }] }
sampling: { rate: 10/s, max_samples: 80, seed: 3 }
judge: { method: exact }
slos:
  - http_success >= 95%
";

fn spec(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("spec.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

/// A run of the plain spec with telemetry sent to an endpoint, or nowhere.
fn plain(endpoint: Option<&str>) -> (Over, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let spec = spec(dir.path(), PLAIN);
    let env: Vec<_> = endpoint
        .iter()
        .map(|url| ("OTEL_EXPORTER_OTLP_ENDPOINT", *url))
        .collect();
    let over = Run::start(&[spec], dir.path(), &env).finish();
    (over, dir)
}

/// No Collector, one that is slow, one that refuses and one that talks nonsense are all the same to
/// the verdicts, the exit code and, within five seconds, the time.
#[test]
fn no_verdict_and_no_exit_code_depends_on_the_collector() {
    let _alone = runs::alone();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let answers = [
        (Mode::Hang, Some("the time was too short")),
        (Mode::Status(503), Some("HTTP status 503")),
        (Mode::Status(404), Some("HTTP status 404")),
        (Mode::Status(400), Some("HTTP status 400")),
        (Mode::Garbage, None),
        (Mode::Ok, None),
    ];
    let servers: Vec<_> = answers
        .map(|(mode, trouble)| (Receiver::start(mode), trouble))
        .into();
    let mut endpoints = vec![(nobody, Some("connection refused"))];
    endpoints.extend(
        servers
            .iter()
            .map(|(receiver, trouble)| (receiver.endpoint(), *trouble)),
    );
    let mut compared = 0;
    let mut same = |over: &Over, about: &str| {
        // A machine so busy that a run disowns its verdicts is no matter of telemetry.
        if !over.out.contains("client saturated") {
            compared += 1;
            assert_eq!(over.code, Some(1), "{about}");
            assert_eq!(over.verdicts(), VERDICTS, "{about}");
        }
    };
    let (without, _dir) = plain(None);
    same(&without, &without.out);
    let Account {
        written,
        made,
        exported,
    } = without.account();
    assert_eq!((written, exported), (made, 0));
    for (endpoint, trouble) in endpoints {
        let (over, _dir) = plain(Some(&endpoint));
        let about = format!("{trouble:?}\n{}\n{}", over.out, over.err);
        same(&over, &about);
        // Five seconds are the rule; the rest is for a machine that is busy with other things.
        assert!(
            over.farewell < Duration::from_secs(20),
            "{:?} {about}",
            over.farewell
        );
        let account = over.account();
        assert_eq!(
            account.written, account.made,
            "the file has all of them: {about}"
        );
        match (trouble, over.warnings()[..].first()) {
            (None, None) => assert_eq!(account.exported, account.made, "{about}"),
            (Some(trouble), Some(warning)) => {
                assert_eq!(over.warnings().len(), 1, "{about}");
                assert!(warning.contains(trouble), "{about}");
                let lost = account.made - account.exported;
                let said = format!("{lost} of {} spans", account.made);
                assert!(warning.contains(&said), "{about}");
            }
            _ => panic!("{about}"),
        }
    }
    assert!(compared > 0, "the machine is too busy for any of it");
}

/// Every sample's trace, whole.
fn all_are_there(backends: &Backends, over: &Over) {
    for cell in over.evidence() {
        let drawn = CellSpans::new(&cell.header);
        for sample in &cell.samples {
            let facts = SampleFacts::of(&cell.header, sample);
            let spans = drawn.sample(sample, &facts, None).len();
            backends.trace(&sample.trace_id, spans);
        }
    }
}

fn start_long(backends: &Backends, dir: &Path) -> Run {
    let endpoint = backends.endpoint();
    let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    Run::start(&[spec(dir, LONG)], dir, &env)
}

#[test]
fn a_collector_that_is_killed_during_a_run_and_comes_back_loses_nothing() {
    let Some(bin) = binaries(&["otelcol", "jaeger"]) else {
        return;
    };
    let _alone = runs::alone();
    let mut backends = Backends::start(&bin, 4);
    let dir = tempfile::tempdir().unwrap();
    let mut run = start_long(&backends, dir.path());
    run.reach(15);
    backends.kill_collector();
    run.reach(35);
    backends.start_collector();
    // Twice, for once may be luck.
    run.reach(55);
    backends.kill_collector();
    backends.start_collector();
    let over = run.finish();
    assert_eq!(over.warnings(), Vec::<&str>::new());
    let Account {
        written,
        made,
        exported,
    } = over.account();
    assert_eq!((written, exported), (made, made), "{}", over.out);
    all_are_there(&backends, &over);
}

/// What stays lost is said: a Collector that dies and does not come back.
#[test]
fn a_collector_that_is_killed_for_good_costs_what_the_account_says() {
    let Some(bin) = binaries(&["otelcol", "jaeger"]) else {
        return;
    };
    let _alone = runs::alone();
    let mut backends = Backends::start(&bin, 5);
    let dir = tempfile::tempdir().unwrap();
    let mut run = start_long(&backends, dir.path());
    run.reach(30);
    // The first traces are there, so something was exported, and then nothing more.
    let found = |backends: &Backends| backends.search("{}", 200).len();
    backends.wait_for("a first trace", || (found(&backends) > 0).then_some(()));
    backends.kill_collector();
    let over = run.finish();
    assert!(
        matches!(over.code, Some(0 | 3)),
        "{}\n{}",
        over.out,
        over.err
    );
    assert!(
        over.farewell < Duration::from_secs(20),
        "{:?}",
        over.farewell
    );
    let Account {
        written,
        made,
        exported,
    } = over.account();
    assert_eq!(written, made);
    assert!(exported > 0 && exported < made, "{}", over.out);
    let [warning] = over.warnings()[..] else {
        panic!("{}", over.err);
    };
    let lost = made - exported;
    assert!(
        warning.contains(&format!("{lost} of {made} spans")),
        "{warning}"
    );

    // What the Collector took it still has: it comes back after the run and hands it on.
    backends.start_collector();
    let arrived = |backends: &Backends| -> u64 {
        let traces = backends.search("{}", 200);
        let spans = traces
            .iter()
            .map(|trace| trace["spans"].as_array().unwrap().len());
        spans.sum::<usize>() as u64
    };
    // Live spans of the run end with it, when nobody took them any more.
    backends.wait_for("what was exported", || {
        (arrived(&backends) >= exported).then_some(())
    });
}

/// Jaeger dies during the run, the Collector after it: what the Collector took is on its disk.
#[test]
fn jaeger_and_the_collector_may_both_be_killed_while_the_queue_holds() {
    let Some(bin) = binaries(&["otelcol", "jaeger"]) else {
        return;
    };
    let _alone = runs::alone();
    let mut backends = Backends::none(&bin, 6);
    let disk = tempfile::tempdir().unwrap();
    backends.jaeger_overlay(&on_disk(disk.path()));
    backends.start_jaeger();
    backends.start_collector();
    let dir = tempfile::tempdir().unwrap();
    let mut run = start_long(&backends, dir.path());
    run.reach(30);
    backends.wait_for("a first trace", || {
        (!backends.search("{}", 20).is_empty()).then_some(())
    });
    backends.kill_jaeger();
    let over = run.finish();
    assert!(
        matches!(over.code, Some(0 | 3)),
        "{}\n{}",
        over.out,
        over.err
    );
    assert_eq!(over.warnings(), Vec::<&str>::new());
    let Account {
        written,
        made,
        exported,
    } = over.account();
    assert_eq!((written, exported), (made, made), "{}", over.out);
    backends.kill_collector();
    backends.start_jaeger();
    backends.start_collector();
    all_are_there(&backends, &over);
}

/// Jaeger with its traces on disk, so that killing it costs none.
fn on_disk(folder: &Path) -> String {
    let (keys, values) = (folder.join("keys"), folder.join("values"));
    format!(
        "\
extensions:
  jaeger_storage:
    backends:
      disk:
        badger:
          ephemeral: false
          consistency: true
          directories: {{ keys: {keys:?}, values: {values:?} }}
  jaeger_query:
    storage: {{ traces: disk }}
exporters:
  jaeger_storage_exporter: {{ trace_storage: disk }}
"
    )
}
