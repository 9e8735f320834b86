//! The measured process: a client that asks the relay, and what that cost.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use relayproof::evidence::{Close, Evidence, Header, Line, SCHEMA, Sample, Writer};
use relayproof::plan::{
    Cell, ConnectionMode, HttpVersion, Plan, Propagation, Sampling, TransportKind,
};
use relayproof::probe::cancel::cancel_pair;
use relayproof::probe::dial::Dial;
use relayproof::probe::drive::{Driven, Job, drive};
use relayproof::probe::endpoint::Endpoint;
use relayproof::probe::hooks::ConnectEvents;
use relayproof::probe::tls;
use relayproof::probe::transport::Transport;
use relayproof::resolve::resolve;
use relayproof::spec;
use relayproof::telemetry::spans::SampleFacts;
use relayproof::telemetry::{Case, Exported, RunInfo, Suite, SuiteInfo, SuiteStatus, Telemetry};
use relayproof::verdict::{self, Judge};
use serde::{Deserialize, Serialize};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::task::{Client, Task};
use super::{Outcome, bare, clocks};

/// What the measured process says at its end.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Measured {
    /// User and system time, from the first start to the last line of evidence and telemetry.
    pub(crate) cpu_ns: i64,
    /// Most memory resident, from the process's start on.
    pub(crate) peak_kib: u64,
    /// Each answer's id, and the moment of its first token on the monotonic clock.
    pub(crate) first_tokens: Vec<(String, i64)>,
    /// Median time to first token, as the evidence has it.
    pub(crate) ttft_ns: Option<u64>,
    /// Samples that were not a whole, honest answer.
    pub(crate) failed: u64,
    /// Why the run calls itself invalid, if it does.
    pub(crate) invalid: Option<String>,
    /// Event-loop lag that the run found in itself, 99th percentile.
    pub(crate) loop_lag_us: Option<u64>,
    /// How far wall and monotonic clock drifted apart meanwhile.
    pub(crate) drift_ns: i64,
}

/// Promises that no run of this length can settle, so that all of it takes place.
const SPEC: &str = "\
relayproof: 1
name: process bench
relays:
  - name: relay
    base_url: BASE_URL
    proxy: none
    transport: TRANSPORT
    models: [test-model]
slos:
  - ttft.p95 < 10s
  - tps.p05 >= 1/s
  - jitter.p95 < 1s
  - parse_success >= 95%
  - interruption < 5%
  - usable >= 95%
";

/// Does the task in this process.
pub(crate) fn run(task: &Task) -> Outcome<Measured> {
    tls::install_crypto();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name(match task.client {
            Client::Bare => "bench-bare",
            Client::Reqwest => "bench-reqwest",
            Client::Raw => "bench-raw",
        })
        .enable_all()
        .build()?;
    let mut plan = plan(task)?;
    plan.sampling = Sampling {
        rate_per_s: task.load.rate_per_s,
        max_samples: task.load.samples,
        concurrency: task.load.concurrency,
        warmup: 0,
        max_tokens: None,
        max_duration: None,
        ..plan.sampling
    };
    let cell = plan.cells.first().ok_or("the spec has no cell")?.clone();
    match task.client {
        Client::Bare => {
            let cpu = clocks::cpu_ns();
            let first_tokens =
                runtime.block_on(bare::read_all(&task.base_url, &cell, &plan.sampling))?;
            Ok(Measured {
                cpu_ns: clocks::cpu_ns() - cpu,
                peak_kib: clocks::peak_kib()?,
                first_tokens,
                ttft_ns: None,
                failed: 0,
                invalid: None,
                loop_lag_us: None,
                drift_ns: 0,
            })
        }
        Client::Reqwest | Client::Raw => probe(task, &plan, &cell, &runtime),
    }
}

fn plan(task: &Task) -> Outcome<Plan> {
    let transport = match task.client {
        Client::Raw => TransportKind::Raw,
        Client::Reqwest | Client::Bare => TransportKind::Reqwest,
    };
    let text = SPEC
        .replace("BASE_URL", &task.base_url)
        .replace("TRANSPORT", transport.as_str());
    spec::parse("bench.yaml", &text, &|_| None)
        .and_then(|spec| resolve(&spec, None))
        .map_err(|errors| errors.render(false).into())
}

