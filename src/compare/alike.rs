//! Whether two cells may be put side by side: the same model, asked the same.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::tallied::Tallied;
use crate::evidence::Header;
use crate::forms::named;

named! {
    /// In what two cells differ.
    Aspect {
        /// Model asked for.
        Model = "model",
        /// Name of the workload.
        Workload = "workload",
        /// Text of the prompt.
        Prompt = "prompt",
        /// Output budget asked for.
        MaxTokens = "max_tokens",
        /// Wire protocol.
        Protocol = "protocol",
        /// Client that sent the requests.
        Transport = "transport",
        /// How tokens are counted.
        Tokens = "tokens",
        /// Starts per second.
        Rate = "rate",
        /// Something else in the plans.
        Plan = "plan",
    }
}

impl Aspect {
    /// Whether it makes the comparison one of different things, rather than one to take with care.
    pub const fn forbids(self) -> bool {
        match self {
            Self::Model | Self::Workload | Self::Prompt | Self::MaxTokens | Self::Protocol => true,
            Self::Transport | Self::Tokens | Self::Rate | Self::Plan => false,
        }
    }
}

/// One respect in which two cells differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlike {
    /// Which.
    pub aspect: Aspect,
    /// What each has.
    pub words: String,
}

/// How calls started.
fn rate(header: &Header) -> String {
    match header.concurrency {
        Some(streams) => format!("{streams} held open"),
        None => format!("{:.3}/s", header.sampling.rate_per_s),
    }
}

/// Everything in which two cells differ, as far as their evidence shows; empty where they are alike.
pub fn unlike(a: &Header, b: &Header) -> Vec<Unlike> {
    let budget = |most: Option<u64>| most.map_or_else(|| "none".to_owned(), |it| it.to_string());
    let pairs = [
        (Aspect::Model, a.model.clone(), b.model.clone()),
        (Aspect::Workload, a.workload.clone(), b.workload.clone()),
        (
            Aspect::MaxTokens,
            budget(a.max_tokens),
            budget(b.max_tokens),
        ),
        (
            Aspect::Protocol,
            a.protocol.to_string(),
            b.protocol.to_string(),
        ),
        (
            Aspect::Transport,
            a.transport.to_string(),
            b.transport.to_string(),
        ),
        (
            Aspect::Tokens,
            a.judge.tokens.to_string(),
            b.judge.tokens.to_string(),
        ),
        (Aspect::Rate, rate(a), rate(b)),
    ];
    let mut found: Vec<Unlike> = pairs
        .into_iter()
        .filter(|(_, one, two)| one != two)
        .map(|(aspect, one, two)| Unlike {
            aspect,
            words: format!("{aspect} {one} and {two}"),
        })
        .collect();
    if a.prompt != b.prompt {
        found.push(Unlike {
            aspect: Aspect::Prompt,
            words: "the texts of the prompts differ".to_owned(),
        });
    }
    // Specs of their own differ in their relays at least; what else there is, nobody can see.
    if a.plan_digest != b.plan_digest {
        found.push(Unlike {
            aspect: Aspect::Plan,
            words: "the plans differ, maybe in parameters, expectations, limits or retries"
                .to_owned(),
        });
    }
    found
}

/// What forbids to put two cells side by side.
pub fn forbidding(a: &Header, b: &Header) -> Vec<Unlike> {
    let mut found = unlike(a, b);
    found.retain(|it| it.aspect.forbids());
    found
}

/// Cells in groups within which nothing forbids a comparison, in the order of their first members.
pub fn groups(cells: &[Tallied]) -> Vec<Vec<&Tallied>> {
    let mut groups: Vec<Vec<&Tallied>> = Vec::new();
    for cell in cells {
        let alike = |group: &&mut Vec<&Tallied>| {
            let first = group.first();
            first.is_some_and(|it| forbidding(&it.header, &cell.header).is_empty())
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups
}

/// Time between two cells that were not sampled at the same time.
pub fn apart(one: &Tallied, two: &Tallied) -> Option<Duration> {
    let later = one.first_unix_ns?.max(two.first_unix_ns?);
    let earlier = one.last_unix_ns?.min(two.last_unix_ns?);
    let gap = Duration::from_nanos(later.checked_sub(earlier)?);
    (!gap.is_zero()).then_some(gap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Protocol;
    use crate::evidence::fixtures::*;
    use crate::evidence::{Fingerprint, Line};
    use crate::plan::{Tokens, TransportKind};

    fn of(change: impl FnOnce(&mut Header)) -> Tallied {
        let mut header = header(Vec::new(), 10);
        change(&mut header);
        Tallied::new(header, String::new(), Vec::new())
    }

    fn aspects(change: impl FnOnce(&mut Header)) -> Vec<Aspect> {
        let found = unlike(&of(|_| {}).header, &of(change).header);
        found.into_iter().map(|it| it.aspect).collect()
    }

    #[test]
    fn relays_may_differ_and_nothing_else() {
        assert_eq!(aspects(|header| header.relay = "beta".to_owned()), []);
        assert_eq!(
            aspects(|header| header.model = "other".to_owned()),
            [Aspect::Model]
        );
        assert_eq!(
            aspects(|header| header.workload = "other".to_owned()),
            [Aspect::Workload]
        );
        assert_eq!(
            aspects(|header| header.max_tokens = None),
            [Aspect::MaxTokens]
        );
        assert_eq!(
            aspects(|header| header.transport = TransportKind::Raw),
            [Aspect::Transport]
        );
        assert_eq!(
            aspects(|header| header.judge.tokens = Tokens::Events),
            [Aspect::Tokens]
        );
        assert_eq!(
            aspects(|header| header.sampling.rate_per_s = 2.0),
            [Aspect::Rate]
        );
        assert_eq!(
            aspects(|header| header.concurrency = Some(8)),
            [Aspect::Rate]
        );
        assert_eq!(
            aspects(|header| header.plan_digest = "other".to_owned()),
            [Aspect::Plan]
        );
        assert_eq!(aspects(|header| header.protocol = Protocol::OpenaiChat), []);
        let prompt = aspects(|header| {
            header.prompt.push(Fingerprint {
                role: "user".to_owned(),
                chars: 1,
                sha256: "x".to_owned(),
            });
        });
        assert_eq!(prompt, [Aspect::Prompt]);
    }

    #[test]
    fn what_forbids_a_comparison_is_what_was_asked_for() {
        let forbidding: Vec<Aspect> = Aspect::ALL
            .iter()
            .copied()
            .filter(|aspect| aspect.forbids())
            .collect();
        assert_eq!(
            forbidding,
            [
                Aspect::Model,
                Aspect::Workload,
                Aspect::Prompt,
                Aspect::MaxTokens,
                Aspect::Protocol
            ]
        );
    }

    #[test]
    fn cells_are_grouped_by_what_was_asked_of_them() {
        let model = |model: &str| of(|header| header.model = model.to_owned());
        let cells = [model("m"), model("n"), model("m")];
        let sizes: Vec<usize> = groups(&cells).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 1]);
    }

    #[test]
    fn runs_that_do_not_overlap_are_apart() {
        let sampled = |indices: std::ops::Range<u64>| {
            let mut tallied = of(|_| {});
            for index in indices {
                tallied.take(&Line::Sample(Box::new(sample(index, good()))));
            }
            tallied
        };
        assert_eq!(apart(&sampled(0..5), &sampled(3..9)), None);
        assert_eq!(
            apart(&sampled(10..12), &sampled(0..5)),
            Some(Duration::from_secs(6))
        );
        assert_eq!(apart(&sampled(0..0), &sampled(0..5)), None);
    }
}
