//! Keys from files: private ones that sign, public ones that are trusted.
//!
//! A private key leaves neither this module nor its value: no `Debug`, no error and no accessor
//! shows it. Whether its file may be read by others is left to the system.

use std::fmt;
use std::path::Path;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};

use super::{Error, KeyProblem, MOST_KEY_BYTES, read_bounded, sha256_hex, ssh};

/// An Ed25519 public key as SubjectPublicKeyInfo (RFC 8410) is these bytes and the key's 32.
const SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Most public keys of one file.
const MOST_KEYS: usize = 256;

/// How a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The signature of the message itself, 64 bytes.
    Plain,
    /// The form of `ssh-keygen -Y sign`.
    Ssh,
}

/// A private key that signs.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: VerifyingKey,
}

impl SigningKey {
    /// The private key of a file: PKCS#8 as PEM, or OpenSSH's own form, both unencrypted.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds no such key.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = read_bounded(path, MOST_KEY_BYTES)?;
        Self::parse(&text).map_err(|problem| Error::Key {
            path: path.to_owned(),
            problem,
        })
    }

    /// The private key of a file's text.
    ///
    /// # Errors
    ///
    /// There is no unencrypted Ed25519 private key in it.
    pub fn parse(text: &[u8]) -> Result<Self, KeyProblem> {
        let (pair, form, comment) = match Kind::of(text) {
            Kind::Pkcs8 => (pkcs8(text)?, Form::Plain, String::new()),
            Kind::OpenSsh => {
                let (pair, comment) = ssh::private(text)?;
                (pair, Form::Ssh, comment)
            }
            Kind::EncryptedPkcs8 => {
                return Err(KeyProblem::Encrypted("`openssl pkey -in KEY -out COPY`"));
            }
            Kind::OtherPrivate(kind) => return Err(KeyProblem::Kind(kind.to_owned())),
            Kind::Spki | Kind::SshLines => return Err(KeyProblem::Public),
            Kind::None => return Err(KeyProblem::Missing),
        };
        let mut key = [0; 32];
        match pair.public_key().as_ref() {
            bytes if bytes.len() == key.len() => key.copy_from_slice(bytes),
            _ => return Err(KeyProblem::Damaged("its public part is not 32 bytes")),
        }
        let public = VerifyingKey::new(form, key, comment);
        Ok(Self { pair, public })
    }

    /// The public key of it.
    pub const fn public(&self) -> &VerifyingKey {
        &self.public
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        match self.public.form {
            Form::Plain => Ok(self.pair.sign(message).as_ref().to_vec()),
            Form::Ssh => ssh::sign(&self.pair, self.public.key, message)
                .map_err(|error| Error::Write(error.to_string())),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey")
            .field(&self.public.keyid)
            .finish()
    }
}

/// A public key that the caller trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    form: Form,
    key: [u8; 32],
    keyid: String,
    comment: String,
}

impl VerifyingKey {
    fn new(form: Form, key: [u8; 32], comment: String) -> Self {
        let keyid = match form {
            Form::Plain => sha256_hex(&[SPKI.as_slice(), &key].concat()),
            Form::Ssh => ssh::fingerprint(key),
        };
        Self {
            form,
            key,
            keyid,
            comment,
        }
    }