/// Samples the cell as a run does: each sample goes to the evidence file, the judge, telemetry.
fn probe(
    task: &Task,
    plan: &Plan,
    cell: &Cell,
    runtime: &tokio::runtime::Runtime,
) -> Outcome<Measured> {
    tracing_subscriber::registry()
        .with(ConnectEvents::layer())
        .try_init()?;
    let folder = tempfile::tempdir()?;
    let endpoint = Endpoint::new(&task.base_url, &cell.relay, &cell.model, None)?;
    let dial = Dial {
        connection: ConnectionMode::Fresh,
        http: HttpVersion::Auto,
        proxy: None,
        extra_ca_pem: Vec::new(),
    };
    let transport = Transport::new(cell.relay.transport, &dial)?;
    let header = header(plan, cell, endpoint.base());
    let ahead = clocks::wall_ahead_ns();
    let cpu = clocks::cpu_ns();

    let traced = task
        .sink
        .as_deref()
        .map(|sink| Traced::start(folder.path(), sink, plan, &header));
    let mut record = Record {
        writer: Writer::create(&folder.path().join("cell.jsonl"), &header)?,
        judge: Judge::for_header(&header),
        evidence: Evidence::new(header),
        case: traced.as_ref().map(|traced| traced.case.clone()),
        failure: None,
    };
    let job = Job {
        cell,
        sampling: &plan.sampling,
        transport,
        endpoint,
        run_id: "bench",
        skip: 0,
        allowance: None,
        aside: None,
    };
    let (_switch, cancel) = cancel_pair();
    let driven = runtime.block_on(drive(job, cancel, &mut |sample| record.take(sample)));
    let evidence = record.close(&driven)?;
    if let Some(traced) = traced {
        traced.finish(&evidence)?;
    }

    let cpu_ns = clocks::cpu_ns() - cpu;
    let drift_ns = clocks::wall_ahead_ns() - ahead;
    let whole = |sample: &&Sample| {
        sample
            .attempts
            .iter()
            .all(|attempt| attempt.observation.class().is_none())
    };
    let failed = evidence
        .samples
        .iter()
        .filter(|sample| !whole(sample))
        .count() as u64;
    Ok(Measured {
        cpu_ns,
        peak_kib: clocks::peak_kib()?,
        first_tokens: evidence
            .samples
            .iter()
            .filter_map(|sample| first_token(sample, ahead + drift_ns / 2))
            .collect(),
        ttft_ns: median_ttft(&evidence),
        failed,
        invalid: driven.self_check.invalid,
        loop_lag_us: u64::try_from(driven.self_check.loop_lag_p99.as_micros()).ok(),
        drift_ns,
    })
}

/// The median of the measured times to first token.
fn median_ttft(evidence: &Evidence) -> Option<u64> {
    let first = |sample: &Sample| sample.attempts.first()?.observation.timeline.first_token;
    let mut times: Vec<Duration> = evidence.samples.iter().filter_map(first).collect();
    times.sort_unstable();
    u64::try_from(times.get(times.len() / 2)?.as_nanos()).ok()
}

/// The answer's id and the moment of its first token, as the evidence has it.
fn first_token(sample: &Sample, wall_ahead_ns: i64) -> Option<(String, i64)> {
    let attempt = sample.attempts.first()?;
    let id = attempt.observation.response_id.clone()?;
    let after = attempt.start + attempt.observation.timeline.first_token?;
    let t0 = i64::try_from(sample.t0_unix_ns).ok()? - wall_ahead_ns;
    Some((id, t0 + i64::try_from(after.as_nanos()).ok()?))
}

/// Where samples go, as in a run; only that no verdict ends it.
struct Record {
    writer: Writer,
    judge: Judge,
    evidence: Evidence,
    case: Option<Case>,
    failure: Option<String>,
}

