//! Every case of the corpus played over real sockets by the embedded relay and read by the real
//! probe: through both transports, and through the command.
//!
//! Times are those of the cases. Lower bounds are hard; there are no upper ones but the probe's own
//! limits, which are seconds.

#![cfg(feature = "cli")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not seen as tests")]

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use relayproof::attribution::blame;
use relayproof::dialect::{Message, Prompt, Protocol};
use relayproof::expect::Expect;
use relayproof::observation::{Class, Observation};
use relayproof::plan::{ConnectionMode, HttpVersion, TransportKind};
use relayproof::probe::cancel::cancel_pair;
use relayproof::probe::clock::Clock;
use relayproof::probe::dial::{Dial, Request};
use relayproof::probe::transport::Transport;
use relayproof::sim::{Case, Played, Relay, Served, Settings};
use relayproof::stream::{Asked, Exchange, Timeouts};
use serde_json::{Map, Value};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use url::Url;

/// Probes at a time; few enough that a machine of two cores keeps the times of the cases.
const AT_A_TIME: usize = 8;

/// Silence that is a stall, for every case: longer than any wait of a case that is none.
const SILENCE: Duration = Duration::from_secs(5);

/// What is seen through reqwest where it is not what the case says, and why it cannot be.
const UNSEEN_BY_REQWEST: &[(&str, &str, &str)] = &[(
    "102-content-length-too-short",
    "parse_ok yes, expected no",
    "the library drops what follows the announced body, so that only a truncation is left",
)];

/// A case, and what is to be read from it.
#[derive(Debug)]
struct Expected {
    id: String,
    protocol: String,
    model: String,
    usage: bool,
    max_tokens: Option<u64>,
    outcomes: Vec<String>,
    parse_ok: bool,
    interrupted: bool,
    content: String,
    attribution: String,
    warnings: Vec<String>,
    first_token: bool,
}

static CORPUS: LazyLock<Vec<Expected>> = LazyLock::new(|| {
    let mut files: Vec<PathBuf> = folder()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    files.iter().map(|file| expected(file)).collect()
});

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn expected(file: &Path) -> Expected {
    let text = std::fs::read_to_string(file).unwrap();
    let case: Value = serde_yaml::from_str(&text).unwrap();
    let (expect, request) = (&case["expect"], &case["request"]);
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let words = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.map(word).collect()
    };
    Expected {
        id: word(&case["id"]),
        protocol: word(&case["protocol"]),
        model: request["model"].as_str().unwrap_or("test-model").to_owned(),
        usage: request["include_usage"].as_bool().unwrap_or_default(),
        max_tokens: request["max_tokens"].as_u64(),
        outcomes: [
            vec![word(&expect["outcome"])],
            words(&expect["also_accept"]),
        ]
        .concat(),
        parse_ok: expect["parse_ok"].as_bool().unwrap(),
        interrupted: expect["interrupted"].as_bool().unwrap(),
        content: word(&expect["content"]),
        attribution: word(&expect["attribution"]),
        warnings: words(&expect["warn"]),
        first_token: !expect["first_token_step"].is_null(),
    }
}

impl Expected {
    /// A raw case is no answer of any protocol; it is asked for, and read, as a chat.
    fn spoken(&self) -> Protocol {
        let mut known = Protocol::ALL.iter().copied();
        known
            .find(|protocol| protocol.as_str() == self.protocol)
            .unwrap_or(Protocol::OpenaiChat)
    }

    fn is_raw(&self) -> bool {
        self.protocol == "raw-sse"
    }

    /// Whether the outcome depends on the times of reads, which a busy machine blurs.
    fn is_timed(&self) -> bool {
        self.outcomes
            .iter()
            .any(|outcome| outcome == "not-streamed")
    }
}

/// What a probe said of a case, whichever way it was asked.
#[derive(Debug)]
struct Seen {
    outcome: String,
    parse_ok: bool,
    interrupted: bool,
    content: String,
    attribution: String,
    warnings: Vec<String>,
    first_token: bool,
}

/// Every way in which what was seen is not what the case says.
fn differences(case: &Expected, seen: &Seen) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut differs = |what: &str, seen: &str, expected: &str| {
        if seen != expected {
            wrong.push(format!("{}: {what} {seen}, expected {expected}", case.id));
        }
    };
    if !case.outcomes.contains(&seen.outcome) {
        differs("outcome", &seen.outcome, &case.outcomes.join(" or "));
    }
    let flag = |flag: bool| if flag { "yes" } else { "no" };
    differs("parse_ok", flag(seen.parse_ok), flag(case.parse_ok));
    differs(
        "interrupted",
        flag(seen.interrupted),
        flag(case.interrupted),
    );
    differs("content", &seen.content, &case.content);
    differs("attribution", &seen.attribution, &case.attribution);
    differs(
        "first token",
        flag(seen.first_token),
        flag(case.first_token),
    );
    for warning in &case.warnings {
        if !seen.warnings.contains(warning) {
            differs("warnings", &seen.warnings.join(" "), warning);
        }
    }
    wrong
}

