//! Servers on loopback that do one bad thing, each on a thread of its own, and one attempt at them.
//!
//! The client runs on a runtime of one thread, so that what it holds is counted.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use relayproof::dialect::Protocol;
use relayproof::expect::Expect;
use relayproof::observation::Observation;
use relayproof::plan::{ConnectionMode, HttpVersion, TransportKind};
use relayproof::probe::cancel::cancel_pair;
use relayproof::probe::clock::Clock;
use relayproof::probe::dial::{Dial, Request};
use relayproof::probe::tls::install_crypto;
use relayproof::probe::transport::Transport;
use relayproof::stream::{Asked, Exchange, Timeouts};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use url::Url;

use crate::tally::peak;

pub(crate) const BOTH: [TransportKind; 2] = [TransportKind::Raw, TransportKind::Reqwest];

/// The key that must not travel.
pub(crate) const KEY: &str = "sk-canary-0123456789";

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A server for one connection; an error in its script is a client that has heard enough.
pub(crate) fn serve(
    script: impl FnOnce(&mut TcpStream) -> io::Result<()> + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        tcp.set_nodelay(true).unwrap();
        // A client that stays away does not keep the thread.
        tcp.set_read_timeout(Some(ms(30_000))).unwrap();
        tcp.set_write_timeout(Some(ms(30_000))).unwrap();
        let _ = script(&mut tcp);
    });
    address
}

/// Reads a request: its head and the body that it announces.
pub(crate) fn request(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(head) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
            let mut lines = text.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.unwrap_or("0").parse().unwrap();
            if request.len() >= head + 4 + length {
                return Ok(request);
            }
        }
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => request.extend_from_slice(&buffer[..got]),
        }
    }
}

/// Writes the same bytes until the client has left.
pub(crate) fn for_ever(stream: &mut impl Write, piece: &[u8]) -> io::Result<()> {
    let buffer = piece.repeat((64 << 10) / piece.len().min(64 << 10));
    loop {
        stream.write_all(&buffer)?;
    }
}

/// Writes one byte at a time, until the client has left.
pub(crate) fn slowly(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        stream.write_all(&[*byte])?;
        thread::sleep(ms(5));
    }
    Ok(())
}

/// Says nothing more and waits for the client to leave.
pub(crate) fn hold(stream: &mut impl Read) -> io::Result<()> {
    while stream.read(&mut [0])? > 0 {}
    Ok(())
}

/// A server that was sent nothing and was not even connected to.
pub(crate) struct Bystander(TcpListener);

impl Bystander {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    pub(crate) fn was_left_alone(&self) -> bool {
        let connected = self.0.accept();
        connected.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// How an attempt is made.
pub(crate) struct Ask {
    pub(crate) scheme: &'static str,
    pub(crate) timeouts: Timeouts,
    pub(crate) body: Vec<u8>,
    pub(crate) ca: Vec<Vec<u8>>,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            scheme: "http",
            timeouts: Timeouts::default(),
            body: b"{}".to_vec(),
            ca: Vec::new(),
        }
    }
}

impl Ask {
    /// One attempt, and the most memory that the client held during it.
    pub(crate) fn at(&self, kind: TransportKind, address: SocketAddr) -> (Observation, usize) {
        install_crypto();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let dial = Dial {
            connection: ConnectionMode::Fresh,
            http: HttpVersion::Http1,
            proxy: None,
            extra_ca_pem: self.ca.clone(),
        };
        let transport = Transport::new(kind, &dial).unwrap();
        let mut headers = HeaderMap::new();
        let mut key = HeaderValue::from_str(&format!("Bearer {KEY}")).unwrap();
        key.set_sensitive(true);
        headers.insert("authorization", key);
        let url = format!("{}://{address}/v1/chat/completions", self.scheme);
        let request = Request {
            url: Url::parse(&url).unwrap(),
            headers,
            body: Bytes::from(self.body.clone()),
        };
        let asked = Asked {
            protocol: Protocol::OpenaiChat,
            stream: true,
            model: "test-model".to_owned(),
            max_tokens: None,
            usage: false,
            seal: None,
            request_bytes: self.body.len() as u64,
            expect: Expect::default(),
            keep_text: true,
        };
        peak(|| {
            runtime.block_on(async {
                let mut exchange = Exchange::new(asked, self.timeouts);
                let (_switch, mut cancel) = cancel_pair();
                let clock = Clock::start();
                let attempt = transport.attempt(&request, &mut exchange, &clock, &mut cancel);
                let ended = tokio::time::timeout(ms(60_000), attempt).await;
                assert!(ended.is_ok(), "the attempt did not end");
                exchange.finish()
            })
        })
    }
}

/// Who signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: Vec<u8>,
}

/// What is wrong with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    Name,
    Expired,
    SelfSigned,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem().into_bytes();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Settings of a server whose certificate has this flaw.
    pub(crate) fn server(&self, flaw: Flaw) -> Arc<rustls::ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let name = if flaw == Flaw::Name {
            "other.example"
        } else {
            "127.0.0.1"
        };
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if flaw == Flaw::Expired {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        }
        let certificate = if flaw == Flaw::SelfSigned {
            params.self_signed(&key).unwrap()
        } else {
            params.signed_by(&key, &self.issuer).unwrap()
        };
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Arc::new(config)
    }
}

/// A TLS server for one connection, which plays `script` once the handshake is done.
pub(crate) fn serve_tls(
    config: Arc<rustls::ServerConfig>,
    script: impl FnOnce(&mut rustls::Stream<'_, rustls::ServerConnection, TcpStream>) -> io::Result<()>
    + Send
    + 'static,
) -> SocketAddr {
    serve(move |tcp| {
        let mut session = rustls::ServerConnection::new(config).map_err(io::Error::other)?;
        script(&mut rustls::Stream::new(&mut session, tcp))
    })
}