impl Record {
    fn take(&mut self, sample: Sample) -> ControlFlow<()> {
        if let Err(error) = self.writer.sample(&sample) {
            self.failure = Some(error.to_string());
            return ControlFlow::Break(());
        }
        self.judge.take(&sample);
        if let Some(case) = &self.case {
            case.sample(&sample, &SampleFacts::of(&self.evidence.header, &sample));
        }
        self.evidence.push(Line::Sample(Box::new(sample)));
        ControlFlow::Continue(())
    }

    fn close(mut self, driven: &Driven) -> Outcome<Evidence> {
        if let Some(failure) = self.failure.or_else(|| driven.error.clone()) {
            return Err(failure.into());
        }
        let close = Close {
            reason: driven.reason,
            at_unix_ns: self.evidence.header.started_unix_ns,
            abandoned: driven.abandoned,
            self_check: driven.self_check.clone(),
            error: None,
        };
        self.writer.close(&close)?;
        self.evidence.push(Line::Close(close));
        Ok(self.evidence)
    }
}

/// Telemetry of the run: spans of every sample, drawn, written to the run's folder, and sent.
struct Traced {
    telemetry: Telemetry,
    suite: Suite,
    case: Case,
}

impl Traced {
    fn start(folder: &Path, sink: &str, plan: &Plan, header: &Header) -> Self {
        let info = RunInfo {
            run_id: "bench".to_owned(),
            folder: folder.to_owned(),
            host: "bench".to_owned(),
        };
        let telemetry = Telemetry::start(&info, &|name| {
            (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| sink.to_owned())
        });
        let suite = telemetry.suite(&SuiteInfo {
            spec: plan.name.clone(),
            plan: plan.core_digest.clone(),
            spec_sha256: plan.spec_sha256.clone(),
            cells: 1,
            planned_samples: plan.sampling.max_samples,
            ci_parent: false,
        });
        let case = suite.case(header);
        Self {
            telemetry,
            suite,
            case,
        }
    }

    fn finish(self, evidence: &Evidence) -> Outcome<()> {
        let closed = evidence.header.started_unix_ns;
        self.case.finish(&verdict::judge(evidence), closed);
        self.suite.finish(SuiteStatus::Success);
        let account = self.telemetry.finish(Duration::from_secs(5));
        let Exported { written, spans, .. } = &account;
        let complete = [*written, spans.exported] == [spans.made; 2];
        if complete && account.warnings.is_empty() {
            Ok(())
        } else {
            Err(format!("telemetry is not complete: {account:?}").into())
        }
    }
}

fn header(plan: &Plan, cell: &Cell, base_url: &str) -> Header {
    let wall = clocks::monotonic_ns() + clocks::wall_ahead_ns();
    Header {
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: "bench".to_owned(),
        started_unix_ns: u64::try_from(wall).unwrap_or_default(),
        host: "bench".to_owned(),
        spec_name: plan.name.clone(),
        spec_source: plan.source.clone(),
        spec_sha256: plan.spec_sha256.clone(),
        plan_digest: plan.digest.clone(),
        cell_id: cell.id.clone(),
        cell: cell.name(),
        relay: cell.relay.name.clone(),
        model: cell.model.clone(),
        workload: cell.workload.name.clone(),
        base_url: base_url.to_owned(),
        protocol: cell.relay.protocol,
        transport: cell.relay.transport,
        stream: cell.relay.stream,
        max_tokens: cell.max_tokens(),
        prompt: Vec::new(),
        sampling: plan.sampling.clone(),
        judge: plan.judge.clone(),
        otel: plan.otel.clone(),
        seal_allowance_ppm: None,
        spec_cells: Some(1),
        propagation: Propagation::None,
        earlier_runs: Vec::new(),
        segment: None,
        core_digest: String::new(),
        objectives: cell.objectives.clone(),
        price: cell.price,
        region: None,
        beside: None,
        pair_ppm: 0,
        calibration: false,
        concurrency: None,
        windows: Vec::new(),
        regions: Vec::new(),
    }
}
