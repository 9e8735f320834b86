//! The eleven parts of the document as headings, sentences and tables, for any form that has these.

use super::super::compared::{p, points, usd_text};
use super::super::document::heading;
use super::gathered::{CostLine, Latency};
use super::rows::{Covered, Row};
use super::{DayFailures, SignOff};
use crate::measure::words;
use crate::measure::words::counted;
use crate::observation::steers;
use crate::signals::{Seen, Signal};
use crate::verdict::Overall;
use crate::verdict::campaign::{Beside, Finding, Role};

/// One of the eleven parts.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// Its heading.
    pub title: &'static str,
    /// What is in it.
    pub blocks: Vec<Block<'a>>,
}

/// A piece of a part.
#[derive(Clone, Debug)]
pub enum Block<'a> {
    /// A heading below that of the part.
    Heading(String),
    /// A paragraph.
    Text(Vec<Inline>),
    /// Points, one below the other.
    List(Vec<Vec<Inline>>),
    /// A table: what its columns are, and each row with what its verdict is, where it has one.
    Table {
        /// The columns.
        columns: Vec<Column>,
        /// The rows, a cell for each column.
        rows: Vec<(Option<Mark>, Vec<Vec<Inline>>)>,
    },
    /// Lines to sign on.
    Signatures(&'a [String]),
    /// Something to draw, where a form can; the tables say the same.
    Picture(Picture<'a>),
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// Whether it holds numbers.
    pub is_number: bool,
}

/// A stretch of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inline {
    /// Words.
    Text(String),
    /// A name, as it is.
    Code(String),
    /// Words that lead somewhere.
    Link {
        /// The words.
        text: String,
        /// Where to.
        url: String,
    },
    /// What a verdict is.
    Mark(Mark, String),
    /// Words on a line of their own that matter less.
    Small(String),
}

/// What a verdict is, for a sign beside its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Met.
    Pass,
    /// Not met, and a warning only.
    Warning,
    /// Violated.
    Violated,
    /// Open.
    Open,
    /// Nothing was measured.
    Nothing,
    /// It decides nothing here.
    Noted,
}

/// Something to draw.
#[derive(Clone, Copy, Debug)]
pub enum Picture<'a> {
    /// How values are spread, and the first token by hour.
    Latency(&'a Latency),
    /// Failures of one relay by day and party.
    Days(&'a str, &'a [DayFailures]),
}

/// The eleven parts, in their order.
pub fn parts(document: &SignOff) -> Vec<Part<'_>> {
    let part = |title, blocks| Part { title, blocks };
    vec![
        part("Verdict", verdict(document)),
        part("Objectives", objectives(document)),
        part("Planned and taken samples", coverage(document)),
        part("Failures by whom to look at", failures(document)),
        part("Latency by hour of the day", latency(document)),
        part("Signals of authenticity", signals(document)),
        part("Cost", cost(document)),
        part("Exclusions and overrides", exceptions(document)),
        part("Provenance", provenance(document)),
        part("Failed samples by the relay's own ids", requests(document)),
        part("What was not tested", untested(document)),
    ]
}

fn text(words: impl Into<String>) -> Inline {
    Inline::Text(shown(words.into()))
}

fn code(name: impl Into<String>) -> Inline {
    Inline::Code(shown(name.into()))
}

fn small(words: impl Into<String>) -> Inline {
    Inline::Small(shown(words.into()))
}

/// A text, names that a relay gave among it, without what would steer a terminal or turn the text
/// beside it around.
fn shown(text: String) -> String {
    if text.chars().any(steers) {
        let kept = |c| {
            if steers(c) {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        };
        text.chars().map(kept).collect()
    } else {
        text
    }
}

fn say(words: impl Into<String>) -> Block<'static> {
    Block::Text(vec![text(words)])
}

const fn words_of(title: &'static str) -> Column {
    Column {
        title,
        is_number: false,
    }
}

const fn number(title: &'static str) -> Column {
    Column {
        title,
        is_number: true,
    }
}