    /// The public keys of a file: PEM blocks `PUBLIC KEY`, or lines `ssh-ed25519 AAAA… comment`;
    /// one at least.
    ///
    /// # Errors
    ///
    /// The file cannot be read, holds no key, or one that is of no use.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, Error> {
        let text = read_bounded(path, MOST_KEY_BYTES)?;
        Self::parse_all(&text).map_err(|problem| Error::Key {
            path: path.to_owned(),
            problem,
        })
    }

    /// The public keys of a file's text.
    ///
    /// # Errors
    ///
    /// There is none in it, or one that is of no use: a key that is left out silently would be one
    /// that somebody believes to be asked for.
    pub fn parse_all(text: &[u8]) -> Result<Vec<Self>, KeyProblem> {
        let keys: Vec<Self> = match Kind::of(text) {
            Kind::Spki if lines(text)?.any(|line| line.starts_with("ssh-")) => {
                return Err(KeyProblem::Damaged(
                    "PEM blocks and lines of SSH keys are mixed; keep them in files of their own",
                ));
            }
            Kind::Spki => SubjectPublicKeyInfoDer::pem_slice_iter(text)
                .take(MOST_KEYS + 1)
                .map(|der| {
                    let der = der.map_err(|_| KeyProblem::Damaged("a PEM block is not whole"))?;
                    let key = der
                        .as_ref()
                        .strip_prefix(SPKI.as_slice())
                        .and_then(|key| <[u8; 32]>::try_from(key).ok())
                        .ok_or_else(|| KeyProblem::Kind("RSA, EC or another one".to_owned()))?;
                    Ok(Self::new(Form::Plain, key, String::new()))
                })
                .collect::<Result<_, _>>()?,
            Kind::SshLines => lines(text)?
                .take(MOST_KEYS + 1)
                .map(|line| {
                    let (key, comment) = ssh::public(line)?;
                    Ok(Self::new(Form::Ssh, key, comment))
                })
                .collect::<Result<_, _>>()?,
            Kind::Pkcs8 | Kind::EncryptedPkcs8 | Kind::OpenSsh | Kind::OtherPrivate(_) => {
                return Err(KeyProblem::Private);
            }
            Kind::None => return Err(KeyProblem::Missing),
        };
        match keys.len() {
            0 => Err(KeyProblem::Missing),
            1..=MOST_KEYS => Ok(keys),
            _ => Err(KeyProblem::Damaged("it holds more than 256 keys")),
        }
    }

    /// SHA-256 of the key: of its SubjectPublicKeyInfo, in hex, or for an SSH key the fingerprint
    /// that `ssh-keygen -l` shows.
    pub fn keyid(&self) -> &str {
        &self.keyid
    }

    /// What the line of an SSH key says beside it, mostly `user@host`; empty where nothing.
    pub fn comment(&self) -> &str {
        &self.comment
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self.form {
            Form::Plain => UnparsedPublicKey::new(&ED25519, self.key)
                .verify(message, signature)
                .is_ok(),
            Form::Ssh => ssh::verifies(self.key, message, signature),
        }
    }
}

fn pkcs8(text: &[u8]) -> Result<Ed25519KeyPair, KeyProblem> {
    // What the reader of PEM says quotes the line, which may be of the key.
    let der = PrivatePkcs8KeyDer::from_pem_slice(text)
        .map_err(|_| KeyProblem::Damaged("its PEM block is not whole"))?;
    // `openssl genpkey` writes the first version of PKCS#8, without the public key.
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).map_err(|rejected| {
        if rejected.to_string() == "WrongAlgorithm" {
            KeyProblem::Kind("RSA, EC or another one".to_owned())
        } else {
            KeyProblem::Damaged("it is not an Ed25519 key in PKCS#8")
        }
    })
}

/// Lines of text without blank ones and comments.
fn lines(text: &[u8]) -> Result<impl Iterator<Item = &str>, KeyProblem> {
    let text = std::str::from_utf8(text).map_err(|_| KeyProblem::Missing)?;
    Ok(text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#')))
}

/// What a key file holds, by how it opens.
enum Kind<'a> {
    Pkcs8,
    EncryptedPkcs8,
    OpenSsh,
    /// A private key in a form of another algorithm, by its label.
    OtherPrivate(&'a str),
    Spki,
    SshLines,
    None,
}

impl<'a> Kind<'a> {
    fn of(text: &'a [u8]) -> Self {
        let Ok(text) = std::str::from_utf8(text) else {
            return Self::None;
        };
        let label = text.lines().find_map(|line| {
            line.trim()
                .strip_prefix("-----BEGIN ")?
                .strip_suffix("-----")
        });
        match label {
            Some("PRIVATE KEY") => Self::Pkcs8,
            Some("ENCRYPTED PRIVATE KEY") => Self::EncryptedPkcs8,
            Some("OPENSSH PRIVATE KEY") => Self::OpenSsh,
            Some("PUBLIC KEY") => Self::Spki,
            Some(other) => other
                .strip_suffix(" PRIVATE KEY")
                .filter(|kind| kind.len() <= 20)
                .map_or(Self::None, Self::OtherPrivate),
            None if text.contains("ssh-") || text.contains("ecdsa-") => Self::SshLines,
            None => Self::None,
        }
    }
}
