//! Where to look when an objective fails: its failing samples grouped by blame, and the largest
//! group in words.

use std::time::Duration;

use crate::attribution::{Blame, Party, blame, hint};
use crate::evidence::{Evidence, Header, Sample, ids};
use crate::measure::seconds;
use crate::objective::Objective;
use crate::objective::metric::{Metric, Unit};
use crate::observation::{Class, Observation, Phase, Stretch, Timeline};
use crate::plan::Judging;
use crate::plan::trace_url::{Lead, TraceUrl};
use crate::verdict::Verdict;
use crate::words;

/// Samples that an explanation names.
const TELLING: usize = 3;
/// Attempts of a sample that a metric of the whole sample looks at.
const ATTEMPTS: usize = 4;
/// Two events closer than this came in one packet.
const ONE_PACKET: Duration = Duration::from_millis(1);

/// Where to look, and the samples that show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Who to look at.
    pub party: Party,
    /// In which phase.
    pub phase: Phase,
    /// Failing samples that look like this, of those the verdict names.
    pub alike: usize,
    /// Failing samples that the verdict names.
    pub of: usize,
    /// The most telling of them, by slot.
    pub samples: Vec<u64>,
    /// Trace id of the most telling one.
    pub trace_id: String,
    /// The same samples and where their traces are to be looked at, the most telling first.
    pub telling: Vec<Telling>,
    /// What they have in common: `head after 92-118 ms, then no byte for 1.8-2.6 s`.
    pub words: String,
    /// What to try, where something can be tried on our side.
    pub hint: Option<&'static str>,
}

/// Where the trace of a sample is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling {
    /// The sample's slot.
    pub index: u64,
    /// Its trace.
    pub trace_id: String,
    /// Number of the attempt, from 0.
    pub attempt: usize,
    /// The phase, as the attempt's spans have it.
    pub phase: Phase,
    /// When the sample began, milliseconds since the epoch.
    pub start_ms: u64,
    /// When it was over.
    pub end_ms: u64,
}

impl Telling {
    fn of(case: &Case<'_>) -> Self {
        let sample = case.sample;
        let length = sample.attempts.last().map_or(Duration::ZERO, |last| {
            last.start.saturating_add(last.observation.timeline.over)
        });
        let start_ms = sample.t0_unix_ns / 1_000_000;
        let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        // Up to the first token there is one span, whose phase tells how far it came.
        let came = case.attempt.timeline.first_token.is_some();
        Self {
            index: sample.index,
            trace_id: sample.trace_id.clone(),
            attempt: case.number,
            phase: if case.phase == Phase::FirstEvent && came {
                Phase::FirstToken
            } else {
                case.phase
            },
            start_ms,
            end_ms: start_ms.saturating_add(length).saturating_add(1),
        }
    }

    /// The address of the trace, opened at the guilty phase.
    pub fn address(&self, url: &TraceUrl, run_id: &str) -> String {
        let span_id = ids::post_id(&self.trace_id, self.attempt);
        url.to(&Lead {
            trace_id: &self.trace_id,
            span_id: span_id.as_deref().unwrap_or_default(),
            phase: self.phase.as_str(),
            run_id,
            start_ms: self.start_ms,
            end_ms: self.end_ms,
        })
    }
}

/// The address of a sample's trace, opened where its last attempt went wrong; `None` where traces
/// went nowhere.
pub fn address_of(header: &Header, sample: &Sample) -> Option<String> {
    let url = trace_url(header)?;
    let number = sample.attempts.len().checked_sub(1)?;
    let attempt = &sample.attempts.get(number)?.observation;
    let Blame { party, phase, .. } = blame(attempt);
    let telling = Telling::of(&Case {
        sample,
        number,
        attempt,
        party,
        phase,
        class: attempt.class(),
        length: attempt.timeline.over,
    });
    Some(telling.address(&url, &header.run_id))
}

/// How the addresses of a cell's traces are made; `None` where they went nowhere.
pub fn trace_url(header: &Header) -> Option<TraceUrl> {
    // What a hand-made file holds in its place is no address.
    TraceUrl::parse(header.otel.trace_url.as_deref()?).ok()
}

