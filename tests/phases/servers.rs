//! Small servers with known delays and known ways to fail, on loopback.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A private CA and what it signed.
pub(crate) struct Authority {
    pub(crate) pem: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem().into_bytes();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// Server settings with a certificate for `names`.
    pub(crate) fn serve(&self, names: &[&str], alpn: &[&str]) -> Arc<ServerConfig> {
        self.serve_versions(rustls::ALL_VERSIONS, names, alpn)
    }

    /// The same with some TLS versions only.
    pub(crate) fn serve_versions(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        names: &[&str],
        alpn: &[&str],
    ) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .signed_by(&key, &self.issuer)
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

/// What the relay does after the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A whole answer.
    Whole,
    /// FIN instead of a head.
    FinBeforeHead,
    /// No head, and the connection stays open.
    SilentBeforeHead,
    /// A head and a first frame without content, then nothing.
    SilentAfterHead,
    /// One token, then nothing.
    SilentAfterToken,
    /// One token, then FIN without the last chunk.
    FinAfterToken,
    /// One token, then RST.
    RstAfterToken,
    /// One token, then a chunk size that is no number.
    BadChunk,
    /// A length that is not reached.
    ShortLength,
    /// No HTTP at all.
    NoHttp,
    /// Tokens without end.
    Endless,
}

/// How the relay behaves.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) tls_delay: Duration,
    pub(crate) head_delay: Duration,
    pub(crate) token_delay: Duration,
    pub(crate) end: End,
    /// Requests are answered one per permit.
    pub(crate) gate: Option<Arc<Semaphore>>,
    /// Connections after this many are accepted and left silent.
    pub(crate) live_connections: usize,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            tls: None,
            tls_delay: Duration::ZERO,
            head_delay: Duration::ZERO,
            token_delay: Duration::ZERO,
            end: End::Whole,
            gate: None,
            live_connections: usize::MAX,
        }
    }
}

/// A relay on loopback.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    pub(crate) async fn start(script: Script) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").await.unwrap(), script)
    }

    fn listen(listener: TcpListener, script: Script) -> Self {
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (count, seen) = (Arc::clone(&connections), Arc::clone(&heads));
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                if count.fetch_add(1, Ordering::SeqCst) < script.live_connections {
                    tokio::spawn(connection(stream, script.clone(), Arc::clone(&seen)));
                } else {
                    tokio::spawn(async move { while stream.read_u8().await.is_ok() {} });
                }
            }
        });
        Self {
            address,
            connections,
            heads,
            task,
        }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Request heads in the order in which they came.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn connection(stream: TcpStream, script: Script, heads: Arc<Mutex<Vec<String>>>) {
    stream.set_nodelay(true).unwrap();
    if script.end == End::RstAfterToken {
        stream.set_zero_linger().unwrap();
    }
    if !script.tls_delay.is_zero() {
        // The delay counts from the client hello and not from the connect before it.
        let _ = stream.peek(&mut [0]).await;
        tokio::time::sleep(script.tls_delay).await;
    }
    match script.tls.clone() {
        None => answer(stream, &script, &heads).await,
        Some(tls) => {
            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                answer(stream, &script, &heads).await;
            }
        }
    }
}

/// A client that goes away ends the connection: every error here means that.
async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: &Script,
    heads: &Mutex<Vec<String>>,
) {
    let mut buffer = Vec::new();
    while let Some(head) = request(&mut stream, &mut buffer).await {
        heads.lock().unwrap().push(head);
        if let Some(gate) = &script.gate {
            gate.acquire().await.unwrap().forget();
        }
        tokio::time::sleep(script.head_delay).await;
        if write(&mut stream, script).await.is_none() {
            return;
        }
    }
}

/// Reads one request with a length; its head.
async fn request(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .expect("the request has a length")
                .parse()
                .unwrap();
            if buffer.len() >= end + 4 + length {
                buffer.drain(..end + 4 + length);
                return Some(head);
            }
        }
        let mut piece = [0; 16 * 1024];
        match stream.read(&mut piece).await {
            Ok(read) if read > 0 => buffer.extend_from_slice(&piece[..read]),
            _ => return None,
        }
    }
}

async fn silence(stream: &mut (impl AsyncRead + Unpin)) -> Option<()> {
    // Until the client goes.
    let _ = stream.read(&mut [0; 64]).await;
    None
}

