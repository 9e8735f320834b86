//! Signing the report of a soak, and checking one: its signature, its evidence, and its verdicts,
//! which are made again.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::results::printable;
use super::soak::{Given, Soak, given};
use super::{Exit, complain, with_causes};
use crate::plan::window;
use crate::report::html;
use crate::report::signoff::{self, SignOff};
use crate::sign::{
    Envelope, Outcome, SigningKey, Statement, Subject, TestResult, VerifyingKey, verify_file,
};
use crate::verdict::campaign::{Campaign, Role};
use crate::verdict::{Decision, Overall};

/// Ending of the envelope that lies beside a report.
pub(super) const ENVELOPE: &str = ".dsse.json";
/// Name of the evidence in a statement.
const EVIDENCE: &str = "evidence";
/// Name of the report in a statement.
const REPORT: &str = "report";
/// Largest report that is read.
const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// Where the signature of a report lies.
pub(super) fn beside(report: &Path) -> PathBuf {
    let mut name = report.as_os_str().to_owned();
    name.push(ENVELOPE);
    name.into()
}

/// Signs a report that was just written; gives where the signature lies.
///
/// # Errors
/// When the key cannot be used or the signature not be written, in words.
pub(super) fn sign(
    report: &Path,
    text: &[u8],
    root: &str,
    campaign: &Campaign,
    key: &Path,
) -> Result<PathBuf, String> {
    let key = SigningKey::read(key).map_err(|error| with_causes(&error))?;
    let statement = statement(text, root, campaign)?;
    let envelope = Envelope::sign(&statement, &key).map_err(|error| with_causes(&error))?;
    let mut json = envelope.to_json().map_err(|error| with_causes(&error))?;
    if !json.ends_with('\n') {
        json.push('\n');
    }
    let path = beside(report);
    fs::write(&path, json).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}

/// What is stated of a report: the evidence, the report, and how each objective went.
fn statement(text: &[u8], root: &str, campaign: &Campaign) -> Result<Statement, String> {
    let subject =
        |name: &str, sha256: &str| Subject::new(name, sha256).map_err(|error| with_causes(&error));
    let (mut passed, mut warned, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for pool in &campaign.pools {
        let rows = pool.rows.iter().filter(|row| row.role != Role::Shown);
        for row in rows {
            let name = format!("{}/{row}", pool.name);
            let fails = row.comes_to(&pool.judging) != Overall::Pass;
            match row.verdict.decision {
                _ if fails => failed.push(name),
                Decision::Pass => passed.push(name),
                Decision::Violated | Decision::Inconclusive(_) => warned.push(name),
            }
        }
    }
    let result = match campaign.overall() {
        Overall::Pass if warned.is_empty() => Outcome::Passed,
        Overall::Pass => Outcome::Warned,
        Overall::Inconclusive | Overall::Violated | Overall::Nothing => Outcome::Failed,
    };
    Ok(Statement::new(
        vec![subject(EVIDENCE, root)?, Subject::of(REPORT, text)],
        TestResult {
            result,
            configuration: vec![subject(&campaign.spec, &campaign.spec_sha256)?],
            url: None,
            passed_tests: passed,
            warned_tests: warned,
            failed_tests: failed,
        },
    ))
}

/// A form of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Html,
    Markdown,
}

/// The form of a file by its name; `None` where it is no report.
fn form(path: &Path) -> Option<Form> {
    let name = path.file_name()?.to_string_lossy();
    if name.ends_with(ENVELOPE) {
        return None;
    }
    match path.extension()?.to_str()? {
        "json" => Some(Form::Json),
        "html" => Some(Form::Html),
        "md" => Some(Form::Markdown),
        _ => None,
    }
}

fn written(document: &SignOff, form: Form) -> io::Result<String> {
    Ok(match form {
        Form::Json => document.json()?,
        Form::Html => html::sign_off(document),
        Form::Markdown => signoff::markdown(document),
    })
}

/// What to check of a report.
pub(super) struct Question<'a> {
    /// The report.
    pub(super) report: &'a Path,
    /// Its form.
    pub(super) form: Form,
    /// Evidence, where it is at hand.
    pub(super) evidence: Vec<PathBuf>,
    /// Files of the keys that are trusted.
    pub(super) keys: &'a [PathBuf],
    /// The signature, where it does not lie beside the report.
    pub(super) signature: Option<&'a Path>,
    /// When the report was made, where it does not say so itself.
    pub(super) as_of: Option<u64>,
}

/// The report among files, and the others; `None` where there is no report among them.
pub(super) fn report_among(files: &[PathBuf]) -> Option<Question<'_>> {
    let (report, form) = files.iter().find_map(|file| Some((file, form(file)?)))?;
    let others = files.iter().filter(|file| *file != report);
    Some(Question {
        report,
        form,
        evidence: others.cloned().collect(),
        keys: &[],
        signature: None,
        as_of: None,
    })
}

