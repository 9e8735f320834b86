//! Which loads are measured, in which order, and by which processes.

use std::collections::HashMap;
use std::env;
use std::io::{BufRead, BufReader, Read, Write, stderr};
use std::process::{Child, Command, Stdio};

use serde::Serialize;

use super::measured::Measured;
use super::task::{Client, Load, Shape, Task};
use super::{Failure, Outcome};

/// The measurements of one client under one load.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) load: Load,
    pub(crate) client: Client,
    pub(crate) telemetry: bool,
    pub(crate) rounds: Vec<Round>,
}

/// One measurement beside the truth.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) measured: Measured,
    /// Measured moment of the first token minus the true one, in nanoseconds; sorted by size.
    pub(crate) errors_ns: Vec<u64>,
}

/// Who is measured under each load, telemetry on or off; neighbours are compared.
const CLIENTS: [(Client, bool); 5] = [
    (Client::Bare, false),
    (Client::Reqwest, true),
    (Client::Reqwest, false),
    (Client::Raw, true),
    (Client::Raw, false),
];

fn loads(quick: bool) -> Vec<Load> {
    let shape = |first_token_us, gap_us, tokens| Shape {
        first_token_us,
        gap_us,
        tokens,
    };
    let load = |streams, samples, rate_per_s, shape, repeats| Load {
        streams,
        concurrency: streams,
        samples,
        rate_per_s,
        shape,
        repeats,
    };
    if quick {
        return vec![
            load(1, 4, 100.0, shape(50_000, 1_000, 100), 1),
            load(100, 100, 400.0, shape(200_000, 10_000, 20), 1),
        ];
    }
    vec![
        // One after the other.
        load(1, 40, 100.0, shape(50_000, 1_000, 100), 1),
        // An answer takes 1.2 s, so that on average 100 are open; none waits for another.
        Load {
            concurrency: 400,
            ..load(100, 400, 83.0, shape(200_000, 10_000, 100), 10)
        },
        // All are open before the first one ends.
        load(500, 500, 400.0, shape(200_000, 20_000, 100), 3),
        load(2000, 2000, 800.0, shape(200_000, 50_000, 100), 1),
    ]
}

/// Measures everything, each client in turn so that a busy minute hits them all.
pub(crate) fn all(quick: bool, only: Option<u32>) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for load in loads(quick) {
        if only.is_some_and(|streams| streams != load.streams) {
            continue;
        }
        // What telemetry costs is compared under the loads that are repeated.
        let clients = CLIENTS.iter().filter(|(client, telemetry)| {
            *telemetry || *client == Client::Bare || load.repeats > 1
        });
        let mut here: Vec<Row> = clients
            .map(|&(client, telemetry)| Row {
                load,
                client,
                telemetry,
                rounds: Vec::new(),
            })
            .collect();
        for turn in 0..load.repeats {
            // There and back, so that nobody is always the first.
            if turn > 0 {
                here.reverse();
            }
            for row in &mut here {
                row.rounds.push(round(load, row.client, row.telemetry)?);
                write!(stderr(), ".")?;
            }
        }
        if load.repeats.is_multiple_of(2) {
            here.reverse();
        }
        rows.append(&mut here);
    }
    writeln!(stderr())?;
    Ok(rows)
}

/// A child process that does not outlive its owner.
struct Role(Child);

impl Role {
    fn start(role: &str, about: &impl Serialize) -> Outcome<Self> {
        let child = Command::new(env::current_exe()?)
            .args(["--role", role, &serde_json::to_string(about)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self(child))
    }

    fn output(&mut self) -> Outcome<BufReader<std::process::ChildStdout>> {
        let output = self.0.stdout.take().ok_or("the child has no output")?;
        Ok(BufReader::new(output))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // One that has ended is only waited for.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn round(load: Load, client: Client, telemetry: bool) -> Outcome<Round> {
    let mut relay = Role::start("relay", &load.shape)?;
    let mut truth = relay.output()?;
    let mut base_url = String::new();
    truth.read_line(&mut base_url)?;
    let (_sink, sink_url) = if telemetry {
        let mut sink = Role::start("sink", &())?;
        let mut url = String::new();
        sink.output()?.read_line(&mut url)?;
        (Some(sink), Some(url.trim().to_owned()))
    } else {
        (None, None)
    };
    let task = Task {
        base_url: base_url.trim().to_owned(),
        client,
        sink: sink_url,
        load,
    };
    let mut said = String::new();
    Role::start("client", &task)?
        .output()?
        .read_to_string(&mut said)?;
    let measured: Measured =
        serde_json::from_str(&said).map_err(|_| "the measured process broke off")?;
    drop(relay.0.stdin.take());
    let mut written = HashMap::new();
    for line in truth.lines() {
        let line = line?;
        let (id, at) = line
            .split_once(' ')
            .ok_or("no time in the relay's record")?;
        written.insert(id.to_owned(), at.parse::<i64>()?);
    }
    let mut errors_ns = measured
        .first_tokens
        .iter()
        .map(|(id, at)| written.get(id).map(|written| at.abs_diff(*written)))
        .collect::<Option<Vec<u64>>>()
        .ok_or_else(|| Failure::from("an answer that the relay did not write"))?;
    errors_ns.sort_unstable();
    Ok(Round {
        measured,
        errors_ns,
    })
}