/// Does `work` for each case, a few at a time, and then one by one for those that hang on times.
async fn each<W, F>(work: W) -> Vec<String>
where
    W: Fn(&'static Expected) -> F,
    F: Future<Output = Vec<String>> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(AT_A_TIME));
    let mut tasks = JoinSet::new();
    let mut wrong = Vec::new();
    for case in CORPUS.iter().filter(|case| !case.is_timed()) {
        let (permits, work) = (Arc::clone(&permits), work(case));
        tasks.spawn(async move {
            let _permit = permits.acquire().await.unwrap();
            work.await
        });
    }
    while let Some(done) = tasks.join_next().await {
        wrong.extend(done.unwrap());
    }
    for case in CORPUS.iter().filter(|case| case.is_timed()) {
        wrong.extend(tokio::spawn(work(case)).await.unwrap());
    }
    wrong.sort();
    wrong
}

async fn relay() -> Relay {
    let settings = Settings {
        cases: Case::load(&folder()).unwrap(),
        ..Settings::default()
    };
    Relay::start(settings).await.unwrap()
}

fn bases<'a>(cases: impl IntoIterator<Item = &'a Played>) -> BTreeMap<String, String> {
    let cases = cases.into_iter();
    let bases = cases.map(|case| (case.id.clone(), case.base_url.clone()));
    bases.collect()
}

/// One case asked for and read through a transport, and a moment no earlier than its start.
async fn attempt(kind: TransportKind, case: &Expected, base: &str) -> (Observation, Instant) {
    let protocol = case.spoken();
    let mut params = Map::new();
    if let Some(most) = case.max_tokens {
        params.insert("max_tokens".to_owned(), most.into());
    }
    let prompt = Prompt {
        model: case.model.clone(),
        messages: vec![Message {
            role: "user".to_owned(),
            content: "Say hello.".to_owned(),
        }],
        params,
        stream: true,
        usage: case.usage,
    };
    let (path, query) = protocol.target(&case.model, true);
    let mut url = Url::parse(&format!("{base}/{}", path.trim_start_matches('/'))).unwrap();
    url.set_query(query);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let request = Request {
        url,
        headers,
        body: protocol.body(&prompt).into(),
    };
    let dial = Dial {
        connection: ConnectionMode::Fresh,
        http: HttpVersion::Auto,
        proxy: None,
        extra_ca_pem: Vec::new(),
    };
    let asked = Asked {
        protocol,
        stream: true,
        model: case.model.clone(),
        max_tokens: case.max_tokens,
        usage: case.usage,
        seal: None,
        request_bytes: request.body.len() as u64,
        expect: Expect::default(),
        keep_text: true,
    };
    let timeouts = Timeouts {
        first_token: SILENCE,
        idle: SILENCE,
        total: Duration::from_secs(60),
        ..Timeouts::default()
    };
    let mut exchange = Exchange::new(asked, timeouts);
    let (_switch, mut cancel) = cancel_pair();
    let transport = Transport::new(kind, &dial).unwrap();
    let clock = Clock::start();
    let started = now();
    transport
        .attempt(&request, &mut exchange, &clock, &mut cancel)
        .await;
    (exchange.finish(), started)
}

#[expect(clippy::disallowed_methods, reason = "compared with the relay's times")]
fn now() -> Instant {
    Instant::now()
}

fn seen(of: &Observation) -> Seen {
    Seen {
        outcome: of.outcome().to_owned(),
        parse_ok: of.parse_ok,
        interrupted: of.interrupted,
        content: of.text.clone().unwrap_or_default(),
        attribution: blame(of).party.to_string(),
        warnings: of.warnings.iter().map(ToString::to_string).collect(),
        first_token: of.timeline.first_token.is_some(),
    }
}

