//! Speed and memory of the whole probe, from outside: `cargo bench --bench process`.
//!
//! The embedded relay runs in a process of its own and writes down when it really wrote. A second
//! process measures it as a run does, or, as the yardstick, with a bare client. A third one takes what
//! telemetry exports. Nothing is asserted here: docs/benchmarks.md says what the numbers were and what
//! they should be.
//!
//! `-- --quick` is a smoke run; `-- --only 500` runs the loads with so many streams.

#[cfg(target_os = "linux")]
mod bare;
#[cfg(target_os = "linux")]
mod clocks;
#[cfg(target_os = "linux")]
mod measured;
#[cfg(target_os = "linux")]
mod relay;
#[cfg(target_os = "linux")]
mod rounds;
#[cfg(target_os = "linux")]
mod sink;
#[cfg(target_os = "linux")]
mod table;
#[cfg(target_os = "linux")]
mod task;

/// Anything that ends the benchmark.
type Failure = Box<dyn std::error::Error + Send + Sync>;

type Outcome<T> = Result<T, Failure>;

#[cfg(not(target_os = "linux"))]
fn main() -> Outcome<()> {
    use std::io::Write;

    // Clocks, processor time and peak memory are read the way Linux shows them.
    writeln!(std::io::stderr(), "this benchmark runs on Linux only")?;
    Ok(())
}

#[cfg(target_os = "linux")]
fn main() -> Outcome<()> {
    use std::io::Write;

    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--role", "relay", shape] => relay::serve(&serde_json::from_str(shape)?),
        ["--role", "sink", _] => sink::serve(),
        ["--role", "client", task] => {
            let measured = measured::run(&serde_json::from_str(task)?)?;
            serde_json::to_writer(std::io::stdout().lock(), &measured)?;
            Ok(())
        }
        options => {
            let quick = options.contains(&"--quick");
            let only = options.iter().skip_while(|word| **word != "--only").nth(1);
            let only = only.map(|streams| streams.parse()).transpose()?;
            let rows = rounds::all(quick, only)?;
            writeln!(std::io::stdout(), "{}", table::Table(&rows))?;
            Ok(())
        }
    }
}
