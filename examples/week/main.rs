//! Writes the evidence of a week that never was, of two relays and two regions, to look at what is
//! made of it: `cargo run --example week -- FOLDER`, then `relayproof judge FOLDER/*` and
//! `relayproof report --format html FOLDER/*`.

mod made;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("name a folder to write to");
        return ExitCode::from(2);
    };
    match made::write(Path::new(&folder), 4032) {
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