impl Explanation {
    /// The address of the most telling sample's trace; `None` where traces went nowhere.
    pub fn address(&self, header: &Header) -> Option<String> {
        let url = trace_url(header)?;
        Some(self.telling.first()?.address(&url, &header.run_id))
    }

    /// Who and where: `relay-middleware, phase stream (3 of 5 failures alike)`.
    pub fn place(&self) -> String {
        let mut text = format!("{}, phase {}", self.party, self.phase);
        if self.alike < self.of {
            text.push_str(&format!(" ({} of {} failures alike)", self.alike, self.of));
        }
        text
    }

    /// The samples and what they have in common: `samples 3, 7: first token after 2 s`.
    pub fn shown_by(&self) -> String {
        let samples: Vec<String> = self.samples.iter().map(u64::to_string).collect();
        let noun = if samples.len() == 1 {
            "sample"
        } else {
            "samples"
        };
        format!("{noun} {}: {}", samples.join(", "), self.words)
    }
}

/// One failing sample and where its trouble lies.
struct Case<'a> {
    sample: &'a Sample,
    /// Number of the attempt that tells, from 0.
    number: usize,
    attempt: &'a Observation,
    party: Party,
    phase: Phase,
    class: Option<Class>,
    /// How long the trouble took: the longer, the more telling.
    length: Duration,
}

/// Explains why samples fail an objective; `None` when none did.
pub fn explain(
    evidence: &Evidence,
    objective: &Objective,
    verdict: &Verdict,
) -> Option<Explanation> {
    let cases: Vec<Case<'_>> = evidence
        .samples
        .iter()
        .filter(|sample| sample.counts() && verdict.failing.contains(&sample.index))
        .filter_map(|sample| case(sample, objective.metric, &evidence.header.judge))
        .collect();
    let alike = |one: &Case<'_>, other: &Case<'_>| {
        (one.party, one.phase, one.class) == (other.party, other.phase, other.class)
    };
    // The largest group; of equal ones the one that was seen first.
    let leader = cases
        .iter()
        .rev()
        .max_by_key(|case| cases.iter().filter(|other| alike(case, other)).count())?;
    let mut group: Vec<&Case<'_>> = cases.iter().filter(|case| alike(leader, case)).collect();
    let alike = group.len();
    let words = in_words(objective.metric, &group);
    group.sort_by_key(|case| std::cmp::Reverse(case.length));
    let trace_id = group.first()?.sample.trace_id.clone();
    let telling: Vec<Telling> = group
        .iter()
        .take(TELLING)
        .map(|it| Telling::of(it))
        .collect();
    let mut samples: Vec<u64> = group
        .iter()
        .take(TELLING)
        .map(|case| case.sample.index)
        .collect();
    samples.sort_unstable();
    Some(Explanation {
        party: leader.party,
        phase: leader.phase,
        alike,
        of: cases.len(),
        samples,
        trace_id,
        telling,
        words,
        // A blame that is not an attempt's leads to nothing that can be tried.
        hint: leader.class.and_then(|_| hint(leader.attempt)),
    })
}

fn case<'a>(sample: &'a Sample, metric: Metric, judging: &Judging) -> Option<Case<'a>> {
    let number = if metric.is_of_whole_sample() {
        sample.attempts.len().min(ATTEMPTS).checked_sub(1)?
    } else {
        0
    };
    let attempt = &sample.attempts.get(number)?.observation;
    let class = telling_class(sample, attempt, metric, judging);
    let (party, phase, length) = if class.is_some() {
        let Blame { party, phase, .. } = blame(attempt);
        (party, phase, attempt.timeline.over)
    } else if metric.unit() == Unit::YesNo {
        (Party::Upstream, Phase::End, attempt.timeline.over)
    } else {
        let (phase, length) = slow_phase(metric, &attempt.timeline);
        (slow_party(phase), phase, length)
    };
    Some(Case {
        sample,
        number,
        attempt,
        party,
        phase,
        class,
        length,
    })
}

