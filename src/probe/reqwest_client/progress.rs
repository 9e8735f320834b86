//! From the hooks' marks to the inputs of an exchange: which phase begins and ends when.
//!
//! No clock and no socket: every offset comes with its mark.

use std::net::SocketAddr;
use std::time::Duration;

use super::route::Route;
use crate::observation::{Connection, Loss, Phase, TcpAttempt};
use crate::probe::hooks::{ADDRESSES, Ends, Mark, What};
use crate::stream::Input;

/// What has become of the connection that this attempt asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// None was asked for: the pool had one, or another request is opening one.
    None,
    /// It is being made.
    Running,
    /// It stands.
    Done(Ends),
    /// It could not be made.
    Failed,
}

/// How far one attempt has come before its response head.
#[derive(Debug)]
pub(super) struct Progress {
    route: Route,
    own: Own,
    /// The connect future that is followed; a later one replaces an earlier one.
    follows: u32,
    /// Phase that has begun and not ended.
    open: Option<Phase>,
    /// Client hellos of the connection so far.
    hellos: u32,
    tried: Vec<TcpAttempt>,
    acquired: bool,
    sent: bool,
    unresolved: bool,
    refusal: Option<Loss>,
}

impl Progress {
    pub(super) fn new(route: Route) -> Self {
        Self {
            route,
            own: Own::None,
            follows: 0,
            open: None,
            hellos: 0,
            tried: Vec::new(),
            acquired: false,
            sent: false,
            unresolved: false,
            refusal: None,
        }
    }

    /// The phase in which the attempt is, as far as the hooks can tell.
    pub(super) fn open(&self) -> Option<Phase> {
        self.open
    }

    /// Whether a connection had been acquired and the request begun.
    pub(super) fn acquired(&self) -> bool {
        self.acquired
    }

    /// Whether the whole request was handed over.
    pub(super) fn sent(&self) -> bool {
        self.sent
    }

    /// Whether the name gave no address.
    pub(super) fn unresolved(&self) -> bool {
        self.unresolved
    }

    /// Why the peer's certificate was refused, if it was.
    pub(super) fn refusal(&self) -> Option<Loss> {
        self.refusal
    }