/// Plays all cases to a transport; where what it reads is not what they say, and when it says that
/// it had the first token before the relay could have written it.
async fn through(kind: TransportKind) -> Vec<String> {
    relayproof::probe::tls::install_crypto();
    let relay = relay().await;
    let bases = bases(relay.cases());
    assert_eq!(bases.len(), CORPUS.len());
    let first_tokens: Arc<Mutex<Vec<(&str, Instant)>>> = Arc::default();
    let mut wrong = each(|case| {
        let (first_tokens, base) = (Arc::clone(&first_tokens), bases[&case.id].clone());
        async move {
            let (observation, started) = attempt(kind, case, &base).await;
            if case.is_raw() {
                // Events of no protocol: to be read to their end and found wanting.
                let read = observation.class().is_some();
                return Vec::from_iter((!read).then(|| format!("{}: found ok", case.id)));
            }
            if let Some(at) = observation.timeline.first_token {
                first_tokens.lock().unwrap().push((&case.id, started + at));
            }
            differences(case, &seen(&observation))
        }
    })
    .await;
    relay.quiet().await;
    let served = relay.served();
    for (id, at) in first_tokens.lock().unwrap().iter() {
        let served = served.iter().find(|served| served.id == *id).unwrap();
        if !is_possible(served, *at) {
            wrong.push(format!("{id}: the first token is too early"));
        }
    }
    wrong
}

/// Whether a first token that came at this moment was there by then: its write follows the one
/// before it, which had returned.
fn is_possible(served: &Served, at: Instant) -> bool {
    let Some(write) = served.first_token else {
        return false;
    };
    let earlier = served.writes[..write].last();
    earlier.is_none_or(|earlier| served.arrival + Duration::from_nanos(earlier.at_ns) <= at)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_raw_transport_reads_every_case_as_it_says() {
    let wrong = through(TransportKind::Raw).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reqwest_reads_every_case_as_it_says_but_those_that_it_cannot() {
    let wrong = through(TransportKind::Reqwest).await;
    let unseen = UNSEEN_BY_REQWEST.iter();
    let unseen = unseen.map(|(id, difference, _)| format!("{id}: {difference}"));
    assert_eq!(wrong, unseen.collect::<Vec<_>>());
}

/// The command as a relay, ended when this is dropped.
struct Simulate(std::process::Child);

impl Drop for Simulate {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn simulate() -> (Simulate, BTreeMap<String, String>) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_relayproof"));
    command.args(["simulate", "--case"]).arg(folder());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let held = Simulate(child);
    let mut lines = lines.map(|line| line.unwrap());
    let own = lines.next().unwrap();
    assert!(own.starts_with("http://127.0.0.1:") && own.ends_with("/v1"));
    let bases = lines.take(CORPUS.len()).map(|line| {
        let (id, base) = line.split_once(' ').unwrap();
        (id.to_owned(), base.to_owned())
    });
    (held, bases.collect())
}

async fn probe(case: &Expected, base: &str) -> Vec<String> {
    let limits = format!("first_token={0}s,idle={0}s,total=60s", SILENCE.as_secs());
    let mut command = Command::new(env!("CARGO_BIN_EXE_relayproof"));
    command
        .args(["probe", base, "--content", "--format", "json"])
        .args(["--protocol", case.spoken().as_str()])
        .args(["--model", &case.model, "--timeout", &limits]);
    if case.usage {
        command.arg("--usage");
    }
    if let Some(most) = case.max_tokens {
        command.args(["--max-tokens", &most.to_string()]);
    }
    let done = command.env_clear().stdin(Stdio::null()).output();
    let done = done.await.unwrap();
    let Ok(said) = serde_json::from_slice::<Value>(&done.stdout) else {
        let complaint = String::from_utf8_lossy(&done.stderr);
        return vec![format!("{}: no JSON, {complaint}", case.id)];
    };
    let word = |name: &str| said[name].as_str().unwrap().to_owned();
    let seen = Seen {
        outcome: word("outcome"),
        parse_ok: said["parse_ok"].as_bool().unwrap(),
        interrupted: said["interrupted"].as_bool().unwrap(),
        content: word("content"),
        attribution: word("attribution"),
        warnings: serde_json::from_value(said["warnings"].clone()).unwrap(),
        first_token: !said["phases"]["ttft_ms"].is_null(),
    };
    let code = i32::from(seen.outcome != "ok");
    let mut wrong = if case.is_raw() {
        let mut known = Class::ALL.iter().map(|class| class.as_str());
        let read = known.any(|class| class == seen.outcome);
        Vec::from_iter((!read).then(|| format!("{}: found {}", case.id, seen.outcome)))
    } else {
        differences(case, &seen)
    };
    if done.status.code() != Some(code) {
        wrong.push(format!("{}: {}, expected {code}", case.id, done.status));
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_says_of_every_case_that_another_one_plays_what_the_case_says() {
    let (_relay, bases) = simulate();
    assert_eq!(bases.len(), CORPUS.len());
    let wrong = each(|case| {
        let base = bases[&case.id].clone();
        async move { probe(case, &base).await }
    })
    .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
