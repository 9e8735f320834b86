//! `init`: what it makes, what it leaves alone, and what it refuses.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use toml_edit::DocumentMut;

use crate::place::{Place, Seen, files_below};

const MANIFEST: &str =
    "# Ours.\n[package]\nname = \"chat\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// The folder of this crate: a clone, as a user would have one.
const CLONE: &str = env!("CARGO_MANIFEST_DIR");

fn package() -> Place {
    let place = Place::new();
    place.write("Cargo.toml", MANIFEST);
    fs::create_dir(place.path().join("src")).unwrap();
    place.write("src/lib.rs", "");
    place
}

/// `init` where `cargo` can be asked.
fn init(place: &Place, arguments: &[&str]) -> Seen {
    let mut command: Command = place.command(&["init"]);
    command.args(arguments).env("CARGO", env!("CARGO"));
    for name in [
        "PATH",
        "HOME",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
    ] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    Seen::of(command.output().unwrap())
}

fn text(place: &Place, name: &str) -> String {
    fs::read_to_string(place.path().join(name)).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}

fn toml(text: &str) -> DocumentMut {
    text.parse().unwrap()
}

/// All files below a folder, by name and text.
fn everything(folder: &Path) -> Vec<(String, String)> {
    let mut all: Vec<_> = files_below(folder)
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_package_gets_all_that_it_needs_and_each_file_is_named() {
    let place = package();
    let seen = init(&place, &["--ci", "github", "--relayproof-path", CLONE]);
    seen.exits(0);
    let made = [
        "specs/relay.yaml",
        "specs/embedded.yaml",
        "tests/acceptance.rs",
        ".config/nextest.toml",
        ".github/workflows/relayproof.yml",
    ];
    for name in made {
        assert!(place.path().join(name).is_file(), "{name}");
        let line = seen.out.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.starts_with("made "), "{line}");
    }
    seen.says("changed       Cargo.toml")
        .says("Next:")
        .says("cargo test --test acceptance");
    assert_eq!(everything(place.path()).len(), made.len() + 2);

    let manifest = text(&place, "Cargo.toml");
    assert!(manifest.starts_with(MANIFEST), "{manifest}");
    let manifest = toml(&manifest);
    let dependency = &manifest["dev-dependencies"]["relayproof"];
    assert_eq!(dependency["path"].as_str(), Some(CLONE));
    assert_eq!(manifest["test"][0]["name"].as_str(), Some("acceptance"));
    assert_eq!(manifest["test"][0]["harness"].as_bool(), Some(false));
    assert!(text(&place, "tests/acceptance.rs").contains("relayproof::main(\"specs\")"));
}

#[test]
fn the_specs_it_makes_are_right_and_the_embedded_relay_passes() {
    let place = Place::new();
    init(&place, &["--spec-only"])
        .exits(0)
        .says("relayproof run specs/embedded.yaml");
    place
        .run(&["check", "specs/relay.yaml", "specs/embedded.yaml"])
        .exits(0)
        .says("3 objectives each, profiles pr");
    place.run(&["run", "specs/embedded.yaml"]).passes();
    // Without a key there is nothing to measure, and it is said which one.
    place
        .run(&["run", "specs/relay.yaml"])
        .exits(4)
        .complains("RELAYPROOF_API_KEY is not set");
    let lines = text(&place, "specs/relay.yaml").lines().count();
    assert!(lines <= 15, "{lines} lines are no start for anybody");
}

