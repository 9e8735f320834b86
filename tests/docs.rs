//! The documentation beside the code: tables, specs and commands in it are right.
//!
//! `UPDATE_GOLDEN=1 cargo test --test docs` writes the tables anew.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it must be"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use relayproof::resolve::resolve;
use relayproof::spec::{self, schema};
use relayproof::{cli, glossary};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page: those at the root and those of `docs`.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in [
        root().to_owned(),
        root().join("docs"),
        root().join("docs/decisions"),
    ] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|it| it == "md") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found.sort();
    assert!(found.len() >= 12, "{} pages", found.len());
    found
}

/// The fenced blocks in one of these languages, with the line each begins at.
fn blocks(text: &str, languages: &[&str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String, bool)> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some((number + 2, String::new(), languages.contains(&language)));
            }
            (Some(_), Some(_)) => {
                let (line, block, wanted) = open.take().unwrap();
                if wanted {
                    found.push((line, block));
                }
            }
            (Some((_, block, _)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

const OPEN: &str = "<!-- made from the code: ";
const END: &str = "<!-- end -->\n";

fn made(name: &str) -> String {
    let made = match name.strip_prefix("spec") {
        Some(place) => schema::table(place.trim()),
        None if name == "objectives" => Some(schema::objectives()),
        None => glossary::table(name),
    };
    made.unwrap_or_else(|| panic!("nothing makes a table called `{name}`"))
}

#[test]
fn every_table_that_is_made_from_the_code_is_as_the_code_has_it() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let (mut seen, mut stale) = (Vec::new(), Vec::new());
    for (path, text) in pages() {
        let mut parts = text.split(OPEN);
        let mut now = parts.next().unwrap().to_owned();
        for part in parts {
            let (name, rest) = part.split_once(" -->\n").unwrap();
            let (_, rest) = rest.split_once(END).unwrap();
            now.push_str(&format!("{OPEN}{name} -->\n{}{END}{rest}", made(name)));
            seen.push(name.to_owned());
        }
        if now != text && update {
            fs::write(&path, &now).unwrap();
        } else if now != text {
            stale.push(path.display().to_string());
        }
    }
    assert!(
        stale.is_empty(),
        "UPDATE_GOLDEN=1 cargo test --test docs; stale: {stale:?}"
    );
    for name in [
        "spec",
        "spec relays[]",
        "spec judge",
        "metrics",
        "classes",
        "rules",
        "reasons",
    ] {
        assert!(
            seen.iter().any(|it| it.trim() == name),
            "no page has the table `{name}`"
        );
    }
}

fn check(text: &str) -> Result<(), String> {
    let spec = spec::parse("block.yaml", text, &|_| None).map_err(|it| it.render(false))?;
    for profile in spec.profiles() {
        resolve(&spec, Some(profile)).map_err(|it| it.render(false))?;
    }
    resolve(&spec, None)
        .map(|_| ())
        .map_err(|it| it.render(false))
}

#[test]
fn every_yaml_block_is_yaml_and_every_whole_spec_is_right() {
    let (mut specs, mut wrong) = (0, Vec::new());
    for (path, text) in pages() {
        for (line, block) in blocks(&text, &["yaml"]) {
            let place = format!("{}:{line}", path.display());
            let parsed: Result<Option<serde_json::Value>, _> = serde_yaml::from_str(&block);
            if let Err(error) = parsed {
                wrong.push(format!("{place}: {error}"));
            } else if block.contains("relayproof: 1\n") {
                specs += 1;
                if let Err(errors) = check(&block) {
                    wrong.push(format!("{place}:\n{errors}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(specs >= 3, "only {specs} whole specs in all pages");
}

/// The commands of a line as a shell splits them: words, quotes taken off, comments and redirections
/// left out.
fn split(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' | '\'' => {
                let inside: String = letters.by_ref().take_while(|c| *c != letter).collect();
                word.get_or_insert_default().push_str(&inside);
            }
            '#' if word.is_none() => break,
            '|' | ';' | '&' | '>' => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    commands.push(words);
    commands
}

/// The arguments of each call of relayproof in a block.
fn commands(block: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let joined = block.replace("\\\n", " ");
    for line in joined.lines() {
        for words in split(line.trim_start_matches("$ ")) {
            let words: Vec<&str> = words
                .iter()
                .map(String::as_str)
                .skip_while(|word| word.contains('=') && !word.starts_with('-'))
                .collect();
            let arguments = match words.as_slice() {
                ["relayproof", rest @ ..] | ["cargo", "relayproof", rest @ ..] => rest,
                ["cargo", "run", rest @ ..] if !rest.contains(&"--example") => {
                    match rest.iter().position(|word| *word == "--") {
                        Some(at) => &rest[at + 1..],
                        None => continue,
                    }
                }
                _ => continue,
            };
            found.push(arguments.iter().map(|word| (*word).to_owned()).collect());
        }
    }
    found
}

#[test]
fn words_are_split_as_a_shell_splits_them() {
    let block = "A=b relayproof explain \"ttft.p95 < 1.5s\" > x # why\n$ cargo run -- check a \\\n  b && ls\n";
    assert_eq!(
        commands(block),
        [vec!["explain", "ttft.p95 < 1.5s"], vec!["check", "a", "b"]]
    );
}

#[test]
fn every_command_line_of_the_documentation_is_understood() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (path, text) in pages() {
        for (line, block) in blocks(&text, &["sh", "console", "bash"]) {
            for command in commands(&block) {
                seen += 1;
                if let Err(error) = cli::understands(&command) {
                    wrong.push(format!("{}:{line}: {command:?}\n{error}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 5, "only {seen} command lines found");
}

#[test]
fn the_cheap_commands_of_the_documentation_run() {
    let mut seen = 0;
    for (path, text) in pages() {
        for (line, block) in blocks(&text, &["sh", "console", "bash"]) {
            for command in commands(&block) {
                let first = command.first().map_or("", String::as_str);
                let names_files = command.iter().any(|word| word.ends_with(".yaml"));
                let here = command
                    .iter()
                    .filter(|word| word.ends_with(".yaml"))
                    .all(|word| root().join(word).exists());
                let writes = command.iter().any(|word| word == "--out");
                let cheap = matches!(first, "explain" | "schema") || names_files && here;
                if !cheap || writes || !matches!(first, "check" | "plan" | "explain" | "schema") {
                    continue;
                }
                seen += 1;
                let ran = Command::new(env!("CARGO_BIN_EXE_relayproof"))
                    .args(&command)
                    .current_dir(root())
                    .env_remove("RELAYPROOF_PROFILE")
                    .output()
                    .unwrap();
                assert!(
                    ran.status.success(),
                    "{}:{line}: {command:?}\n{}",
                    path.display(),
                    String::from_utf8_lossy(&ran.stderr)
                );
            }
        }
    }
    assert!(seen >= 2, "only {seen} of them ran");
}

/// A name in code marks of a page is one that `explain` knows.
#[test]
fn every_name_is_explained_and_no_two_things_of_a_kind_share_one() {
    let entries = glossary::entries();
    for (i, one) in entries.iter().enumerate() {
        assert!(!one.facts.is_empty(), "{}", one.name);
        assert!(
            !entries[..i]
                .iter()
                .any(|other| (other.kind, other.name) == (one.kind, one.name)),
            "{} is there twice",
            one.name
        );
        assert!(root().join(one.page).is_file(), "{}", one.page);
    }
}
