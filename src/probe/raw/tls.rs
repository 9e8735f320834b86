//! What a TLS session and a failed handshake say.

use std::io;

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::observation::Connection;
use crate::probe::hooks;
use crate::stream::Loss;

/// What was agreed on.
pub(super) fn facts(stream: &TlsStream<TcpStream>) -> Connection {
    let (_, session) = stream.get_ref();
    Connection {
        tls_version: session.protocol_version().map(version),
        alpn: session
            .alpn_protocol()
            .map(|name| String::from_utf8_lossy(name).into_owned()),
        cipher: session
            .negotiated_cipher_suite()
            .map(|suite| format!("{:?}", suite.suite())),
        resumed: session
            .handshake_kind()
            .map(|kind| kind == rustls::HandshakeKind::Resumed),
        ..Connection::default()
    }
}

/// `1.3` for `TLSv1_3`.
fn version(version: rustls::ProtocolVersion) -> String {
    match version.as_str() {
        Some(name) => name.trim_start_matches("TLSv").replace('_', "."),
        None => format!("{version:?}"),
    }
}

/// What a failed handshake says.
pub(super) fn loss(error: &io::Error) -> Loss {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(refused @ rustls::Error::InvalidCertificate(_)) => hooks::tls::refusal(refused),
        Some(_) | None => Loss::Tls,
    }
}
