//! Signing the report of a soak, and checking one: its signature, its evidence, and its verdicts,
//! which are made again.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::results::{self, printable};
use super::soak::{Given, Page, Soak, given};
use super::with_causes;
use crate::plan::window;
use crate::run::collect::PLAN_OF_FOLDER;
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

/// The form of a report by the name of its file; `None` where that is no report's name.
fn form(path: &Path) -> Option<Page> {
    let name = path.file_name()?.to_str()?;
    // A collector leaves that beside its evidence, and `FOLDER/*` is what anyone types.
    if name.ends_with(ENVELOPE) || name == PLAN_OF_FOLDER {
        return None;
    }
    match path.extension()?.to_str()? {
        "json" => Some(Page::Json),
        "html" => Some(Page::Html),
        "md" => Some(Page::Markdown),
        _ => None,
    }
}

/// What to check of a report.
pub(super) struct Question<'a> {
    /// The report.
    pub(super) report: &'a Path,
    /// Its form.
    pub(super) form: Page,
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

/// What was found of a report; what is absent was not checked.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    report: String,
    /// Trusted keys that signed it.
    signed_by: Option<Vec<String>>,
    /// Why the signature is not believed.
    signature_refused: Option<String>,
    /// Whether it is this report that they signed.
    report_as_signed: Option<bool>,
    /// Root of the evidence at hand.
    evidence_root: Option<String>,
    /// Root that was signed.
    signed_root: Option<String>,
    /// What is wrong with the evidence.
    evidence_altered: Option<String>,
    /// Whether the evidence gives this report, byte by byte.
    same_again: Option<bool>,
    /// Line, from 1, on which it begins to differ.
    differs_at_line: Option<usize>,
    /// What the evidence comes to.
    overall: Option<Overall>,
}

impl Found {
    /// Whether nothing that was checked speaks against the report.
    pub(super) fn fits(&self) -> bool {
        self.signature_refused.is_none()
            && self.report_as_signed != Some(false)
            && self.evidence_altered.is_none()
            && self.root_as_signed() != Some(false)
            && self.same_again != Some(false)
    }

    /// Whether the evidence at hand is what was signed; `None` where one of the two is not known.
    fn root_as_signed(&self) -> Option<bool> {
        self.signed_by.as_ref()?;
        let root = self.evidence_root.as_ref()?;
        Some(self.signed_root.as_ref() == Some(root))
    }
}

/// Checks a report.
///
/// # Errors
/// When something cannot be read or used, which says nothing of the report; each in words.
pub(super) fn verify(question: &Question<'_>) -> Result<Found, Vec<String>> {
    let name = question.report.display().to_string();
    let cannot = |error: io::Error| vec![format!("cannot read {name}: {error}")];
    let report = bounded(question.report).map_err(cannot)?;
    let mut found = Found {
        report: name.clone(),
        signed_by: None,
        signature_refused: None,
        report_as_signed: None,
        evidence_root: None,
        signed_root: None,
        evidence_altered: None,
        same_again: None,
        differs_at_line: None,
        overall: None,
    };
    if !question.keys.is_empty() {
        signature(question, &report, &mut found).map_err(|mistake| vec![mistake])?;
    }
    if !question.evidence.is_empty() {
        match again(question, &report) {
            Ok(made) => {
                let same = made.text.as_bytes() == report;
                found.same_again = Some(same);
                found.differs_at_line =
                    (!same).then(|| first_difference(made.text.as_bytes(), &report));
                found.evidence_root = Some(made.root);
                found.overall = Some(made.overall);
            }
            Err(Again::Altered(what)) => found.evidence_altered = Some(what),
            Err(Again::Mistake(mistakes)) => return Err(mistakes),
        }
    }
    Ok(found)
}

