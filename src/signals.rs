//! Signs that a relay is not what it says: another model, other counts, other answers than the
//! trusted upstream's.
//!
//! Signals, not verdicts: each has an innocent explanation, too, and none of them changes what was
//! decided. Made from evidence alone, which holds no answers.

mod answers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Sample};
use crate::forms::named;
use crate::objective::metric::Metric;
use crate::observation::{Class, Observation};
use crate::stats::difference::mcnemar_exact;
use crate::stats::float;

/// Chance of a false signal, each on its own.
const ALPHA: f64 = 0.01;
/// Samples, or pairs, below which nothing is said.
const FEWEST: u64 = 20;
/// How far a reported count may lie above our own: tokenizers differ by the odd token at the ends.
const TOLERANCE: f64 = 1.05;
/// And this many tokens more, so that short answers do not count.
const TOKENS: u64 = 4;
/// Smallest difference of shares that is worth a word.
const LEAST: f64 = 0.01;
/// Names of models that a statement lists.
const LISTED: usize = 3;

named! {
    /// What a signal is about.
    About {
        /// The model that answers name.
        AnsweredModel = "answered_model",
        /// Reported tokens of the answer against our own count.
        AnswerTokens = "answer_tokens",
        /// Reported tokens of the prompt against the upstream's, for the same prompt.
        PromptTokens = "prompt_tokens",
        /// How answers end, against the upstream's.
        FinishReasons = "finish_reasons",
        /// The system fingerprint that answers name, against the upstream's.
        SystemFingerprint = "system_fingerprint",
        /// The answers to one fixed prompt, against the upstream's.
        Answers = "answers",
    }
}

named! {
    /// What was seen.
    Seen {
        /// Nothing that speaks against the relay.
        Nothing = "nothing",
        /// Something that it should explain.
        Signal = "signal",
        /// Too little to say.
        TooFew = "too_few",
        /// Nothing to look at: no upstream, no count, no calibration.
        NotLooked = "not_looked",
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// `relay/model/workload`, regions together.
    pub cell: String,
    /// What it is about.
    pub about: About,
    /// What was seen.
    pub seen: Seen,
    /// In words.
    pub statement: String,
    /// The numbers behind the words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
}

impl About {
    /// What explains it besides deceit.
    pub const fn innocent(self) -> &'static str {
        match self {
            Self::AnsweredModel => "relays rename models, and providers name dated versions",
            Self::AnswerTokens => {
                "another tokenizer, or tokens that are not shown, such as reasoning"
            }
            Self::PromptTokens => {
                "a system prompt of the relay's own, which is billed to you all the same"
            }
            Self::FinishReasons => "relays translate reasons of other protocols",
            Self::SystemFingerprint => "providers run several deployments and change them any day",
            Self::Answers => {
                "other sampling defaults, another quantisation, or another version of the model"
            }
        }
    }
}

/// Everything that can be looked at, for each relay, model and workload.
pub fn signals(evidence: &[Evidence]) -> Vec<Signal> {
    let mut pools: BTreeMap<String, Vec<&Evidence>> = BTreeMap::new();
    for one in evidence.iter().filter(|one| one.header.beside.is_none()) {
        pools.entry(one.header.pooled_name()).or_default().push(one);
    }
    let mut found = Vec::new();
    for (cell, mut own) in pools {
        own.sort_by(|a, b| a.header.cell.cmp(&b.header.cell));
        let pool = Pool {
            cell,
            pairs: pairs(&own, evidence),
            has_upstream: own.iter().any(|one| upstream(one, evidence).is_some()),
            own,
        };
        if pool.own.iter().any(|one| one.header.calibration) {
            found.push(answers::look(&pool, evidence));
            continue;
        }
        found.extend([
            pool.answered_model(),
            pool.answer_tokens(),
            pool.prompt_tokens(),
            pool.finish_reasons(),
            pool.system_fingerprint(),
        ]);
    }
    found
}

/// The cells of one relay, model and workload, and the pairs with the upstream.
struct Pool<'a> {
    cell: String,
    own: Vec<&'a Evidence>,
    pairs: Vec<(&'a Observation, &'a Observation)>,
    has_upstream: bool,
}

fn upstream<'a>(one: &Evidence, all: &'a [Evidence]) -> Option<&'a Evidence> {
    let name = one.header.cell.as_str();
    all.iter()
        .find(|it| it.header.beside.as_deref() == Some(name))
}

