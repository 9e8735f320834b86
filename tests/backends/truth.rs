//! A run of the real command against embedded relays over TLS that misbehave: every sample of its
//! evidence is looked up in Jaeger and held against the table of spans.

use std::collections::{BTreeMap, BTreeSet};

use relayproof::evidence::Evidence;
use relayproof::observation::Class;
use relayproof::telemetry::spans::{CellSpans, SampleFacts};
use serde_json::Value;

use crate::programs::{Backends, binaries, get, references, repository, tag};
use crate::runs::{self, Account, Over, Run};
use crate::table;

#[test]
fn every_sample_of_a_run_over_tls_with_faults_is_in_jaeger_as_the_tables_say() {
    let Some(bin) = binaries(&["otelcol", "jaeger"]) else {
        return;
    };
    let _alone = runs::alone();
    let backends = Backends::start(&bin, 3);
    let dir = tempfile::tempdir().unwrap();
    // A name that nobody has: the phase `dns` fails, quickly or at its limit.
    let nowhere = dir.path().join("nowhere.yaml");
    std::fs::write(&nowhere, NOWHERE).unwrap();
    let specs = [repository().join("tests/backends/faults.yaml"), nowhere];
    let endpoint = backends.endpoint();
    let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let over = Run::start(&specs, dir.path(), &env).finish();
    // Violated, or too busy a machine to say: the traces are the same.
    assert!(
        matches!(over.code, Some(1 | 3)),
        "{}\n{}",
        over.out,
        over.err
    );
    assert_eq!(over.warnings(), Vec::<&str>::new());

    let account = over.account();
    let Account {
        written,
        made,
        exported,
    } = account;
    assert_eq!((written, exported), (made, made), "{}", over.out);
    assert_eq!(
        over.kept() as u64,
        made,
        "the file holds what the account says"
    );

    let cells = over.evidence();
    assert_eq!(cells.len(), 5);
    let faults: BTreeSet<Class> = cells
        .iter()
        .flat_map(|cell| &cell.samples)
        .flat_map(|sample| &sample.attempts)
        .filter_map(|attempt| attempt.observation.class())
        .collect();
    for fault in [
        Class::ErrorInStream,
        Class::Fake200JsonError,
        Class::HttpError,
        Class::MalformedJson,
        Class::Stalled,
        Class::TruncatedNoTerminator,
    ] {
        assert!(faults.contains(&fault), "{fault} of {faults:?}");
    }
    let retried = |cell: &Evidence| cell.samples.iter().any(|sample| sample.attempts.len() > 1);
    assert!(cells.iter().any(retried));

    let mut spans = 0;
    let mut runs = BTreeMap::new();
    for cell in &cells {
        let (of_cell, links) = cell_fits(&backends, cell);
        spans += of_cell;
        for (trace, case) in links {
            runs.entry(trace).or_insert_with(BTreeSet::new).insert(case);
        }
    }
    let [(trace, linked)] = runs.iter().collect::<Vec<_>>()[..] else {
        panic!("one trace of the run: {runs:?}");
    };
    assert_eq!(linked.len(), cells.len(), "each cell is linked to");
    spans += run_fits(&backends, &over, trace, linked);
    assert_eq!(
        spans as u64, made,
        "all spans of the account were seen, and no other"
    );

    backends.wait_for("metrics of the spans", || {
        let text = get(&backends.host, 8889, "/metrics").ok()?;
        text.contains("traces_span_metrics_").then_some(())
    });
}

/// Nobody answers to this name.
const NOWHERE: &str = "\
relayproof: 1
name: nowhere
relays:
  - name: nowhere
    base_url: http://relay.invalid/v1
    proxy: none
    models: [test-model]
    timeouts: { dns: 300ms }
    retry: { max: 1, backoff: 10ms }
sampling: { rate: 20/s, max_samples: 10 }
judge: { mode: guard }
slos:
  - http_success >= 80%
";

/// Every trace of a cell, with the ids that its samples link to.
fn cell_fits(backends: &Backends, cell: &Evidence) -> (usize, BTreeSet<(String, String)>) {
    let drawn = CellSpans::new(&cell.header);
    let mut spans = 0;
    let mut links = BTreeSet::new();
    for sample in &cell.samples {
        let facts = SampleFacts::of(&cell.header, sample);
        let expected = drawn.sample(sample, &facts, None);
        let (_, found) = backends.trace(&sample.trace_id, expected.len());
        let trace = table::read(&found);
        table::check(sample, &trace);
        // The table says what must be true; the library, what exactly was sent.
        for span in &expected {
            let shown = &trace[span.span_context.span_id().to_string().as_str()];
            assert_eq!(shown.name, span.name);
            for wanted in &span.attributes {
                let value = wanted.value.as_str();
                if !value.starts_with('[') {
                    let found = tag(shown.span, wanted.key.as_str());
                    assert_eq!(found.as_deref(), Some(value.as_ref()), "{}", wanted.key);
                }
            }
            let events: Vec<&str> = span
                .events
                .iter()
                .map(|event| event.name.as_ref())
                .collect();
            assert_eq!(names_of_events(shown.span), events, "{}", shown.name);
        }
        let root = trace.values().find(|shown| shown.name == "relay.sample");
        let mut followed = references(root.unwrap().span, "FOLLOWS_FROM");
        links.insert(followed.next().unwrap());
        assert_eq!(followed.next(), None, "one link: to the cell");
        spans += found.len();
    }
    (spans, links)
}

fn names_of_events(span: &Value) -> Vec<&str> {
    let logs = span["logs"].as_array().unwrap();
    let name = |log: &'_ Value| -> Option<usize> {
        log["fields"]
            .as_array()?
            .iter()
            .position(|field| field["key"] == "event")
    };
    logs.iter()
        .map(|log| log["fields"][name(log).unwrap()]["value"].as_str().unwrap())
        .collect()
}

/// The trace of the run: its suites, cells and verdicts.
fn run_fits(backends: &Backends, over: &Over, trace: &str, linked: &BTreeSet<String>) -> usize {
    let cells = over.evidence();
    let objectives: usize = cells.iter().map(|cell| cell.header.objectives.len()).sum();
    let (_, found) = backends.trace(trace, 2 + cells.len() + objectives);
    let run = table::read(&found);
    let of_name = |name: &'static str| run.iter().filter(move |(_, shown)| shown.name == name);
    assert_eq!(of_name("relay.suite").count(), 2, "one a spec");
    assert_eq!(of_name("relay.slo").count(), objectives);
    let ids: BTreeSet<String> = of_name("relay.case")
        .map(|(id, _)| (*id).to_owned())
        .collect();
    assert_eq!(
        &ids, linked,
        "samples link to the cells, and to nothing else"
    );
    for (_, case) in of_name("relay.case") {
        let name = tag(case.span, "test.case.name");
        let cell = cells
            .iter()
            .find(|cell| Some(&cell.header.cell) == name.as_ref())
            .unwrap();
        let count = |key: &str| tag(case.span, key).unwrap().parse::<usize>().unwrap();
        assert_eq!(count("relay.sample.count"), cell.samples.len());
        let failing = count("relay.sample.error_count") + count("relay.sample.slow_count");
        let links: Vec<_> = references(case.span, "FOLLOWS_FROM").collect();
        assert_eq!(links.len(), failing.min(32), "{name:?}");
        let traces: BTreeSet<&str> = cell
            .samples
            .iter()
            .map(|sample| sample.trace_id.as_str())
            .collect();
        for (trace, _) in &links {
            assert!(
                traces.contains(trace.as_str()),
                "a link to a sample of the cell"
            );
        }
    }
    found.len()
}