#[test]
fn a_second_time_changes_nothing() {
    let place = package();
    let arguments = ["--ci", "github", "--relayproof-path", CLONE];
    init(&place, &arguments).exits(0);
    let before = everything(place.path());
    let seen = init(&place, &arguments);
    let fates = |seen: &Seen| -> Vec<String> {
        let first = |line: &str| {
            line.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        seen.out
            .lines()
            .take_while(|line| !line.is_empty())
            .map(first)
            .collect()
    };
    assert_eq!(fates(seen.exits(0)), vec!["kept"; 6]);
    let seen = init(
        &place,
        &["--force", "--ci", "github", "--relayproof-path", CLONE],
    );
    assert_eq!(fates(seen.exits(0)), vec!["kept"; 6]);
    assert_eq!(everything(place.path()), before);
}

#[test]
fn files_that_are_there_stay_unless_the_user_gives_them_up() {
    let place = package();
    for folder in ["specs", "tests", ".config", ".github/workflows"] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
    }
    let theirs = [
        ("specs/relay.yaml", "relayproof: 1\n"),
        (
            "tests/acceptance.rs",
            "fn main() -> std::process::ExitCode { relayproof::main(\"x\") }\n",
        ),
        (".config/nextest.toml", "[profile.default]\nretries = 2\n"),
        (".github/workflows/relayproof.yml", "on: push\n"),
    ];
    for (name, text) in theirs {
        place.write(name, text);
    }
    let arguments = ["--ci", "github", "--relayproof-path", CLONE];
    let seen = init(&place, &arguments);
    seen.exits(0);
    for (name, words) in theirs {
        assert_eq!(text(&place, name), words);
        let line = seen.out.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.starts_with("kept "), "{line}");
    }
    // A spec of theirs is test enough, and a configuration that lacks our lines is named with them.
    assert!(!place.path().join("specs/embedded.yaml").exists());
    seen.says("To be added to .config/nextest.toml by you:")
        .says("  test-group = 'relayproof'");

    let with_force = [&arguments[..], &["--force"]].concat();
    let dry = init(&place, &[&with_force[..], &["--dry-run"]].concat());
    dry.exits(0).says("Nothing was written.");
    for (name, words) in theirs {
        let line = dry.out.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.starts_with("would replace "), "{line}");
        assert_eq!(text(&place, name), words);
    }
    init(&place, &with_force).exits(0);
    for (name, words) in theirs {
        assert_ne!(text(&place, name), words, "{name}");
    }
}

#[test]
fn a_dry_run_says_what_would_be_made_and_writes_nothing() {
    let place = package();
    let before = everything(place.path());
    init(&place, &["--ci", "gitlab", "--dry-run"])
        .exits(0)
        .says("would make    specs/relay.yaml")
        .says("would change  Cargo.toml")
        .says("Nothing was written.");
    assert_eq!(everything(place.path()), before);
}

#[test]
fn without_a_package_there_is_a_way_out() {
    let place = Place::new();
    init(&place, &[])
        .exits(2)
        .complains("there is no Cargo package in .")
        .complains("--spec-only");
    init(&place, &["--dir", "nowhere"])
        .exits(2)
        .complains("nowhere");
    place.write("Cargo.toml", "[workspace]\nmembers = []\n");
    init(&place, &[])
        .exits(2)
        .complains("has no package")
        .complains("--dir");
    place.write("Cargo.toml", "[package\n");
    init(&place, &[]).exits(2).complains("is no TOML");
    assert_eq!(files_below(place.path()).len(), 1, "nothing was made");
}

#[test]
fn a_test_of_that_name_with_another_main_is_not_taken_over() {
    let place = package();
    fs::create_dir(place.path().join("tests")).unwrap();
    place.write("tests/acceptance.rs", "#[test]\nfn one() {}\n");
    init(&place, &[])
        .exits(2)
        .complains("tests/acceptance.rs is there")
        .complains("--test NAME");
    init(&place, &["--test", "../x"]).exits(2);
    init(&place, &["--test", "relay"]).exits(0);
    let manifest = toml(&text(&place, "Cargo.toml"));
    assert_eq!(manifest["test"][0]["name"].as_str(), Some("relay"));
    assert!(text(&place, ".config/nextest.toml").contains("binary(=relay)"));
    assert_eq!(
        text(&place, "tests/acceptance.rs"),
        "#[test]\nfn one() {}\n"
    );
}