/// The last attempts of samples that were asked of both.
fn pairs<'a>(own: &[&'a Evidence], all: &'a [Evidence]) -> Vec<(&'a Observation, &'a Observation)> {
    let mut pairs = Vec::new();
    for one in own {
        let Some(upstream) = upstream(one, all) else {
            continue;
        };
        let theirs: BTreeMap<u64, &Observation> = answered(upstream).collect();
        pairs.extend(answered(one).filter_map(|(index, seen)| Some((seen, *theirs.get(&index)?))));
    }
    pairs
}

/// The last attempt of each sample that got a whole answer.
fn answered(evidence: &Evidence) -> impl Iterator<Item = (u64, &Observation)> {
    let counts = |sample: &&Sample| sample.counts();
    evidence.samples.iter().filter(counts).filter_map(|sample| {
        let last = &sample.attempts.last()?.observation;
        let is_whole = Metric::SuccessIn4
            .reading(sample, &evidence.header.judge)
            .value();
        (is_whole == Some(1.0)).then_some((sample.index, last))
    })
}

impl Pool<'_> {
    fn answers(&self) -> impl Iterator<Item = &Observation> {
        self.own
            .iter()
            .flat_map(|one| answered(one))
            .map(|(_, seen)| seen)
    }

    fn said(&self, about: About, seen: Seen, statement: String, numbers: &[(&str, f64)]) -> Signal {
        let numbers = numbers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        Signal {
            cell: self.cell.clone(),
            about,
            seen,
            statement,
            numbers: numbers.collect(),
        }
    }

    fn too_few(&self, about: About, n: u64, what: &str) -> Signal {
        let (seen, statement) = if !self.has_upstream && what == "pairs" {
            (Seen::NotLooked, "no baseline to compare with".to_owned())
        } else {
            (Seen::TooFew, format!("{n} {what} are too few to say"))
        };
        self.said(about, seen, statement, &[("n", float(n))])
    }

    fn answered_model(&self) -> Signal {
        let (mut n, mut other) = (0, 0);
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for seen in self.answers() {
            let Some(model) = seen.model.as_deref() else {
                continue;
            };
            n += 1;
            if seen.has(Class::ModelMismatch) {
                other += 1;
                names.insert(model);
            }
        }
        if n < FEWEST {
            return self.too_few(About::AnsweredModel, n, "answers that name a model");
        }
        let numbers = [("n", float(n)), ("other", float(other))];
        if other == 0 {
            let statement = format!("all of {n} answers name the model that was asked for");
            return self.said(About::AnsweredModel, Seen::Nothing, statement, &numbers);
        }
        let listed: Vec<&str> = names.iter().copied().take(LISTED).collect();
        let more = names.len() - listed.len();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let statement = format!(
            "{other} of {n} answers name another model: {}{more}",
            listed.join(", ")
        );
        self.said(About::AnsweredModel, Seen::Signal, statement, &numbers)
    }

    fn answer_tokens(&self) -> Signal {
        let (mut n, mut reported, mut counted, mut above, mut below) = (0, 0, 0, 0, 0);
        for seen in self.answers() {
            let (Some(usage), Some(own)) = (seen.usage, seen.own_count.map(|it| it.answer)) else {
                continue;
            };
            // Reasoning is not shown, so that nobody else can count it.
            let Some(told) = usage
                .output
                .and_then(|all| all.checked_sub(usage.reasoning.unwrap_or(0)))
            else {
                continue;
            };
            n += 1;
            reported += told;
            counted += own;
            above += u64::from(float(told) > float(own) * TOLERANCE && told > own + TOKENS);
            below += u64::from(float(own) > float(told) * TOLERANCE && own > told + TOKENS);
        }
        if n == 0 {
            let statement = "no answer was counted by ourselves: that needs the feature \
                             `tokenizer`, and a model whose tokenizer is known";
            return self.said(
                About::AnswerTokens,
                Seen::NotLooked,
                statement.to_owned(),
                &[],
            );
        }
        if n < FEWEST {
            return self.too_few(About::AnswerTokens, n, "counted answers");
        }
        let p = mcnemar_exact(above, below);
        let ratio = float(reported) / float(counted.max(1));
        let signal = p <= ALPHA && above > below && ratio > TOLERANCE;
        let statement = format!(
            "{reported} tokens were reported for {n} answers that we count as {counted}; \
             {above} answers are reported more than 5% longer, {below} shorter"
        );
        let numbers = [
            ("n", float(n)),
            ("reported", float(reported)),
            ("counted", float(counted)),
            ("ratio", ratio),
            ("p", p),
        ];
        self.said(About::AnswerTokens, seen(signal), statement, &numbers)
    }

    fn prompt_tokens(&self) -> Signal {
        let input = |seen: &Observation| seen.usage.and_then(|usage| usage.input);
        let mut extra: Vec<i128> = self
            .pairs
            .iter()
            .filter_map(|(relay, upstream)| {
                Some(i128::from(input(relay)?) - i128::from(input(upstream)?))
            })
            .collect();
        let n = extra.len() as u64;
        if n < FEWEST {
            return self.too_few(About::PromptTokens, n, "pairs");
        }
        extra.sort_unstable();
        let middle = extra.get(extra.len() / 2).copied().unwrap_or(0);
        let more = extra.iter().filter(|it| **it > 0).count() as u64;
        let fewer = extra.iter().filter(|it| **it < 0).count() as u64;
        let p = mcnemar_exact(more, fewer);
        let signal = p <= ALPHA && more > fewer;
        let statement = if more + fewer == 0 {
            format!("the same prompts have the same tokens at both in all of {n} pairs")
        } else {
            format!(
                "for the same prompt the relay reports more tokens than the upstream in {more} of \
                 {n} pairs, fewer in {fewer}; half of the pairs differ by {middle} or more"
            )
        };
        let numbers = [
            ("n", float(n)),
            ("more", float(more)),
            ("fewer", float(fewer)),
            ("p", p),
        ];
        self.said(About::PromptTokens, seen(signal), statement, &numbers)
    }

    fn finish_reasons(&self) -> Signal {
        let reasons: Vec<(&str, &str)> = self
            .pairs
            .iter()
            .filter_map(|(relay, upstream)| {
                Some((
                    relay.finish_reason.as_deref()?,
                    upstream.finish_reason.as_deref()?,
                ))
            })
            .collect();
        let n = reasons.len() as u64;
        if n < FEWEST {
            return self.too_few(About::FinishReasons, n, "pairs");
        }
        let mut theirs: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, upstream) in &reasons {
            *theirs.entry(upstream).or_default() += 1;
        }
        let usual = theirs.iter().max_by_key(|(_, count)| **count);
        let usual = usual.map_or("stop", |(reason, _)| *reason);
        let other = |relay: bool| {
            let only = reasons.iter().filter(|(own, upstream)| {
                (*own == usual) != (*upstream == usual) && (*own == usual) != relay
            });
            only.count() as u64
        };
        let (relay_only, upstream_only) = (other(true), other(false));
        let p = mcnemar_exact(relay_only, upstream_only);
        let apart = (float(relay_only) - float(upstream_only)).abs() / float(n);
        let signal = p <= ALPHA && apart >= LEAST;
        let statement = format!(
            "of {n} pairs {relay_only} end at the relay otherwise than with `{usual}` while they \
             do at the upstream, {upstream_only} the other way round"
        );
        let numbers = [
            ("n", float(n)),
            ("relay_only", float(relay_only)),
            ("upstream_only", float(upstream_only)),
            ("p", p),
        ];
        self.said(About::FinishReasons, seen(signal), statement, &numbers)
    }

    fn system_fingerprint(&self) -> Signal {
        let named: Vec<(&str, &str)> = self
            .pairs
            .iter()
            .filter_map(|(relay, upstream)| {
                Some((
                    relay.fingerprint.as_deref()?,
                    upstream.fingerprint.as_deref()?,
                ))
            })
            .collect();
        let n = named.len() as u64;
        if n < FEWEST {
            let any = self
                .pairs
                .iter()
                .any(|(_, theirs)| theirs.fingerprint.is_some());
            if self.has_upstream && !any {
                let statement = "the upstream names no fingerprint".to_owned();
                return self.said(About::SystemFingerprint, Seen::NotLooked, statement, &[]);
            }
            return self.too_few(About::SystemFingerprint, n, "pairs");
        }
        let theirs: BTreeSet<&str> = named.iter().map(|(_, upstream)| *upstream).collect();
        let foreign = named
            .iter()
            .filter(|(own, _)| !theirs.contains(own))
            .count() as u64;
        let statement = format!(
            "{foreign} of {n} answers name a system fingerprint that the upstream never named; it \
             named {}",
            theirs.len()
        );
        let numbers = [("n", float(n)), ("foreign", float(foreign))];
        // All of them: a few are a deployment that the pairs happened not to meet.
        self.said(
            About::SystemFingerprint,
            seen(foreign == n),
            statement,
            &numbers,
        )
    }
}

const fn seen(signal: bool) -> Seen {
    if signal { Seen::Signal } else { Seen::Nothing }
}

#[cfg(test)]
mod tests;
