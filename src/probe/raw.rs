//! The raw HTTP/1.1 transport: a socket, rustls and our own framing.
//!
//! Shows what an HTTP library hides: the first byte apart from the head, broken framing, FIN
//! against RST. Opens a fresh connection for each attempt and leaves every decision on the answer
//! to the [`Exchange`].

mod body;
mod chunked;
mod connect;
mod head;
mod line;
mod tls;
mod watch;
mod wire;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::{Host, Url};

use self::body::{AtClose, Body};
use self::chunked::Piece;
use self::connect::{MAX_ADDRESSES, connect, loss};
use self::head::{MAX_INTERIM, Parsed, Scan};
use self::line::Line;
use self::watch::Watch;
use super::cancel::Cancel;
use super::clock::Clock;
use super::dial::{Dial, DialError, Request};
use crate::observation::{Connection, Phase};
use crate::plan::{ConnectionMode, HttpVersion};
use crate::stream::{Exchange, FramingFault, Input, Loss};

/// How long a successful answer with a Content-Length is listened to after its end: bytes that
/// come then show that the length is wrong, and nothing else would.
const AFTER_LENGTH: Duration = Duration::from_millis(50);

/// HTTP/1.1 over a plain or TLS socket.
#[derive(Clone)]
pub struct RawTransport {
    tls: TlsConnector,
}

impl fmt::Debug for RawTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawTransport").finish_non_exhaustive()
    }
}

