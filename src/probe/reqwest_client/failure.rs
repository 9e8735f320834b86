//! What an error of the client means: how the connection was lost, or which framing fault it is.
//!
//! Goes by error types, kinds and the phase that was open; by a message text in one place, where the
//! HTTP library has nothing else.

use std::error::Error;
use std::io::{self, ErrorKind};

use super::progress::Progress;
use crate::observation::Phase;
use crate::probe::want;
use crate::stream::{FramingFault, Input, Loss};

/// Longest chain of causes that is looked at.
const CAUSES: usize = 32;

/// The causes that tell something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Causes {
    io: Option<ErrorKind>,
    http: Option<Http>,
    tls: bool,
    /// This machine lacked something.
    ours: bool,
}

/// What the HTTP library says, as far as it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Http {
    /// The head is no HTTP, or too large: a client is not told which.
    BadHead,
    /// What came does not begin as HTTP does.
    OtherBytes,
    Closed,
}

/// An error before the response head.
pub(super) fn before_head(error: &(dyn Error + 'static), progress: &Progress) -> Input<'static> {
    let causes = causes(error);
    if progress.acquired() {
        return match causes.http {
            Some(Http::OtherBytes) if progress.is_plain() => Input::Lost(Loss::NoHttp),
            Some(Http::BadHead | Http::OtherBytes) => Input::Framing(FramingFault::Unspecified),
            Some(Http::Closed) | None => Input::Lost(lost(causes)),
        };
    }
    if causes.ours {
        return Input::Lost(Loss::Local);
    }
    if progress.unresolved() {
        return Input::Lost(Loss::Dns);
    }
    Input::Lost(match progress.open() {
        Some(Phase::Dns) => Loss::Dns,
        Some(Phase::Connect) => {
            let loss = dialling(causes);
            if matches!(loss, Loss::Refused | Loss::Unreachable) || !progress.tunnels() {
                loss
            } else {
                // Without the connector's events the tunnel is part of this stretch.
                progress.refusal().unwrap_or(Loss::Tunnel)
            }
        }
        Some(Phase::Tunnel) => progress.refusal().unwrap_or(Loss::Tunnel),
        Some(Phase::Tls) => progress.refusal().unwrap_or(Loss::Tls),
        _ => lost(causes),
    })
}

/// An error in the body; `sized` when the head promised a length.
pub(super) fn in_body(error: &(dyn Error + 'static), sized: bool) -> Input<'static> {
    let causes = causes(error);
    match causes.io {
        Some(ErrorKind::UnexpectedEof) if sized => Input::Framing(FramingFault::ShortBody),
        Some(ErrorKind::InvalidInput | ErrorKind::InvalidData) if !causes.tls => {
            Input::Framing(FramingFault::Unspecified)
        }
        _ => Input::Lost(lost(causes)),
    }
}

fn dialling(causes: Causes) -> Loss {
    match causes.io {
        Some(ErrorKind::ConnectionRefused) => Loss::Refused,
        Some(
            ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::AddrNotAvailable
            | ErrorKind::NotConnected
            | ErrorKind::TimedOut,
        ) => Loss::Unreachable,
        _ => lost(causes),
    }
}

fn lost(causes: Causes) -> Loss {
    match causes.io {
        Some(ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe) => {
            Loss::Reset
        }
        Some(ErrorKind::UnexpectedEof) => Loss::Closed,
        _ if causes.http == Some(Http::Closed) => Loss::Closed,
        _ => Loss::Other,
    }
}

fn causes(error: &(dyn Error + 'static)) -> Causes {
    let mut found = Causes::default();
    let mut next = Some(error);
    for _ in 0..CAUSES {
        let Some(cause) = next else { break };
        if let Some(error) = cause.downcast_ref::<hyper::Error>() {
            found.http = found.http.or_else(|| http(error));
        }
        found.tls |= cause.is::<rustls::Error>();
        next = match cause.downcast_ref::<io::Error>() {
            Some(error) => {
                found.ours |= want::is_ours(error);
                if found.io.is_none_or(|kind| kind == ErrorKind::Other) {
                    found.io = Some(error.kind());
                }
                // `source` would skip the error that is wrapped.
                error.get_ref().map(|inner| inner as &(dyn Error + 'static))
            }
            None => cause.source(),
        };
    }
    found
}

fn http(error: &hyper::Error) -> Option<Http> {
    if error.is_parse() {
        // The library tells this kind apart in words only. Should they change, a test of the command
        // says so, and the head is a bad one again.
        let begins_otherwise = error.to_string() == "invalid HTTP version parsed";
        Some(if begins_otherwise {
            Http::OtherBytes
        } else {
            Http::BadHead
        })
    } else if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        Some(Http::Closed)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Wrapped(io::Error);

    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("wrapped")
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn the_kind_of_an_io_error_is_found_through_wrappings_of_other_kinds() {
        let inner = io::Error::other(Wrapped(ErrorKind::ConnectionReset.into()));
        assert_eq!(
            causes(&Wrapped(inner)),
            Causes {
                io: Some(ErrorKind::ConnectionReset),
                ..Causes::default()
            }
        );
    }

    #[test]
    fn an_early_end_is_a_short_body_only_where_a_length_was_promised() {
        let error = Wrapped(ErrorKind::UnexpectedEof.into());
        assert!(matches!(
            in_body(&error, true),
            Input::Framing(FramingFault::ShortBody)
        ));
        assert!(matches!(in_body(&error, false), Input::Lost(Loss::Closed)));
    }

    #[test]
    fn a_broken_tls_record_is_no_fault_of_http_framing() {
        let tls = rustls::Error::DecryptError;
        let error = io::Error::new(ErrorKind::InvalidData, tls);
        assert!(matches!(in_body(&error, false), Input::Lost(Loss::Other)));
    }
}