/// The class that makes an attempt fail the metric; `None` when it is a matter of time, or of what
/// the answer says.
fn telling_class(
    sample: &Sample,
    attempt: &Observation,
    metric: Metric,
    judging: &Judging,
) -> Option<Class> {
    if metric == Metric::ModelMatch {
        Some(Class::ModelMismatch)
    } else if metric == Metric::UsageMatch {
        Some(Class::UsageMismatch)
    } else if metric.unit() != Unit::YesNo && metric.reading(sample, judging).value().is_some() {
        // A value that is there and too large is too slow, whatever else was found.
        None
    } else {
        attempt.class()
    }
}

/// The phase in which a whole answer lost most of its time, as far as the metric looks.
fn slow_phase(metric: Metric, time: &Timeline) -> (Phase, Duration) {
    let whole = |phase: Phase, stretch: Option<Stretch>| {
        (phase, stretch.and_then(|s| s.length()).unwrap_or_default())
    };
    if metric == Metric::Dns {
        return whole(Phase::Dns, time.dns);
    }
    if metric == Metric::Connect {
        return whole(Phase::Connect, time.connect);
    }
    if metric == Metric::Tls {
        return whole(Phase::Tls, time.tls);
    }
    if matches!(metric, Metric::Tps | Metric::Jitter | Metric::MaxGap) {
        return (Phase::Stream, between(time.first_token, time.last_token));
    }
    let mut parts = vec![
        whole(Phase::Pool, time.pool),
        whole(Phase::Dns, time.dns),
        whole(Phase::Connect, time.connect),
        whole(Phase::Tunnel, time.tunnel),
        whole(Phase::Tls, time.tls),
        whole(Phase::Send, time.send),
        (Phase::Wait, between(Some(connected(time)), time.head)),
    ];
    if metric != Metric::Ttfb {
        // A first event that brings the first token has no phase of its own.
        let together = between(time.first_event, time.first_token) < ONE_PACKET;
        if time.first_token.is_some() && together {
            parts.push((Phase::FirstToken, between(time.head, time.first_token)));
        } else {
            parts.push((Phase::FirstEvent, between(time.head, time.first_event)));
            if metric != Metric::FirstEvent {
                parts.push((
                    Phase::FirstToken,
                    between(time.first_event, time.first_token),
                ));
            }
        }
    }
    if metric == Metric::Total {
        parts.push((Phase::Stream, between(time.first_token, time.last_token)));
        parts.push((Phase::End, between(time.last_token, time.end_mark)));
    }
    // Of equal parts the earliest, so that nothing is blamed on what came after it.
    parts
        .into_iter()
        .rev()
        .max_by_key(|(_, length)| *length)
        .unwrap_or((Phase::Wait, Duration::ZERO))
}

/// Who a slow phase points at, where nothing is known of the upstream itself.
const fn slow_party(phase: Phase) -> Party {
    match phase {
        Phase::Pool => Party::Client,
        Phase::Dns | Phase::Connect | Phase::Tunnel | Phase::Tls | Phase::Send => Party::Network,
        Phase::Wait | Phase::Head => Party::RelayGateway,
        Phase::FirstEvent | Phase::FirstToken | Phase::Stream | Phase::End => Party::Upstream,
    }
}

/// When the request was on its way: the end of the last connection phase.
fn connected(time: &Timeline) -> Duration {
    [
        time.pool,
        time.dns,
        time.connect,
        time.tunnel,
        time.tls,
        time.send,
    ]
    .into_iter()
    .flatten()
    .filter_map(|stretch| stretch.end)
    .max()
    .unwrap_or_default()
}

fn between(from: Option<Duration>, to: Option<Duration>) -> Duration {
    match (from, to) {
        (Some(from), Some(to)) => to.saturating_sub(from),
        _ => Duration::ZERO,
    }
}