/// A cell of plain words.
fn cell(words: impl Into<String>) -> Vec<Inline> {
    vec![text(words)]
}

fn plain(columns: Vec<Column>, rows: Vec<Vec<Vec<Inline>>>) -> Block<'static> {
    let rows = rows.into_iter().map(|row| (None, row)).collect();
    Block::Table { columns, rows }
}

impl Mark {
    /// What something comes to.
    pub const fn of(overall: Overall) -> Self {
        match overall {
            Overall::Pass => Self::Pass,
            Overall::Violated => Self::Violated,
            Overall::Inconclusive => Self::Open,
            Overall::Nothing => Self::Nothing,
        }
    }

    /// What a row is.
    pub fn of_row(row: &Row) -> Self {
        if row.comes_to != Overall::Pass {
            Self::of(row.comes_to)
        } else if row.decision == "pass" {
            Self::Pass
        } else if row.is_warning {
            Self::Warning
        } else {
            Self::Noted
        }
    }
}

/// What decides the document, in one sentence.
pub(super) fn headline(document: &SignOff) -> String {
    let state = if document.is_final {
        String::new()
    } else {
        format!(
            "Provisional, as of {}: nothing passes before the end. ",
            document.as_of
        )
    };
    format!(
        "{state}Soak from {} to {}, one vote for {} s; a pass needs {} and speaks of the days that \
         were sampled.",
        document.from,
        document.to,
        document.bucket_s,
        counted(u64::from(document.min_days), "day"),
    )
}

fn verdict(document: &SignOff) -> Vec<Block<'_>> {
    let mut blocks = vec![say(headline(document))];
    let rows = document.relays.iter().map(|it| {
        let mark = Mark::of(it.overall);
        let word = Inline::Mark(mark, heading(it.overall).to_owned());
        let met = format!("{} of {} rows that decide are met", it.met, it.deciding);
        (
            Some(mark),
            vec![vec![word], vec![code(&it.relay)], cell(met)],
        )
    });
    blocks.push(Block::Table {
        columns: vec![words_of("verdict"), words_of("relay"), words_of("why")],
        rows: rows.collect(),
    });
    let why = document.relays.iter().flat_map(|it| &it.why);
    let why: Vec<Vec<Inline>> = why.map(|line| cell(line.clone())).collect();
    if !why.is_empty() {
        blocks.push(say("What stands in the way:"));
        blocks.push(Block::List(why));
    }
    blocks.push(Block::Signatures(&document.signatories));
    blocks
}

fn objectives(document: &SignOff) -> Vec<Block<'_>> {
    let mut blocks = vec![say(
        "n and failed count samples. Bounds are of the share of good votes, one vote for each \
         stretch of time: samples of one moment may hang together. A gate decides about the relay; \
         a guard decides by a violation only, having too few votes for a pass of its own; what is \
         shown decides nothing.",
    )];
    let mut rules: Vec<&str> = Vec::new();
    for row in &document.rows {
        if !rules.contains(&row.rule.as_str()) {
            rules.push(&row.rule);
        }
    }
    let mut pools: Vec<&str> = Vec::new();
    for row in &document.rows {
        if !pools.contains(&row.pool.as_str()) {
            pools.push(&row.pool);
        }
    }
    for pool in pools {
        let rows = document.rows.iter().filter(|row| row.pool == pool);
        blocks.push(Block::Heading(pool.to_owned()));
        blocks.push(Block::Table {
            columns: vec![
                words_of("verdict"),
                words_of("objective"),
                words_of("where"),
                number("n"),
                number("failed"),
                number("good"),
                number("between"),
                number("target"),
                words_of("rule"),
                number("votes"),
                words_of("worst day"),
            ],
            rows: rows.map(|row| objective(row, &rules)).collect(),
        });
        let found = document.rows.iter().filter(|row| row.pool == pool);
        let found: Vec<Vec<Inline>> = found
            .filter_map(|row| {
                let beside = row.beside.as_ref()?;
                Some(vec![code(&row.name), text(format!(": {}", paired(beside)))])
            })
            .collect();
        if !found.is_empty() {
            blocks.push(say(
                "Beside the trusted upstream, asked the same at the same time:",
            ));
            blocks.push(Block::List(found));
        }
    }
    let numbered = rules.iter().enumerate();
    blocks.push(Block::List(
        numbered
            .map(|(index, rule)| cell(format!("R{}: {rule}", index + 1)))
            .collect(),
    ));
    blocks
}

