//! `relayproof probe`: one streamed call, and where its time went.

mod render;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use secrecy::SecretString;
use serde_json::Map;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::{Exit, Format, colour, complain, results, with_causes};
use crate::attribution::blame;
use crate::dialect::{Message, Protocol};
use crate::expect::Expect;
use crate::observation::{Ending, Limit, Loss};
use crate::plan::{
    Cell, ConnectionMode, Endpoint as Place, HttpVersion, KeySource, Propagation, Proxy, Relay,
    Retry, Slot, TransportKind, Workload,
};
use crate::probe::call::{Call, call_once};
use crate::probe::cancel::cancel_pair;
use crate::probe::dial::Dial;
use crate::probe::endpoint::{self, Endpoint};
use crate::probe::hooks::ConnectEvents;
use crate::probe::key;
use crate::probe::transport::Transport;
use crate::run::fresh_run_id;
use crate::spec;
use crate::stream::Timeouts;

/// Model asked for when none is named; the answered one is then not compared with it.
const fn default_model(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::OpenaiChat | Protocol::OpenaiResponses => "gpt-4o-mini",
        Protocol::AnthropicMessages => "claude-haiku-4-5",
        Protocol::Gemini => "gemini-2.5-flash",
    }
}

const DEFAULT_PROMPT: &str = "Count from one to twenty in English words, one per line.";

/// Arguments of `probe`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Base URL as the official SDK takes it, with /v1 where that has it
    base_url: String,
    /// Wire protocol
    #[arg(long, default_value = "openai-chat", value_parser = protocol)]
    protocol: Protocol,
    /// Model; without it the answered model is not checked
    #[arg(long)]
    model: Option<String>,
    /// Prompt
    #[arg(long)]
    prompt: Option<String>,
    /// Ask for an answer that ends with a nonce, and miss it where an ending was invented
    #[arg(long)]
    seal: bool,
    /// Ask for usage, and miss it where it does not come
    #[arg(long)]
    usage: bool,
    /// Output budget in tokens
    #[arg(long)]
    max_tokens: Option<u64>,
    /// Time limits: dns, connect, tls, headers, first_token, idle, total
    #[arg(long, value_name = "LIMIT=DURATION,…")]
    timeout: Option<String>,
    /// Additional trusted certificates, PEM
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// http://, https://, socks5:// or socks5h:// proxy; `env` takes it from the environment
    #[arg(long)]
    proxy: Option<String>,
    /// HTTP client: raw sees HTTP framing and the first byte, reqwest knows proxies and HTTP/2;
    /// without it raw, where it will do
    #[arg(long, value_enum)]
    transport: Option<TransportChoice>,
    /// HTTP version
    #[arg(long, value_enum, default_value_t = HttpChoice::Auto)]
    http: HttpChoice,
    /// Environment variable that holds the key
    #[arg(long, default_value = "RELAYPROOF_API_KEY")]
    api_key_env: String,
    /// Print the answer, too
    #[arg(long)]
    content: bool,
    /// Output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportChoice {
    Raw,
    Reqwest,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HttpChoice {
    Auto,
    #[value(name = "1.1")]
    Http1,
    #[value(name = "2")]
    Http2,
}

fn protocol(text: &str) -> Result<Protocol, String> {
    let known = || Protocol::ALL.iter().copied();
    known()
        .find(|protocol| protocol.as_str() == text)
        .ok_or_else(|| {
            let names: Vec<&str> = known().map(Protocol::as_str).collect();
            format!("this version speaks {}", names.join(", "))
        })
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    match prepare(args) {
        Ok(ready) => call(args, ready, out),
        Err(mistake) => {
            complain(&format!("error: {mistake}"));
            Ok(Exit::Usage)
        }
    }
}

/// A call and the client to make it with.
struct Ready {
    call: Call,
    transport: Transport,
    url: String,
}

fn prepare(args: &Args) -> Result<Ready, String> {
    crate::probe::tls::install_crypto();
    // Without it the way through a proxy is not told apart from the connect; a process has one.
    tracing_subscriber::registry()
        .with(ConnectEvents::layer())
        .try_init()
        .ok();
    let env = |name: &str| env::var(name).ok();
    let timeouts = timeouts(args.timeout.as_deref())?;
    let proxy = match args.proxy.as_deref() {
        None | Some("none") => Proxy::None,
        Some("env") => Proxy::Env,
        Some(url) => Proxy::Url(url.to_owned()),
    };
    let cell = cell(args, timeouts, proxy);
    let key = key(&args.api_key_env)?;
    let endpoint =
        Endpoint::new(&args.base_url, &cell.relay, &cell.model, key.as_ref()).map_err(|error| {
            // What was typed, without what may be a user and password, or a key.
            let given = args.base_url.rsplit('@').next().unwrap_or_default();
            let given = given.split(['?', '#']).next().unwrap_or_default();
            format!("{}: {}", results::printable(given), with_causes(&error))
        })?;
    let proxy = endpoint::proxy(&cell.relay.proxy, endpoint.url(), &env)
        .map_err(|error| with_causes(&error))?;
    let endpoint = endpoint.through(proxy.as_ref());
    let mut extra_ca_pem = Vec::new();
    if let Some(path) = &args.ca_file {
        let pem = fs::read(path)
            .map_err(|error| format!("cannot read --ca-file {}: {error}", path.display()))?;
        extra_ca_pem.push(pem);
    }
    let kind = match args.transport {
        Some(TransportChoice::Raw) => TransportKind::Raw,
        Some(TransportChoice::Reqwest) => TransportKind::Reqwest,
        None if proxy.is_some() || args.http == HttpChoice::Http2 => TransportKind::Reqwest,
        None => TransportKind::Raw,
    };
    let dial = Dial {
        connection: ConnectionMode::Fresh,
        http: cell.relay.http,
        proxy,
        extra_ca_pem,
    };
    let transport = Transport::new(kind, &dial).map_err(|error| with_causes(&error))?;
    let url = endpoint.url().to_string();
    let run_id = fresh_run_id();
    let slot = Slot {
        index: 0,
        start: Duration::ZERO,
        warmup: false,
        nonce: format!("{run_id}-probe"),
        id: run_id.clone(),
    };
    let mut prompt = cell.prompt(&slot);
    prompt.usage = args.usage;
    let mut call = Call::asking(&cell, slot, prompt, &endpoint, &run_id);
    if args.model.is_none() {
        call = call.any_model();
    }
    if args.content {
        call = call.keep_text();
    }
    Ok(Ready {
        call,
        transport,
        url,
    })
}

