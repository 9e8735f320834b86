//! The table beside the reader: the same keys, the same defaults.

use std::collections::BTreeSet;

use super::*;
use crate::resolve::resolve;
use crate::spec::parse::asked_for;

/// Everything that the reader can be made to ask for: what it asks for depends on what is there.
fn probes() -> Vec<String> {
    let everything = include_str!("../../../tests/data/specs/good/everything.yaml").to_owned();
    let faults: String = crate::spec::simulate::FAULTS
        .iter()
        .map(|(name, _)| format!("{{ {name}: 1% }}, "))
        .collect();
    let maps = format!(
        "relayproof: 1
defaults: {{ protocol: openai-chat }}
relays:
  - name: a
    base_url: https://a.example/v1
    models: [m]
    api_key: {{ env: A }}
    tls: {{ ca_file: a.pem }}
    proxy: {{ url: \"http://127.0.0.1:1\" }}
    timeouts: {{ dns: 1s }}
    retry: {{ max: 3 }}
    pricing: {{ m: {{ input: 1, output: 1 }} }}
  - {{ name: b, simulate: {{ faults: [{faults}] }} }}
workloads:
  - name: w
    messages: [{{ role: user, content: hi }}]
    expect: {{ shape: {{ json: [a] }}, detect: {{ blocks: 3 }} }}
matrix: {{ exclude: [{{ relay: a }}] }}
baseline: {{ name: up, simulate: {{}}, pair: 5%, calibration: 100, pricing: {{ simulated: {{ input: 1, output: 1 }} }} }}
regions: [{{ name: hk, budget_share: 60% }}, {{ name: eu }}]
windows: [{{ name: peak, daily: \"21:00-01:00\", tz: UTC }}]
sampling: {{ limits: {{ max_tokens: 1M }} }}
judge: {{}}
profiles: {{ p: {{ judge: {{}} }} }}
slos: [{{ expect: ttft.p95 < 1s }}]
otel: {{ ci_parent: link }}
"
    );
    vec![everything, maps]
}

/// The table that holds a key at a path, indices and free keys aside.
fn place_of(path: &str) -> Option<(&'static str, String)> {
    let mut segments: Vec<String> = path
        .split('.')
        .map(|segment| segment.split('[').next().unwrap_or_default().to_owned())
        .collect();
    let key = segments.pop()?;
    let mut table = *all().first()?;
    let mut kind: Option<Kind> = None;
    for segment in segments {
        let step = match kind {
            Some(Kind::MapOf(value, _)) => *value,
            _ => table.keys().find(|it| it.name == segment)?.kind,
        };
        let step = inside(step);
        if let Kind::Map(found) = step {
            table = found;
        }
        kind = Some(step);
    }
    if matches!(kind, Some(Kind::Fault)) {
        return Some(("fault", key));
    }
    Some((table.place, key))
}

/// What a list holds; of several kinds the map.
fn inside(kind: Kind) -> Kind {
    if let Kind::List(item) | Kind::Anything(item) = kind {
        return inside(*item);
    }
    let maps = |kinds: &[Kind]| {
        let mut kinds = kinds.iter().copied();
        kinds.find(|it| matches!(it, Kind::Map(_)))
    };
    let Kind::Either(kinds) = kind else {
        return kind;
    };
    maps(kinds).unwrap_or(kind)
}

#[test]
fn the_keys_that_the_reader_asks_for_are_the_keys_of_the_schema() {
    let mut asked = BTreeSet::new();
    for text in probes() {
        for path in asked_for(&text) {
            let (place, key) =
                place_of(&path).unwrap_or_else(|| panic!("the schema has no place `{path}`"));
            asked.insert((place.to_owned(), key));
        }
    }
    let mut written: BTreeSet<(String, String)> = all()
        .iter()
        .flat_map(|table| {
            table
                .keys()
                .map(|key| (table.place.to_owned(), key.name.to_owned()))
        })
        .collect();
    for (name, parameters) in crate::spec::simulate::FAULTS {
        for key in std::iter::once(name).chain(*parameters) {
            written.insert(("fault".to_owned(), (*key).to_owned()));
        }
    }
    // `defaults` refuses what belongs to one relay, and asks for it to say so.
    asked.retain(|(place, key)| {
        place != "defaults" || written.contains(&(place.clone(), key.clone()))
    });
    let missing: Vec<_> = asked.difference(&written).collect();
    let idle: Vec<_> = written.difference(&asked).collect();
    assert!(
        missing.is_empty(),
        "read and not in the schema: {missing:?}"
    );
    assert!(idle.is_empty(), "in the schema and never read: {idle:?}");
}

/// A map with each default of a table written out.
fn spelt_out(place: &str) -> String {
    let table = all().iter().find(|it| it.place == place).unwrap();
    let defaults: Vec<String> = table
        .keys()
        .filter_map(|key| Some((key, lone_value(key.usual)?)))
        .map(|(key, value)| format!("{}: {value}", key.name))
        .collect();
    assert!(!defaults.is_empty(), "{place} has no defaults");
    defaults.join(", ")
}

#[test]
fn the_defaults_of_the_schema_written_out_change_no_plan() {
    let spec = |relay: &str,
                simulate: &str,
                expect: &str,
                sampling: &str,
                judge: &str,
                slo: &str,
                otel: &str| {
        let text = format!(
            "relayproof: 1
relays:
  - {{ name: a, base_url: \"https://a.example/v1\", models: [m]{relay} }}
  - {{ name: b, simulate: {{ {simulate} }} }}
workloads:
  - {{ name: w, messages: [{{ role: user, content: \"{{{{seal}}}}\" }}]{expect} }}
sampling: {{ {sampling} }}
judge: {{ {judge} }}
slos: [{{ expect: ttft.p95 < 1s{slo} }}]
otel: {{ {otel} }}
"
        );
        let spec = crate::spec::parse("s.yaml", &text, &|_| None)
            .unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let plan = resolve(&spec, None).unwrap();
        (plan.digest.clone(), plan.otel.clone(), plan.cells.len())
    };
    let usual = spec("", "", "", "", "", "", "");
    let relay = format!(
        ", {}, timeouts: {{ {} }}, retry: {{ {} , when: [429, 500, 502, 503, 504, connect] }}",
        spelt_out("defaults"),
        spelt_out("relays[].timeouts"),
        spelt_out("relays[].retry")
    );
    let expect = format!(
        ", expect: {{ {}, detect: {{ {} }} }}, params: {{ max_tokens: 128 }}",
        spelt_out("workloads[].expect"),
        spelt_out("workloads[].expect.detect")
    );
    let written = spec(
        &relay,
        &spelt_out("relays[].simulate"),
        &expect,
        &spelt_out("sampling"),
        &spelt_out("judge"),
        &format!(", {}", spelt_out("slos[]")),
        &spelt_out("otel"),
    );
    assert_eq!(usual, written);
}