fn objective(row: &Row, rules: &[&str]) -> (Option<Mark>, Vec<Vec<Inline>>) {
    let mark = Mark::of_row(row);
    let role = match (row.role, mark) {
        (Role::Gate, Mark::Warning) => "a warning only",
        (role, _) => role.as_str(),
    };
    let mut objective = vec![code(&row.objective)];
    objective.extend(row.remarks.iter().map(|it| small(it.clone())));
    let place = [
        row.window.as_deref().unwrap_or("all hours"),
        row.region.as_deref().unwrap_or_default(),
    ];
    let place: Vec<&str> = place.into_iter().filter(|it| !it.is_empty()).collect();
    let share = row
        .share
        .map_or_else(|| "–".to_owned(), |it| words::at_least(it, 0.9999));
    let is_share = row.required > 0.0;
    let between = format!(
        "{} to {}",
        words::at_least(row.lower, row.required),
        words::at_most(row.upper, row.required)
    );
    let target = format!("≥ {}", words::share(row.required));
    let none = || "–".to_owned();
    let rule = rules.iter().position(|it| *it == row.rule).unwrap_or(0) + 1;
    let worst = row.worst_day.map_or_else(none, |day| {
        format!("{}: {} of {}", day.day, day.failures, day.n)
    });
    (
        Some(mark),
        vec![
            vec![Inline::Mark(mark, row.decision.clone()), small(role)],
            objective,
            cell(place.join(", ")),
            cell(row.n.to_string()),
            cell(row.failures.to_string()),
            cell(share),
            cell(if is_share { between } else { none() }),
            cell(if is_share { target } else { none() }),
            cell(format!("R{rule}")),
            cell(format!("{} of {}", row.votes, row.planned_votes)),
            cell(worst),
        ],
    )
}

/// What pairs say, in words.
pub(in crate::report) fn paired(beside: &Beside) -> String {
    let finding = match beside.finding {
        Finding::RelayAddsFailures => "the relay adds failures",
        Finding::NotTheRelay => "not the relay",
        Finding::UpstreamDown => {
            "the upstream itself breaks it, and the relay adds next to nothing"
        }
        Finding::Undetermined => "undetermined",
    };
    let added = match (beside.added, beside.added_lower, beside.added_upper) {
        (Some(added), Some(lower), Some(upper)) => format!(
            "; added {} pt, between {} and {}",
            points(added),
            points(lower),
            points(upper)
        ),
        _ => String::new(),
    };
    format!(
        "{finding}: of {}, {} failed at the relay only, {} at the upstream only, {} at both{added}; \
         p {}",
        counted(beside.pairs, "pair"),
        beside.relay_only,
        beside.upstream_only,
        beside.both,
        p(beside.p),
    )
}

fn coverage(document: &SignOff) -> Vec<Block<'_>> {
    let rows = document.coverage.iter().map(|it| {
        vec![
            vec![code(&it.cell)],
            cell(it.planned.to_string()),
            cell(it.due.to_string()),
            cell(it.taken.to_string()),
            cell(it.missing.to_string()),
            cell(it.absent.to_string()),
            cell(it.gap_count.to_string()),
        ]
    });
    let columns = vec![
        words_of("cell"),
        number("planned"),
        number("due"),
        number("taken"),
        number("missing amid others"),
        number("nobody sampled"),
        number("gaps"),
    ];
    let mut blocks = vec![plain(columns, rows.collect())];
    let gaps: Vec<Vec<Inline>> = document.coverage.iter().flat_map(gaps).collect();
    if gaps.is_empty() {
        blocks.push(say("No gap: every slot that is due has a sample."));
    } else {
        blocks.push(say(
            "Gaps, each from the planned start of its first slot to that of its last:",
        ));
        blocks.push(Block::List(gaps));
    }
    blocks
}

