//! Signed statements about test results: in-toto Statement v1 in a DSSE envelope.
//!
//! Takes plain values (names and digests) and gives bytes, or the other way round. Knows nothing of
//! runs, evidence or verdicts, makes no key, and asks no network whom to trust: the caller names the
//! public keys.
//!
//! The signatures are Ed25519: plain ones, as `openssl pkeyutl -rawin` makes and takes them, or in
//! the form of `ssh-keygen -Y sign`. docs/signing.md has the commands that check an envelope without
//! this program.
//!
//! ```no_run
//! use relayproof::sign::{
//!     self, Envelope, Outcome, SigningKey, Statement, Subject, TestResult, VerifyingKey,
//! };
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (report, spec, root) = (b"{}", b"", "0".repeat(64));
//!
//! let statement = Statement::new(
//!     vec![Subject::new("evidence", root)?, Subject::of("report.json", report)],
//!     TestResult {
//!         result: Outcome::Passed,
//!         configuration: vec![Subject::of("specs/relay.yaml", spec)],
//!         url: None,
//!         passed_tests: vec!["nova/large/chat/success >= 99%".to_owned()],
//!         warned_tests: vec![],
//!         failed_tests: vec![],
//!     },
//! );
//! let key = SigningKey::read("acceptance.key.pem".as_ref())?;
//! let envelope = Envelope::sign(&statement, &key)?.to_json()?;
//!
//! let trusted = VerifyingKey::read_all("acceptance.pub.pem".as_ref())?;
//! let verified = sign::verify(envelope.as_bytes(), &trusted)?;
//! let subject = verified.statement.subject("report.json");
//! assert!(subject.is_some_and(|it| it.is_of(report)));
//! # Ok(())
//! # }
//! ```

mod envelope;
mod error;
mod key;
mod ssh;
mod statement;

pub use envelope::{Envelope, PAYLOAD_TYPE, Verified, pae, verify, verify_file};
pub use error::{Error, KeyProblem};
pub use key::{SigningKey, VerifyingKey};
pub use ssh::NAMESPACE;
pub use statement::{
    Outcome, PREDICATE_TYPE, STATEMENT_TYPE, Statement, Subject, SubjectError, TestResult,
};

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most bytes of a key file: a few hundred public keys, and enough for any private one.
const MOST_KEY_BYTES: u64 = 64 * 1024;
/// Most bytes of an envelope: a statement names every test once.
const MOST_ENVELOPE_BYTES: u64 = 16 * 1024 * 1024;

/// A file of at most so many bytes; more are an error, not a cut.
fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|read| read <= most) {
        Ok(bytes)
    } else {
        Err(Error::TooLarge {
            path: path.to_owned(),
            most,
        })
    }
}

/// SHA-256 as 64 lower-case hex digits.
fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    use std::fmt::Write;

    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string cannot fail.
            write!(text, "{byte:02x}").ok();
            text
        })
}
