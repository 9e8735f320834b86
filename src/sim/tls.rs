//! A certificate authority and a certificate for loopback, made at start and trusted by nobody else.

use std::io;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{self, ServerConfig};

/// What accepts TLS connections, and the authority that clients must trust.
pub(super) struct Identity {
    pub(super) acceptor: TlsAcceptor,
    pub(super) ca_pem: String,
}

/// Makes a fresh identity for `localhost` and the loopback addresses.
pub(super) fn identity() -> io::Result<Identity> {
    let (ca_pem, chain, key) = certificates().map_err(io::Error::other)?;
    let config = server(chain, key).map_err(io::Error::other)?;
    Ok(Identity {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        ca_pem,
    })
}

type Chain = Vec<rustls::pki_types::CertificateDer<'static>>;

fn certificates() -> Result<(String, Chain, PrivateKeyDer<'static>), rcgen::Error> {
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.distinguished_name
        .push(DnType::CommonName, "embedded relay authority");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_key = KeyPair::generate()?;
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::from_params(&ca, &ca_key);

    let names = ["localhost", "127.0.0.1", "::1"].map(String::from);
    let mut leaf = CertificateParams::new(names)?;
    leaf.distinguished_name
        .push(DnType::CommonName, "embedded relay");
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let leaf = leaf.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((ca_pem, vec![leaf.der().clone()], key))
}

fn server(chain: Chain, key: PrivateKeyDer<'static>) -> Result<ServerConfig, rustls::Error> {
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
