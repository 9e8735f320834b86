//! `simulate`: settings of the embedded relay and the faults it plays.

use std::time::Duration;

use super::duration;
use super::error::SpecError;
use super::reader::{Item, Reader};
use super::tree::Value;
use super::workload::MOST_STREAMS;
use crate::objective::quantity;
use crate::plan::{Overload, PlannedFault, Simulate};
use crate::words::{did_you_mean, listed};

/// Each fault with the parameters that it takes.
pub(crate) const FAULTS: &[(&str, &[&str])] = &[
    ("slow_first_token", &["delay"]),
    ("truncate", &["after_tokens"]),
    ("truncate_fin", &["after_tokens"]),
    ("truncate_rst", &["after_tokens"]),
    ("stall", &["after_tokens"]),
    ("error_in_stream", &["after_tokens"]),
    ("error_as_content", &[]),
    ("fake_200", &[]),
    ("fake_200_empty", &[]),
    ("fake_200_html", &[]),
    ("status", &["code", "recover_after", "retry_after_s"]),
    ("malformed_json", &["after_tokens"]),
    ("split_json", &["after_tokens"]),
    ("buffer", &[]),
    ("wrong_model", &[]),
    ("drop_seal", &[]),
    ("fake_done", &["after_tokens"]),
];

/// Reads the settings.
pub(super) fn read(r: &Reader<'_>, item: &Item<'_>) -> Option<Simulate> {
    let mut map = item.map(r)?;
    let mut time = |key, usual| {
        let read = map
            .get(r, key)
            .and_then(|item| item.quantity(r, duration::parse_or_zero));
        read.unwrap_or(usual)
    };
    let settings = Simulate {
        first_token: time("first_token", Duration::from_millis(120)),
        token_gap: time("token_gap", Duration::from_millis(15)),
        tokens: map
            .get(r, "tokens")
            .and_then(|item| item.small(r, 1, 100_000))
            .unwrap_or(64),
        tls: map
            .get(r, "tls")
            .and_then(|item| item.flag(r))
            .unwrap_or(false),
        faults: map
            .get(r, "faults")
            .and_then(|item| faults(r, &item))
            .unwrap_or_default(),
        capacity: map
            .get(r, "capacity")
            .and_then(|item| item.small(r, 1, MOST_STREAMS)),
        overload: Overload::default(),
    };
    let has_capacity = map.has("capacity");
    let overload = map.get(r, "overload").and_then(|item| {
        let read = item.choice(r, Overload::ALL, |it| it.as_str())?;
        if read == Overload::Reject && !has_capacity {
            return r.refuse(
                SpecError::new(
                    item.key_span.clone(),
                    format!("`{}` needs a capacity", item.path),
                )
                .label("nothing is ever too much")
                .help("add `capacity: 8`: the most answers at a time"),
            );
        }
        Some(read)
    });
    map.close(r, &[]);
    Some(Simulate {
        overload: overload.unwrap_or_default(),
        ..settings
    })
}

fn faults(r: &Reader<'_>, item: &Item<'_>) -> Option<Vec<PlannedFault>> {
    let items = item.list(r)?;
    let faults: Vec<_> = items.iter().filter_map(|item| fault(r, item)).collect();
    let total: u64 = faults.iter().map(|fault| u64::from(fault.share_ppm)).sum();
    if total > 1_000_000 {
        return r.refuse(
            SpecError::new(
                item.key_span.clone(),
                format!("`{}` hits more than every call", item.path),
            )
            .label("the shares add up to more than 100%")
            .help("a call is hit by one fault at most: lower the shares"),
        );
    }
    Some(faults)
}

fn fault(r: &Reader<'_>, item: &Item<'_>) -> Option<PlannedFault> {
    const HELP: &str = "write a fault like `{ truncate: 2%, after_tokens: 10 }`";
    if !matches!(item.node.value, Value::Map(_)) {
        return r.refuse(
            SpecError::new(item.span(), format!("`{}` must be a map", item.path))
                .label(format!("found {}", item.node.kind()))
                .help(HELP),
        );
    }
    let mut map = item.map(r)?;
    let named = FAULTS.iter().find(|(name, _)| map.has(name));
    let Some((name, parameters)) = named else {
        let names = || FAULTS.iter().map(|(name, _)| *name);
        let near = map
            .free()
            .find_map(|(entry, _)| Some((entry, did_you_mean(&entry.key, names())?)));
        return r.refuse(match near {
            Some((entry, near)) => SpecError::new(
                entry.key_span.clone(),
                format!("unknown fault `{}`", entry.key),
            )
            .label("no such fault")
            .help(format!("did you mean `{near}`?")),
            None => SpecError::new(item.span(), format!("`{}` names no fault", item.path))
                .label("which one?")
                .help(format!("{HELP}; the faults are {}", listed(names()))),
        });
    };
    let share = map
        .get(r, name)
        .and_then(|item| item.quantity(r, quantity::share_ppm));
    let mut fault = PlannedFault {
        fault: (*name).to_owned(),
        share_ppm: 0,
        delay: None,
        code: None,
        recover_after: None,
        after_tokens: None,
        retry_after_s: None,
    };
    for parameter in *parameters {
        let Some(item) = map.get(r, parameter) else {
            continue;
        };
        match *parameter {
            "delay" => fault.delay = item.quantity(r, duration::parse),
            "code" => {
                fault.code = item
                    .small(r, 400, 599)
                    .and_then(|code| code.try_into().ok());
            }
            "recover_after" => fault.recover_after = item.small(r, 1, 1000),
            "after_tokens" => fault.after_tokens = item.small(r, 0, 1_000_000),
            _ => fault.retry_after_s = item.small(r, 0, 3600),
        }
    }
    map.close(r, &[]);
    fault.share_ppm = share?;
    Some(fault)
}
