//! One pass over the samples: failures, hours, values, money, and the relay's own ids.

mod latency;
mod money;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use latency::{Hour, Latency, Limit};
pub use money::CostLine;

use super::super::explain::address_of;
use super::Clock;
use crate::attribution::{Party, blame};
use crate::evidence::{Attempt, Evidence, Header, Sample};
use crate::measure::seconds;
use crate::observation::{Class, Phase};
use crate::plan::window::{Calendar, Day, shown};
use crate::verdict::campaign::Campaign;
use crate::words;

/// Samples that a group of failures names.
const TELLING: usize = 3;

/// Failed samples that are listed for each relay.
const LISTED: usize = 100;

/// Response headers by which the one who answered, or who stood in between, finds a call again.
const ID_HEADERS: [&str; 3] = ["cf-ray", "request-id", "x-request-id"];

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failures {
    /// By relay, whom to look at, phase and class; the largest first.
    pub groups: Vec<FailureGroup>,
    /// By relay and day, every day that has a sample.
    pub days: Vec<DayFailures>,
}

/// Samples of a relay whose first attempts failed alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureGroup {
    /// The relay, or the trusted upstream.
    pub relay: String,
    /// Who to look at.
    pub party: Party,
    /// Phase of the leading finding.
    pub phase: Phase,
    /// The leading class.
    pub class: Class,
    /// How many.
    pub count: u64,
    /// Those that took longest.
    pub telling: Vec<Named>,
}

/// A sample, and where its trace is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The cell.
    pub cell: String,
    /// The slot.
    pub index: u64,
    /// The trace.
    pub trace_id: String,
    /// Its address, where the spec says how one is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Failures of one relay on one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayFailures {
    /// The relay, or the trusted upstream.
    pub relay: String,
    /// The day, by the clock of the document.
    pub day: Day,
    /// Samples.
    pub n: u64,
    /// Failed first attempts, by whom to look at.
    pub parties: BTreeMap<String, u64>,
}

/// Failed samples of one relay, for whoever runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestIds {
    /// The relay.
    pub relay: String,
    /// The first of them by time, failures before slow answers.
    pub listed: Vec<Requested>,
    /// How many more there are.
    pub more: u64,
    /// Of all of them, those whose answer named no id.
    pub without_id: u64,
}

/// A failed sample by the relay's own names for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requested {
    /// When it was sent, in UTC.
    pub at: String,
    /// The cell.
    pub cell: String,
    /// The slot.
    pub index: u64,
    /// What was wrong.
    pub why: String,
    /// Status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Names and values of the headers, and `id` of the answer itself.
    pub ids: Vec<(String, String)>,
}

/// What the pass over the samples brings.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) failures: Failures,
    pub(super) latency: Vec<Latency>,
    pub(super) cost: Vec<CostLine>,
    pub(super) requests: Vec<RequestIds>,
    /// Warm-ups and calls that were called off.
    pub(super) uncounted: u64,
    /// Days on which anything was sampled, by the clock of the document.
    pub(super) days: BTreeSet<Day>,
}

/// Samples of a day, and failures among them by whom to look at.
type DayParties = (u64, BTreeMap<String, u64>);

pub(super) fn gather(evidence: &[&Evidence], campaign: &Campaign, clock: &Clock) -> Gathered {
    let calendar = Calendar::days(&clock.zone);
    let day = |sample: &Sample| calendar.as_ref()?.day(sample.t0_unix_ns);
    let mut groups: BTreeMap<(&str, Party, Phase, Class), Group<'_>> = BTreeMap::new();
    let mut days: BTreeMap<(&str, Day), DayParties> = BTreeMap::new();
    let mut requests: BTreeMap<&str, Failed<'_>> = BTreeMap::new();
    let mut uncounted = 0;
    for one in evidence {
        let relay = one.header.relay.as_str();
        let limit = latency::limit(&one.header, evidence);
        for sample in &one.samples {
            let Some(first) = sample.attempts.first().filter(|_| sample.counts()) else {
                uncounted += 1;
                continue;
            };
            let seen = &first.observation;
            let party = seen.class().map(|class| (blame(seen), class));
            if let Some(day) = day(sample) {
                let (n, parties) = days.entry((relay, day)).or_default();
                *n += 1;
                if let Some((blame, _)) = party {
                    *parties.entry(blame.party.to_string()).or_default() += 1;
                }
            }
            if let Some((blame, class)) = party {
                let key = (relay, blame.party, blame.phase, class);
                groups.entry(key).or_default().take(&one.header, sample);
            }
            if let Some(wrong) = Wrong::of(sample, limit.as_ref()) {
                let failed = requests.entry(relay).or_default();
                failed.take(&one.header, sample, wrong);
            }
        }
    }
    let mut failures = Failures {
        groups: groups.into_iter().map(group).collect(),
        days: days
            .iter()
            .map(|((relay, day), (n, parties))| DayFailures {
                relay: (*relay).to_owned(),
                day: *day,
                n: *n,
                parties: parties.clone(),
            })
            .collect(),
    };
    // In the order of their names among equals: the sort is stable.
    failures
        .groups
        .sort_by(|a, b| a.relay.cmp(&b.relay).then(b.count.cmp(&a.count)));
    Gathered {
        failures,
        latency: latency::latency(evidence, campaign, clock),
        cost: money::money(evidence, campaign),
        requests: requests
            .into_iter()
            .map(|(relay, failed)| failed.listed(relay))
            .collect(),
        uncounted,
        days: days.into_keys().map(|(_, day)| day).collect(),
    }
}

