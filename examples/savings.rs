//! What looking after every sample saves, over sockets: embedded relays, asked as in any run.
//!
//! `cargo run --release --example savings`. A flawless relay must be accepted after exactly 373
//! samples, and relays that break off one answer in ten refused after as many as the exact recursion
//! says, within four standard errors; or the program fails.

#![expect(clippy::print_stdout, reason = "the numbers are what it is for")]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use relayproof::probe::cancel::cancel_pair;
use relayproof::probe::tls::install_crypto;
use relayproof::run::{RunFolder, Runner, Watch, plan_text};
use relayproof::stats::operating::operating;
use relayproof::stats::sequential::Design;
use relayproof::verdict::{Decision, Inconclusive, Verdict};

/// Relays at 90 %, each with faults of its own.
const SEEDS: u64 = 50;
/// The least size of a fixed design with the same errors: 3 failures in 773 samples.
const FIXED: u64 = 773;
const N_MAX: u64 = 1175;
/// A machine that is busy spoils a run; the same faults come again with the same seed.
const TRIES: u32 = 5;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    install_crypto();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let runs = tempfile::tempdir()?;
    let ask = |seed, faults: &str| ask(runtime.handle(), runs.path(), seed, faults);
    println!("Objective: interruption < 1%, that is 99 %; at most {N_MAX} samples.\n");

    let flawless = ask(1, "")?;
    println!(
        "A flawless relay: {:?} after {} samples.",
        flawless.decision, flawless.n
    );

    let (mut violated, mut hopeless, mut sum, mut squares) = (0_u64, 0_u64, 0.0, 0.0);
    for seed in 1..=SEEDS {
        let verdict = ask(seed, "{ truncate: 10% }")?;
        match verdict.decision {
            Decision::Violated => violated += 1,
            Decision::Inconclusive(Inconclusive::CannotPass) => hopeless += 1,
            Decision::Pass | Decision::Inconclusive(_) => {
                println!("seed {seed}: {verdict:?}");
                return Ok(ExitCode::FAILURE);
            }
        }
        sum += verdict.n as f64;
        squares += (verdict.n * verdict.n) as f64;
    }
    let seeds = SEEDS as f64;
    let mean = sum / seeds;
    let error = ((squares / seeds - mean * mean) / (seeds - 1.0)).sqrt();
    let design = Design::new(0.99, 0.05, 0.05).ok_or("no design")?;
    let exact = operating(&design, N_MAX, true, 0.9).expected_n;
    println!(
        "{SEEDS} relays at 90 %: {violated} violated, {hopeless} out of reach; refused after {mean:.1} ± {error:.1} samples on average (exact: {exact:.1})."
    );
    println!("A fixed design with the same errors takes {FIXED} samples of either.");

    let fine = flawless.decision == Decision::Pass
        && flawless.n == 373
        && (mean - exact).abs() <= 4.0 * error;
    Ok(if fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Nobody watches.
struct Quiet;

impl Watch for Quiet {}

/// Samples and judges one embedded relay.
fn ask(
    runtime: &tokio::runtime::Handle,
    runs: &Path,
    seed: u64,
    faults: &str,
) -> Result<Verdict, Box<dyn Error>> {
    let spec = format!(
        "relayproof: 1
relays:
  - name: embedded
    simulate: {{ first_token: 1ms, token_gap: 100us, tokens: 20, faults: [{faults}] }}
sampling: {{ seed: {seed}, rate: 100/s, max_samples: {N_MAX} }}
slos: [interruption < 1%]
"
    );
    for number in 1..=TRIES {
        let planned = plan_text("savings.yaml", &spec, Path::new(""), None)
            .map_err(|error| error.render(false))?;
        let run_id = format!("{}-{seed}-{number}", faults.len());
        let folder = RunFolder::open(runs, &run_id)?;
        let (_switch, cancel) = cancel_pair();
        let runner = Runner {
            folder: &folder,
            runtime,
            cancel,
            watch: &Quiet,
        };
        let outcome = planned.settle(0, &runner)?;
        let verdict = outcome.verdicts.first().ok_or("no verdict")?;
        if verdict.decision != Decision::Inconclusive(Inconclusive::InvalidRun) {
            return Ok(verdict.clone());
        }
    }
    Err("the machine is too busy to measure".into())
}