/// Checks a report, and says what was checked and what was not.
///
/// # Errors
/// When that cannot be printed.
pub(super) fn verify(question: &Question<'_>, out: &mut dyn Write) -> io::Result<Exit> {
    let report = match bounded(question.report) {
        Ok(report) => report,
        Err(error) => {
            let name = question.report.display();
            return Ok(usage(&format!("cannot read {name}: {error}")));
        }
    };
    let name = question.report.display().to_string();
    let mut exit = Exit::Pass;
    let mut stated_root = None;
    if question.keys.is_empty() {
        writeln!(
            out,
            "{name}: signature not checked; name whom you trust with `--key`"
        )?;
    } else {
        let trusted = match trusted(question.keys) {
            Ok(trusted) => trusted,
            Err(mistake) => return Ok(usage(&mistake)),
        };
        let place = question
            .signature
            .map_or_else(|| beside(question.report), Path::to_owned);
        match verify_file(&place, &trusted) {
            Err(error) if error.is_refusal() => {
                writeln!(
                    out,
                    "{}: {}",
                    place.display(),
                    printable(&with_causes(&error))
                )?;
                exit = Exit::Violated;
            }
            Err(error) => return Ok(usage(&with_causes(&error))),
            Ok(verified) => {
                let signers: Vec<String> = verified.signers.iter().map(who).collect();
                writeln!(out, "{name}: signed by {}", printable(&signers.join(", ")))?;
                let is_this = verified
                    .statement
                    .subject(REPORT)
                    .is_some_and(|it| it.is_of(&report));
                if !is_this {
                    writeln!(out, "{name}: this is not the report that was signed")?;
                    exit = Exit::Violated;
                }
                let root = verified.statement.subject(EVIDENCE);
                stated_root = Some(root.map(|it| it.sha256().to_owned()));
            }
        }
    }
    if question.evidence.is_empty() {
        writeln!(
            out,
            "{name}: verdicts not made again; name the evidence, too"
        )?;
        return Ok(exit);
    }
    let again = match again(question, &report) {
        Ok(again) => again,
        Err(Again::Altered(what)) => {
            writeln!(out, "{}", printable(&what))?;
            return Ok(Exit::Violated);
        }
        Err(Again::Mistake(mistakes)) => {
            for mistake in mistakes {
                complain(&format!("error: {}", printable(&mistake)));
            }
            return Ok(Exit::Usage);
        }
    };
    match &stated_root {
        Some(Some(stated)) if *stated == again.root => {
            writeln!(out, "evidence root {stated}: as it was signed")?;
        }
        Some(stated) => {
            let stated = stated.as_deref().unwrap_or("nothing");
            writeln!(out, "evidence root {}: signed was {stated}", again.root)?;
            exit = Exit::Violated;
        }
        None => writeln!(out, "evidence root {}: whole", again.root)?,
    }
    if again.text.as_bytes() == report {
        writeln!(
            out,
            "{name}: the same again from the evidence, byte by byte"
        )?;
    } else {
        let line = first_difference(again.text.as_bytes(), &report);
        let version = env!("CARGO_PKG_VERSION");
        writeln!(
            out,
            "{name}:{line}: not what the evidence gives; another version of relayproof than {version} \
             may word it otherwise"
        )?;
        exit = Exit::Violated;
    }
    writeln!(out, "the evidence comes to: {}", again.overall)?;
    Ok(exit)
}

/// The report, made again.
struct Made {
    text: String,
    root: String,
    overall: Overall,
}

enum Again {
    Altered(String),
    Mistake(Vec<String>),
}

fn again(question: &Question<'_>, report: &[u8]) -> Result<Made, Again> {
    let mistake = |text: String| Again::Mistake(vec![text]);
    let files = match given(&question.evidence).map_err(mistake)? {
        Given::Soak(files) => files,
        Given::Runs => {
            let text = "only the report of a soak can be made again; these files are of no soak";
            return Err(mistake(text.to_owned()));
        }
    };
    let as_of = question.as_of.or_else(|| own_as_of(question.form, report));
    let Some(as_of) = as_of else {
        let text = "say as of when the report was made, as it says itself: `--as-of TIME`";
        return Err(mistake(text.to_owned()));
    };
    let soak = Soak::read(files, Some(as_of)).map_err(Again::Mistake)?;
    let (document, root) = soak.sign_off().map_err(Again::Altered)?;
    let text = written(&document, question.form).map_err(|error| mistake(error.to_string()))?;
    Ok(Made {
        text,
        root,
        overall: soak.campaign.overall(),
    })
}

/// As of when a report says that it was made.
fn own_as_of(form: Form, report: &[u8]) -> Option<u64> {
    if form != Form::Json {
        return None;
    }
    let document: serde_json::Value = serde_json::from_slice(report).ok()?;
    window::moment(document.get("as_of")?.as_str()?)
}

fn trusted(files: &[PathBuf]) -> Result<Vec<VerifyingKey>, String> {
    let mut keys = Vec::new();
    for file in files {
        keys.extend(VerifyingKey::read_all(file).map_err(|error| with_causes(&error))?);
    }
    Ok(keys)
}

fn who(key: &VerifyingKey) -> String {
    match key.comment() {
        "" => key.keyid().to_owned(),
        comment => format!("{comment} ({})", key.keyid()),
    }
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "no report is so long",
        ));
    }
    Ok(bytes)
}

/// The line, from 1, on which two texts begin to differ.
fn first_difference(one: &[u8], other: &[u8]) -> usize {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    1 + one.iter().take(same).filter(|byte| **byte == b'\n').count()
}

fn usage(mistake: &str) -> Exit {
    complain(&format!("error: {}", printable(mistake)));
    Exit::Usage
}
