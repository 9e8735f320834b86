//! The TLS hooks: when the client hello is built, what the verifier said, and no resumption.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue, verify_server_name,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, NamedGroup, SignatureScheme};

use super::{What, on_link};
use crate::observation::Loss;

/// A session store that keeps nothing, so that every handshake is a full one.
///
/// It is asked for a key-exchange hint while the client hello is being built, which is the one
/// public sign that a handshake begins.
#[derive(Debug)]
pub(crate) struct NoTickets;

impl ClientSessionStore for NoTickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        on_link(|link| link.note(What::Hello));
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, _: Tls13ClientSessionValue) {}

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        None
    }
}

/// A certificate verifier that notes what it sees.
#[derive(Debug)]
pub(crate) struct WatchedVerifier {
    /// Decides; `None` where nothing is trusted, so that plain HTTP works on a machine without
    /// trusted certificates.
    pub(crate) inner: Option<Arc<dyn ServerCertVerifier>>,
    /// Certificates that the user trusts by name of a file, each one as it is.
    pub(crate) named: Vec<CertificateDer<'static>>,
    /// Checks signatures and names the schemes.
    pub(crate) provider: Arc<CryptoProvider>,
}

impl WatchedVerifier {
    /// A self-signed certificate that says it is an authority, as `openssl req -x509` makes them,
    /// is refused by webpki for a server even where it is trusted itself. Whoever names that very
    /// certificate means that server. Its dates were checked before webpki came to that point.
    fn is_named(
        &self,
        refusal: &Error,
        end_entity: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
    ) -> bool {
        let Error::InvalidCertificate(CertificateError::Other(_)) = refusal else {
            return false;
        };
        self.named.iter().any(|named| named == end_entity)
            && ParsedCertificate::try_from(end_entity)
                .is_ok_and(|parsed| verify_server_name(&parsed, server_name).is_ok())
    }
}

/// What the refusal of a certificate says.
pub(crate) fn refusal(error: &Error) -> Loss {
    let Error::InvalidCertificate(why) = error else {
        return Loss::Certificate;
    };
    if let CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } = why {
        Loss::CertificateEarly
    } else if let CertificateError::Expired | CertificateError::ExpiredContext { .. } = why {
        Loss::CertificateLate
    } else {
        Loss::Certificate
    }
}

impl ServerCertVerifier for WatchedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = match &self.inner {
            Some(inner) => {
                inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        let verified = verified.or_else(|refusal| {
            if self.is_named(&refusal, end_entity, server_name) {
                Ok(ServerCertVerified::assertion())
            } else {
                Err(refusal)
            }
        });
        on_link(|link| link.note(What::Certificate(verified.as_ref().err().map(refusal))));
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        on_link(|link| link.tls.store(2, Ordering::Relaxed));
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        on_link(|link| link.tls.store(3, Ordering::Relaxed));
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
