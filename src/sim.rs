//! The embedded relay: answers on loopback, exact in bytes and time, with faults on demand.
//!
//! Sees nothing of ours: it writes wire text by hand, so that it shares no bug with the decoder.

mod ask;
mod case;
mod damage;
mod draw;
mod fault;
mod http;
mod log;
mod pace;
mod playbill;
mod script;
mod server;
mod tls;
mod voice;

pub use case::{Case, CaseError};
pub use fault::{Fault, Params, Planned};
pub use log::{Served, Write};
pub use playbill::Played;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use draw::Draw;
use log::Log;
use pace::Pacer;
use playbill::Playbill;
use server::{Capacity, Server};

/// Most tokens in one answer.
pub const MAX_TOKENS: u32 = 100_000;

/// What the base URL of OpenAI's SDKs ends in.
const VERSION: &str = "/v1";

/// What the relay does with a request beyond its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// It waits until an answer has ended, in the order of arrival.
    Queue,
    /// It is answered 429.
    Reject,
}

/// What the relay is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From the request read whole to the first token.
    pub first_token: Duration,
    /// From one token to the next.
    pub token_gap: Duration,
    /// Tokens of an answer, the seal included; 1 to [`MAX_TOKENS`].
    pub tokens: u32,
    /// Whether to speak TLS, with a certificate made at start.
    pub tls: bool,
    /// Faults; each takes its share of the request bodies, one after the other.
    pub faults: Vec<Planned>,
    /// Cases, each played at a base URL of its own beside the relay's own answers.
    pub cases: Vec<Case>,
    /// Most answers at a time, cases aside; `None`: as many as are asked for.
    pub capacity: Option<u32>,
    /// What becomes of a request beyond the capacity.
    pub overload: Overload,
    /// Decides, with the body, which request is hit.
    pub seed: u64,
    /// Where to listen; port 0 takes a free one.
    pub bind: SocketAddr,
    /// Allows an address that other machines can reach.
    pub allow_remote: bool,
    /// Gets a copy of each answer as it ends; a full channel holds the relay up.
    pub copy: Option<SyncSender<Served>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            first_token: Duration::from_millis(120),
            token_gap: Duration::from_millis(15),
            tokens: 64,
            tls: false,
            faults: Vec::new(),
            cases: Vec::new(),
            capacity: None,
            overload: Overload::Queue,
            seed: 0,
            bind: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            allow_remote: false,
            copy: None,
        }
    }
}

/// A relay that is listening; dropping it ends all its connections.
#[derive(Debug)]
pub struct Relay {
    base_url: String,
    address: SocketAddr,
    ca_pem: Option<String>,
    cases: Vec<Played>,
    server: Arc<Server>,
    task: JoinHandle<()>,
    ringer: JoinHandle<()>,
    _pacer: Pacer,
}

impl Relay {
    /// Starts listening; connections are served on the current tokio runtime.
    ///
    /// # Errors
    /// `InvalidInput` for settings that contradict themselves and for an address beyond loopback
    /// that is not allowed; otherwise what binding, or making the certificate, failed with.
    pub async fn start(settings: Settings) -> io::Result<Self> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        if !settings.bind.ip().is_loopback() && !settings.allow_remote {
            return Err(invalid(format!(
                "{} can be reached from outside this machine",
                settings.bind.ip()
            )));
        }
        if !(1..=MAX_TOKENS).contains(&settings.tokens) {
            return Err(invalid(format!(
                "an answer has 1 to {MAX_TOKENS} tokens, not {}",
                settings.tokens
            )));
        }
        if settings.capacity == Some(0) {
            return Err(invalid(
                "a relay without capacity answers nobody".to_owned(),
            ));
        }
        let draw = Draw::new(settings.seed, settings.faults).map_err(invalid)?;
        let identity = settings.tls.then(tls::identity).transpose()?;
        let listener = TcpListener::bind(settings.bind).await?;
        let address = listener.local_addr()?;
        let own = match (settings.tls, address.ip()) {
            (true, IpAddr::V4(_)) => format!("https://localhost:{}", address.port()),
            (true, IpAddr::V6(_)) => format!("https://{address}"),
            (false, _) => format!("http://{address}"),
        };
        let playbill = Playbill::new(settings.cases, &own, settings.tls, address.ip());
        let (playbill, cases) = playbill.map_err(|error| match error {
            playbill::Error::Cases(why) => invalid(why),
            playbill::Error::Port(error) => error,
        })?;
        let pacer = Pacer::start()?;
        let server = Arc::new(Server {
            first_token: settings.first_token,
            token_gap: settings.token_gap,
            tokens: settings.tokens,
            draw,
            playbill,
            capacity: settings.capacity.map(|most| Capacity {
                free: Arc::new(Semaphore::new(usize::try_from(most).unwrap_or(usize::MAX))),
                overload: settings.overload,
            }),
            tries: Default::default(),
            pace: pacer.pace(),
            log: Arc::new(Log::new(settings.copy)),
            requests: AtomicU64::new(0),
            stop: Default::default(),
            salt: Default::default(),
        });
        let (acceptor, ca_pem) = identity
            .map(|identity| (identity.acceptor, identity.ca_pem))
            .unzip();
        let task = tokio::spawn(Arc::clone(&server).run(listener, acceptor));
        let ringer = tokio::spawn(pacer.pace().ring());
        Ok(Self {
            base_url: format!("{own}{VERSION}"),
            address,
            ca_pem,
            cases,
            server,
            task,
            ringer,
            _pacer: pacer,
        })
    }

    /// Where clients find it, `/v1` included; over TLS by the name `localhost`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The same without `/v1`, for clients that have the version in their paths.
    pub fn origin(&self) -> &str {
        self.base_url
            .strip_suffix(VERSION)
            .unwrap_or(&self.base_url)
    }

    /// The cases that it plays, and where, in the order in which they were given.
    pub fn cases(&self) -> &[Played] {
        &self.cases
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority that signed its certificate, as PEM; `None` without TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// POST requests read so far.
    pub fn requests(&self) -> u64 {
        self.server.requests.load(Ordering::Relaxed)
    }

    /// The last answers that have ended, oldest first; at most 10,000 of them.
    ///
    /// A client may have its answer before the relay has noted the last write: wait for
    /// [`Relay::quiet`] first.
    pub fn served(&self) -> Vec<Served> {
        self.server.log.served()
    }

    /// Waits until no answer is under way.
    pub async fn quiet(&self) {
        self.server.log.quiet().await;
    }

    /// Ends all connections and waits until they are closed.
    pub async fn stop(mut self) {
        self.server.stop.notify_one();
        // It ends in panic only if it panicked, which the panic itself has reported.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
        self.ringer.abort();
    }
}
