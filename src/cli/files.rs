//! The evidence files that a command line means.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{complain, results};
use crate::evidence::check_all;

/// Ending of evidence files; in a folder, other files are left alone.
const EVIDENCE: &str = ".jsonl";
/// Ending of the spans that lie beside them.
const SPANS: &str = ".otlp.jsonl";

/// The evidence files that are meant, each once, in the order in which they were given, and what is
/// wrong with what was given.
///
/// A file that is named beside its folder is the same file.
pub(super) fn found(given: &[PathBuf]) -> (Vec<PathBuf>, Vec<String>) {
    let (mut files, mut mistakes) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    // `RUN/*.jsonl` is what anyone types, and the spans lie there too.
    for path in given.iter().filter(|path| !is_spans(path)) {
        match in_place(path) {
            Ok(inside) if inside.is_empty() => mistakes.push(nothing_in(path)),
            Ok(_) if is_spec(path) => mistakes.push(format!(
                "{}: a spec is no evidence; `relayproof run` makes some of it",
                path.display()
            )),
            Ok(inside) => files.extend(inside.into_iter().filter(|file| {
                let real = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
                seen.insert(real)
            })),
            Err(error) => mistakes.push(format!("cannot read {}: {error}", path.display())),
        }
    }
    (files, mistakes)
}

/// The evidence files that are meant, where nothing is wrong and there is one at least.
///
/// # Errors
/// The first thing that is wrong, in words.
pub(super) fn all(given: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let (files, mistakes) = found(given);
    match mistakes.into_iter().next() {
        Some(mistake) => Err(mistake),
        None if files.is_empty() => Err("no evidence among these files".to_owned()),
        None => Ok(files),
    }
}

/// The file itself, or the evidence files of a folder by name.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn in_place(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let is_evidence = file.to_string_lossy().ends_with(EVIDENCE);
        if is_evidence && !is_spans(&file) && file.is_file() {
            files.push(file);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Where runs lie that nobody named a place for: in the target folder, as for `cargo test`.
pub(super) fn runs() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").filter(|it| !it.is_empty());
    PathBuf::from(target.unwrap_or_else(|| "target".into())).join("relayproof")
}

/// Warns of files that are not as they were written: what is made of them says what somebody wants.
pub(super) fn warn_of_altered(files: &[PathBuf]) {
    // What cannot be read is told by whoever reads it.
    for file in check_all(files, 1).files.iter().filter(|it| !it.is_whole()) {
        let name = file.path.display();
        complain(&results::printable(&format!(
            "warning: {name}: altered evidence; `relayproof verify` says where"
        )));
    }
}

/// What is said of a folder without evidence.
fn nothing_in(folder: &Path) -> String {
    let mut said = format!("{}: no evidence (*{EVIDENCE}) in it", folder.display());
    let inside = fs::read_dir(folder).into_iter().flatten().flatten();
    // The folder of all runs is named sooner or later.
    let holds = |path: &PathBuf| path.is_dir() && in_place(path).is_ok_and(|it| !it.is_empty());
    if let Some(one) = inside.map(|entry| entry.path()).filter(holds).max() {
        let one = one.display();
        said.push_str(&format!("; name a folder of those in it, like {one}"));
    }
    said
}

fn is_spec(path: &Path) -> bool {
    let ending = path.extension().and_then(|it| it.to_str());
    matches!(ending, Some("yaml" | "yml")) && path.is_file()
}

fn is_spans(path: &Path) -> bool {
    path.to_string_lossy().ends_with(SPANS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_its_folder_is_one_and_spans_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["b.jsonl", "a.jsonl", "a.otlp.jsonl", "notes.txt"] {
            fs::write(at(name), "").unwrap();
        }
        let given = [
            at("b.jsonl"),
            folder.path().to_owned(),
            at("a.otlp.jsonl"),
            at("b.jsonl"),
        ];
        let both = vec![at("b.jsonl"), at("a.jsonl")];
        assert_eq!(found(&given), (both.clone(), Vec::new()));
        assert_eq!(all(&given), Ok(both));
    }

    #[test]
    fn a_folder_of_runs_and_a_spec_are_told_from_evidence() {
        let runs = tempfile::tempdir().unwrap();
        let at = |name: &str| runs.path().join(name);
        for run in ["1", "2", "3"] {
            fs::create_dir(at(run)).unwrap();
        }
        fs::write(at("2/a.jsonl"), "").unwrap();
        fs::write(at("s.yaml"), "").unwrap();
        let said = found(&[runs.path().to_owned(), at("s.yaml")]).1;
        let place = at("2");
        assert!(
            said[0].ends_with(&format!("like {}", place.display())),
            "{said:?}"
        );
        assert!(said[1].contains("`relayproof run`"), "{said:?}");
    }

    #[test]
    fn a_folder_without_evidence_is_a_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let given = [folder.path().to_owned()];
        let mistake = format!("{}: no evidence (*.jsonl) in it", given[0].display());
        assert_eq!(found(&given), (Vec::new(), vec![mistake.clone()]));
        assert_eq!(all(&given), Err(mistake));
        let spans = [given[0].join("a.otlp.jsonl")];
        assert_eq!(all(&spans), Err("no evidence among these files".to_owned()));
    }
}
