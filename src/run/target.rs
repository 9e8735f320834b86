//! What a cell's requests go to: a relay with its key, or an embedded one started for the cell.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::plan::{Cell, Endpoint as Place, Overload, Simulate};
use crate::probe::count;
use crate::probe::dial::{Dial, DialError};
use crate::probe::endpoint::{self, Endpoint, EndpointError};
use crate::probe::key::{self, KeyError};
use crate::probe::transport::Transport;
use crate::sim;

/// Why a cell's relay cannot be asked at all: our side or the user's, never the relay's.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The key cannot be read.
    #[error("no API key for the relay `{relay}`")]
    Key {
        /// The relay.
        relay: String,
        /// Why.
        #[source]
        source: KeyError,
    },
    /// A certificate file cannot be read.
    #[error("cannot read `ca_file` {path}")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An address, header or proxy of the spec cannot be used.
    #[error("cannot address the relay `{relay}`")]
    Endpoint {
        /// The relay.
        relay: String,
        /// Why.
        #[source]
        source: EndpointError,
    },
    /// The client cannot be built.
    #[error("cannot reach for the relay `{relay}`")]
    Dial {
        /// The relay.
        relay: String,
        /// Why.
        #[source]
        source: DialError,
    },
    /// The embedded relay did not start.
    #[error("cannot start the embedded relay `{relay}`")]
    Simulate {
        /// The relay.
        relay: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A relay, ready to be asked.
pub(super) struct Target {
    pub(super) endpoint: Endpoint,
    pub(super) transport: Transport,
    /// Serves for as long as the target is held.
    pub(super) embedded: Option<sim::Relay>,
}

impl Target {
    /// Reads the key and files, starts the embedded relay where one is asked for, builds the client.
    pub(super) async fn open(cell: &Cell, base: &Path, seed: u64) -> Result<Self, TargetError> {
        let relay = &cell.relay;
        let named = || relay.name.clone();
        let env = |name: &str| env::var(name).ok();
        let key = match &relay.api_key {
            // A command may ask its user and a file may be a pipe: neither on the runtime's threads.
            Some(source) => {
                let (source, base) = (source.clone(), base.to_owned());
                let read = move || key::read(&source, &base, &key::variable);
                let read = tokio::task::spawn_blocking(read).await;
                Some(read.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())))
            }
            None => None,
        };
        let key = key.transpose().map_err(|source| TargetError::Key {
            relay: named(),
            source,
        })?;
        let model = cell.model.clone();
        // What could go wrong leaves tokens uncounted, and nothing else.
        tokio::task::spawn_blocking(move || count::make_ready(&model))
            .await
            .ok();
        let embedded = match &relay.endpoint {
            Place::Url(_) => None,
            Place::Simulate(settings) => {
                let started = embedded(settings, seed).await;
                Some(started.map_err(|source| TargetError::Simulate {
                    relay: named(),
                    source,
                })?)
            }
        };
        let base_url = match (&relay.endpoint, &embedded) {
            (Place::Url(url), _) => url.as_str(),
            (Place::Simulate(_), Some(embedded)) if relay.protocol.has_version_in_base() => {
                embedded.base_url()
            }
            (Place::Simulate(_), Some(embedded)) => embedded.origin(),
            (Place::Simulate(_), None) => "",
        };
        let addressed = |source| TargetError::Endpoint {
            relay: named(),
            source,
        };
        let endpoint =
            Endpoint::new(base_url, relay, &cell.model, key.as_ref()).map_err(addressed)?;
        let proxy = endpoint::proxy(&relay.proxy, endpoint.url(), &env).map_err(addressed)?;
        let endpoint = endpoint.through(proxy.as_ref());
        let mut extra_ca_pem = Vec::new();
        if let Some(file) = &relay.ca_file {
            let path = base.join(file);
            extra_ca_pem
                .push(fs::read(&path).map_err(|source| TargetError::CaFile { path, source })?);
        }
        // The certificate of an embedded relay is trusted by the client of this cell only.
        extra_ca_pem.extend(
            embedded
                .as_ref()
                .and_then(sim::Relay::ca_pem)
                .map(|pem| pem.as_bytes().to_vec()),
        );
        let dial = Dial {
            connection: relay.connection,
            http: relay.http,
            proxy,
            extra_ca_pem,
        };
        let transport =
            Transport::new(relay.transport, &dial).map_err(|source| TargetError::Dial {
                relay: named(),
                source,
            })?;
        Ok(Self {
            endpoint,
            transport,
            embedded,
        })
    }
}

async fn embedded(settings: &Simulate, seed: u64) -> io::Result<sim::Relay> {
    let mut faults = Vec::new();
    for planned in &settings.faults {
        let params = sim::Params {
            delay: planned.delay,
            code: planned.code,
            recover_after: planned.recover_after,
            after_tokens: planned.after_tokens,
            retry_after_s: planned.retry_after_s,
        };
        let fault = sim::Fault::from_parts(&planned.fault, &params)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        faults.push(sim::Planned {
            fault,
            share_ppm: planned.share_ppm,
        });
    }
    sim::Relay::start(sim::Settings {
        first_token: settings.first_token,
        token_gap: settings.token_gap,
        tokens: settings.tokens,
        tls: settings.tls,
        faults,
        capacity: settings.capacity,
        overload: match settings.overload {
            Overload::Queue => sim::Overload::Queue,
            Overload::Reject => sim::Overload::Reject,
        },
        seed,
        ..sim::Settings::default()
    })
    .await
}