/// Most gaps that a cell shows; JSON has more.
const GAPS: usize = 20;

fn gaps(of: &Covered) -> impl Iterator<Item = Vec<Inline>> {
    let mut gaps: Vec<_> = of.gaps.iter().collect();
    // The largest of them, in their order.
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.slots));
    gaps.truncate(GAPS);
    gaps.sort_by(|a, b| a.from.cmp(&b.from));
    let more = of.gap_count.saturating_sub(gaps.len() as u64);
    let told = gaps.into_iter().map(|gap| {
        let local = gap
            .local
            .as_ref()
            .map_or_else(String::new, |(from, to)| format!(" ({from} to {to})"));
        vec![
            code(&of.cell),
            text(format!(
                ": {} from {} to {}{local}",
                counted(gap.slots, "slot"),
                gap.from,
                gap.to
            )),
        ]
    });
    let more = (more > 0).then(|| {
        let gaps = counted(more, "smaller gap");
        vec![code(&of.cell), text(format!(": {gaps} more"))]
    });
    told.chain(more).collect::<Vec<_>>().into_iter()
}

fn failures(document: &SignOff) -> Vec<Block<'_>> {
    let failures = &document.failures;
    if failures.groups.is_empty() {
        return vec![say("None: nothing was wrong with any first attempt.")];
    }
    let rows = failures.groups.iter().map(|it| {
        let mut telling = Vec::new();
        for (index, one) in it.telling.iter().enumerate() {
            if index > 0 {
                telling.push(text(", "));
            }
            telling.push(named(one));
        }
        vec![
            vec![code(&it.relay)],
            cell(it.party.to_string()),
            cell(it.phase.to_string()),
            cell(it.class.to_string()),
            cell(it.count.to_string()),
            telling,
        ]
    });
    let columns = vec![
        words_of("relay"),
        words_of("look at"),
        words_of("phase"),
        words_of("class"),
        number("samples"),
        words_of("such as"),
    ];
    let mut blocks = vec![
        say("A party is where to look first, and no verdict. First attempts are counted."),
        plain(columns, rows.collect()),
    ];
    let days = failures.days.iter().filter(|it| !it.parties.is_empty());
    let rows = days.map(|it| {
        let parties = it.parties.iter();
        let parties: Vec<String> = parties.map(|(name, n)| format!("{name} {n}")).collect();
        let failed: u64 = it.parties.values().sum();
        vec![
            vec![code(&it.relay)],
            cell(it.day.to_string()),
            cell(it.n.to_string()),
            cell(failed.to_string()),
            cell(parties.join(", ")),
        ]
    });
    let columns = vec![
        words_of("relay"),
        words_of("day"),
        number("samples"),
        number("failed"),
        words_of("by whom to look at"),
    ];
    for of_relay in failures.days.chunk_by(|a, b| a.relay == b.relay) {
        let has_any = of_relay.iter().any(|it| !it.parties.is_empty());
        if let Some(first) = of_relay.first().filter(|_| has_any) {
            blocks.push(Block::Picture(Picture::Days(&first.relay, of_relay)));
        }
    }
    blocks.push(plain(columns, rows.collect()));
    blocks
}

fn named(one: &super::Named) -> Inline {
    let name = format!("{} #{}", one.cell, one.index);
    let is_web = |url: &&String| {
        let web = url.starts_with("http://") || url.starts_with("https://");
        web && !url.chars().any(|c| steers(c) || c.is_whitespace())
    };
    match one.url.as_ref().filter(is_web) {
        Some(url) => Inline::Link {
            text: shown(name),
            url: url.clone(),
        },
        None => text(name),
    }
}

