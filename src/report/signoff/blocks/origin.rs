//! Where the numbers come from, and by which ids they can be looked up.

use super::{Block, cell, code, number, plain, say, small, text, words_of};
use crate::report::signoff::SignOff;
use crate::words;
use crate::words::counted;

pub(super) fn provenance(document: &SignOff) -> Vec<Block<'_>> {
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
            cell(format!(
                "{}, {}",
                words::seconds(it.clock_step_s),
                words::seconds(it.clock_set_s)
            )),
            cell(match it.unsynchronised {
                0 => it.boots.to_string(),
                n => format!(
                    "{} ({} without a time server)",
                    it.boots,
                    counted(n, "session")
                ),
            }),
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
        number("clock step within, between sessions"),
        number("boots"),
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

pub(super) fn requests(document: &SignOff) -> Vec<Block<'_>> {
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
            let status = one.status.map(|status| format!(", status {status}"));
            vec![
                cell(one.at.clone()),
                vec![
                    text(format!("{}{}", one.why, status.unwrap_or_default())),
                    small(format!("{} #{}", one.cell, one.index)),
                ],
                ids,
            ]
        });
        let columns = vec![
            words_of("sent (UTC)"),
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
