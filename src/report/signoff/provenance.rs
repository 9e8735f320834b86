//! Where the evidence comes from: spec, tool, probes, and how the relays were reached.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Material, digits};
use crate::evidence::merge::Source;
use crate::evidence::{Close, Evidence, LATE, Sample};
use crate::measure::seconds;
use crate::plan::TransportKind;
use crate::plan::window::{Window, shown, zone_rules};

/// Where the evidence comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Name of the spec.
    pub spec: String,
    /// SHA-256 of its text, hex.
    pub spec_sha256: String,
    /// Digest of the plan.
    pub plan_digest: String,
    /// Seed of everything random.
    pub seeds: Vec<u64>,
    /// Root of the evidence files, hex: one value that any change to one of their bytes changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_root: Option<String>,
    /// Versions of relayproof that wrote the evidence.
    pub tool_versions: Vec<String>,
    /// Version of the rules of the time zones.
    pub zone_rules: String,
    /// Windows of the spec.
    pub windows: Vec<Window>,
    /// Who sampled.
    pub probes: Vec<Probe>,
    /// What was asked, and over which connections the answers came.
    pub asked: Vec<Asked>,
}

/// One machine in one region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Its name.
    pub host: String,
    /// Its region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Versions of relayproof on it.
    pub tool_versions: Vec<String>,
    /// Evidence that it wrote: files, those of one cell as one.
    pub files: u64,
    /// Samples, warm-ups included.
    pub samples: u64,
    /// Closing lines; a probe that collects by the hour has one for each cell and hour.
    pub sessions: u64,
    /// Files whose last session was cut off or goes on.
    pub unclosed: u64,
    /// Starts later than 100 ms after their plan, as its sessions counted them.
    pub late_starts: u64,
    /// Longest lag of a start, seconds.
    pub max_lag_s: f64,
    /// Worst 99th percentile of the event loop's lag in a session, seconds.
    pub loop_lag_p99_s: f64,
    /// Longest lag of the event loop, seconds.
    pub loop_lag_max_s: f64,
    /// Largest step of the wall clock against the monotonic one in a session, seconds.
    pub clock_step_s: f64,
    /// Calls that failed for want of files, ports, memory or a network on its side.
    pub own_failures: u64,
    /// Why sessions of it are invalid, each reason once.
    pub invalid: Vec<String>,
}

/// What a cell was asked, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The cell.
    pub cell: String,
    /// Base URL, without user info and query.
    pub base_url: String,
    /// Protocol.
    pub protocol: String,
    /// Transport.
    pub transport: TransportKind,
    /// Whether streams were asked for.
    pub stream: bool,
    /// Characters of the prompt's templates, all messages together.
    pub prompt_chars: u64,
    /// Most tokens of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// First and last start of a counted sample, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<(String, String)>,
    /// Starts later than 100 ms after their plan.
    pub late_starts: u64,
    /// First attempts by HTTP version; `unknown` where no answer said one.
    pub http: BTreeMap<String, u64>,
    /// First attempts by TLS version; `unknown` where the transport does not say, or there was
    /// none.
    pub tls: BTreeMap<String, u64>,
}

pub(super) fn provenance(evidence: &[&Evidence], material: &Material<'_>) -> Provenance {
    let headers = || {
        let merged = evidence.iter().map(|one| &one.header);
        merged.chain(material.sources.iter().map(|it| &it.header))
    };
    let set = |of: fn(&crate::evidence::Header) -> String| -> Vec<String> {
        let all: BTreeSet<String> = headers().map(of).collect();
        all.into_iter().collect()
    };
    let seeds: BTreeSet<u64> = headers().map(|it| it.sampling.seed).collect();
    let campaign = material.campaign;
    Provenance {
        spec: campaign.spec.clone(),
        spec_sha256: campaign.spec_sha256.clone(),
        plan_digest: campaign.plan_digest.clone(),
        seeds: seeds.into_iter().collect(),
        evidence_root: material.root.map(str::to_owned),
        tool_versions: set(|it| it.tool_version.clone()),
        zone_rules: zone_rules().to_owned(),
        windows: headers()
            .next()
            .map_or_else(Vec::new, |it| it.windows.clone()),
        probes: probes(material.sources),
        asked: evidence.iter().map(|one| asked(one)).collect(),
    }
}

fn probes(sources: &[Source]) -> Vec<Probe> {
    let mut all: BTreeMap<(&str, Option<&str>), Vec<&Source>> = BTreeMap::new();
    for source in sources {
        let header = &source.header;
        let key = (&*header.host, header.region.as_deref());
        all.entry(key).or_default().push(source);
    }
    let of = |((host, region), sources): ((&str, Option<&str>), Vec<&Source>)| {
        let closes: Vec<&Close> = sources
            .iter()
            .flat_map(|it| it.earlier.iter().chain(&it.close))
            .collect();
        let checks = || closes.iter().map(|close| &close.self_check);
        let most = |times: &mut dyn Iterator<Item = std::time::Duration>| {
            digits(times.max().map_or(0.0, seconds))
        };
        let versions: BTreeSet<&String> =
            sources.iter().map(|it| &it.header.tool_version).collect();
        let invalid: BTreeSet<&String> = checks().filter_map(|it| it.invalid.as_ref()).collect();
        Probe {
            host: host.to_owned(),
            region: region.map(str::to_owned),
            tool_versions: versions.into_iter().cloned().collect(),
            files: sources.len() as u64,
            samples: sources.iter().map(|it| it.samples).sum(),
            sessions: closes.len() as u64,
            unclosed: sources.iter().filter(|it| it.close.is_none()).count() as u64,
            late_starts: checks().map(|it| it.late_starts).sum(),
            max_lag_s: most(&mut checks().map(|it| it.max_lag)),
            loop_lag_p99_s: most(&mut checks().map(|it| it.loop_lag_p99)),
            loop_lag_max_s: most(&mut checks().map(|it| it.loop_lag_max)),
            clock_step_s: most(&mut checks().map(|it| it.clock_step)),
            own_failures: checks().map(|it| it.own_failures).sum(),
            invalid: invalid.into_iter().cloned().collect(),
        }
    };
    all.into_iter().map(of).collect()
}

fn asked(one: &Evidence) -> Asked {
    let header = &one.header;
    let (mut http, mut tls) = (BTreeMap::new(), BTreeMap::new());
    let mut sampled: Option<(u64, u64)> = None;
    let mut late_starts = 0;
    for sample in one.samples.iter().filter(|sample| sample.counts()) {
        let Some(first) = sample.attempts.first() else {
            continue;
        };
        let connection = &first.observation.connection;
        let name = |version: &Option<String>| version.clone().unwrap_or_else(|| "unknown".into());
        *http.entry(name(&connection.http_version)).or_default() += 1;
        *tls.entry(name(&connection.tls_version)).or_default() += 1;
        late_starts += u64::from(is_late(sample));
        let at = sample.t0_unix_ns;
        sampled = Some(sampled.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
    }
    Asked {
        cell: header.cell.clone(),
        base_url: header.base_url.clone(),
        protocol: header.protocol.to_string(),
        transport: header.transport,
        stream: header.stream,
        prompt_chars: header.prompt.iter().map(|it| it.chars).sum(),
        max_tokens: header.max_tokens,
        sampled: sampled.map(|(from, to)| (shown(from), shown(to))),
        late_starts,
        http,
        tls,
    }
}

fn is_late(sample: &Sample) -> bool {
    sample.lag > LATE
}
