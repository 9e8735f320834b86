//! Servers of the tests' own: a relay that does with each request what its script says, a proxy,
//! and the embedded relay beside the command.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use relayproof::sim::{Relay, Served, Settings};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// One HTTP request as it came.
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Request {
    /// Reads one; `None` where what came is none.
    fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = find(&bytes, b"\r\n\r\n") {
                break end + 4;
            }
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).ok()?;
            bytes.extend_from_slice(&buffer[..read]);
            if read == 0 || !bytes[0].is_ascii_uppercase() {
                return None;
            }
        };
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let length = header(&head, "content-length").map_or(0, |value| value.parse().unwrap());
        let mut body = bytes.split_off(end);
        let read = body.len();
        body.resize(length, 0);
        stream.read_exact(&mut body[read..]).ok()?;
        Some(Self {
            head,
            body: String::from_utf8(body).ok()?,
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// Whether this model was asked for.
    pub(crate) fn asks(&self, model: &str) -> bool {
        self.body.contains(&format!("\"model\":\"{model}\""))
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// A relay that follows a script; it serves as long as the test's process lives.
pub(crate) struct Server {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Server {
    /// Gives each request, with its number from 0, to the script; the connection ends with it.
    ///
    /// A client that does not speak HTTP is told so, as web servers do.
    pub(crate) fn start(
        script: impl Fn(u64, &Request, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&requests);
        let address = serve(move |mut stream| match Request::read(&mut stream) {
            Some(request) => {
                let number = count.fetch_add(1, Ordering::SeqCst);
                script(number, &request, &mut stream)?;
                stream.shutdown(Shutdown::Write)?;
                wait_for_leave(&mut stream)
            }
            None => stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"),
        });
        Self { address, requests }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Where it is, as seen by a client that expects TLS.
    pub(crate) fn https_url(&self) -> String {
        format!("https://{}/v1", self.address)
    }

    /// Requests read so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Hands each connection to a thread of its own.
fn serve(each: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let each = Arc::new(each);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let each = Arc::clone(&each);
            // A client that leaves in mid-answer is part of many tests.
            thread::spawn(move || each(stream).ok());
        }
    });
    address
}

/// An address at which connections are taken and nothing else ever happens.
pub(crate) fn silent() -> SocketAddr {
    serve(|mut stream| wait_for_leave(&mut stream))
}

/// An address at which nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// Says nothing until the client has left.
pub(crate) fn wait_for_leave(stream: &mut TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

pub(crate) const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// One event with a piece of the answer; `text` and `model` are JSON strings' insides.
pub(crate) fn event(model: &str, text: &str) -> String {
    format!(
        "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\
         \"{model}\",\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\
         \"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

/// The events that end an answer well.
pub(crate) fn ending(model: &str) -> String {
    format!(
        "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\
         \"{model}\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}],\
         \"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":2,\"total_tokens\":11}}}}\n\n\
         data: [DONE]\n\n"
    )
}

/// A whole, honest answer.
pub(crate) fn honest(model: &str) -> String {
    format!(
        "{STREAM_HEAD}{}{}",
        event(model, "Hello world"),
        ending(model)
    )
}

/// An answer with this status and JSON body.
pub(crate) fn json(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// 200 with an error for a body.
pub(crate) fn fake_200() -> String {
    json(
        "200 OK",
        r#"{"error":{"message":"upstream is gone","type":"server_error","code":null}}"#,
    )
}

/// A relay whose models are ways to behave: `good`, `bad` (200 with an error), `half` (every other
/// answer bad).
pub(crate) fn by_model() -> Server {
    let halves = AtomicU64::new(0);
    Server::start(move |_, request, stream| {
        let bad = request.asks("bad")
            || (request.asks("half") && halves.fetch_add(1, Ordering::SeqCst) % 2 == 1);
        let model = ["good", "half"]
            .into_iter()
            .find(|model| request.asks(model))
            .unwrap_or("bad");
        let answer = if bad { fake_200() } else { honest(model) };
        stream.write_all(answer.as_bytes())
    })
}

/// Request line and credentials of a connection to a proxy.
type Heard = (String, Option<String>);

/// A proxy that opens CONNECT tunnels; it notes what it was told.
pub(crate) struct Proxy {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Proxy {
    pub(crate) fn start() -> Self {
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let notes = Arc::clone(&heard);
        let address = serve(move |mut client| {
            let Some(request) = Request::read(&mut client) else {
                return Ok(());
            };
            let line = request.head.lines().next().unwrap_or_default().to_owned();
            let credentials = request.header("proxy-authorization").map(str::to_owned);
            notes.lock().unwrap().push((line.clone(), credentials));
            let target = line.split(' ').nth(1).unwrap_or_default();
            let mut upstream = TcpStream::connect(target)?;
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            let (mut from, mut to) = (client.try_clone()?, upstream.try_clone()?);
            let forth = thread::spawn(move || {
                io::copy(&mut from, &mut to).ok();
                to.shutdown(Shutdown::Write).ok();
            });
            io::copy(&mut upstream, &mut client).ok();
            client.shutdown(Shutdown::Write).ok();
            forth.join().ok();
            Ok(())
        });
        Self { address, heard }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What each connection began with.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }
}

/// The embedded relay in this process, beside the command under test.
pub(crate) struct Embedded {
    relay: Relay,
    // Behind the relay in drop order: its tasks run here.
    runtime: tokio::runtime::Runtime,
}

impl Embedded {
    pub(crate) fn start(settings: Settings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let relay = runtime.block_on(Relay::start(settings)).unwrap();
        Self { relay, runtime }
    }

    /// The answers that have ended, once none is under way.
    pub(crate) fn served(&self) -> Vec<Served> {
        self.runtime.block_on(self.relay.quiet());
        self.relay.served()
    }

    pub(crate) fn relay(&self) -> &Relay {
        &self.relay
    }
}

/// A TLS server and the authority that signed its certificate, which holds between two years.
pub(crate) struct Dated {
    address: SocketAddr,
    /// The authority, PEM.
    pub(crate) authority: String,
}

impl Dated {
    /// To a client whose clock is right, the certificate is not valid yet, or not any longer.
    pub(crate) fn start(from: i32, to: i32) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let address = serve(move |mut stream| {
            let mut session =
                rustls::ServerConnection::new(Arc::clone(&config)).map_err(io::Error::other)?;
            // The client breaks the handshake off; one that did not would get no answer.
            session.complete_io(&mut stream)?;
            wait_for_leave(&mut stream)
        });
        Self { address, authority }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("https://{}/v1", self.address)
    }
}

/// Settings of an embedded relay that answers at once.
pub(crate) fn quick() -> Settings {
    Settings {
        first_token: Duration::from_millis(5),
        token_gap: Duration::from_millis(1),
        tokens: 8,
        ..Settings::default()
    }
}