fn latency(document: &SignOff) -> Vec<Block<'_>> {
    let clock = &document.clock;
    let peak = clock
        .peak
        .as_ref()
        .and_then(|it| Some((&it.name, it.daily?)));
    let peak = match peak {
        Some((name, daily)) => {
            format!(" Hours that the window {name}, {daily}, touches are marked with an asterisk.")
        }
        None => String::new(),
    };
    let mut blocks = vec![say(format!(
        "Time to the first token, hours by the clocks of {}. A sample without a first token ranks \
         behind all others.{peak}",
        clock.zone
    ))];
    for pool in &document.latency {
        blocks.push(Block::Heading(if pool.is_upstream {
            format!("{} (the trusted upstream)", pool.pool)
        } else {
            pool.pool.clone()
        }));
        blocks.push(Block::Picture(Picture::Latency(pool)));
        let limit = match &pool.limit {
            Some(limit) => format!(
                "The limit is {}, of `{}`.",
                words::seconds(limit.seconds),
                limit.objective
            ),
            None => "No objective sets a limit to the first token.".to_owned(),
        };
        blocks.push(say(limit));
        let seconds = |at: Option<f64>, n: u64| match at {
            Some(at) => words::seconds(at),
            None if n > 0 => "a failure".to_owned(),
            None => "–".to_owned(),
        };
        let rows = pool.hours.iter().map(|it| {
            let mark = if it.is_peak { " *" } else { "" };
            vec![
                cell(format!("{:02}{mark}", it.hour)),
                cell(it.n.to_string()),
                cell(it.failed.to_string()),
                cell(seconds(it.p50, it.n)),
                cell(seconds(it.p95, it.n)),
                cell(
                    it.within
                        .map_or_else(|| "–".to_owned(), |it| words::at_least(it, 0.9999)),
                ),
            ]
        });
        let columns = vec![
            words_of("hour"),
            number("n"),
            number("without a token"),
            number("p50"),
            number("p95"),
            number("within the limit"),
        ];
        blocks.push(plain(columns, rows.collect()));
    }
    blocks
}

fn signals(document: &SignOff) -> Vec<Block<'_>> {
    let looked = |it: &&Signal| it.seen != Seen::NotLooked;
    if document.signals.iter().filter(looked).count() == 0 {
        return vec![say("Not looked at.")];
    }
    let rows = document.signals.iter().map(|it| {
        let (mark, word) = match it.seen {
            Seen::Nothing => (Mark::Noted, "nothing"),
            Seen::Signal => (Mark::Warning, "signal"),
            Seen::TooFew => (Mark::Noted, "too few to say"),
            Seen::NotLooked => (Mark::Noted, "not looked at"),
        };
        let mut said = cell(it.statement.clone());
        if it.seen == Seen::Signal {
            said.push(small(format!("besides deceit: {}", it.about.innocent())));
        }
        (
            Some(mark),
            vec![
                vec![Inline::Mark(mark, word.to_owned())],
                vec![code(&it.cell)],
                cell(it.about.as_str().replace('_', " ")),
                said,
            ],
        )
    });
    let columns = vec![
        words_of("seen"),
        words_of("relay/model/workload"),
        words_of("about"),
        words_of("in words"),
    ];
    vec![
        say(
            "Signals are reasons to ask and no proof: each has an innocent explanation too, and none \
             of them changes a verdict. That nothing was seen is no proof either.",
        ),
        Block::Table {
            columns,
            rows: rows.collect(),
        },
    ]
}

