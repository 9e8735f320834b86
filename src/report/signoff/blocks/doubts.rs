//! What speaks against trusting the result: signals, exceptions, what was not tested.

use super::{Block, Inline, Mark, cell, code, say, small, words_of};
use crate::report::signoff::SignOff;
use crate::signals::{Seen, Signal};

pub(super) fn signals(document: &SignOff) -> Vec<Block<'_>> {
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

pub(super) fn exceptions(document: &SignOff) -> Vec<Block<'_>> {
    if document.exceptions.is_empty() {
        return vec![say("None: all of the spec is judged, by its usual rules.")];
    }
    let all = document.exceptions.iter();
    vec![Block::List(
        all.map(|it| cell(format!("{}: {}", it.kind, it.statement)))
            .collect(),
    )]
}

pub(super) fn untested(document: &SignOff) -> Vec<Block<'_>> {
    let all = document.not_tested.iter();
    vec![Block::List(all.map(|it| cell(it.clone())).collect())]
}