#[test]
fn where_relayproof_comes_from_is_said_as_the_manifest_needs_it() {
    let dependency = |place: &Place| {
        toml(&text(place, "Cargo.toml"))["dev-dependencies"]["relayproof"].to_string()
    };
    let place = package();
    init(&place, &[]).exits(0).says("is not released yet");
    assert!(dependency(&place).contains("version = \""));
    // Told where it is, it says so, and a folder is seen from the package.
    std::os::unix::fs::symlink(CLONE, place.path().join("clone")).unwrap();
    let seen = init(&place, &["--relayproof-path", "clone"]);
    assert!(!seen.exits(0).out.contains("not released"), "{seen}");
    assert!(
        dependency(&place).contains("path = \"../"),
        "{}",
        dependency(&place)
    );
    init(
        &place,
        &["--relayproof-git", "https://git.example/relayproof"],
    )
    .exits(0);
    assert!(dependency(&place).contains("git = \"https://git.example/relayproof\""));
    init(&place, &["--relayproof-path", "src"])
        .exits(2)
        .complains("src is not relayproof's folder");
}

#[test]
fn a_member_of_a_workspace_gets_its_files_where_each_tool_looks() {
    let place = Place::new();
    for folder in [".git", "rust/chat/src"] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
    }
    place
        .write(
            "rust/Cargo.toml",
            "[workspace]\nmembers = [\"chat\"]\nresolver = \"3\"\n",
        )
        .write("rust/chat/Cargo.toml", MANIFEST)
        .write("rust/chat/src/lib.rs", "");
    init(&place, &["--dir", "rust/chat", "--ci", "github"])
        .exits(0)
        .says("rust/.config/nextest.toml")
        .says("cargo test -p chat --test acceptance");
    assert!(place.path().join("rust/chat/specs/relay.yaml").is_file());
    let workflow = yaml(&text(&place, ".github/workflows/relayproof.yml"));
    let job = &workflow["jobs"]["acceptance"];
    assert_eq!(job["defaults"]["run"]["working-directory"], "rust");
    let steps = job["steps"].as_array().unwrap();
    let runs: Vec<_> = steps
        .iter()
        .filter_map(|step| step["run"].as_str())
        .collect();
    assert!(
        runs.contains(&"cargo test -p chat --test acceptance"),
        "{runs:?}"
    );
    let paths: Vec<_> = steps
        .iter()
        .filter_map(|step| step["with"]["path"].as_str())
        .collect();
    assert_eq!(paths, ["rust/target/relayproof/"]);
    assert!(text(&place, "rust/.config/nextest.toml").contains("package(=chat)"));
    init(&place, &["--dir", "rust/chat", "--ci", "gitlab"]).exits(0);
    let pipeline = yaml(&text(&place, ".gitlab-ci.yml"));
    assert_eq!(pipeline["relayproof"]["script"][0], "cd rust");
}

#[test]
fn the_github_workflow_has_the_key_as_a_secret_and_keeps_the_evidence() {
    let place = package();
    init(&place, &["--ci", "github"]).exits(0);
    let words = text(&place, ".github/workflows/relayproof.yml");
    assert!(!words.contains('@') || !words.contains("@ARG"), "{words}");
    let workflow = yaml(&words);
    assert!(workflow["on"]["schedule"][0]["cron"].is_string());
    assert!(
        workflow["on"]
            .as_object()
            .unwrap()
            .contains_key("pull_request")
    );
    assert_eq!(workflow["permissions"]["contents"], "read");
    let job = &workflow["jobs"]["acceptance"];
    assert!(job["timeout-minutes"].is_number());
    assert_eq!(
        job["env"]["RELAYPROOF_API_KEY"],
        "${{ secrets.RELAYPROOF_API_KEY }}"
    );
    let steps = job["steps"].as_array().unwrap();
    for step in steps {
        if let Some(action) = step["uses"].as_str() {
            let (_, version) = action.split_once('@').unwrap();
            let major = version.strip_prefix('v').unwrap();
            assert!(
                major.parse::<u32>().is_ok(),
                "{action} is not pinned to a major version"
            );
        }
    }
    let kept = steps.last().unwrap();
    assert_eq!(kept["if"], "always()");
    assert_eq!(kept["with"]["path"], "target/relayproof/");
}

