//! A soak and a session for the tests of this module.

use std::path::Path;

use crate::evidence::{Session, SessionClock};
use crate::run::{Planned, plan_text};

/// A day of two models at one relay with its upstream beside it; `more` is added to the spec.
pub(crate) fn soak(more: &str) -> Planned {
    let text = format!(
        "relayproof: 1
name: day
relays:
  - {{ name: r, base_url: \"http://127.0.0.1:9/v1\", models: [a, b] }}
baseline: {{ name: up, base_url: \"http://127.0.0.1:8/v1\", pair: 50% }}
sampling: {{ mode: soak, duration: 1d, max_samples: 20000 }}
judge: {{ min_days: 1 }}
slos: [parse_success >= 90%]
{more}"
    );
    plan_text("day.yaml", &text, Path::new(""), None)
        .unwrap_or_else(|error| panic!("{}", error.render(false)))
}

/// A session of no particular machine.
pub(crate) fn session() -> Session {
    Session {
        at_unix_ns: 7,
        host: "probe".to_owned(),
        pid: 9,
        tool_version: "0".to_owned(),
        boot_id: None,
        clock: SessionClock::default(),
    }
}