fn call(args: &Args, ready: Ready, out: &mut dyn Write) -> io::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let sample = runtime.block_on(async {
        let (switch, cancel) = cancel_pair();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                switch.cancel();
            }
        });
        call_once(&ready.transport, ready.call, cancel).await
    });
    // A name that is still being resolved would hold the answer up for as long as the system's
    // resolver tries, whatever the time limit.
    runtime.shutdown_background();
    let Some(seen) = sample.attempts.first().map(|attempt| &attempt.observation) else {
        complain("error: nothing was sent");
        return Ok(Exit::NotMeasured);
    };
    if seen.ending == Ending::Cancelled {
        complain(if seen.lost == Some(Loss::Local) {
            "error: this machine has no file, port, memory or network left for the call"
        } else {
            "interrupted"
        });
        return Ok(Exit::NotMeasured);
    }
    let blame = blame(seen);
    match args.format {
        Format::Json => {
            let document = render::as_json(&sample, seen, &blame, args.content);
            results::json(&document, out)?;
        }
        Format::Text => {
            let text = render::as_text(&ready.url, &sample, seen, &blame, args.content, colour());
            write!(out, "{text}")?;
        }
    }
    Ok(if seen.class().is_none() {
        Exit::Pass
    } else {
        Exit::Violated
    })
}

/// The one cell that the command line describes.
fn cell(args: &Args, timeouts: Timeouts, proxy: Proxy) -> Cell {
    let mut content = args
        .prompt
        .clone()
        .unwrap_or_else(|| DEFAULT_PROMPT.to_owned());
    if args.seal {
        content.push_str(" End your answer with `{{seal}}`.");
    }
    let mut params = Map::new();
    if let Some(most) = args.max_tokens {
        params.insert("max_tokens".to_owned(), most.into());
    }
    Cell {
        relay: Relay {
            name: "probe".to_owned(),
            endpoint: Place::Url(args.base_url.clone()),
            protocol: args.protocol,
            stream: true,
            connection: ConnectionMode::Fresh,
            transport: TransportKind::Raw,
            http: match args.http {
                HttpChoice::Auto => HttpVersion::Auto,
                HttpChoice::Http1 => HttpVersion::Http1,
                HttpChoice::Http2 => HttpVersion::Http2,
            },
            proxy,
            ca_file: None,
            timeouts,
            retry: Retry {
                statuses: Vec::new(),
                connect: false,
                max: 0,
                backoff: Duration::ZERO,
                factor: 1.0,
                jitter: false,
                cap: Duration::ZERO,
                obey_retry_after: false,
            },
            headers: BTreeMap::new(),
            api_key: Some(KeySource::Env(args.api_key_env.clone())),
            propagate: Propagation::None,
            required: false,
        },
        model: args
            .model
            .clone()
            .unwrap_or_else(|| default_model(args.protocol).to_owned()),
        workload: Workload {
            name: "probe".to_owned(),
            messages: vec![Message {
                role: "user".to_owned(),
                content,
            }],
            params,
            expect: Expect::default(),
            calibration: None,
            concurrency: None,
        },
        objectives: Vec::new(),
        id: String::new(),
        ignored: None,
        price: None,
        region: None,
        beside: None,
    }
}

/// The key, where the variable is set; a relay on loopback may need none.
fn key(variable: &str) -> Result<Option<SecretString>, String> {
    let source = KeySource::Env(variable.to_owned());
    match key::read(&source, Path::new(""), &key::variable) {
        Ok(key) => Ok(Some(key)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(with_causes(&error)),
    }
}

fn timeouts(text: Option<&str>) -> Result<Timeouts, String> {
    let mut limits = Timeouts::default();
    for part in text
        .unwrap_or_default()
        .split(',')
        .filter(|part| !part.trim().is_empty())
    {
        let help = || {
            format!(
                "--timeout: `{part}` is not LIMIT=DURATION, as in first_token=2s,idle=2s,total=10s"
            )
        };
        let (name, value) = part.split_once('=').ok_or_else(help)?;
        let value = spec::duration(value.trim()).map_err(|why| format!("{}: {why}", help()))?;
        let named = Limit::ALL
            .iter()
            .find(|limit| limit.as_str() == name.trim());
        let place = match named.copied() {
            Some(Limit::Dns) => &mut limits.dns,
            Some(Limit::Connect) => &mut limits.connect,
            Some(Limit::Tls) => &mut limits.tls,
            Some(Limit::Headers) => &mut limits.headers,
            Some(Limit::FirstToken) => &mut limits.first_token,
            Some(Limit::Idle) => &mut limits.idle,
            Some(Limit::Total) => &mut limits.total,
            Some(Limit::AfterDone) | None => {
                return Err(format!(
                    "--timeout: unknown limit `{name}`; known are dns, connect, tls, headers, \
                     first_token, idle, total"
                ));
            }
        };
        *place = value;
    }
    Ok(limits)
}
