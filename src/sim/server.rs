//! Accepts connections, reads requests, and plays the script of each answer on time.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Overload;
use super::damage::{self, Turn};
use super::draw::{Draw, Tries};
use super::fault::Fault;
use super::http::{Inbox, Request, Unread};
use super::log::{Log, Recording, Served};
use super::pace::{Pace, now};
use super::playbill::{Billed, Playbill};
use super::script::{End, Script};
use super::voice::{self, Api, ApiError};

/// Connections at a time; further ones wait in the backlog.
const MAX_CONNECTIONS: usize = 8_192;

/// How long a TLS handshake, and one write to a client that does not read, may take.
const PEER_LIMIT: Duration = Duration::from_secs(60);

/// How long a client may take to answer a FIN with its own.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// What a request beyond the capacity is answered.
const TOO_MANY: Fault = Fault::Status {
    code: 429,
    recover_after: None,
    retry_after_s: None,
};

/// Pause after a failed accept, which is a lack of descriptors that only time cures.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// What all connections of one relay share.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) first_token: Duration,
    pub(super) token_gap: Duration,
    pub(super) tokens: u32,
    pub(super) draw: Draw,
    pub(super) playbill: Playbill,
    /// How many answers there may be at a time; `None` where there is no bound.
    pub(super) capacity: Option<Capacity>,
    pub(super) tries: Mutex<Tries>,
    pub(super) pace: Pace,
    pub(super) log: Arc<Log>,
    pub(super) requests: AtomicU64,
    pub(super) stop: Notify,
    /// Makes the ids of two relays differ.
    pub(super) salt: RandomState,
}

/// How many answers there may be at a time.
#[derive(Debug)]
pub(super) struct Capacity {
    pub(super) free: Arc<Semaphore>,
    pub(super) overload: Overload,
}

/// A connection whose socket can be reached through its encryption.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Wire for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// A request's answer, with what is to be recorded of it.
struct Reply {
    script: Arc<Script>,
    served: Option<Served>,
    turn: Turnstile,
}

/// Whether an answer may begin.
enum Turnstile {
    /// It takes nobody's place.
    Open,
    /// It has a place, for as long as it lasts.
    Taken(OwnedSemaphorePermit),
    /// It waits for a place.
    Waiting(Arc<Semaphore>),
}

