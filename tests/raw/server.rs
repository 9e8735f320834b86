//! A relay of a few lines on loopback: plays one script on one connection, byte for byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// One thing that the server does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Reads the whole request.
    Request,
    /// Writes these bytes.
    Send(Vec<u8>),
    /// Waits.
    Wait(Duration),
    /// Stays open until the client leaves.
    Hold,
    /// Ends the connection with RST instead of FIN (the last step; plain connections only).
    Reset,
}

/// A server that plays a script once.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    task: JoinHandle<Vec<u8>>,
}

impl Server {
    /// Plays `steps` on a plain connection.
    pub(crate) async fn plain(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let (mut tcp, _) = listener.accept().await.unwrap();
            tcp.set_nodelay(true).unwrap();
            let reset = matches!(steps.last(), Some(Step::Reset));
            let request = play(&mut tcp, &steps).await;
            if reset {
                tcp.set_zero_linger().unwrap();
            }
            request
        });
        Self { address, task }
    }

    /// Plays `steps` behind a TLS handshake; `steps` do not begin when it fails.
    pub(crate) async fn tls(authority: &Authority, name: &str, steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = authority.acceptor(name);
        let task = tokio::spawn(async move {
            let (tcp, _) = listener.accept().await.unwrap();
            match acceptor.accept(tcp).await {
                Ok(mut tls) => {
                    let request = play(&mut tls, &steps).await;
                    // The client may be gone already.
                    let _ = tls.shutdown().await;
                    request
                }
                Err(_) => Vec::new(),
            }
        });
        Self { address, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/chat/completions", self.address)
    }

    /// The request as it came, once the script is through.
    pub(crate) async fn request(self) -> String {
        String::from_utf8(self.task.await.unwrap()).unwrap()
    }
}

async fn play<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, steps: &[Step]) -> Vec<u8> {
    let mut request = Vec::new();
    for step in steps {
        match step {
            Step::Request => request = read_request(stream).await,
            Step::Send(bytes) => {
                // A client that has heard enough leaves.
                if stream.write_all(bytes).await.is_err() || stream.flush().await.is_err() {
                    break;
                }
            }
            Step::Wait(wait) => tokio::time::sleep(*wait).await,
            Step::Hold => {
                // Reads nothing, so that the client's buffers fill up: only its end shows.
                while stream.write_all(b"").await.is_ok() && !client_left(stream).await {}
            }
            Step::Reset => {}
        }
    }
    request
}

/// Waits a moment for the client's end without taking more than one byte of its request.
async fn client_left<S: AsyncRead + Unpin>(stream: &mut S) -> bool {
    let mut byte = [0];
    match tokio::time::timeout(Duration::from_millis(20), stream.read(&mut byte)).await {
        Ok(Ok(0) | Err(_)) => true,
        Ok(Ok(_)) | Err(_) => false,
    }
}

/// Head and body of one request with a Content-Length.
async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Vec<u8> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(head) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
            let length: usize = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .unwrap()
                .parse()
                .unwrap();
            if request.len() >= head + 4 + length {
                return request;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return request,
            Ok(got) => request.extend_from_slice(&buffer[..got]),
        }
    }
}

/// A certificate authority of one test.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    fn acceptor(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A port that is taken and on which nobody listens, for as long as the socket is held.
pub(crate) fn closed_port() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}