/// Writes the answer; `None` when the connection is at its end.
async fn write(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), script: &Script) -> Option<()> {
    if script.end == End::FinBeforeHead {
        return None;
    }
    if script.end == End::SilentBeforeHead {
        return silence(stream).await;
    }
    if script.end == End::NoHttp {
        put(stream, b"220 mail.test ESMTP\r\n").await?;
        return None;
    }
    let framing = if script.end == End::ShortLength {
        "content-length: 100000"
    } else {
        "transfer-encoding: chunked"
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{framing}\r\n\r\n");
    put(stream, head.as_bytes()).await?;
    if script.end == End::ShortLength {
        put(stream, token("x").as_bytes()).await?;
        return None;
    }
    chunk(
        stream,
        &event(r#"{"role":"assistant","content":""}"#, "null"),
    )
    .await?;
    if script.end == End::SilentAfterHead {
        return silence(stream).await;
    }
    tokio::time::sleep(script.token_delay).await;
    chunk(stream, &token("one")).await?;
    if matches!(script.end, End::FinAfterToken | End::RstAfterToken) {
        return None;
    }
    if script.end == End::SilentAfterToken {
        return silence(stream).await;
    }
    if script.end == End::BadChunk {
        put(stream, b"zz\r\n").await?;
        return silence(stream).await;
    }
    if script.end == End::Endless {
        loop {
            chunk(stream, &token("more")).await?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    chunk(stream, &token(" two")).await?;
    chunk(stream, &event("{}", "\"stop\"")).await?;
    chunk(stream, "data: [DONE]\n\n").await?;
    put(stream, b"0\r\n\r\n").await
}

pub(crate) fn event(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\
         \"model\":\"test-model\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
         \"finish_reason\":{finish}}}]}}\n\n"
    )
}

pub(crate) fn token(text: &str) -> String {
    event(&format!("{{\"content\":\"{text}\"}}"), "null")
}

async fn chunk(stream: &mut (impl AsyncWrite + Unpin), text: &str) -> Option<()> {
    put(stream, format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await
}

async fn put(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Option<()> {
    stream.write_all(bytes).await.ok()?;
    stream.flush().await.ok()
}

/// How a test proxy answers.
#[derive(Clone)]
pub(crate) struct ProxyScript {
    pub(crate) delay: Duration,
    pub(crate) refuse: bool,
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

/// A proxy on loopback that knows `CONNECT` and SOCKS5, told apart by the first byte.
pub(crate) async fn proxy(script: ProxyScript) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (script, seen) = (script.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                match script.tls.clone() {
                    None => forward(stream, &script, &seen).await,
                    Some(tls) => {
                        let stream = TlsAcceptor::from(tls).accept(stream).await.ok()?;
                        forward(stream, &script, &seen).await
                    }
                }
            });
        }
    });
    (address, asked)
}

async fn forward(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: &ProxyScript,
    asked: &Mutex<Vec<String>>,
) -> Option<()> {
    let first = stream.read_u8().await.ok()?;
    let target = if first == 5 {
        socks_target(&mut stream).await?
    } else {
        connect_target(&mut stream).await?
    };
    asked.lock().unwrap().push(target.clone());
    tokio::time::sleep(script.delay).await;
    let reply: &[u8] = match (first == 5, script.refuse) {
        (true, false) => &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        (true, true) => &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0],
        (false, false) => b"HTTP/1.1 200 OK\r\n\r\n",
        (false, true) => b"HTTP/1.1 403 Forbidden\r\n\r\n",
    };
    put(&mut stream, reply).await?;
    if script.refuse {
        return None;
    }
    let mut onward = TcpStream::connect(target).await.ok()?;
    tokio::io::copy_bidirectional(&mut stream, &mut onward)
        .await
        .ok()?;
    Some(())
}

async fn connect_target(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::from(b"C");
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    Some(head.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned())
}

async fn socks_target(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Option<String> {
    // The client names a user, so the only method that it offers is 2.
    let mut methods = vec![0; usize::from(stream.read_u8().await.ok()?)];
    stream.read_exact(&mut methods).await.ok()?;
    methods.contains(&2).then_some(())?;
    put(stream, &[5, 2]).await?;
    (stream.read_u8().await.ok()? == 1).then_some(())?;
    for expected in ["user", "secret"] {
        let mut text = vec![0; usize::from(stream.read_u8().await.ok()?)];
        stream.read_exact(&mut text).await.ok()?;
        (text == expected.as_bytes()).then_some(())?;
    }
    put(stream, &[1, 0]).await?;
    let mut request = [0; 4];
    stream.read_exact(&mut request).await.ok()?;
    let host = match request[3] {
        1 => std::net::Ipv4Addr::from(stream.read_u32().await.ok()?).to_string(),
        3 => {
            let length = stream.read_u8().await.ok()?;
            let mut name = vec![0; usize::from(length)];
            stream.read_exact(&mut name).await.ok()?;
            String::from_utf8(name).ok()?
        }
        _ => return None,
    };
    Some(format!("{host}:{}", stream.read_u16().await.ok()?))
}
