//! The in-toto statement with the test-result predicate, as JSON; says nothing of signatures.
//!
//! <https://github.com/in-toto/attestation/tree/main/spec/v1> and
//! <https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md>

use serde::{Deserialize, Serialize};

use super::{Error, sha256_hex};

/// `_type` of the statement.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// `predicateType` of the statement.
pub const PREDICATE_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// A thing by its name and the SHA-256 of its bytes: what a statement is about, or the
/// configuration of the test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Descriptor", into = "Descriptor")]
pub struct Subject {
    name: String,
    sha256: String,
}

/// A digest that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sha256 of {0:?} is not 64 lower-case hex digits")]
pub struct SubjectError(String);

/// in-toto's ResourceDescriptor, as far as it is used here.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Descriptor {
    name: String,
    digest: DigestSet,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct DigestSet {
    sha256: String,
}

impl TryFrom<Descriptor> for Subject {
    type Error = SubjectError;

    fn try_from(from: Descriptor) -> Result<Self, SubjectError> {
        Self::new(from.name, from.digest.sha256)
    }
}

impl From<Subject> for Descriptor {
    fn from(from: Subject) -> Self {
        Self {
            name: from.name,
            digest: DigestSet {
                sha256: from.sha256,
            },
        }
    }
}

impl Subject {
    /// A thing whose digest is known: 64 lower-case hex digits.
    ///
    /// # Errors
    ///
    /// Any other text as a digest.
    pub fn new(name: impl Into<String>, sha256: impl Into<String>) -> Result<Self, SubjectError> {
        let (name, sha256) = (name.into(), sha256.into());
        let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        if sha256.len() == 64 && sha256.bytes().all(is_digit) {
            Ok(Self { name, sha256 })
        } else {
            Err(SubjectError(name))
        }
    }

    /// A thing whose bytes are at hand.
    pub fn of(name: impl Into<String>, bytes: &[u8]) -> Self {
        Self {
            name: name.into(),
            sha256: sha256_hex(bytes),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// SHA-256 of its bytes, 64 lower-case hex digits.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Whether these are its bytes.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        self.sha256 == sha256_hex(bytes)
    }
}

/// How a test run went as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Every test that has to pass has passed.
    Passed,
    /// Nothing failed, and something is to be looked at.
    Warned,
    /// Something that has to pass has not.
    Failed,
}

/// The predicate: the result of a test run and the names of its tests.
///
/// The predicate has no word for a test that is undecided: whoever makes it says whether that is a
/// warning or a failure, and never a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    /// The run as a whole.
    pub result: Outcome,
    /// What the run was configured with; here the specs.
    pub configuration: Vec<Subject>,
    /// Where the run can be looked at; `None` where it has no address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Names of the tests that passed.
    #[serde(default)]
    pub passed_tests: Vec<String>,
    /// Names of the tests that passed with a warning.
    #[serde(default)]
    pub warned_tests: Vec<String>,
    /// Names of the tests that failed.
    #[serde(default)]
    pub failed_tests: Vec<String>,
}

/// A statement: these tests went so, and this is what shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    predicate_type: String,
    predicate: TestResult,
}

impl Statement {
    /// A statement about these things: for an acceptance the evidence by its root, and the report.
    pub fn new(subjects: Vec<Subject>, result: TestResult) -> Self {
        Self {
            kind: STATEMENT_TYPE.to_owned(),
            subject: subjects,
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: result,
        }
    }

    /// What it is about.
    pub fn subjects(&self) -> &[Subject] {
        &self.subject
    }

    /// The thing of that name; `None` where the statement does not speak of it.
    pub fn subject(&self, name: &str) -> Option<&Subject> {
        self.subject.iter().find(|subject| subject.name == name)
    }

    /// What it says.
    pub const fn result(&self) -> &TestResult {
        &self.predicate
    }

    /// The statement as one line of JSON; the same statement gives the same bytes.
    pub(super) fn to_json(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|error| Error::Write(error.to_string()))
    }

    pub(super) fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        /// The types first, so that a statement of another kind is told from a broken one.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Kinds {
            #[serde(rename = "_type")]
            kind: String,
            predicate_type: String,
        }
        let broken = |error: serde_json::Error| Error::NotAStatement(error.to_string());
        let kinds: Kinds = serde_json::from_slice(bytes).map_err(broken)?;
        for (found, expected) in [
            (kinds.kind, STATEMENT_TYPE),
            (kinds.predicate_type, PREDICATE_TYPE),
        ] {
            if found != expected {
                let text = format!("it is of the type {found:?}, not {expected:?}");
                return Err(Error::NotAStatement(text));
            }
        }
        serde_json::from_slice(bytes).map_err(broken)
    }
}