/// Samples that failed alike, the longest of them kept.
#[derive(Default)]
struct Group<'a> {
    count: u64,
    telling: Vec<(Reverse<Duration>, &'a Header, &'a Sample)>,
}

impl<'a> Group<'a> {
    fn take(&mut self, header: &'a Header, sample: &'a Sample) {
        self.count += 1;
        let first = sample.attempts.first();
        let over = first.map_or(Duration::ZERO, |it| it.observation.timeline.over);
        let rank = |it: &(Reverse<Duration>, &Header, &Sample)| {
            (it.0, it.1.cell.clone(), it.2.index, it.2.id.clone())
        };
        let new = (Reverse(over), header, sample);
        if self.telling.len() == TELLING && self.telling.last().is_some_and(|last| last.0 < new.0) {
            return;
        }
        self.telling.push(new);
        self.telling.sort_by_cached_key(rank);
        self.telling.truncate(TELLING);
    }
}

fn group(
    ((relay, party, phase, class), group): ((&str, Party, Phase, Class), Group<'_>),
) -> FailureGroup {
    let named = |(_, header, sample): (Reverse<Duration>, &Header, &Sample)| Named {
        cell: header.cell.clone(),
        index: sample.index,
        trace_id: sample.trace_id.clone(),
        url: address_of(header, sample),
    };
    FailureGroup {
        relay: relay.to_owned(),
        party,
        phase,
        class,
        count: group.count,
        telling: group.telling.into_iter().map(named).collect(),
    }
}

/// What is wrong with a sample, as its operator is told it: failures before slow answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wrong {
    Failed(Class),
    Slow(Duration),
}

impl Wrong {
    fn of(sample: &Sample, limit: Option<&Limit>) -> Option<Self> {
        let mut attempts = sample.attempts.iter();
        if let Some(class) = attempts.find_map(|it| it.observation.class()) {
            return Some(Self::Failed(class));
        }
        let first = sample.attempts.first()?.observation.timeline.first_token?;
        let is_slow = limit.is_some_and(|it| seconds(first) > it.seconds);
        is_slow.then_some(Self::Slow(first))
    }

    /// Which attempt tells.
    fn attempt<'a>(&self, sample: &'a Sample) -> Option<&'a Attempt> {
        match self {
            Self::Failed(_) => {
                let mut attempts = sample.attempts.iter();
                attempts.find(|it| it.observation.class().is_some())
            }
            Self::Slow(_) => sample.attempts.first(),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Failed(class) => class.to_string(),
            Self::Slow(first) => format!("first token after {}", words::seconds(seconds(*first))),
        }
    }
}

/// Broken before slow, then by time, cell, slot and id.
type Order<'a> = (bool, u64, &'a str, u64, &'a str);

/// Failed samples of one relay, the first of them kept.
#[derive(Default)]
struct Failed<'a> {
    all: u64,
    without_id: u64,
    first: BTreeMap<Order<'a>, (Wrong, &'a Sample)>,
}

impl<'a> Failed<'a> {
    fn take(&mut self, header: &'a Header, sample: &'a Sample, wrong: Wrong) {
        self.all += 1;
        self.without_id += u64::from(ids(wrong.attempt(sample)).is_empty());
        let is_slow = matches!(wrong, Wrong::Slow(_));
        let at = (
            is_slow,
            sample.t0_unix_ns,
            &*header.cell,
            sample.index,
            &*sample.id,
        );
        self.first.insert(at, (wrong, sample));
        if self.first.len() > LISTED {
            self.first.pop_last();
        }
    }

    fn listed(self, relay: &str) -> RequestIds {
        let of = |((_, at, cell, index, _), (wrong, sample)): (Order<'_>, (Wrong, &Sample))| {
            let attempt = wrong.attempt(sample);
            let start = attempt.map_or(Duration::ZERO, |it| it.start);
            let start = u64::try_from(start.as_nanos()).unwrap_or(u64::MAX);
            Requested {
                at: shown(at.saturating_add(start)),
                cell: cell.to_owned(),
                index,
                why: wrong.words(),
                status: attempt.and_then(|it| it.observation.status),
                ids: ids(attempt),
            }
        };
        let listed: Vec<Requested> = self.first.into_iter().map(of).collect();
        RequestIds {
            relay: relay.to_owned(),
            more: self.all - listed.len() as u64,
            without_id: self.without_id,
            listed,
        }
    }
}

/// The names that an answer gave itself.
fn ids(attempt: Option<&Attempt>) -> Vec<(String, String)> {
    let Some(attempt) = attempt else {
        return Vec::new();
    };
    let seen = &attempt.observation;
    let is_id = |(name, _): &&(String, String)| ID_HEADERS.contains(&name.as_str());
    let mut ids: Vec<(String, String)> = seen.headers.iter().filter(is_id).cloned().collect();
    ids.extend(seen.response_id.clone().map(|id| ("id".to_owned(), id)));
    ids
}