fn cost(document: &SignOff) -> Vec<Block<'_>> {
    let none = || "–".to_owned();
    let rows = document.cost.iter().map(|it| {
        let usd = |amount: Option<f64>| amount.map_or_else(none, usd_text);
        let bound = |amount: Option<f64>| match amount {
            Some(amount) if it.is_lower_bound => format!("≥ {}", usd_text(amount)),
            Some(amount) => usd_text(amount),
            None => none(),
        };
        let estimated = match it.estimated {
            0 => "none".to_owned(),
            n => format!("{} ({n})", usd(it.estimated_usd)),
        };
        vec![
            vec![code(&it.pool)],
            cell(match it.known_usd {
                Some(known) => format!("{} ({})", usd_text(known), it.known),
                None => "no price".to_owned(),
            }),
            cell(estimated),
            cell(it.unknown.to_string()),
            cell(bound(it.usd_per_row)),
            cell(bound(it.usd_per_usable_answer)),
            cell(bound(it.usd_per_million_usable_tokens)),
            cell(
                it.charged_usd
                    .map_or_else(|| "not read back".to_owned(), usd_text),
            ),
        ]
    });
    let columns = vec![
        words_of("relay/model/workload"),
        number("known (samples)"),
        number("estimated (samples)"),
        number("unknown samples"),
        number("per verdict row"),
        number("per usable answer"),
        number("per million usable tokens"),
        number("charged"),
    ];
    let mut blocks = vec![
        say(
            "US dollars by the tokens that the relay reported. What is unknown is in no sum, and \
             what is estimated never in what is known; unusable answers are paid for by the usable \
             ones.",
        ),
        plain(columns, rows.collect()),
    ];
    let prices: Vec<Vec<Inline>> = document.cost.iter().filter_map(price).collect();
    if !prices.is_empty() {
        blocks.push(say("Prices for a million tokens, as the spec has them:"));
        blocks.push(Block::List(prices));
    }
    blocks
}

fn price(line: &CostLine) -> Option<Vec<Inline>> {
    let price = line.price?;
    let cached = price
        .cached_input
        .map_or_else(|| "as any other".to_owned(), |it| it.to_string());
    let unit = match price.fx {
        Some(fx) => format!("credits, {fx} for a US dollar"),
        None => "US dollars".to_owned(),
    };
    Some(vec![
        code(&line.pool),
        text(format!(
            ": prompt {}, from the cache {cached}, answer {}; times {}; in {unit}",
            price.input, price.output, price.multiplier
        )),
    ])
}

fn exceptions(document: &SignOff) -> Vec<Block<'_>> {
    if document.exceptions.is_empty() {
        return vec![say("None: all of the spec is judged, by its usual rules.")];
    }
    let all = document.exceptions.iter();
    vec![Block::List(
        all.map(|it| cell(format!("{}: {}", it.kind, it.statement)))
            .collect(),
    )]
}

fn provenance(document: &SignOff) -> Vec<Block<'_>> {
    let it = &document.provenance;
    let root = match &it.evidence_root {
        Some(root) => vec![text("Evidence root: "), code(root)],
        None => cell("Evidence root: not stated."),
    };
    let commit = document.tool.commit.as_deref();
    let commit = commit.map_or_else(String::new, |it| format!(", commit {it}"));
    let seeds: Vec<String> = it.seeds.iter().map(u64::to_string).collect();
    let windows: Vec<String> = it
        .windows
        .iter()
        .map(|one| {
            let daily = one
                .daily
                .map_or_else(|| "all day".to_owned(), |it| it.to_string());
            format!("{} {daily} {}", one.name, one.zone)
        })
        .collect();
    let mut list = vec![
        vec![
            text(format!("Spec {}, SHA-256 ", it.spec)),
            code(&it.spec_sha256),
        ],
        vec![text("Plan "), code(&it.plan_digest)],
        root,
        cell(format!("Seed {}", seeds.join(", "))),
        cell(format!(
            "Evidence written by relayproof {}; this document by {}{commit}",
            it.tool_versions.join(", "),
            document.tool.version
        )),
        cell(format!("Rules of the time zones: {}", it.zone_rules)),
    ];
    if !windows.is_empty() {
        list.push(cell(format!("Windows: {}", windows.join("; "))));
    }
    vec![
        Block::List(list),
        Block::Heading("Probes".to_owned()),
        probes(document),
        Block::Heading("What was asked".to_owned()),
        asked(document),
    ]
}