fn signature(question: &Question<'_>, report: &[u8], found: &mut Found) -> Result<(), String> {
    let trusted = trusted(question.keys)?;
    let place = question
        .signature
        .map_or_else(|| beside(question.report), Path::to_owned);
    match verify_file(&place, &trusted) {
        Err(error) if error.is_refusal() => {
            let why = with_causes(&error);
            found.signature_refused = Some(format!("{}: {why}", place.display()));
        }
        Err(error) => return Err(with_causes(&error)),
        Ok(verified) => {
            let statement = &verified.statement;
            let is_this = statement.subject(REPORT).is_some_and(|it| it.is_of(report));
            found.report_as_signed = Some(is_this);
            let root = statement.subject(EVIDENCE);
            found.signed_root = root.map(|it| it.sha256().to_owned());
            found.signed_by = Some(verified.signers.iter().map(who).collect());
        }
    }
    Ok(())
}

/// Says what was checked, and what was not.
///
/// # Errors
/// When that cannot be printed.
pub(super) fn text(found: &Found, out: &mut dyn Write) -> io::Result<()> {
    let name = &found.report;
    let mut lines = Vec::new();
    match (&found.signed_by, &found.signature_refused) {
        (Some(signers), _) => lines.push(format!("{name}: signed by {}", signers.join(", "))),
        (None, Some(why)) => lines.push(why.clone()),
        (None, None) => lines.push(format!(
            "{name}: signature not checked; name whom you trust with `--key`"
        )),
    }
    if found.report_as_signed == Some(false) {
        lines.push(format!("{name}: this is not the report that was signed"));
    }
    lines.extend(found.evidence_altered.clone());
    if let Some(root) = &found.evidence_root {
        let standing = match found.root_as_signed() {
            Some(true) => "as it was signed".to_owned(),
            Some(false) => {
                let signed = found.signed_root.as_deref().unwrap_or("nothing");
                format!("signed was {signed}")
            }
            None => "whole".to_owned(),
        };
        lines.push(format!("evidence root {root}: {standing}"));
    }
    match (found.same_again, found.differs_at_line) {
        (Some(true), _) => lines.push(format!(
            "{name}: the same again from the evidence, byte by byte"
        )),
        (Some(false), line) => lines.push(format!(
            "{name}:{}: not what the evidence gives; another version of relayproof than {} may \
             word it otherwise",
            line.unwrap_or(1),
            env!("CARGO_PKG_VERSION"),
        )),
        (None, _) if found.evidence_altered.is_none() => lines.push(format!(
            "{name}: verdicts not made again; name the evidence, too"
        )),
        (None, _) => {}
    }
    if let Some(overall) = found.overall {
        lines.push(format!("the evidence comes to: {overall}"));
    }
    for line in lines {
        writeln!(out, "{}", printable(&line))?;
    }
    Ok(())
}

/// The same for programs.
///
/// # Errors
/// When it cannot be printed.
pub(super) fn json(found: &Found, out: &mut dyn Write) -> io::Result<()> {
    let mut document = serde_json::to_value(found)?;
    document["schema"] = 1.into();
    document["kind"] = "report".into();
    document["fits"] = found.fits().into();
    document["root_as_signed"] = found.root_as_signed().into();
    results::json(&document, out)
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
    // Of a soak that is over the report is the same at any time.
    let as_of = question.as_of.or_else(|| own_as_of(question.form, report));
    let soak = Soak::read(files, as_of).map_err(Again::Mistake)?;
    if as_of.is_none() && !soak.campaign.is_final {
        let text = "the soak is not over: say as of when the report was made, as it says itself: \
                    `--as-of TIME`";
        return Err(mistake(text.to_owned()));
    }
    let (document, root) = soak.sign_off().map_err(Again::Altered)?;
    let text = question.form.write(&document);
    let text = text.map_err(|error| mistake(error.to_string()))?;
    Ok(Made {
        text,
        root,
        overall: soak.campaign.overall(),
    })
}

/// As of when a report says that it was made.
fn own_as_of(form: Page, report: &[u8]) -> Option<u64> {
    if form != Page::Json {
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