/// What a group of cases has in common.
fn in_words(metric: Metric, group: &[&Case<'_>]) -> String {
    let Some(first) = group.first() else {
        return String::new();
    };
    let Some(class) = first.class else {
        return if metric.unit() == Unit::YesNo {
            unmet_words(group)
        } else {
            slow_words(metric, first.phase, group)
        };
    };
    let mut text = class.as_str().to_owned();
    if class == Class::HttpError {
        let mut statuses: Vec<u16> = group
            .iter()
            .filter_map(|case| case.attempt.status)
            .collect();
        statuses.sort_unstable();
        statuses.dedup();
        let statuses: Vec<String> = statuses.iter().map(u16::to_string).collect();
        text = format!("status {}", statuses.join(", "));
    }
    let lead = |case: &&Case<'_>| {
        let finding = case.attempt.findings.iter().find(|f| f.class == class)?;
        (!finding.detail.is_empty()).then(|| finding.detail.clone())
    };
    if let Some(detail) = lead(first)
        && group
            .iter()
            .all(|case| lead(case).as_ref() == Some(&detail))
    {
        text = format!("{text} ({detail})");
    }
    let tokens = spread(group, |case| case.attempt.timeline.first_token);
    let over = spread(group, |case| Some(case.attempt.timeline.over));
    match (tokens, over) {
        (Some(token), Some(over)) => {
            format!("{text}; first token after {token}, over after {over}")
        }
        (None, Some(over)) => format!("{text}; over after {over}"),
        (_, None) => text,
    }
}

fn unmet_words(group: &[&Case<'_>]) -> String {
    let mut unmet: Vec<&str> = group
        .iter()
        .flat_map(|case| case.attempt.unmet.iter().map(String::as_str))
        .collect();
    unmet.sort_unstable();
    unmet.dedup();
    if unmet.is_empty() {
        "a whole answer that does not end as it was asked to".to_owned()
    } else {
        format!("a whole answer, but not as expected: {}", unmet.join(", "))
    }
}

fn slow_words(metric: Metric, phase: Phase, group: &[&Case<'_>]) -> String {
    let time = |offset: fn(&Timeline) -> Option<Duration>| {
        spread(group, |case| offset(&case.attempt.timeline)).unwrap_or_else(|| "?".to_owned())
    };
    let length = spread(group, |case| Some(case.length)).unwrap_or_default();
    match phase {
        Phase::Pool | Phase::Dns | Phase::Connect | Phase::Tunnel | Phase::Tls | Phase::Send => {
            format!("{phase} took {length}")
        }
        Phase::Wait | Phase::Head => {
            format!(
                "request sent after {}, then no head for {length}",
                time(|t| Some(connected(t)))
            )
        }
        Phase::FirstEvent => format!(
            "head after {}, then no event for {length}",
            time(|t| t.head)
        ),
        Phase::FirstToken
            if group.iter().all(|case| {
                let time = &case.attempt.timeline;
                between(time.first_event, time.first_token) < ONE_PACKET
            }) =>
        {
            format!("head after {}, then no byte for {length}", time(|t| t.head))
        }
        Phase::FirstToken => format!(
            "first event after {}, then no token for {length}",
            time(|t| t.first_event)
        ),
        Phase::Stream if metric == Metric::MaxGap => {
            let gap = spread(group, |case| {
                Some(case.attempt.packets.longest.first()?.length)
            });
            format!(
                "first token after {}, later silent for {}",
                time(|t| t.first_token),
                gap.unwrap_or(length)
            )
        }
        Phase::Stream => format!(
            "first token after {}, then {length} of stream",
            time(|t| t.first_token)
        ),
        Phase::End => format!(
            "last token after {}, then no end mark for {length}",
            time(|t| t.last_token)
        ),
    }
}

/// Range of an offset or length over a group; `None` unless all have it.
fn spread(group: &[&Case<'_>], offset: impl Fn(&Case<'_>) -> Option<Duration>) -> Option<String> {
    let all: Option<Vec<Duration>> = group.iter().map(|case| offset(case)).collect();
    let all = all?;
    let (low, high) = (all.iter().min()?, all.iter().max()?);
    Some(words::range(seconds(*low), seconds(*high)))
}
