//! How often the rule errs and how many samples it takes: by simulation, beside the exact values.
//!
//! `cargo run --release --example operating` prints the tables of `docs/operating.md`. Every
//! simulated number must lie within four standard errors of the exact one, or the program fails.
//!
//! A sample is bad as a call to the embedded relay is: a uniform draw of 64 bits against a share in
//! parts per million. The draws come from one seeded generator, so each run prints the same.

#![expect(clippy::print_stdout, reason = "the tables are what it is for")]

use std::process::ExitCode;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use relayproof::stats::Tally;
use relayproof::stats::operating::operating;
use relayproof::stats::sequential::{Account, Design, Standing, joint_over};
use relayproof::stats::wald::Sprt;

/// Simulated runs of each cell.
const RUNS: u32 = 20_000;
/// Standard errors that a simulated number may be off.
const TOLERATED: f64 = 4.0;
/// True failures, in parts per million, of the relays of the tables.
const RELAYS: [u32; 8] = [100_000, 50_000, 30_000, 10_000, 5_000, 2_000, 1_000, 0];
/// More samples than any run of an unlimited rule takes.
const UNLIMITED: u64 = 40_000;

fn main() -> ExitCode {
    let mut checked = Checked::default();
    println!("{RUNS} runs a cell; each simulated number with its standard error.\n");
    for (required, limits, fixed, wald) in [
        (0.99, [1175, 975], FIXED_99, (0.99, 0.998)),
        (0.95, [232, 192], FIXED_95, (0.95, 0.99)),
    ] {
        one_objective(required, limits, fixed, wald, &mut checked);
    }
    several_objectives(&mut checked);
    println!(
        "{} simulated numbers, {} of them more than {TOLERATED} standard errors off; the farthest is off by {:.1}.",
        checked.cells, checked.off, checked.farthest
    );
    if checked.off == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Simulated numbers that were held against exact ones.
#[derive(Default)]
struct Checked {
    cells: u32,
    off: u32,
    farthest: f64,
}

impl Checked {
    fn hold(&mut self, found: f64, exact: f64, error: f64) {
        let apart = (found - exact).abs();
        self.cells += 1;
        // What never varies must be exact, but for the rounding of sums.
        let rounding = 1e-9 * exact.max(1.0);
        let errors = if apart < rounding { 0.0 } else { apart / error };
        if errors > TOLERATED {
            println!("{found} is not {exact} ± {error}");
        }
        self.off += u32::from(errors > TOLERATED);
        self.farthest = self.farthest.max(errors);
    }
}

/// What became of the runs of one cell of a table.
#[derive(Clone, Copy, Default)]
struct Found {
    pass: u32,
    fail: u32,
    n: f64,
    n_squared: f64,
}

impl Found {
    fn add(&mut self, standing: Standing, n: u64) {
        match standing {
            Standing::Pass => self.pass += 1,
            Standing::Fail => self.fail += 1,
            Standing::CannotPass | Standing::Open => {}
        }
        self.n += n as f64;
        self.n_squared += (n * n) as f64;
    }

    fn mean_n(&self) -> (f64, f64) {
        let runs = f64::from(RUNS);
        let mean = self.n / runs;
        let variance = (self.n_squared / runs - mean * mean).max(0.0);
        (mean, (variance / runs).sqrt())
    }
}

/// The exact counterpart of [`Found`].
#[derive(Clone, Copy)]
struct Exact {
    pass: f64,
    fail: f64,
    n: f64,
    /// Standard deviation of the number of samples; 0 where it was not computed.
    deviation: f64,
}

impl Exact {
    /// The standard error of a simulated mean number of samples. What is seen of the spread says too
    /// little where an early end is so rare that no run had one.
    fn error(&self, seen: f64) -> f64 {
        seen.max(self.deviation / f64::from(RUNS).sqrt())
    }
}

/// A rule that looks at the counts after every sample.
trait Rule {
    /// Where it stands; the last of its samples ends it, whatever this says.
    fn standing(&self, tally: Tally) -> Standing;
    /// Most samples.
    fn most(&self) -> u64;

    fn exact(&self, p: f64) -> Exact {
        let mut exact = Exact {
            pass: 0.0,
            fail: 0.0,
            n: 0.0,
            deviation: 0.0,
        };
        let mut n_squared = 0.0;
        // Probability of being open, by number of failures.
        let mut open = vec![1.0];
        for n in 1..=self.most() {
            let still: f64 = open.iter().sum();
            if still < 1e-15 {
                break;
            }
            exact.n += still;
            n_squared += still * (2 * n - 1) as f64;
            let mut next = vec![0.0; open.len() + 1];
            for (failures, mass) in open.iter().enumerate() {
                next[failures] += mass * p;
                next[failures + 1] += mass * (1.0 - p);
            }
            for (failures, mass) in next.iter_mut().enumerate().filter(|(_, mass)| **mass > 0.0) {
                let Some(tally) = Tally::new(n, failures as u64) else {
                    continue;
                };
                match self.standing(tally) {
                    Standing::Open => continue,
                    Standing::Pass => exact.pass += *mass,
                    Standing::Fail => exact.fail += *mass,
                    Standing::CannotPass => {}
                }
                *mass = 0.0;
            }
            while next.last() == Some(&0.0) && next.len() > 1 {
                next.pop();
            }
            open = next;
        }
        exact.deviation = (n_squared - exact.n * exact.n).max(0.0).sqrt();
        exact
    }

    fn simulate(&self, relay: &mut Relay) -> Found {
        let mut found = Found::default();
        for _ in 0..RUNS {
            let mut tally = Tally::default();
            let mut standing = Standing::Open;
            while standing == Standing::Open && tally.n() < self.most() {
                tally = tally.with(relay.answers());
                standing = self.standing(tally);
            }
            found.add(standing, tally.n());
        }
        found
    }
}

/// A number of samples fixed in advance, and the failures that it allows.
struct Fixed {
    name: &'static str,
    n: u64,
    allowed: u64,
    /// Whether it ends at the first failure too many.
    curtailed: bool,
}

impl Rule for Fixed {
    fn standing(&self, tally: Tally) -> Standing {
        let refused = tally.failures() > self.allowed;
        match (tally.n() == self.n, refused) {
            (true, true) => Standing::Fail,
            (true, false) => Standing::Pass,
            (false, true) if self.curtailed => Standing::Fail,
            (false, _) => Standing::Open,
        }
    }

    fn most(&self) -> u64 {
        self.n
    }
}

impl Rule for Sprt {
    fn standing(&self, tally: Tally) -> Standing {
        Self::standing(self, tally)
    }

    fn most(&self) -> u64 {
        UNLIMITED
    }
}

/// The crate's own rule: exact values by its recursion, runs by its accounts.
struct Engine {
    design: Design,
    n_max: u64,
    futility: bool,
}

impl Rule for Engine {
    fn standing(&self, tally: Tally) -> Standing {
        let mut account = Account::new(self.design);
        (0..tally.failures()).for_each(|_| account.step(false));
        (0..tally.good()).for_each(|_| account.step(true));
        account.standing(self.futility.then_some(self.n_max))
    }

    fn most(&self) -> u64 {
        self.n_max
    }

    fn exact(&self, p: f64) -> Exact {
        let exact = operating(&self.design, self.n_max, self.futility, p);
        Exact {
            pass: exact.pass,
            fail: exact.fail,
            n: exact.expected_n,
            deviation: 0.0,
        }
    }

    fn simulate(&self, relay: &mut Relay) -> Found {
        let futility = self.futility.then_some(self.n_max);
        let mut found = Found::default();
        for _ in 0..RUNS {
            let mut account = Account::new(self.design);
            let mut standing = Standing::Open;
            while standing == Standing::Open && account.tally().n() < self.n_max {
                account.step(relay.answers());
                standing = account.standing(futility);
            }
            found.add(standing, account.tally().n());
        }
        found
    }
}

/// A relay of known quality.
struct Relay {
    draws: ChaCha8Rng,
    failures_ppm: u32,
}

impl Relay {
    fn new(seed: u64, failures_ppm: u32) -> Self {
        Self {
            draws: ChaCha8Rng::seed_from_u64(seed),
            failures_ppm,
        }
    }

    /// One call: whether it is good.
    fn answers(&mut self) -> bool {
        let ticket = (u128::from(self.draws.next_u64()) * 1_000_000) >> 64;
        ticket >= u128::from(self.failures_ppm)
    }
}

fn share(failures_ppm: u32) -> f64 {
    1.0 - f64::from(failures_ppm) / 1e6
}

const FIXED_99: [Fixed; 4] = [
    Fixed {
        name: "fixed, Wilson at z 1.960: 1025 samples, 4 failures",
        n: 1025,
        allowed: 4,
        curtailed: false,
    },
    Fixed {
        name: "fixed, Wilson at z 1.645: 748 samples, 3 failures",
        n: 748,
        allowed: 3,
        curtailed: false,
    },
    Fixed {
        name: "fixed, exact: 773 samples, 3 failures",
        n: 773,
        allowed: 3,
        curtailed: false,
    },
    Fixed {
        name: "the same, ended by the 4th failure",
        n: 773,
        allowed: 3,
        curtailed: true,
    },
];

const FIXED_95: [Fixed; 4] = [
    Fixed {
        name: "fixed, Wilson at z 1.960: 173 samples, 3 failures",
        n: 173,
        allowed: 3,
        curtailed: false,
    },
    Fixed {
        name: "fixed, Wilson at z 1.645: 147 samples, 3 failures",
        n: 147,
        allowed: 3,
        curtailed: false,
    },
    Fixed {
        name: "fixed, exact: 153 samples, 3 failures",
        n: 153,
        allowed: 3,
        curtailed: false,
    },
    Fixed {
        name: "the same, ended by the 4th failure",
        n: 153,
        allowed: 3,
        curtailed: true,
    },
];

fn one_objective(
    required: f64,
    limits: [u64; 2],
    fixed: [Fixed; 4],
    (bad, good): (f64, f64),
    checked: &mut Checked,
) {
    let percent = required * 100.0;
    let Some(design) = Design::new(required, 0.05, 0.05) else {
        return;
    };
    let mut rules: Vec<(String, Box<dyn Rule>)> = Vec::new();
    for n_max in limits {
        for futility in [true, false] {
            let name = match futility {
                true => format!("**relayproof**, at most {n_max}"),
                false => format!("relayproof, at most {n_max}, without futility"),
            };
            let engine = Engine {
                design,
                n_max,
                futility,
            };
            rules.push((name, Box::new(engine)));
        }
    }
    for one in fixed {
        rules.push((one.name.to_owned(), Box::new(one)));
    }
    if let Some(test) = Sprt::new(bad, good, 0.05, 0.1) {
        let name = format!("Wald, {bad} against {good}, no limit");
        rules.push((name, Box::new(test)));
    }

    println!("## An objective of {percent} %\n");
    for (name, rule) in &rules {
        let errors = |what| format!("{what}, simulated | exact");
        println!("{name}:\n");
        println!(
            "| true share | {} | {} | {} |",
            errors("passes"),
            errors("violated"),
            errors("samples")
        );
        println!("|---:|---:|---:|---:|---:|---:|---:|");
        for (place, failures_ppm) in RELAYS.into_iter().enumerate() {
            let p = share(failures_ppm);
            let exact = rule.exact(p);
            let found = rule.simulate(&mut Relay::new(place as u64, failures_ppm));
            let (mean, seen) = found.mean_n();
            let error = exact.error(seen);
            checked.hold(mean, exact.n, error);
            println!(
                "| {p} | {} | {} | {mean:.1} ± {error:.1} | {:.1} |",
                chance(found.pass, exact.pass, checked),
                chance(found.fail, exact.fail, checked),
                exact.n
            );
        }
        println!();
    }

    println!("Mean number of samples, exact:\n");
    let shares = RELAYS.map(|ppm| share(ppm).to_string()).join(" | ");
    println!("| rule | passes at {required} | at {good} | {shares} |");
    println!("|---|---:|---:|{}", "---:|".repeat(RELAYS.len()));
    for (name, rule) in &rules {
        let numbers = RELAYS.map(|ppm| format!("{:.0}", rule.exact(share(ppm)).n));
        println!(
            "| {name} | {:.4} | {:.3} | {} |",
            rule.exact(required).pass,
            rule.exact(good).pass,
            numbers.join(" | ")
        );
    }
    println!();
}

/// A simulated chance and the exact one, as two cells of a table.
fn chance(found: u32, exact: f64, checked: &mut Checked) -> String {
    let share = f64::from(found) / f64::from(RUNS);
    let error = (exact * (1.0 - exact) / f64::from(RUNS)).max(0.0).sqrt();
    checked.hold(share, exact, error);
    format!("{share:.4} ± {error:.4} | {exact:.4}")
}

/// Objectives of the joint scenario.
const REQUIRED: [f64; 4] = [0.99, 0.99, 0.95, 0.95];
const MOST: u64 = 975;

/// Four objectives that share their samples and stop together.
fn several_objectives(checked: &mut Checked) {
    let gamma = 0.05 / REQUIRED.len() as f64;
    let designs: Vec<Design> = REQUIRED
        .iter()
        .filter_map(|required| Design::new(*required, 0.05, gamma))
        .collect();
    println!("## Four objectives of one set of samples\n");
    println!(
        "Required: {REQUIRED:?}; at most {MOST} samples, stopped by the first that is violated or out of reach.\n"
    );
    println!("| relay | true shares | all pass, simulated | exact | samples, simulated | exact |");
    println!("|---|---|---:|---:|---:|---:|");
    for (seed, (name, failures_ppm)) in [
        ("very good", [500, 500, 5_000, 5_000]),
        ("good", [2_000, 1_000, 10_000, 10_000]),
        ("slow", [500, 500, 100_000, 5_000]),
        ("flaky", [30_000, 500, 5_000, 5_000]),
        ("at its limits", [10_000, 10_000, 50_000, 50_000]),
    ]
    .into_iter()
    .enumerate()
    {
        let exact = jointly_exact(&designs, failures_ppm);
        let found = jointly(&designs, failures_ppm, 100 + seed as u64);
        let (mean, seen) = found.mean_n();
        let error = exact.error(seen);
        checked.hold(mean, exact.n, error);
        println!(
            "| {name} | {} | {} | {mean:.1} ± {error:.1} | {:.1} |",
            failures_ppm.map(|ppm| share(ppm).to_string()).join(", "),
            chance(found.pass, exact.pass, checked),
            exact.n
        );
    }
    println!();
}

fn jointly(designs: &[Design], failures_ppm: [u32; 4], seed: u64) -> Found {
    let mut relays: Vec<Relay> = failures_ppm
        .iter()
        .enumerate()
        .map(|(place, ppm)| Relay::new(seed * 10 + place as u64, *ppm))
        .collect();
    let mut found = Found::default();
    for _ in 0..RUNS {
        let mut tracks: Vec<(Account, Standing)> = designs
            .iter()
            .map(|design| (Account::new(*design), Standing::Open))
            .collect();
        let mut n = 0;
        while n < MOST && !joint_over(tracks.iter().map(|(_, standing)| *standing), true) {
            n += 1;
            for ((account, standing), relay) in tracks.iter_mut().zip(&mut relays) {
                // What is decided stays as it is; its relay draws all the same.
                let good = relay.answers();
                if *standing == Standing::Open {
                    account.step(good);
                    *standing = account.standing(Some(MOST));
                }
            }
        }
        let all = tracks
            .iter()
            .all(|(_, standing)| *standing == Standing::Pass);
        found.add(if all { Standing::Pass } else { Standing::Open }, n);
    }
    found
}

/// Outcomes of different objectives are drawn apart from each other, so chances multiply.
fn jointly_exact(designs: &[Design], failures_ppm: [u32; 4]) -> Exact {
    let mut open: Vec<Vec<(Account, f64)>> = designs
        .iter()
        .map(|design| vec![(Account::new(*design), 1.0)])
        .collect();
    let mut passed = vec![0.0; designs.len()];
    let mut refused = vec![0.0; designs.len()];
    let (mut expected_n, mut going_on) = (0.0, 1.0);
    for _ in 0..MOST {
        expected_n += going_on;
        for (place, accounts) in open.iter_mut().enumerate() {
            let p = failures_ppm.get(place).map_or(1.0, |ppm| share(*ppm));
            let mut next: Vec<(Account, f64)> = Vec::new();
            for (account, mass) in accounts.drain(..) {
                for (good, chance) in [(true, p), (false, 1.0 - p)] {
                    let (mut account, mass) = (account, mass * chance);
                    account.step(good);
                    match account.standing(Some(MOST)) {
                        Standing::Pass => passed[place] += mass,
                        Standing::Fail | Standing::CannotPass => refused[place] += mass,
                        Standing::Open => match next.last_mut() {
                            Some((last, sum)) if last.tally() == account.tally() => *sum += mass,
                            _ => next.push((account, mass)),
                        },
                    }
                }
            }
            *accounts = next;
        }
        let none_refused: f64 = refused.iter().map(|refused| 1.0 - refused).product();
        going_on = none_refused - passed.iter().product::<f64>();
    }
    Exact {
        pass: passed.iter().product(),
        fail: 0.0,
        n: expected_n,
        deviation: 0.0,
    }
}
