//! Weeks of two relays and their trusted upstream, and the documents of them.

use std::sync::LazyLock;

use super::*;
use crate::evidence::CloseReason;
use crate::evidence::Line;
use crate::evidence::fixtures::{close, good, refused, slow, truncated};
use crate::evidence::merge::{Part as Piece, merge};
use crate::observation::{Observation, Usage};
use crate::plan::{Cell, Plan, Slot};
use crate::verdict::campaign::fixtures::{ALPHA, DAY, HOUR, at, recorded, week_among};
use crate::verdict::campaign::judge_campaign;

const BETA: &str = "{ name: beta, base_url: \"https://b.example/v1\", models: [m] }";

const MORE: &str = "regions: [hk, usw]
baseline: { name: official, base_url: \"https://o.example/v1\", pair: 20% }
otel: { trace_url: \"jaeger:http://127.0.0.1:16686\" }
slos:
  - success_in_4 >= 97%
  - { expect: ttft.p95 < 1.5s, window: peak }
  - { expect: ttft.p50 < 400ms, severity: warn }
";

/// Alpha is slow on evenings and was away for two hours; beta is refused now and then by its edge.
pub(crate) fn seen(cell: &Cell, slot: &Slot) -> Option<Observation> {
    let away = 2 * DAY..2 * DAY + 2 * HOUR;
    let in_region = |name| cell.region.as_ref().is_some_and(|it| it.name == name);
    if in_region("hk") && away.contains(&slot.start) {
        return None;
    }
    let hour = slot.start.as_secs() / 3600 % 24;
    let is_peak = !(1..21).contains(&hour);
    let mut seen = match cell.relay.name.as_str() {
        "alpha" if is_peak && slot.index.is_multiple_of(4) => slow(3000),
        "beta" if slot.index.is_multiple_of(9) => Observation {
            headers: vec![("x-request-id".to_owned(), format!("req-{}", slot.index))],
            ..refused(503)
        },
        "beta" if slot.index.is_multiple_of(31) => truncated(),
        _ => good(),
    };
    if let Some(usage) = &mut seen.usage {
        *usage = Usage {
            input: Some(12),
            output: Some(21),
            ..Usage::default()
        };
    }
    seen.connection.http_version = Some("1.1".to_owned());
    Some(seen)
}

pub(crate) fn plan() -> Plan {
    let price = "pricing: { m: { input: 1.0, output: 2.0 } } }";
    let alpha = ALPHA.replace(" }", &format!(", {price}"));
    week_among(&format!("{alpha}, {BETA}"), 2016, MORE)
}

/// The files of two probes.
pub(crate) fn files() -> Vec<Evidence> {
    static MADE: LazyLock<Vec<Evidence>> = LazyLock::new(made);
    MADE.clone()
}

fn made() -> Vec<Evidence> {
    let plan = plan();
    let mut all = recorded(&plan, seen);
    for one in &mut all {
        one.header.host = format!("probe-{}", one.header.region.as_deref().unwrap());
        one.header.otel.trace_url = plan.otel.trace_url.clone();
        one.push(Line::Close(close(CloseReason::Budget)));
    }
    all
}

pub(crate) fn document(files: Vec<Evidence>, as_of: &str) -> SignOff {
    let parts = (0..).zip(files).map(|(number, evidence)| Piece {
        file: format!("folder/{number}.jsonl"),
        evidence,
    });
    let merged = merge(parts.collect()).unwrap();
    let sources: Vec<Source> = merged.iter().flat_map(|it| it.sources.clone()).collect();
    let evidence: Vec<Evidence> = merged.into_iter().map(|it| it.evidence).collect();
    let campaign = judge_campaign(&evidence, at(as_of)).unwrap();
    SignOff::of(&Material {
        evidence: &evidence,
        sources: &sources,
        contradictions: 0,
        campaign: &campaign,
        root: Some("00ff"),
        tool: &Tool {
            version: "0.0.0".to_owned(),
            commit: None,
        },
    })
}

/// The document of the whole week.
pub(crate) fn final_one() -> SignOff {
    static MADE: LazyLock<SignOff> = LazyLock::new(|| document(files(), "2026-12-09T00:00:00Z"));
    MADE.clone()
}
