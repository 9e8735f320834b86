//! `completions`, `man`, and the command under its name for Cargo.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::place::{Place, Seen};

const COMMANDS: [&str; 4] = ["init", "probe", "simulate", "completions"];

/// A program of the system with some input; nothing where it is not installed.
fn system(program: &str, arguments: &[&str], input: &str) -> Option<Output> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(input.as_bytes()).unwrap();
    drop(pipe);
    Some(child.wait_with_output().unwrap())
}

#[test]
fn each_shell_gets_completions_that_name_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let seen = place.run(&["completions", shell]);
        seen.exits(0);
        for command in COMMANDS {
            seen.says(command);
        }
    }
    place
        .run(&["completions", "tcsh"])
        .exits(2)
        .complains("tcsh");
}

#[test]
fn bash_reads_its_completions_and_completes_a_command() {
    let place = Place::new();
    let script = place.run(&["completions", "bash"]).out;
    let script = script
        + "\nCOMP_WORDS=(relayproof in) COMP_CWORD=1\n_relayproof relayproof in relayproof\n\
           echo \"${COMPREPLY[@]}\"\n";
    let output = system("bash", &["--norc"], &script).unwrap();
    let seen = Seen::of(output);
    seen.exits(0).says("init");
    assert_eq!(seen.err, "");
}

#[test]
fn the_manual_page_is_read_by_man() {
    let place = Place::new();
    let page = place.run(&["man"]);
    page.exits(0).says(".TH relayproof 1");
    // Not every machine has man; what it says of the page is worth more than the page's look.
    if let Some(output) = system("man", &["--warnings", "-l", "-"], &page.out) {
        let seen = Seen::of(output);
        seen.exits(0).says("NAME").says("relayproof");
        assert_eq!(seen.err, "");
    }
}

#[test]
fn cargo_finds_the_command_as_a_subcommand() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_cargo-relayproof");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(place.path());
        Seen::of(command.output().unwrap())
    };
    // As Cargo starts it, and as a person might.
    run(&["relayproof", "check", "none.yaml"])
        .exits(2)
        .says("none.yaml");
    run(&["check", "none.yaml"]).exits(2).says("none.yaml");
    run(&["relayproof", "--version"])
        .exits(0)
        .says("relayproof 0.");

    let folder = std::path::Path::new(program).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let paths = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    let output = Command::new(env!("CARGO"))
        .args(["relayproof", "probe", "no-url"])
        .env("PATH", std::env::join_paths(paths).unwrap())
        .current_dir(place.path())
        .output()
        .unwrap();
    Seen::of(output).exits(2).complains("`base_url` is no URL");
}

#[test]
fn alone_it_says_what_is_missing() {
    let place = Place::new();
    let lonely = place.path().join("cargo-relayproof");
    std::fs::copy(env!("CARGO_BIN_EXE_cargo-relayproof"), &lonely).unwrap();
    let output = Command::new(&lonely)
        .arg("relayproof")
        .env("PATH", place.path())
        .output()
        .unwrap();
    Seen::of(output)
        .exits(4)
        .complains("cannot start relayproof");
}
