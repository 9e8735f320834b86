//! What a verdict does not speak of, made from facts: what was asked, when, from where, through
//! what.

use std::collections::BTreeSet;

use super::Clock;
use super::gathered::Gathered;
use crate::evidence::{Evidence, Header};
use crate::plan::TransportKind;
use crate::verdict::campaign::Campaign;
use crate::words::counted;

/// Days of a week: fewer have not seen each of them.
const WEEK: u64 = 7;

pub(super) fn untested(
    evidence: &[&Evidence],
    campaign: &Campaign,
    clock: &Clock,
    gathered: &Gathered,
) -> Vec<String> {
    let headers: Vec<&Header> = evidence.iter().map(|one| &one.header).collect();
    let mut said = vec![
        "What the answers say was not judged: neither whether it is right nor how good it is."
            .to_owned(),
    ];
    said.extend(asked(&headers));
    said.extend(when(campaign, clock, gathered));
    said.extend(whence(&headers));
    said.extend(through(&headers));
    said.extend(upstream(&headers, campaign));
    if headers.iter().all(|it| it.price.is_none()) {
        said.push("What it cost: the spec names no prices.".to_owned());
    }
    said.push(
        "Load: these are single calls at a low rate; how the relay fares under many at once is \
         another test."
            .to_owned(),
    );
    said
}

fn asked(headers: &[&Header]) -> Vec<String> {
    let mut said = Vec::new();
    let streams = headers.iter().filter(|it| it.stream).count();
    if streams == headers.len() {
        said.push("Answers in one piece: only streams were asked for.".to_owned());
    } else if streams == 0 {
        said.push("Streams: only answers in one piece were asked for.".to_owned());
    }
    let models: BTreeSet<&str> = headers.iter().map(|it| it.model.as_str()).collect();
    said.push(format!(
        "Any model but {}.",
        models.into_iter().collect::<Vec<_>>().join(", ")
    ));
    let chars = headers
        .iter()
        .map(|it| it.prompt.iter().map(|one| one.chars).sum::<u64>());
    let tokens = headers.iter().filter_map(|it| it.max_tokens).max();
    let longest = match chars.max().unwrap_or(0) {
        0 => String::new(),
        chars => format!(" of more than {}", counted(chars, "character")),
    };
    let budget = tokens.map_or_else(String::new, |tokens| {
        format!(", and answers of more than {}", counted(tokens, "token"))
    });
    said.push(format!(
        "Prompts{longest}{budget}; long contexts, images, tools and conversations, but for those of \
         these prompts."
    ));
    said
}

fn when(campaign: &Campaign, clock: &Clock, gathered: &Gathered) -> Vec<String> {
    let mut said = Vec::new();
    if !campaign.is_final {
        said.push("The rest of the soak: it is not over, and this is provisional.".to_owned());
    }
    let days = gathered.days.len() as u64;
    match (gathered.days.first(), gathered.days.last()) {
        (Some(first), Some(last)) => {
            let few = if days < WEEK {
                "; fewer than seven days have not seen every day of the week"
            } else {
                ""
            };
            said.push(format!(
                "Days other than the {} from {first} to {last} ({}){few}.",
                counted(days, "day"),
                clock.zone
            ));
        }
        _ => said.push("Anything: there is no sample.".to_owned()),
    }
    let hours = gathered.latency.iter().flat_map(|it| &it.hours);
    let hours: BTreeSet<u8> = hours.map(|it| it.hour).collect();
    let unseen: Vec<String> = (0..24)
        .filter(|hour| !hours.contains(hour))
        .map(|hour| format!("{hour:02}"))
        .collect();
    if !unseen.is_empty() && !hours.is_empty() {
        said.push(format!(
            "The hours {} ({}): no sample fell into them.",
            unseen.join(", "),
            clock.zone
        ));
    }
    let coverage = campaign.pools.iter().flat_map(|pool| &pool.coverage);
    let own = coverage.filter(|it| it.beside.is_none());
    let (due, lost) = own.fold((0, 0), |(due, lost), it| {
        (due + it.due, lost + it.missing + it.absent)
    });
    if lost > 0 {
        said.push(format!(
            "The moments of {} of {due} slots, which have no sample.",
            lost
        ));
    }
    said
}

fn whence(headers: &[&Header]) -> Vec<String> {
    let regions: BTreeSet<&str> = headers
        .iter()
        .filter_map(|it| it.region.as_deref())
        .collect();
    vec![if regions.is_empty() {
        "Ways to the relay other than the one from where the probe stands.".to_owned()
    } else {
        format!(
            "Ways to the relay other than those from {}.",
            regions.into_iter().collect::<Vec<_>>().join(", ")
        )
    }]
}

fn through(headers: &[&Header]) -> Vec<String> {
    let kinds: BTreeSet<&str> = headers.iter().map(|it| it.transport.as_str()).collect();
    let through = kinds.into_iter().collect::<Vec<_>>().join(", ");
    let mut said = vec![format!(
        "Other clients than the one that was used ({through}): their versions of HTTP and TLS, their \
         pools and their proxies."
    )];
    if headers
        .iter()
        .any(|it| it.transport == TransportKind::Reqwest)
    {
        said.push(
            "Faults of HTTP framing, and the first byte apart from the head: reqwest does not show \
             them."
                .to_owned(),
        );
    }
    said
}

fn upstream(headers: &[&Header], campaign: &Campaign) -> Vec<String> {
    if headers.iter().all(|it| it.beside.is_none()) {
        return vec![
            "Whether the model service behind a relay failed by itself: no trusted upstream was \
             asked at the same time, so all failures are the relay's."
                .to_owned(),
        ];
    }
    let coverage = || campaign.pools.iter().flat_map(|pool| &pool.coverage);
    let taken = |of_upstream: bool| -> u64 {
        let sides = coverage().filter(|it| it.beside.is_some() == of_upstream);
        sides.map(|it| it.taken).sum()
    };
    vec![format!(
        "The trusted upstream at {} of {} sampled moments: at those, a failure of the model service \
         cannot be told from one of the relay's.",
        taken(false).saturating_sub(taken(true)),
        taken(false),
    )]
}
