//! `otel`: where traces can be looked at, and what they say of prompts and answers.

use super::error::SpecError;
use super::interpolate::Env;
use super::reader::{Item, Reader};
use crate::plan::trace_url::{PLACEHOLDERS, TraceUrl, TraceUrlFault};
use crate::plan::{Content, OtelSettings};

/// Reads `otel`; `env` tells whether this is a CI job.
pub(super) fn otel(r: &Reader<'_>, item: &Item<'_>, env: Env<'_>) -> Option<OtelSettings> {
    let mut map = item.map(r)?;
    let trace_url = map.get(r, "trace_url").and_then(|item| trace_url(r, &item));
    let ci_parent = map
        .get(r, "ci_parent")
        .and_then(|item| item.choice(r, &["link", "parent"], |word| word));
    if let Some(place) = map.misplaced("propagate") {
        r.note(
            SpecError::new(place, "what a relay is told is up to the relay")
                .label("`propagate` belongs to a relay or to `defaults`")
                .help("write it there: `defaults: { propagate: traceparent }`"),
        );
    }
    let content = map.get(r, "content");
    let in_ci = map.get(r, "content_in_ci");
    let allowed = in_ci.and_then(|item| item.flag(r)).unwrap_or(false);
    let content = content.and_then(|item| {
        let content = item.choice(r, Content::ALL, Content::as_str)?;
        if content == Content::Full && !allowed && is_ci(env) {
            return r.refuse(
                SpecError::new(item.span(), "prompts and answers do not leave a CI job")
                    .label("`CI` is set in the environment")
                    .help(
                        "use `content: hash`, or set `content_in_ci: true` beside it if everybody \
                         who can read the traces may read them",
                    ),
            );
        }
        Some(content)
    });
    map.close(r, &[]);
    Some(OtelSettings {
        trace_url,
        ci_parent: ci_parent == Some("parent"),
        content: content.unwrap_or_default(),
    })
}

fn trace_url(r: &Reader<'_>, item: &Item<'_>) -> Option<String> {
    let text = item.text(r)?;
    let Err(fault) = TraceUrl::parse(text) else {
        return Some(text.to_owned());
    };
    let message = match fault {
        TraceUrlFault::NoTrace => format!("`{}` names no trace", item.path),
        TraceUrlFault::Unknown(_) | TraceUrlFault::NoBase(_) | TraceUrlFault::Character => {
            format!("`{}` is no address of a trace", item.path)
        }
    };
    let help = match fault {
        TraceUrlFault::Unknown(_) => {
            let known = PLACEHOLDERS.map(|name| format!("`{{{name}}}`"));
            format!("known are {}", known.join(", "))
        }
        TraceUrlFault::NoTrace | TraceUrlFault::NoBase(_) | TraceUrlFault::Character => {
            "write it like `http://127.0.0.1:16686/trace/{trace_id}`, or \
             `jaeger:http://127.0.0.1:16686`, or `tempo:` and the address of Grafana"
                .to_owned()
        }
    };
    r.refuse(
        SpecError::new(item.span(), message)
            .label(fault.to_string())
            .help(help),
    )
}

/// Whether this is a CI job, as all of the usual systems say it.
fn is_ci(env: Env<'_>) -> bool {
    env("CI").is_some_and(|value| !matches!(value.trim(), "" | "0" | "false"))
}
