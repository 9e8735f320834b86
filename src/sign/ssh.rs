//! OpenSSH's own forms: its private and public key files, and the signatures of `ssh-keygen -Y sign`
//! (PROTOCOL.sshsig). The formats are read and written by ssh-key; the cryptography is ring's.

use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use ssh_encoding::{Decode, Encode};
use ssh_key::public::{Ed25519PublicKey, KeyData};
use ssh_key::{Algorithm, HashAlg, PrivateKey, PublicKey, Signature, SshSig};

use super::KeyProblem;

/// The namespace of SSH signatures: what keeps a signature made for this purpose from being taken
/// for one of another (git commits, logins), and the other way round.
pub const NAMESPACE: &str = "relayproof";

/// The hash of the signed message that `ssh-keygen` takes by itself.
const HASH: HashAlg = HashAlg::Sha512;

/// An unencrypted private key file.
pub(super) fn private(text: &[u8]) -> Result<(Ed25519KeyPair, String), KeyProblem> {
    // What the crate says of a key could quote it.
    let key = PrivateKey::from_openssh(text)
        .map_err(|_| KeyProblem::Damaged("it cannot be read as an OpenSSH private key"))?;
    if key.is_encrypted() {
        return Err(KeyProblem::Encrypted(
            "`cp KEY COPY && ssh-keygen -p -N '' -f COPY`",
        ));
    }
    let Some(pair) = key.key_data().ed25519() else {
        return Err(KeyProblem::Kind(key.algorithm().to_string()));
    };
    let pair =
        Ed25519KeyPair::from_seed_and_public_key(pair.private.as_ref(), pair.public.as_ref())
            .map_err(|_| KeyProblem::Damaged("its private and its public part do not fit"))?;
    Ok((pair, key.comment().to_owned()))
}

/// One line of a public key file: the 32 bytes of the key, and the comment.
pub(super) fn public(line: &str) -> Result<([u8; 32], String), KeyProblem> {
    let kind = line.split_ascii_whitespace().next().unwrap_or_default();
    if kind != "ssh-ed25519" {
        let other = ["ssh-", "ecdsa-", "sk-"]
            .iter()
            .any(|start| kind.starts_with(start));
        return Err(if other {
            KeyProblem::Kind(kind.chars().take(60).collect())
        } else {
            KeyProblem::Damaged(
                "a line of public keys has the form `ssh-ed25519 AAAA… comment`, without options",
            )
        });
    }
    let key = PublicKey::from_openssh(line)
        .map_err(|_| KeyProblem::Damaged("it cannot be read as an OpenSSH public key"))?;
    match key.key_data().ed25519() {
        Some(bytes) => Ok((bytes.0, key.comment().to_owned())),
        None => Err(KeyProblem::Kind(key.algorithm().to_string())),
    }
}

/// The fingerprint that `ssh-keygen -l` shows: SHA-256 of the public key.
pub(super) fn fingerprint(key: [u8; 32]) -> String {
    KeyData::Ed25519(Ed25519PublicKey(key))
        .fingerprint(HashAlg::Sha256)
        .to_string()
}

/// A signature of the message as `ssh-keygen -Y sign -n relayproof` makes it, without its armour.
pub(super) fn sign(
    pair: &Ed25519KeyPair,
    key: [u8; 32],
    message: &[u8],
) -> Result<Vec<u8>, ssh_key::Error> {
    let signed = SshSig::signed_data(NAMESPACE, HASH, message)?;
    let signature = Signature::new(Algorithm::Ed25519, pair.sign(&signed).as_ref())?;
    let key = KeyData::Ed25519(Ed25519PublicKey(key));
    let whole = SshSig::new(key, NAMESPACE, HASH, signature)?;
    let mut bytes = Vec::new();
    whole.encode(&mut bytes)?;
    Ok(bytes)
}

/// Whether these bytes are a signature of the message by the key, for our namespace.
pub(super) fn verifies(key: [u8; 32], message: &[u8], bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let Ok(whole) = SshSig::decode(&mut rest) else {
        return false;
    };
    let own_key = whole.public_key().ed25519() == Some(&Ed25519PublicKey(key));
    let ours = whole.version() == SshSig::VERSION
        && whole.namespace() == NAMESPACE
        && whole.reserved().is_empty()
        && whole.algorithm() == Algorithm::Ed25519;
    // The reader takes more than one spelling of its lengths; we take the one that is written.
    let mut spelled = Vec::with_capacity(bytes.len());
    let as_written = whole.encode(&mut spelled).is_ok() && spelled == bytes;
    if !(as_written && own_key && ours) {
        return false;
    }
    let Ok(signed) = SshSig::signed_data(NAMESPACE, whole.hash_alg(), message) else {
        return false;
    };
    UnparsedPublicKey::new(&ED25519, key)
        .verify(&signed, whole.signature_bytes())
        .is_ok()
}
