//! Specs as users write them: what is read, what is refused, and in which words.

use std::fs;
use std::path::{Path, PathBuf};

use relayproof::plan::{self, Plan};
use relayproof::spec::{self, SpecErrors};

/// Environment of every spec here.
fn env(name: &str) -> Option<String> {
    match name {
        "SPEC_TEST_RATE" => Some("30/min".to_owned()),
        "SPEC_TEST_SECRET" => Some("sk-from-the-environment".to_owned()),
        _ => None,
    }
}

/// Reads and resolves, as `relayproof check` does: the spec itself, then each of its profiles.
fn check(path: &str, text: &str) -> Result<Plan, SpecErrors> {
    let spec = spec::parse(path, text, &env)?;
    for profile in spec.profiles() {
        plan::resolve(&spec, Some(profile))?;
    }
    plan::resolve(&spec, None)
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn yaml_files(name: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no specs in {name}");
    files
}

#[test]
fn every_spec_of_this_repository_is_right() {
    for name in ["specs", "examples/consumer/specs", "tests/data/specs/good"] {
        for path in yaml_files(name) {
            let text = fs::read_to_string(&path).unwrap();
            let shown = path.file_name().unwrap().to_str().unwrap();
            if let Err(errors) = check(shown, &text) {
                panic!("{}\n{}", path.display(), errors.render(false));
            }
        }
    }
}

/// `UPDATE_GOLDEN=1 cargo test --test spec` writes what is said now; read the difference.
#[test]
fn every_mistake_is_said_in_the_words_on_file() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for path in yaml_files("tests/data/specs/bad") {
        let text = fs::read_to_string(&path).unwrap();
        let shown = path.file_name().unwrap().to_str().unwrap();
        let said = match check(shown, &text) {
            Ok(_) => panic!("{} has no mistake", path.display()),
            Err(errors) => errors.render(false),
        };
        let golden = path.with_extension("txt");
        if update {
            fs::write(&golden, &said).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != said {
            wrong.push(format!("{}:\n{said}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