impl Server {
    /// Serves until told to stop, then ends all connections.
    pub(super) async fn run(self: Arc<Self>, listener: TcpListener, tls: Option<TlsAcceptor>) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = self.stop.notified() => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    match accepted {
                        Ok((tcp, _)) => {
                            connections.spawn(Arc::clone(&self).connection(tcp, tls.clone()));
                        }
                        Err(_) => sleep(ACCEPT_PAUSE).await,
                    }
                }
            }
        }
        connections.shutdown().await;
    }

    async fn connection(self: Arc<Self>, tcp: TcpStream, tls: Option<TlsAcceptor>) {
        // Delays by Nagle's algorithm would be taken for the relay's; without the option the
        // recorded times still hold.
        let _ = tcp.set_nodelay(true);
        match tls {
            None => self.serve(tcp).await,
            Some(acceptor) => {
                if let Ok(Ok(stream)) = timeout(PEER_LIMIT, acceptor.accept(tcp)).await {
                    self.serve(stream).await;
                }
            }
        }
    }

    async fn serve<W: Wire>(&self, mut wire: W) {
        let mut inbox = Inbox::default();
        let bell = Arc::new(Notify::new());
        loop {
            let (reply, keep_alive) = match inbox.request(&mut wire).await {
                Ok(request) => {
                    // Every answer here has a body, which a client that sent HEAD does not expect.
                    let keep_alive = request.keep_alive && request.method != "HEAD";
                    (self.reply(&request), keep_alive)
                }
                Err(Unread::Gone) => return,
                Err(Unread::Refused(status, why)) => (Reply::plain(refused(status, why)), false),
            };
            let end = self.play(&mut wire, &mut inbox, &bell, reply).await;
            match end {
                Ok(End::Reuse) if keep_alive => {}
                Ok(End::Reuse | End::Fin) => return close(&mut wire, &mut inbox).await,
                Ok(End::Rst) => {
                    // Without the option the client sees a FIN; nothing better can be done.
                    let _ = wire.tcp().set_zero_linger();
                    return;
                }
                Ok(End::Hang) | Err(_) => return,
            }
        }
    }

    /// Writes the script on time; fails when the client has left.
    async fn play<W: Wire>(
        &self,
        wire: &mut W,
        inbox: &mut Inbox,
        bell: &Arc<Notify>,
        reply: Reply,
    ) -> io::Result<End> {
        let Reply {
            script,
            served,
            turn,
        } = reply;
        let mut start = served.as_ref().map_or_else(now, |served| served.arrival);
        let mut recording =
            served.map(|served| Recording::start(&self.log, served, script.first_token()));
        let mut place = match turn {
            Turnstile::Open => None,
            Turnstile::Taken(place) => Some(place),
            Turnstile::Waiting(free) => tokio::select! {
                biased;
                () = inbox.left(wire) => return Err(io::ErrorKind::ConnectionAborted.into()),
                place = free.acquire_owned() => {
                    start = now();
                    // The semaphore is never closed.
                    place.ok()
                }
            },
        };
        let mut writes = script.writes().peekable();
        while let Some((at, bytes)) = writes.next() {
            let due = start + at;
            if due > now() {
                let mut time = pin!(self.pace.until(due, bell));
                tokio::select! {
                    biased;
                    () = &mut time => {}
                    () = inbox.left(wire) => return Err(io::ErrorKind::ConnectionAborted.into()),
                }
            }
            if writes.peek().is_none() && script.end() != End::Hang {
                // Whoever has the whole answer may ask again at once, and finds the place free.
                place = None;
            }
            timeout(PEER_LIMIT, async {
                wire.write_all(bytes).await?;
                wire.flush().await
            })
            .await??;
            if let Some(recording) = &mut recording {
                recording.wrote(bytes.len());
            }
        }
        if let Some(recording) = &mut recording {
            recording.completed();
        }
        if script.end() == End::Hang {
            inbox.drain(wire).await;
        }
        drop(place);
        Ok(script.end())
    }

    fn reply(&self, request: &Request) -> Reply {
        let arrival = now();
        let posts = u64::from(request.method == "POST");
        let serial = self.requests.fetch_add(posts, Ordering::Relaxed);
        if request.method == "POST" {
            match self.playbill.at(&request.path) {
                Billed::Case(id, script) => {
                    let served = self.served(request, arrival, id.to_owned(), &script);
                    return Reply {
                        script,
                        served: Some(served),
                        turn: Turnstile::Open,
                    };
                }
                Billed::Nothing => return Reply::plain(refused(404, "no such case")),
                Billed::OwnAnswer => {}
            }
        }
        let api = Api::at(&request.path, &request.query);
        let models = voice::models(&request.path);
        let api = match (request.method.as_str(), api, models) {
            ("POST", Some(api), _) => api,
            ("GET", None, Some(models)) => return Reply::plain(damage::json(200, &[], &models)),
            (_, None, None) => return Reply::plain(refused(404, "no such path")),
            (_, Some(_), _) | (_, _, Some(_)) => {
                return Reply::plain(refused(405, "the method is not allowed here"));
            }
        };
        let ask = match api.ask(&request.body) {
            Ok(ask) => ask,
            Err(refusal) => {
                let error = api.refusal(&ApiError {
                    status: 400,
                    message: &refusal.message,
                    kind: "invalid_request_error",
                    param: refusal.param,
                    code: None,
                });
                return Reply::plain(damage::json(400, &[], &error));
            }
        };
        let key = self.draw.key(&request.body);
        let (turn, overloaded) = self.turn();
        let fault = overloaded.as_ref().or_else(|| self.fault(key, ask.stream));
        let unix = self.log.unix(arrival);
        let id = format!(
            "{}{:016x}",
            api.id_prefix(),
            self.salt.hash_one((serial, key))
        );
        let script = damage::script(
            &Turn {
                api: &api,
                ask: &ask,
                key,
                id: &id,
                created: unix.as_secs(),
                tokens: self.tokens,
                first_token: self.first_token,
                token_gap: self.token_gap,
                chunked: request.chunked,
            },
            fault,
        );
        let served = Served {
            stream: ask.stream,
            fault: fault.cloned(),
            ..self.served(request, arrival, id, &script)
        };
        Reply {
            script: Arc::new(script),
            served: Some(served),
            turn,
        }
    }

    /// Whether the next answer may begin, and what is said to a request that has come too much.
    fn turn(&self) -> (Turnstile, Option<Fault>) {
        let Some(Capacity { free, overload }) = &self.capacity else {
            return (Turnstile::Open, None);
        };
        match overload {
            Overload::Queue => (Turnstile::Waiting(Arc::clone(free)), None),
            Overload::Reject => match Arc::clone(free).try_acquire_owned() {
                Ok(place) => (Turnstile::Taken(place), None),
                Err(_) => (Turnstile::Open, Some(TOO_MANY)),
            },
        }
    }

    /// What is recorded of an answer before its first write.
    fn served(&self, request: &Request, arrival: Instant, id: String, script: &Script) -> Served {
        let unix = self.log.unix(arrival);
        Served {
            id,
            key: self.draw.key(&request.body),
            body_sha256: hex(&Sha256::digest(&request.body)),
            status: script.status(),
            stream: true,
            fault: None,
            arrival,
            arrival_unix_ns: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
            writes: Vec::with_capacity(script.writes().count()),
            first_token: None,
            complete: false,
        }
    }

    /// The fault that hits this try of the body, if any.
    fn fault(&self, key: u64, stream: bool) -> Option<&Fault> {
        let fault = self
            .draw
            .fault(key)
            .filter(|fault| stream || !fault.needs_stream())?;
        if let Fault::Status {
            recover_after: Some(failing),
            ..
        } = fault
        {
            let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
            return (tries.count(key) < *failing).then_some(fault);
        }
        Some(fault)
    }
}

impl Reply {
    /// An answer that is no model's and is not recorded.
    fn plain(script: Script) -> Self {
        Self {
            script: Arc::new(script),
            served: None,
            turn: Turnstile::Open,
        }
    }
}

fn refused(status: u16, why: &str) -> Script {
    let error = Api::Chat.refusal(&ApiError {
        status,
        message: why,
        kind: "invalid_request_error",
        param: None,
        code: None,
    });
    damage::json(status, &[], &error)
}

/// Closes in order: a close with unread input would reset the connection instead.
async fn close<W: Wire>(wire: &mut W, inbox: &mut Inbox) {
    if wire.shutdown().await.is_ok() {
        // A client that keeps its side open is left after the limit.
        let _ = timeout(CLOSE_LIMIT, inbox.drain(wire)).await;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
