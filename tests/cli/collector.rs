//! Telemetry that cannot get through changes nothing but one line.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::exits::spec;
use crate::place::{Place, Seen, timed};
use crate::server::{by_model, nobody, silent};

/// A collector that takes no telemetry.
struct Collector(SocketAddr);

impl Collector {
    fn named_in(&self, command: &mut Command) {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", self.0));
    }
}

#[test]
fn a_collector_that_takes_nothing_costs_one_warning_and_no_verdict() {
    let server = by_model();
    let place = Place::new();
    let text = spec(&server.base_url(), "bad, good");
    place.write("s.yaml", &text);
    let alone = place.run(&["run", "s.yaml", "--run-id", "alone", "--format", "json"]);
    let decisions = |seen: &Seen| {
        let document = seen.json();
        let cells = document["cells"].as_array().unwrap();
        let each = cells
            .iter()
            .map(|cell| cell["verdicts"][0]["decision"].clone());
        each.collect::<Vec<_>>()
    };
    for (name, collector) in [
        ("refusing", Collector(nobody())),
        ("hanging", Collector(silent())),
    ] {
        let mut command = place.command(&["run", "s.yaml", "--run-id", name, "--format", "json"]);
        collector.named_in(&mut command);
        let (output, took) = timed(|| command.output().unwrap());
        let seen = Seen::of(output);
        seen.exits(1);
        assert!(took < Duration::from_secs(15), "{name}: {took:?}");
        assert_eq!(decisions(&seen), decisions(&alone), "{name}");
        let warnings = seen.err.lines().filter(|line| line.contains("warning"));
        assert_eq!(warnings.count(), 1, "{name}: {seen}");
        seen.complains(&collector.0.to_string());
        // The file has what the network did not take.
        let spans = std::fs::read_to_string(place.of_run(name).join("spans.otlp.jsonl")).unwrap();
        assert!(spans.lines().count() > 0, "{name}");
    }
    assert_eq!(alone.err, "");
}
