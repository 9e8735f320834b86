//! The TLS settings of both clients: what is trusted, which protocols are offered, no resumption.
//!
//! Reads the machine's trusted certificates once per process. A machine that has none is no error:
//! plain HTTP works, and so do the certificates that the plan names.

use std::sync::{Arc, Once, OnceLock};

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, Tls12Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::plan::HttpVersion;
use crate::probe::dial::DialError;
use crate::probe::hooks::{NoTickets, WatchedVerifier};

/// Makes ring the process's TLS provider, for the libraries that ask for one.
///
/// Does nothing where a provider is installed already.
pub fn install_crypto() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // The error says that the program around us has chosen one; ours do not depend on it.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// TLS settings for one relay: the machine's trusted certificates and `extra_ca_pem`.
///
/// Every handshake is a full one, so that connections measured one after the other compare.
pub fn client_config(
    http: HttpVersion,
    extra_ca_pem: &[Vec<u8>],
) -> Result<ClientConfig, DialError> {
    let provider = provider();
    let verifier = WatchedVerifier {
        inner: verifier(extra_ca_pem)?,
        named: certificates(extra_ca_pem)?,
        provider: Arc::clone(&provider),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| DialError::Client(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = match http {
        HttpVersion::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        HttpVersion::Http1 => vec![b"http/1.1".to_vec()],
        HttpVersion::Http2 => vec![b"h2".to_vec()],
    };
    config.resumption =
        Resumption::store(Arc::new(NoTickets)).tls12_resumption(Tls12Resumption::Disabled);
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

/// The machine's trusted certificates; empty where there are none or none can be read.
fn native_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    })
}

/// The verifier, or `None` where nothing is trusted.
fn verifier(extra_ca_pem: &[Vec<u8>]) -> Result<Option<Arc<dyn ServerCertVerifier>>, DialError> {
    static NATIVE: OnceLock<Option<Arc<WebPkiServerVerifier>>> = OnceLock::new();
    if extra_ca_pem.is_empty() {
        let native = NATIVE.get_or_init(|| build(native_roots().clone()).ok().flatten());
        return Ok(native
            .clone()
            .map(|native| native as Arc<dyn ServerCertVerifier>));
    }
    let mut roots = native_roots().clone();
    for certificate in certificates(extra_ca_pem)? {
        roots
            .add(certificate)
            .map_err(|error| DialError::Certificates(error.to_string()))?;
    }
    Ok(build(roots)?.map(|built| built as Arc<dyn ServerCertVerifier>))
}

/// The certificates of PEM files, of which each must hold one at least.
fn certificates(pem_files: &[Vec<u8>]) -> Result<Vec<CertificateDer<'static>>, DialError> {
    let mut all = Vec::new();
    for pem in pem_files {
        let before = all.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            all.push(certificate.map_err(|error| DialError::Certificates(error.to_string()))?);
        }
        if all.len() == before {
            return Err(DialError::Certificates(
                "no PEM block `CERTIFICATE` in it".to_owned(),
            ));
        }
    }
    Ok(all)
}

fn build(roots: RootCertStore) -> Result<Option<Arc<WebPkiServerVerifier>>, DialError> {
    if roots.is_empty() {
        return Ok(None);
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map(Some)
        .map_err(|error| DialError::Certificates(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_http_version_offers_its_own_protocols() {
        let offered = |http| client_config(http, &[]).unwrap().alpn_protocols;
        assert_eq!(
            offered(HttpVersion::Auto),
            [b"h2".to_vec(), b"http/1.1".to_vec()]
        );
        assert_eq!(offered(HttpVersion::Http1), [b"http/1.1".to_vec()]);
        assert_eq!(offered(HttpVersion::Http2), [b"h2".to_vec()]);
    }

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        for text in ["", "no certificate here", "-----BEGIN CERTIFICATE-----\n!"] {
            let refused = client_config(HttpVersion::Auto, &[text.as_bytes().to_vec()]);
            assert!(
                matches!(refused, Err(DialError::Certificates(_))),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_machine_that_trusts_nothing_still_gives_settings() {
        assert!(build(RootCertStore::empty()).unwrap().is_none());
    }
}
