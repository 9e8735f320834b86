//! Everything that has a name in specs, reports and evidence, in words: source of
//! `relayproof explain` and of tables in `docs/`.
//!
//! The words stand beside the sets that they are about; here they are only put together. Faults of
//! the embedded relay are not part of the core and are added by the command.

use crate::attribution;
use crate::forms::named;
use crate::objective::grammar;
use crate::objective::metric::{Direction, Metric, Unit};
use crate::observation::{Class, Warning};
use crate::plan::Method;
use crate::verdict::{Inconclusive, about};
use serde::{Deserialize, Serialize};
use std::fmt;

named! {
    /// What kind of thing a name is of.
    Kind {
        /// What can be promised.
        Metric = "metric",
        /// One way in which an attempt is not a whole, honest answer.
        Class = "class",
        /// Something odd that fails nothing.
        Warning = "warning",
        /// Who is to be looked at, and why.
        Rule = "rule",
        /// How an objective is decided.
        Method = "method",
        /// Why nothing could be decided.
        Reason = "reason",
        /// One way in which the embedded relay misbehaves.
        Fault = "fault",
    }
}

/// A name and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What kind of thing it is.
    pub kind: Kind,
    /// Its name.
    pub name: &'static str,
    /// Labels and words, in Markdown.
    pub facts: Vec<(&'static str, String)>,
    /// Page that says more.
    pub page: &'static str,
}

impl Entry {
    /// A name with its facts; empty ones are left out.
    pub fn new(
        kind: Kind,
        name: &'static str,
        facts: &[(&'static str, &str)],
        page: &'static str,
    ) -> Self {
        let facts = facts.iter().filter(|(_, words)| !words.is_empty());
        Self {
            kind,
            name,
            facts: facts
                .map(|(label, words)| (*label, (*words).to_owned()))
                .collect(),
            page,
        }
    }
}

/// All names, kind by kind, each in the order of its set.
pub fn entries() -> Vec<Entry> {
    let mut entries: Vec<Entry> = Metric::ALL.iter().map(|it| metric(*it)).collect();
    entries.extend(Class::ALL.iter().map(|class| {
        let facts = [("sign", class.sign())];
        Entry::new(Kind::Class, class.as_str(), &facts, "docs/streams.md")
    }));
    entries.extend(Warning::ALL.iter().map(|warning| {
        let facts = [("meaning", warning.meaning()), ("weight", "fails nothing")];
        Entry::new(Kind::Warning, warning.as_str(), &facts, "docs/streams.md")
    }));
    entries.extend(attribution::rules().map(|rule| {
        let facts = [
            ("holds for", rule.meaning),
            ("look at", rule.party.as_str()),
            ("try", rule.way_out),
        ];
        Entry::new(Kind::Rule, rule.name, &facts, "docs/streams.md")
    }));
    entries.extend(Method::ALL.iter().map(|method| {
        let facts = [
            ("rule", about::rule_of(*method)),
            ("choose", about::advice_on(*method)),
        ];
        Entry::new(Kind::Method, method.as_str(), &facts, "docs/verdicts.md")
    }));
    entries.extend(Inconclusive::ALL.iter().map(|reason| {
        let facts = [("meaning", reason.meaning()), ("way out", reason.way_out())];
        Entry::new(Kind::Reason, reason.as_str(), &facts, "docs/verdicts.md")
    }));
    entries
}

fn metric(metric: Metric) -> Entry {
    let example = grammar::example(metric);
    let unit = unit(metric);
    let better = match metric.direction() {
        Direction::Lower => "lower is better",
        Direction::Higher => "higher is better",
    };
    let looks_at = if metric.is_of_whole_sample() {
        "the whole call, retries included"
    } else {
        "the first attempt"
    };
    let facts = [
        ("definition", metric.definition()),
        ("formula", metric.formula()),
        ("unit", &format!("{unit}, {better}")),
        ("looks at", looks_at),
        ("worst when", metric.worst()),
        ("pitfall", metric.pitfall()),
        ("objective", &example),
    ];
    Entry::new(Kind::Metric, metric.as_str(), &facts, "docs/metrics.md")
}

const fn unit(metric: Metric) -> &'static str {
    match metric.unit() {
        Unit::Seconds => "s",
        Unit::PerSecond => "/s",
        Unit::YesNo => "%",
    }
}

/// A table of `docs/`, by its name; `None` where there is none of this name.
pub fn table(name: &str) -> Option<String> {
    let (head, rows): (&str, Vec<String>) = match name {
        "metrics" => (
            "| metric | unit | better | definition | worst value when |\n|---|---|---|---|---|",
            Metric::ALL
                .iter()
                .map(|it| {
                    let better = match it.direction() {
                        Direction::Lower => "lower",
                        Direction::Higher => "higher",
                    };
                    let worst = match it.worst() {
                        "" => String::new(),
                        worst => format!("{worst} "),
                    };
                    let definition = it.definition();
                    format!(
                        "| `{it}` | {} | {better} | {definition} | {worst}|",
                        unit(*it)
                    )
                })
                .collect(),
        ),
        "formulas" => (
            "| metric | formula | pitfall |\n|---|---|---|",
            Metric::ALL
                .iter()
                .map(|it| format!("| `{it}` | {} | {} |", it.formula(), it.pitfall()))
                .collect(),
        ),
        "classes" => (
            "| class | sign |\n|---|---|",
            Class::ALL
                .iter()
                .map(|it| format!("| `{it}` | {} |", it.sign()))
                .collect(),
        ),
        "warnings" => (
            "| warning | meaning |\n|---|---|",
            Warning::ALL
                .iter()
                .map(|it| format!("| `{it}` | {} |", it.meaning()))
                .collect(),
        ),
        "rules" => (
            "| rule | holds for | look at |\n|---|---|---|",
            attribution::rules()
                .map(|it| format!("| `{}` | {} | {} |", it.name, it.meaning, it.party))
                .collect(),
        ),
        "reasons" => (
            "| reason | meaning | way out |\n|---|---|---|",
            Inconclusive::ALL
                .iter()
                .map(|it| format!("| `{it}` | {} | {} |", it.meaning(), it.way_out()))
                .collect(),
        ),
        _ => return None,
    };
    Some(format!("{head}\n{}\n", rows.join("\n")))
}