    /// Whether the attempt opened a connection of its own, without TLS.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.own, Own::Done(ends) if ends.tls.is_none())
    }

    /// Whether a proxy is asked for a tunnel.
    pub(super) fn tunnels(&self) -> bool {
        self.route.tunnel
    }

    /// The client was started and has neither asked for a connection nor got one: it waits for one
    /// of the pool.
    pub(super) fn started(&mut self, at: Duration, tell: &mut impl FnMut(Duration, Input<'_>)) {
        if self.route.pooled && self.own == Own::None && !self.acquired {
            self.enter(at, Phase::Pool, tell);
        }
    }

    /// Takes one mark.
    pub(super) fn take(&mut self, mark: Mark, tell: &mut impl FnMut(Duration, Input<'_>)) {
        let Mark { at, connect, what } = mark;
        if what == What::Sending {
            self.sending(at, tell);
        } else if what == What::Sent {
            self.sent = true;
            self.leave(at, tell);
        } else if self.acquired {
            // What goes on in the background once a connection was acquired is not this attempt's.
        } else if what == What::Connecting {
            self.leave(at, tell);
            self.follows = connect;
            self.own = Own::Running;
            self.hellos = 0;
            self.tried.clear();
            if !self.route.resolves {
                self.enter(at, Phase::Connect, tell);
            }
        } else if connect == self.follows {
            self.connecting(at, what, tell);
        }
    }

    fn connecting(&mut self, at: Duration, what: What, tell: &mut impl FnMut(Duration, Input<'_>)) {
        match what {
            What::Resolving(name) if self.open.is_none() => {
                self.enter(at, Phase::Dns, tell);
                tell(
                    at,
                    Input::Connected(Connection {
                        dns_name: Some(name),
                        ..Connection::default()
                    }),
                );
            }
            What::Resolved(addresses) if self.open == Some(Phase::Dns) => {
                tell(
                    at,
                    Input::Connected(Connection {
                        addresses: addresses.iter().map(|a| a.ip().to_string()).collect(),
                        ..Connection::default()
                    }),
                );
                self.enter(at, Phase::Connect, tell);
            }
            What::Unresolved => self.unresolved = true,
            What::Dialling(address) => {
                if self.tried.len() < ADDRESSES {
                    self.tried.push(TcpAttempt {
                        address: address.to_string(),
                        start: at,
                        end: None,
                        connected: false,
                    });
                    self.tell_tried(at, tell);
                }
            }
            What::Dialled(address) => {
                if self.open == Some(Phase::Connect) {
                    self.leave(at, tell);
                    if self.route.tunnel {
                        self.enter(at, Phase::Tunnel, tell);
                    }
                }
                self.dialled(at, address, true, tell);
            }
            What::DialFailed(address) => self.dialled(at, address, false, tell),
            What::Hello => self.hello(at, tell),
            What::Certificate(refusal) => self.refusal = refusal,
            What::Connected(ends) => {
                self.leave(at, tell);
                self.own = Own::Done(ends);
                let connection = Connection {
                    reused: Some(false),
                    ..facts(&ends)
                };
                tell(at, Input::Connected(connection));
            }
            // The phase stays open: the connection was lost in it.
            What::Failed | What::Dropped => self.own = Own::Failed,
            // A second lookup (of the proxy's name) within a stretch that has begun.
            What::Resolving(_)
            | What::Resolved(_)
            | What::Connecting
            | What::Sending
            | What::Sent => {}
        }
    }

    /// The response came over the connection between `addresses`: whether an earlier request had
    /// opened it.
    pub(super) fn reused(&self, addresses: Option<(SocketAddr, SocketAddr)>) -> bool {
        match self.own {
            Own::Done(ends) => addresses.is_some() && ends.addresses != addresses,
            Own::None | Own::Running | Own::Failed => self.route.pooled,
        }
    }

    fn dialled(
        &mut self,
        at: Duration,
        address: SocketAddr,
        connected: bool,
        tell: &mut impl FnMut(Duration, Input<'_>),
    ) {
        let address = address.to_string();
        let open = |tried: &&mut TcpAttempt| tried.end.is_none() && tried.address == address;
        if let Some(tried) = self.tried.iter_mut().find(open) {
            tried.end = Some(at);
            tried.connected = connected;
            self.tell_tried(at, tell);
        }
    }

    fn tell_tried(&self, at: Duration, tell: &mut impl FnMut(Duration, Input<'_>)) {
        let connection = Connection {
            tried: self.tried.clone(),
            ..Connection::default()
        };
        tell(at, Input::Connected(connection));
    }

    fn hello(&mut self, at: Duration, tell: &mut impl FnMut(Duration, Input<'_>)) {
        self.hellos += 1;
        if self.route.proxy_tls && self.hellos == 1 {
            // The handshake with the proxy is part of getting the tunnel.
            if self.open != Some(Phase::Tunnel) {
                self.enter(at, Phase::Tunnel, tell);
            }
            return;
        }
        self.enter(at, Phase::Tls, tell);
    }

    fn sending(&mut self, at: Duration, tell: &mut impl FnMut(Duration, Input<'_>)) {
        if self.acquired {
            return;
        }
        self.acquired = true;
        if !matches!(self.own, Own::Done(_)) {
            // Served by a connection that another request opened; ours, if any, goes on without us.
            if self.open == Some(Phase::Pool) {
                self.leave(at, tell);
            }
            self.open = None;
            tell(
                at,
                Input::Connected(Connection {
                    reused: Some(true),
                    ..Connection::default()
                }),
            );
        }
        self.enter(at, Phase::Send, tell);
    }

    fn enter(&mut self, at: Duration, phase: Phase, tell: &mut impl FnMut(Duration, Input<'_>)) {
        self.leave(at, tell);
        self.open = Some(phase);
        tell(at, Input::Enter(phase));
    }

    fn leave(&mut self, at: Duration, tell: &mut impl FnMut(Duration, Input<'_>)) {
        if let Some(phase) = self.open.take() {
            tell(at, Input::Leave(phase));
        }
    }
}

/// What a finished connection tells about itself.
pub(super) fn facts(ends: &Ends) -> Connection {
    Connection {
        peer: ends.addresses.map(|(_, peer)| peer.to_string()),
        tls_version: ends.tls.map(str::to_owned),
        alpn: ends.h2.then(|| "h2".to_owned()),
        resumed: ends.tls.map(|_| false),
        ..Connection::default()
    }
}

#[cfg(test)]
mod tests;
