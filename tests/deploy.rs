//! The files under `deploy/` beside the command: their YAML is YAML, their command lines are
//! understood, and systemd takes its units where it is there.
#![cfg(feature = "cli")]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it must be"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use relayproof::cli;
use serde_json::Value;

fn file(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy")
        .join(name)
}

fn documents(name: &str) -> Vec<Value> {
    let text = file(name);
    let parts = text.split("\n---\n");
    parts
        .map(|part| serde_yaml::from_str(part).unwrap())
        .collect()
}

/// Holds a command line that begins with the command to what the command takes.
fn understood<'w>(words: impl IntoIterator<Item = &'w str>) {
    let mut words = words.into_iter().map(str::to_owned);
    let command = words.next().unwrap();
    assert!(command.ends_with("relayproof"), "{command}");
    cli::understands(&words.collect::<Vec<_>>()).unwrap();
}

#[test]
fn the_jobs_of_kubernetes_are_as_it_wants_them_and_their_command_is_understood() {
    let documents = documents("kubernetes/collect-cronjob.yaml");
    let kinds: Vec<&str> = documents
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["PersistentVolumeClaim", "CronJob"]);
    let job = &documents[1]["spec"];
    assert_eq!(job["concurrencyPolicy"], "Forbid");
    let pod = &job["jobTemplate"]["spec"]["template"]["spec"];
    let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace > relayproof::run::collect::GRACE.as_secs());
    let container = &pod["containers"][0];
    let command = container["command"].as_array().unwrap();
    understood(command.iter().map(|word| word.as_str().unwrap()));
    let mounted: Vec<&str> = container["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| mount["mountPath"].as_str().unwrap())
        .collect();
    assert_eq!(mounted, ["/spec", "/evidence"]);
    let claim = &pod["volumes"][1]["persistentVolumeClaim"]["claimName"];
    assert_eq!(claim, &documents[0]["metadata"]["name"]);
}

#[test]
fn the_schedule_of_github_ends_before_its_jobs_are_ended_and_hands_evidence_on() {
    let workflow = &documents("github/soak.yml")[0];
    let job = &workflow["jobs"]["collect"];
    let minutes = job["timeout-minutes"].as_u64().unwrap();
    let steps = job["steps"].as_array().unwrap();
    let run = |step: &Value| step["run"].as_str().map(str::to_owned);
    let collect = steps
        .iter()
        .filter_map(run)
        .find(|it| it.starts_with("relayproof"))
        .unwrap();
    understood(collect.split(' '));
    let (_, length) = collect.split_once("--for ").unwrap();
    let length = relayproof::spec::duration(length).unwrap().as_secs() / 60;
    assert!(length < minutes && minutes <= 360, "{length} {minutes}");
    let uses = |wanted: &str| {
        let mut all = steps.iter().filter_map(|step| step["uses"].as_str());
        all.any(|it| it.starts_with(wanted))
    };
    for action in [
        "actions/cache/restore@",
        "actions/cache/save@",
        "actions/upload-artifact@",
    ] {
        assert!(uses(action), "{action}");
    }
}

#[test]
fn systemd_takes_its_units_and_their_command_is_understood() {
    let service = file("systemd/relayproof-collect@.service");
    let line = service
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .unwrap();
    understood(line.split(' '));
    let stop = service
        .lines()
        .find_map(|line| line.strip_prefix("TimeoutStopSec="))
        .unwrap();
    assert!(stop.parse::<u64>().unwrap() > relayproof::run::collect::GRACE.as_secs());
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: systemd-analyze is not installed");
        return;
    }
    // It looks for the program, too.
    let folder = tempfile::tempdir().unwrap();
    let here = service.replace(
        "/usr/local/bin/relayproof",
        env!("CARGO_BIN_EXE_relayproof"),
    );
    let unit = folder.path().join("relayproof-collect@.service");
    fs::write(&unit, here).unwrap();
    let timer = folder.path().join("relayproof-collect@.timer");
    fs::copy(path("systemd/relayproof-collect@.timer"), &timer).unwrap();
    let instance = |kind: &str| {
        folder
            .path()
            .join(format!("relayproof-collect@week.{kind}"))
    };
    fs::copy(&unit, instance("service")).unwrap();
    fs::copy(&timer, instance("timer")).unwrap();
    let checked = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args([instance("service"), instance("timer")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    // Units of this machine may have mistakes of their own.
    let ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("relayproof"))
        .collect();
    assert!(checked.status.success() && ours.is_empty(), "{said}");
}
