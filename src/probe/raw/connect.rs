//! Opens a TCP connection to the first of several addresses that takes it.
//!
//! The addresses keep the resolver's order. Each gets a head start; when it fails, or has not
//! answered by then, the next one is tried beside it (RFC 8305), so that one dead address does not
//! use up the time limit of all.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::TcpStream;

use crate::observation::TcpAttempt;
use crate::probe::clock::Clock;
use crate::probe::want;
use crate::stream::Loss;

/// Time that one address has for itself.
const HEAD_START: Duration = Duration::from_millis(300);

/// Most addresses that are tried.
pub(super) const MAX_ADDRESSES: usize = 16;

/// Connects, and writes down each try; the error is that of the address that failed last.
pub(super) async fn connect(
    addresses: &[SocketAddr],
    clock: &Clock,
    tried: &mut Vec<TcpAttempt>,
) -> io::Result<TcpStream> {
    let mut waiting = addresses.iter().copied().take(MAX_ADDRESSES);
    let mut trying = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        let next = waiting.next();
        let more = next.is_some();
        if let Some(address) = next {
            let place = tried.len();
            tried.push(TcpAttempt {
                address: address.to_string(),
                start: clock.now(),
                end: None,
                connected: false,
            });
            trying.push(async move { (place, TcpStream::connect(address).await) });
        }
        let head_start = tokio::time::sleep(HEAD_START);
        tokio::select! {
            biased;
            Some((place, result)) = trying.next() => {
                if let Some(attempt) = tried.get_mut(place) {
                    attempt.end = Some(clock.now());
                    attempt.connected = result.is_ok();
                }
                match result {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
            }
            () = head_start, if more => {}
            else => return Err(last),
        }
    }
}

/// What a failure to connect, to read or to write says of the connection.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the list of kinds is open; the rest says nothing of the peer"
)]
pub(super) fn loss(error: &io::Error) -> Loss {
    if want::is_ours(error) {
        return Loss::Local;
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Loss::Refused,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => Loss::Reset,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::TimedOut => Loss::Unreachable,
        // How rustls reports a FIN without close_notify.
        io::ErrorKind::UnexpectedEof => Loss::Closed,
        _ => Loss::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket};

    /// A port that is taken and on which nobody listens, for as long as the socket is held.
    fn closed_port() -> (TcpSocket, SocketAddr) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    async fn tries(addresses: &[SocketAddr]) -> (io::Result<TcpStream>, Vec<TcpAttempt>) {
        let mut tried = Vec::new();
        let result = connect(addresses, &Clock::start(), &mut tried).await;
        (result, tried)
    }

    #[tokio::test]
    async fn the_next_address_is_tried_after_a_refusal() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let (_held, closed) = closed_port();
        let (stream, tried) = tries(&[closed, open]).await;
        assert_eq!(stream.unwrap().peer_addr().unwrap(), open);
        let told: Vec<_> = tried
            .iter()
            .map(|attempt| (attempt.address.as_str(), attempt.connected))
            .collect();
        let (closed, open) = (closed.to_string(), open.to_string());
        assert_eq!(told, [(closed.as_str(), false), (open.as_str(), true)]);
        assert!(tried[0].end.unwrap() <= tried[1].start);
    }

    #[tokio::test]
    async fn without_a_reachable_address_the_last_failure_is_told() {
        let (one, other) = (closed_port(), closed_port());
        let (refused, tried) = tries(&[one.1, other.1]).await;
        assert_eq!(loss(&refused.unwrap_err()), Loss::Refused);
        assert!(tried.iter().all(|attempt| !attempt.connected));
        let (none, tried) = tries(&[]).await;
        assert_eq!(loss(&none.unwrap_err()), Loss::Unreachable);
        assert_eq!(tried, []);
    }
}
