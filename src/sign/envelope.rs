//! The DSSE envelope: a payload, its type, and the signatures over both.
//!
//! <https://github.com/secure-systems-lab/dsse/blob/master/protocol.md>. Decides whose signature
//! fits, never who is to be trusted.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde::{Deserialize, Serialize};

use super::{Error, MOST_ENVELOPE_BYTES, SigningKey, Statement, VerifyingKey, read_bounded};

/// `payloadType` of an in-toto statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// Most signatures of an envelope; each costs one verification for each trusted key.
const MOST_SIGNATURES: usize = 64;

/// A payload with its signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Signature {
    /// A hint, which nobody signs; absent where the signer gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keyid: Option<String>,
    sig: String,
}

/// What a believed envelope says, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// What is stated.
    pub statement: Statement,
    /// The trusted keys that signed it, each once; at least one. A caller that wants several parties
    /// to sign counts them.
    pub signers: Vec<VerifyingKey>,
    /// Key ids of further signatures that nobody here vouches for; they prove nothing.
    pub unknown: Vec<String>,
}

/// The bytes that a DSSE signature is made over.
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    )
    .into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads the envelope that [`Envelope::to_json`] wrote, and says what it states and who signed it.
///
/// Stricter than DSSE asks: each byte is as it was written, a key id is that of the key whose
/// signature it stands beside, and a signature in the name of a trusted key fits. So one flipped
/// byte anywhere is found, also where it changes nothing that was signed.
///
/// # Errors
///
/// The envelope is not believed; [`Error::is_refusal`] is true.
pub fn verify(bytes: &[u8], trusted: &[VerifyingKey]) -> Result<Verified, Error> {
    let envelope = Envelope::parse(bytes)?;
    if envelope.to_json()?.as_bytes() != bytes {
        return Err(Error::Respelled);
    }
    let payload = envelope.payload()?;
    let accepted = envelope.accepted(&payload, trusted)?;
    for (signature, key) in &accepted {
        let named = signature.keyid.as_deref();
        let fits = match key {
            Some(key) => named == Some(key.keyid()),
            None => trusted.iter().all(|key| named != Some(key.keyid())),
        };
        if !fits {
            return Err(Error::Altered(signature.named()));
        }
    }
    let mut signers: Vec<VerifyingKey> = Vec::new();
    let mut unknown = Vec::new();
    for (signature, key) in accepted {
        match key {
            Some(key) if signers.contains(key) => {}
            Some(key) => signers.push(key.clone()),
            None => unknown.push(signature.named()),
        }
    }
    if signers.is_empty() {
        return Err(Error::Untrusted(unknown));
    }
    Ok(Verified {
        statement: Statement::from_json(&payload)?,
        signers,
        unknown,
    })
}

/// [`verify`] on a file.
///
/// # Errors
///
/// The file cannot be read, or the envelope is not believed.
pub fn verify_file(path: &Path, trusted: &[VerifyingKey]) -> Result<Verified, Error> {
    verify(&read_bounded(path, MOST_ENVELOPE_BYTES)?, trusted)
}

impl Envelope {
    /// The statement, signed by one key. The same statement and key give the same bytes.
    ///
    /// # Errors
    ///
    /// Our own failure.
    pub fn sign(statement: &Statement, key: &SigningKey) -> Result<Self, Error> {
        let payload = statement.to_json()?;
        let mut envelope = Self {
            payload: STANDARD.encode(&payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: Vec::new(),
        };
        envelope.countersign(key)?;
        Ok(envelope)
    }

    /// A further signature over the same payload: of the relay's operator beside its customer's.
    ///
    /// # Errors
    ///
    /// The key has signed it before.
    pub fn countersign(&mut self, key: &SigningKey) -> Result<(), Error> {
        let keyid = key.public().keyid();
        if self
            .signatures
            .iter()
            .any(|it| it.keyid.as_deref() == Some(keyid))
        {
            return Err(Error::SignedAlready(keyid.to_owned()));
        }
        let signed = key.sign(&pae(&self.payload_type, &self.payload()?))?;
        self.signatures.push(Signature {
            keyid: Some(keyid.to_owned()),
            sig: STANDARD.encode(signed),
        });
        Ok(())
    }

    /// The envelope of a file, to be countersigned; nothing of it is checked.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no envelope.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(&read_bounded(path, MOST_ENVELOPE_BYTES)?)
    }

    /// An envelope from JSON, in any spelling that DSSE allows; nothing of it is checked.
    ///
    /// # Errors
    ///
    /// The bytes are no envelope.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let none = |why: String| Error::NotAnEnvelope(why);
        if u64::try_from(bytes.len()).is_ok_and(|len| len > MOST_ENVELOPE_BYTES) {
            return Err(none(format!("longer than {MOST_ENVELOPE_BYTES} bytes")));
        }
        let envelope: Self =
            serde_json::from_slice(bytes).map_err(|error| none(error.to_string()))?;
        match envelope.signatures.len() {
            0 => Err(none("it has no signature".to_owned())),
            1..=MOST_SIGNATURES => Ok(envelope),
            _ => Err(none(format!("more than {MOST_SIGNATURES} signatures"))),
        }
    }

    /// The envelope as one line of JSON, newline included.
    ///
    /// # Errors
    ///
    /// Our own failure.
    pub fn to_json(&self) -> Result<String, Error> {
        let mut text =
            serde_json::to_string(self).map_err(|error| Error::Write(error.to_string()))?;
        text.push('\n');
        Ok(text)
    }

    fn payload(&self) -> Result<Vec<u8>, Error> {
        decode(&self.payload)
            .ok_or_else(|| Error::NotAnEnvelope("its payload is not base64".to_owned()))
    }

    /// Each signature with the trusted key that it is of, by DSSE's rules: the key id decides
    /// nothing.
    fn accepted<'a>(
        &self,
        payload: &[u8],
        trusted: &'a [VerifyingKey],
    ) -> Result<Vec<(&Signature, Option<&'a VerifyingKey>)>, Error> {
        if self.payload_type != PAYLOAD_TYPE {
            return Err(Error::PayloadType(
                self.payload_type.chars().take(80).collect(),
            ));
        }
        let signed = pae(&self.payload_type, payload);
        self.signatures
            .iter()
            .map(|signature| {
                let bytes = decode(&signature.sig).ok_or_else(|| {
                    Error::NotAnEnvelope("one of its signatures is not base64".to_owned())
                })?;
                let key = trusted.iter().find(|key| key.verifies(&signed, &bytes));
                Ok((signature, key))
            })
            .collect()
    }
}

impl Signature {
    fn named(&self) -> String {
        self.keyid.clone().unwrap_or_else(|| "unnamed".to_owned())
    }
}

/// Either alphabet of base64, as DSSE demands.
fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD
        .decode(text)
        .or_else(|_| URL_SAFE.decode(text))
        .ok()
}

#[cfg(test)]
mod tests;
