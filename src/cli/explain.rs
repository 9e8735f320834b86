//! `relayproof explain NAME`: what a name of a spec, a report or an evidence file means.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::waterfall::COLUMNS;
use super::{Exit, Format, complain, results};
use crate::glossary::{self, Entry, Kind};
use crate::sim::Fault;
use crate::spec::faults;
use crate::words::{did_you_mean, listed};

/// Width of the labels of facts, their indent included.
const LABEL: usize = 14;

/// Arguments of `explain`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Metric, class, warning, rule, method, reason or fault; without it, all names are listed
    name: Option<String>,
    /// Output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Explains one name, or lists all.
///
/// # Errors
///
/// When the results cannot be written.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let all = entries();
    let chosen: Vec<&Entry> = match &args.name {
        None => all.iter().collect(),
        Some(name) => {
            let wanted = name.trim().to_lowercase();
            // An objective explains its metric: `ttft.p95 < 1.5s`.
            let metric = wanted
                .split(['.', ' ', '<', '>'])
                .next()
                .unwrap_or_default();
            let exact = all.iter().filter(|entry| entry.name == wanted);
            let exact: Vec<&Entry> = exact.collect();
            if exact.is_empty() {
                let of_metric = all.iter().filter(|entry| entry.name == metric);
                of_metric.collect()
            } else {
                exact
            }
        }
    };
    if let (Some(name), true) = (&args.name, chosen.is_empty()) {
        complain(&unknown(name, &all));
        return Ok(Exit::Usage);
    }
    match args.format {
        Format::Json => results::json(&document(&chosen), out)?,
        Format::Text if args.name.is_none() => write!(out, "{}", index(&all))?,
        Format::Text => {
            for entry in chosen {
                write!(out, "{}", as_text(entry))?;
            }
        }
    }
    Ok(Exit::Pass)
}

/// The names of the core, and the faults.
fn entries() -> Vec<Entry> {
    let mut entries = glossary::entries();
    let parameters = |name: &str| {
        let found = faults().find(|(known, _)| *known == name);
        listed(found.into_iter().flat_map(|(_, all)| all.iter().copied()))
    };
    entries.extend(Fault::ALL.iter().map(|fault| {
        let name = fault.name();
        let facts = [
            ("does", fault.about()),
            ("takes", &parameters(name)),
            (
                "in a spec",
                &format!("simulate: {{ faults: [{{ {name}: 2% }}] }}"),
            ),
            ("alone", &format!("relayproof simulate --fault {name}=2%")),
        ];
        Entry::new(Kind::Fault, name, &facts, "docs/faults.md")
    }));
    entries
}

fn unknown(name: &str, all: &[Entry]) -> String {
    let shown: String = results::printable(name).chars().take(60).collect();
    let wanted = name.trim().to_lowercase();
    let near = did_you_mean(&wanted, all.iter().map(|entry| entry.name));
    let help = near.map_or_else(
        || "`relayproof explain` lists all names".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    format!("error: nothing is called `{shown}`\n  = help: {help}")
}

/// Every name, by kind.
fn index(all: &[Entry]) -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let names = all.iter().filter(|entry| entry.kind == *kind);
        let names: Vec<&str> = names.map(|entry| entry.name).collect();
        text.push_str(&wrapped(kind.as_str(), &names.join(" ")));
    }
    text.push_str("\n`relayproof explain NAME` says what one of them means.\n");
    text
}

fn as_text(entry: &Entry) -> String {
    let mut text = format!("{}  ({})\n", entry.name, entry.kind);
    for (label, words) in &entry.facts {
        text.push_str(&wrapped(&format!("  {label}"), words));
    }
    text.push_str(&wrapped("  more", entry.page));
    text
}

/// A label and words, broken between words.
fn wrapped(label: &str, words: &str) -> String {
    let mut text = format!("{label:<LABEL$}");
    let mut column = LABEL;
    for word in words.replace("**", "").split_whitespace() {
        let width = word.chars().count();
        if column > LABEL && column + 1 + width > COLUMNS {
            text.push('\n');
            text.push_str(&" ".repeat(LABEL));
            column = LABEL;
        }
        if column > LABEL {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.push('\n');
    text
}

/// Entries for programs: one JSON document, schema 1.
fn document(entries: &[&Entry]) -> Value {
    let entries: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let facts = entry.facts.iter();
            let facts: serde_json::Map<String, Value> = facts
                .map(|(label, words)| (label.replace(' ', "_"), json!(words)))
                .collect();
            json!({
                "name": entry.name,
                "kind": entry.kind,
                "facts": facts,
                "page": entry.page,
            })
        })
        .collect();
    json!({ "schema": 1, "entries": entries })
}