impl RawTransport {
    /// Prepares connections; opens none.
    pub fn new(dial: &Dial) -> Result<Self, DialError> {
        if dial.connection == ConnectionMode::Reuse {
            return Err(DialError::Unsupported(
                "`transport: raw` opens a connection for each attempt; \
                 use `connection: fresh`, or `transport: reqwest` for a warm pool",
            ));
        }
        if dial.http == HttpVersion::Http2 {
            return Err(DialError::Unsupported(
                "`transport: raw` speaks HTTP/1.1 only; use `transport: reqwest` for HTTP/2",
            ));
        }
        if dial.proxy.is_some() {
            return Err(DialError::Unsupported(
                "`transport: raw` connects straight to the relay; \
                 use `transport: reqwest` with a proxy, or `proxy: none`",
            ));
        }
        let config = super::tls::client_config(HttpVersion::Http1, &dial.extra_ca_pem)?;
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Makes one attempt and tells the exchange everything that happens, until it is over.
    pub async fn attempt(
        &self,
        request: &Request,
        exchange: &mut Exchange,
        clock: &Clock,
        cancel: &mut Cancel,
    ) {
        let cancelled = pin!(cancel.cancelled());
        // Far away until the exchange names a deadline.
        let timer = pin!(tokio::time::sleep(Duration::from_secs(24 * 3600)));
        let mut watch = Watch::new(clock, cancelled, timer);
        let Some(tcp) = open(&request.url, exchange, &mut watch).await else {
            return;
        };
        if request.url.scheme() == "https" {
            if let Some(tls) = self
                .handshake(&request.url, tcp, exchange, &mut watch)
                .await
            {
                converse(tls, request, exchange, &mut watch).await;
            }
        } else {
            converse(tcp, request, exchange, &mut watch).await;
        }
    }

    async fn handshake<C: Future<Output = ()>>(
        &self,
        url: &Url,
        tcp: TcpStream,
        exchange: &mut Exchange,
        watch: &mut Watch<'_, C>,
    ) -> Option<TlsStream<TcpStream>> {
        watch.tell(exchange, Input::Enter(Phase::Tls));
        let name = match url.host() {
            Some(Host::Domain(name)) => ServerName::try_from(name.to_owned()).ok(),
            Some(Host::Ipv4(ip)) => Some(ServerName::IpAddress(ip.into())),
            Some(Host::Ipv6(ip)) => Some(ServerName::IpAddress(ip.into())),
            None => None,
        };
        let Some(name) = name else {
            watch.tell(exchange, Input::Lost(Loss::Tls));
            return None;
        };
        match watch.until(exchange, self.tls.connect(name, tcp)).await? {
            Ok(stream) => {
                watch.tell(exchange, Input::Leave(Phase::Tls));
                watch.tell(exchange, Input::Connected(tls::facts(&stream)));
                Some(stream)
            }
            Err(error) => {
                watch.tell(exchange, Input::Lost(tls::loss(&error)));
                None
            }
        }
    }
}

/// Resolves the name and connects.
async fn open<C: Future<Output = ()>>(
    url: &Url,
    exchange: &mut Exchange,
    watch: &mut Watch<'_, C>,
) -> Option<TcpStream> {
    let port = url.port_or_known_default().unwrap_or(80);
    let addresses: Vec<SocketAddr> = match url.host() {
        Some(Host::Ipv4(ip)) => vec![(ip, port).into()],
        Some(Host::Ipv6(ip)) => vec![(ip, port).into()],
        Some(Host::Domain(name)) => resolve(name, port, exchange, watch).await?,
        None => {
            watch.tell(exchange, Input::Lost(Loss::Dns));
            return None;
        }
    };
    watch.tell(exchange, Input::Enter(Phase::Connect));
    let mut tried = Vec::new();
    let clock = watch.clock();
    let connected = watch
        .until(exchange, connect(&addresses, clock, &mut tried))
        .await;
    let tcp = connected.map(|tcp| {
        let tcp = tcp?;
        tcp.set_nodelay(true)?;
        Ok(tcp)
    });
    if let Some(Ok(_)) = tcp {
        watch.tell(exchange, Input::Leave(Phase::Connect));
    }
    // Told after a time-out too: the addresses that did not answer are what it is about.
    let facts = Connection {
        reused: Some(false),
        tried,
        peer: tcp
            .iter()
            .flatten()
            .find_map(|tcp: &TcpStream| tcp.peer_addr().ok())
            .map(|peer| peer.to_string()),
        ..Connection::default()
    };
    watch.tell(exchange, Input::Connected(facts));
    match tcp? {
        Ok(tcp) => Some(tcp),
        Err(error) => {
            watch.tell(exchange, Input::Lost(loss(&error)));
            None
        }
    }
}

/// The addresses of a name.
async fn resolve<C: Future<Output = ()>>(
    name: &str,
    port: u16,
    exchange: &mut Exchange,
    watch: &mut Watch<'_, C>,
) -> Option<Vec<SocketAddr>> {
    watch.tell(exchange, Input::Enter(Phase::Dns));
    let asked = Connection {
        dns_name: Some(name.to_owned()),
        ..Connection::default()
    };
    watch.tell(exchange, Input::Connected(asked));
    let found = watch
        .until(exchange, tokio::net::lookup_host((name, port)))
        .await?;
    let found: Vec<_> = found.into_iter().flatten().take(MAX_ADDRESSES).collect();
    if found.is_empty() {
        watch.tell(exchange, Input::Lost(Loss::Dns));
        return None;
    }
    watch.tell(exchange, Input::Leave(Phase::Dns));
    let answered = Connection {
        addresses: found.iter().map(|at| at.ip().to_string()).collect(),
        ..Connection::default()
    };
    watch.tell(exchange, Input::Connected(answered));
    Some(found)
}

/// Sends the request and reads the answer, both at once: a relay may answer before it has read
/// the request, or never read it at all.
async fn converse<S: AsyncRead + AsyncWrite + Unpin, C: Future<Output = ()>>(
    stream: S,
    request: &Request,
    exchange: &mut Exchange,
    watch: &mut Watch<'_, C>,
) {
    watch.tell(exchange, Input::Enter(Phase::Send));
    let mut line = Line::new(stream, wire::encode(request));
    let Some((head, mut used)) = read_head(&mut line, exchange, watch).await else {
        return;
    };
    let (mut body, faults) = Body::of(&head, &line.buffer);
    exchange.handle(watch.now(), Input::Head(head.view(&line.buffer)));
    for fault in faults {
        watch.tell(exchange, Input::Framing(fault));
    }
    let listen_on = matches!(body, Body::Length(_)) && (200..300).contains(&head.status);
    // The first round takes what came with the head.
    let mut at = watch.now();
    while !exchange.is_over() {
        let mut input = line.buffer.get(used..line.filled).unwrap_or_default();
        loop {
            match body.next(&mut input) {
                Ok(Some(Piece::Data(data))) => exchange.handle(at, Input::Body(data)),
                Ok(None) => break,
                Err(fault) => return exchange.handle(at, Input::Framing(fault)),
                Ok(Some(Piece::End)) => {
                    let surplus = !input.is_empty();
                    return end(line, surplus, listen_on, at, exchange, watch).await;
                }
            }
            if exchange.is_over() {
                return;
            }
        }
        (used, line.filled) = (0, 0);
        match line.read(exchange, watch).await {
            None => return,
            Some(Ok(1..)) => at = watch.now(),
            Some(Ok(0)) => match body.at_close() {
                AtClose::End => return watch.tell(exchange, Input::BodyEnd),
                AtClose::Cut => return watch.tell(exchange, Input::Lost(Loss::Closed)),
                AtClose::Short => {
                    watch.tell(exchange, Input::Framing(FramingFault::ShortBody));
                    return watch.tell(exchange, Input::Lost(Loss::Closed));
                }
            },
            Some(Err(error)) => return watch.tell(exchange, Input::Lost(loss(&error))),
        }
    }
}

/// Whether bytes do not even begin as HTTP does, as those of a server that expects TLS.
fn is_no_http(bytes: &[u8]) -> bool {
    !bytes.trim_ascii_start().starts_with(b"HTTP/")
}

/// Reads up to the final head; gives it and where in the buffer the body begins.
async fn read_head<S: AsyncRead + AsyncWrite + Unpin, C: Future<Output = ()>>(
    line: &mut Line<S>,
    exchange: &mut Exchange,
    watch: &mut Watch<'_, C>,
) -> Option<(Parsed, usize)> {
    let mut scan = Scan::default();
    let mut interim = 0;
    let mut first = true;
    loop {
        match line.read(exchange, watch).await? {
            Ok(1..) if std::mem::take(&mut first) => watch.tell(exchange, Input::FirstByte),
            Ok(1..) => {}
            Ok(0) => {
                watch.tell(exchange, Input::Lost(Loss::Closed));
                return None;
            }
            Err(error) => {
                watch.tell(exchange, Input::Lost(loss(&error)));
                return None;
            }
        }
        loop {
            let bytes = line.buffer.get_mut(..line.filled).unwrap_or_default();
            match scan.parse(bytes) {
                Ok(None) => break,
                Ok(Some(head)) if !head.is_interim() => {
                    let used = head.length;
                    return Some((head, used));
                }
                Ok(Some(head)) if interim < MAX_INTERIM => {
                    interim += 1;
                    scan = Scan::default();
                    line.discard(head.length);
                }
                Ok(Some(_)) => {
                    watch.tell(exchange, Input::Framing(FramingFault::HeadTooLarge));
                    return None;
                }
                Err(FramingFault::BadHead) if is_no_http(bytes) => {
                    watch.tell(exchange, Input::Lost(Loss::NoHttp));
                    return None;
                }
                Err(fault) => {
                    watch.tell(exchange, Input::Framing(fault));
                    return None;
                }
            }
        }
        line.make_room();
    }
}

/// Closes a complete body, after a look at whether bytes follow it.
async fn end<S: AsyncRead + AsyncWrite + Unpin, C: Future<Output = ()>>(
    mut line: Line<S>,
    surplus: bool,
    listen_on: bool,
    at: Duration,
    exchange: &mut Exchange,
    watch: &mut Watch<'_, C>,
) {
    if surplus {
        exchange.handle(at, Input::Framing(FramingFault::BytesAfterBody));
    } else if listen_on {
        line.filled = 0;
        let more = tokio::time::timeout(AFTER_LENGTH, line.read(exchange, watch)).await;
        match more {
            Ok(None) => return,
            Ok(Some(Ok(1..))) => {
                watch.tell(exchange, Input::Framing(FramingFault::BytesAfterBody));
                return watch.tell(exchange, Input::BodyEnd);
            }
            Ok(Some(Ok(0) | Err(_))) | Err(_) => {}
        }
    }
    exchange.handle(at, Input::BodyEnd);
}