fn probes(document: &SignOff) -> Block<'_> {
    let rows = document.provenance.probes.iter().map(|it| {
        let mut host = vec![code(&it.host)];
        host.extend(
            it.invalid
                .iter()
                .map(|why| small(format!("invalid: {why}"))),
        );
        vec![
            host,
            cell(it.region.clone().unwrap_or_else(|| "–".to_owned())),
            cell(it.samples.to_string()),
            cell(it.sessions.to_string()),
            cell(it.late_starts.to_string()),
            cell(words::seconds(it.max_lag_s)),
            cell(format!(
                "{}, {}",
                words::seconds(it.loop_lag_p99_s),
                words::seconds(it.loop_lag_max_s)
            )),
            cell(words::seconds(it.clock_step_s)),
            cell(it.own_failures.to_string()),
        ]
    });
    let columns = vec![
        words_of("host"),
        words_of("region"),
        number("samples"),
        number("closed sessions"),
        number("late starts"),
        number("longest lag"),
        number("loop lag p99, longest"),
        number("clock step"),
        number("own failures"),
    ];
    plain(columns, rows.collect())
}

fn asked(document: &SignOff) -> Block<'_> {
    let versions = |of: &std::collections::BTreeMap<String, u64>| {
        let all: Vec<String> = of.iter().map(|(name, n)| format!("{name} ({n})")).collect();
        if all.is_empty() {
            "–".to_owned()
        } else {
            all.join(", ")
        }
    };
    let rows = document.provenance.asked.iter().map(|it| {
        vec![
            vec![
                code(&it.cell),
                small(format!("{} {}", it.protocol, it.base_url)),
            ],
            cell(it.transport.to_string()),
            cell(if it.stream { "stream" } else { "whole" }),
            cell(it.prompt_chars.to_string()),
            cell(
                it.max_tokens
                    .map_or_else(|| "–".to_owned(), |it| it.to_string()),
            ),
            cell(it.late_starts.to_string()),
            cell(versions(&it.http)),
            cell(versions(&it.tls)),
        ]
    });
    let columns = vec![
        words_of("cell"),
        words_of("transport"),
        words_of("answer"),
        number("prompt characters"),
        number("most tokens"),
        number("late starts"),
        words_of("HTTP (samples)"),
        words_of("TLS (samples)"),
    ];
    plain(columns, rows.collect())
}

fn requests(document: &SignOff) -> Vec<Block<'_>> {
    if document.requests.is_empty() {
        return vec![say("None failed.")];
    }
    let mut blocks = vec![say(
        "For the operator of the relay, to look up on its side: failures first, then answers beyond \
         the limit.",
    )];
    for it in &document.requests {
        blocks.push(Block::Heading(it.relay.clone()));
        let rows = it.listed.iter().map(|one| {
            let mut ids = Vec::new();
            for (index, (name, value)) in one.ids.iter().enumerate() {
                if index > 0 {
                    ids.push(text(", "));
                }
                ids.push(text(format!("{name} ")));
                ids.push(code(value));
            }
            if ids.is_empty() {
                ids.push(text("none"));
            }
            vec![
                cell(one.at.clone()),
                cell(format!("{} #{}", one.cell, one.index)),
                cell(
                    one.status
                        .map_or_else(|| "–".to_owned(), |it| it.to_string()),
                ),
                cell(one.why.clone()),
                ids,
            ]
        });
        let columns = vec![
            words_of("sent (UTC)"),
            words_of("sample"),
            number("status"),
            words_of("what was wrong"),
            words_of("ids"),
        ];
        blocks.push(plain(columns, rows.collect()));
        if it.more > 0 {
            blocks.push(say(format!(
                "And {} more; the evidence has them all.",
                it.more
            )));
        }
        if it.without_id > 0 {
            blocks.push(say(format!(
                "{} of all of them named no id.",
                it.without_id
            )));
        }
    }
    blocks
}

fn untested(document: &SignOff) -> Vec<Block<'_>> {
    let all = document.not_tested.iter();
    vec![Block::List(all.map(|it| cell(it.clone())).collect())]
}
