//! What can be wrong with a key, an envelope or a signature, in words; never a byte of a private key.

use std::io;
use std::path::PathBuf;

/// Why nothing was signed, or why an envelope is not believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key or an envelope that cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file larger than any of its kind.
    #[error("{} is larger than {most} bytes, more than any such file needs", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        most: u64,
    },
    /// A key file that is of no use.
    #[error("{}: {problem}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why it is of no use.
        problem: KeyProblem,
    },
    /// A key that signed this envelope before.
    #[error("the key {0} has signed this envelope already")]
    SignedAlready(String),
    /// Bytes that are no DSSE envelope.
    #[error("not a DSSE envelope: {0}")]
    NotAnEnvelope(String),
    /// An envelope spelled in another way than it was written; the content may be the same.
    #[error("the envelope is not byte for byte as it was written")]
    Respelled,
    /// A payload of another kind.
    #[error("the payload is of the type {0:?}, not {expected:?}", expected = super::PAYLOAD_TYPE)]
    PayloadType(String),
    /// A signature by a trusted key that does not fit what it is attached to.
    #[error("altered: the signature of the trusted key {0} does not fit this content")]
    Altered(String),
    /// No signature by a key that the caller trusts.
    #[error("no trusted key has signed this; signed in the name of: {}", named(.0))]
    Untrusted(Vec<String>),
    /// A payload that is not a statement about test results.
    #[error("not a statement about test results: {0}")]
    NotAStatement(String),
    /// Something of our own that cannot be put into words; our failure.
    #[error("cannot write the envelope: {0}")]
    Write(String),
}

impl Error {
    /// Whether an envelope was read and is not believed, which is its signer's or its carrier's
    /// affair; any other error is a mistake of whoever asks (a file, a key) or our own failure.
    pub const fn is_refusal(&self) -> bool {
        match self {
            Self::NotAnEnvelope(_)
            | Self::Respelled
            | Self::PayloadType(_)
            | Self::Altered(_)
            | Self::Untrusted(_)
            | Self::NotAStatement(_) => true,
            Self::Read { .. }
            | Self::TooLarge { .. }
            | Self::Key { .. }
            | Self::SignedAlready(_)
            | Self::Write(_) => false,
        }
    }
}

/// Most key ids that an error names; an envelope may claim many.
const MOST_NAMED: usize = 3;

fn named(keyids: &[String]) -> String {
    let mut text = keyids
        .iter()
        .take(MOST_NAMED)
        // They come from the envelope, and so from anybody.
        .map(|keyid| keyid.escape_debug().take(80).collect::<String>())
        .collect::<Vec<_>>()
        .join(", ");
    if text.is_empty() {
        text.push_str("nobody");
    }
    if let Some(more @ 1..) = keyids.len().checked_sub(MOST_NAMED) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// Why a key file is of no use; says nothing of what stands in it but its kind.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyProblem {
    /// A private key behind a passphrase, which is never asked for.
    #[error("the key is encrypted; write an unencrypted copy for signing: {0}")]
    Encrypted(&'static str),
    /// A public key where a private one is needed.
    #[error("this is a public key; only the private one can sign")]
    Public,
    /// A private key where a public one is needed.
    #[error(
        "this is a private key; name the public one (`openssl pkey -in KEY -pubout`, or KEY.pub of \
         ssh-keygen)"
    )]
    Private,
    /// A key of another algorithm.
    #[error("this is a key of the kind {0}; only Ed25519 keys are taken")]
    Kind(String),
    /// No key at all.
    #[error(
        "no key in it; an Ed25519 key is expected, as `openssl genpkey -algorithm ed25519` or \
         `ssh-keygen -t ed25519` writes it"
    )]
    Missing,
    /// A key that is cut or has a wrong byte.
    #[error("the key is damaged: {0}")]
    Damaged(&'static str),
}
