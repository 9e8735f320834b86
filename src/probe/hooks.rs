//! What reqwest's public hooks tell about one attempt, as timed marks.
//!
//! reqwest polls name resolution, connecting and the TLS handshake inside the task of the caller
//! (or moves the whole connect future elsewhere), so two task-locals carry the identity: `ATTEMPT`
//! is set around the request, `LINK` around each connect future that the attempt starts. Here is
//! only the collecting; what the marks mean for an attempt is decided by the client that reads them.

mod body;
mod connect;
mod dns;
mod events;
pub(super) mod tls;

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::task::AtomicWaker;

use crate::observation::Loss;
use crate::probe::clock::Clock;

pub(crate) use self::body::TimedBody;
pub(crate) use self::connect::{Known, WatchConnects};
pub(crate) use self::dns::{SystemLookup, WatchedLookup};
pub use self::events::ConnectEvents;
pub(crate) use self::tls::{NoTickets, WatchedVerifier};

tokio::task_local! {
    /// Set by the client around the request.
    pub(crate) static ATTEMPT: Arc<Sink>;
    /// Set by the connector layer around each connect future.
    static LINK: Arc<Link>;
}

/// Most addresses of one name that are noted.
pub(crate) const ADDRESSES: usize = 16;

/// Marks that may wait before further TCP marks are dropped; a name can have any number of
/// addresses, all other marks come a fixed number of times per connection.
const WAITING: usize = 128;

/// One thing that happened, and when.
#[derive(Debug)]
pub(crate) struct Mark {
    /// Offset on the attempt's clock.
    pub(crate) at: Duration,
    /// Which connect future of the attempt it belongs to, from 1; 0 for the request body.
    pub(crate) connect: u32,
    /// What happened.
    pub(crate) what: What,
}

/// What a hook saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A connection was asked for.
    Connecting,
    /// A name is being resolved.
    Resolving(String),
    /// The name has these addresses, at most [`ADDRESSES`].
    Resolved(Vec<SocketAddr>),
    /// The name has none.
    Unresolved,
    /// A TCP connect to this address began (only with [`ConnectEvents`] installed).
    Dialling(SocketAddr),
    /// That TCP connect is done.
    Dialled(SocketAddr),
    /// That TCP connect failed.
    DialFailed(SocketAddr),
    /// The TLS client hello was built.
    Hello,
    /// The peer's certificate was looked at; why it was not accepted.
    Certificate(Option<Loss>),
    /// The whole connection stands.
    Connected(Ends),
    /// It could not be made.
    Failed,
    /// Its future was dropped before it ended.
    Dropped,
    /// A connection was there and the request body was asked for.
    Sending,
    /// The last piece of the request body was handed over.
    Sent,
}

/// A finished connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Our address and the peer's (the proxy's where one is used).
    pub(crate) addresses: Option<(SocketAddr, SocketAddr)>,
    /// Whether TLS agreed on HTTP/2.
    pub(crate) h2: bool,
    /// TLS version, where TLS is used.
    pub(crate) tls: Option<&'static str>,
}

/// Where the marks of one attempt are collected.
pub(crate) struct Sink {
    clock: Clock,
    marks: Mutex<VecDeque<Mark>>,
    connects: AtomicU32,
    waker: AtomicWaker,
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").finish_non_exhaustive()
    }
}

impl Sink {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            marks: Mutex::default(),
            connects: AtomicU32::new(0),
            waker: AtomicWaker::new(),
        })
    }

    /// Takes the oldest mark.
    pub(crate) fn next(&self) -> Option<Mark> {
        self.lock().pop_front()
    }

    /// Waits until there is a mark.
    pub(crate) async fn ready(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.lock().is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    fn note(&self, connect: u32, what: What) {
        let mut marks = self.lock();
        let droppable = matches!(
            what,
            What::Dialling(_) | What::Dialled(_) | What::DialFailed(_)
        );
        if droppable && marks.len() >= WAITING {
            return;
        }
        // Under the lock, so that marks of two threads are queued in the order of their times.
        let at = self.clock.now();
        marks.push_back(Mark { at, connect, what });
        drop(marks);
        self.waker.wake();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connect future and the attempt that started it.
#[derive(Debug)]
pub(crate) struct Link {
    sink: Arc<Sink>,
    number: u32,
    tls: AtomicU8,
}

impl Link {
    /// A new connect future of the attempt in whose task this runs.
    fn begin() -> Option<Arc<Self>> {
        let sink = ATTEMPT.try_with(Arc::clone).ok()?;
        let number = sink.connects.fetch_add(1, Ordering::Relaxed) + 1;
        Some(Arc::new(Self {
            sink,
            number,
            tls: AtomicU8::new(0),
        }))
    }

    fn note(&self, what: What) {
        self.sink.note(self.number, what);
    }

    fn tls(&self) -> Option<&'static str> {
        match self.tls.load(Ordering::Relaxed) {
            2 => Some("1.2"),
            3 => Some("1.3"),
            _ => None,
        }
    }
}

/// Calls `note` with the connect future that is being polled, if there is one.
fn on_link(note: impl FnOnce(&Link)) {
    // Outside of an attempt (the raw client shares the TLS settings) there is nothing to note.
    let _ = LINK.try_with(|link| note(link));
}
