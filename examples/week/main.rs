//! Writes the evidence of a week that never was, of two relays and two regions, to look at what is
//! made of it: `cargo run --example week -- FOLDER [SAMPLES]`, then `relayproof judge FOLDER/*` and
//! `relayproof report --format html FOLDER/*`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to whoever runs it"
)]

mod made;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("name a folder to write to");
        return ExitCode::from(2);
    };
    let samples = std::env::args().nth(2).map(|text| text.parse());
    let Ok(samples) = samples.unwrap_or(Ok(4032)) else {
        eprintln!("the second argument is a number of samples");
        return ExitCode::from(2);
    };
    match made::write(Path::new(&folder), samples) {
        Ok(files) => {
            for file in files {
                println!("{}", file.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(4)
        }
    }
}