#[test]
fn a_pipeline_of_gitlab_that_is_there_gets_a_file_to_include() {
    let place = package();
    init(&place, &["--ci", "gitlab"])
        .exits(0)
        .says(".gitlab-ci.yml");
    let ours = text(&place, ".gitlab-ci.yml");
    let job = &yaml(&ours)["relayproof"];
    assert_eq!(job["retry"], 0);
    assert_eq!(job["artifacts"]["when"], "always");
    assert_eq!(
        job["script"],
        serde_json::json!(["cargo test --test acceptance"])
    );

    let theirs = "stages: [test]\n";
    place.write(".gitlab-ci.yml", theirs);
    init(&place, &["--ci", "gitlab", "--force"])
        .exits(0)
        .says("To be added to .gitlab-ci.yml by you:")
        .says("  - local: .gitlab/relayproof.gitlab-ci.yml");
    assert_eq!(text(&place, ".gitlab-ci.yml"), theirs);
    assert_eq!(text(&place, ".gitlab/relayproof.gitlab-ci.yml"), ours);
    let included = format!("{theirs}include:\n  - local: .gitlab/relayproof.gitlab-ci.yml\n");
    place.write(".gitlab-ci.yml", &included);
    let seen = init(&place, &["--ci", "gitlab"]);
    assert!(!seen.exits(0).out.contains("To be added"), "{seen}");
}

#[test]
fn the_nextest_profile_lets_one_test_of_ours_run_at_a_time_and_none_twice() {
    let place = package();
    init(&place, &[]).exits(0);
    let config = toml(&text(&place, ".config/nextest.toml"));
    assert_eq!(
        config["test-groups"]["relayproof"]["max-threads"].as_integer(),
        Some(1)
    );
    let rule = &config["profile"]["default"]["overrides"][0];
    assert_eq!(rule["test-group"].as_str(), Some("relayproof"));
    assert_eq!(rule["retries"].as_integer(), Some(0));
    assert_eq!(
        rule["filter"].as_str(),
        Some("package(=chat) & binary(=acceptance)")
    );
    assert!(rule["slow-timeout"]["terminate-after"].is_integer());
    assert_eq!(
        config["profile"]["relay"]["junit"]["path"].as_str(),
        Some("junit.xml")
    );
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_package_as_it_was() {
    let place = package();
    place.write(".config", "a file where a folder has to be");
    let before = everything(place.path());
    init(&place, &[]).exits(4).complains("nothing was changed");
    assert_eq!(everything(place.path()), before);
}

/// The first block of that language below a heading of docs/ci.md.
fn block(heading: &str, language: &str) -> String {
    let page = fs::read_to_string(Path::new(CLONE).join("docs/ci.md")).unwrap();
    let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let block = section.split(&format!("```{language}\n")).nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

#[test]
fn the_recipes_in_the_documentation_are_what_init_writes() {
    let place = package();
    for service in ["github", "gitlab"] {
        init(&place, &["--ci", service]).exits(0);
    }
    let written = |name: &str| yaml(&text(&place, name));
    assert_eq!(
        yaml(&block("GitHub Actions", "yaml")),
        written(".github/workflows/relayproof.yml")
    );
    assert_eq!(yaml(&block("GitLab", "yaml")), written(".gitlab-ci.yml"));
    let plain = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim);
        let told = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        told.map(str::to_owned).collect()
    };
    assert_eq!(
        plain(&block("cargo-nextest", "toml")),
        plain(&text(&place, ".config/nextest.toml"))
    );
}
