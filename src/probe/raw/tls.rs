//! The TLS settings of the raw transport, and what it says of a session.

use std::io;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::observation::Connection;
use crate::probe::transport::DialError;
use crate::stream::Loss;

/// The system's roots and those given, no resumption.
pub(super) fn client_config(extra_ca_pem: &[Vec<u8>]) -> Result<ClientConfig, DialError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for pem in extra_ca_pem {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate =
                certificate.map_err(|error| DialError::Certificates(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| DialError::Certificates(error.to_string()))?;
        }
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| DialError::Client(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

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
    let certificate = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        .is_some_and(|inner| matches!(inner, rustls::Error::InvalidCertificate(_)));
    if certificate {
        Loss::Certificate
    } else {
        Loss::Tls
    }
}
