//! `relayproof inspect SAMPLE`: where the time of one recorded call went, what was found on it,
//! and a `curl` that repeats it.

mod find;
mod render;
mod repeat;

use std::io::{self, Write};
use std::path::PathBuf;

use super::{Exit, Format, colour, complain, files, results};

/// Arguments of `inspect`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Index of the sample, CELL#INDEX, or the beginning of its id or of its trace id
    sample: String,
    /// Run (its folder or its name) or evidence file to look in; without it the latest run
    #[arg(long = "in", value_name = "RUN")]
    within: Option<String>,
    /// Folder that holds a folder per run
    #[arg(long, env = "RELAYPROOF_DIR", default_value_os_t = files::runs())]
    dir: PathBuf,
    /// Output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Finds the sample and prints it.
///
/// # Errors
///
/// When the results cannot be written.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let found = match find::find(&args.sample, args.within.as_deref(), &args.dir) {
        Ok(found) => found,
        Err(mistake) => {
            complain(&format!("error: {}", results::printable(&mistake)));
            return Ok(Exit::Usage);
        }
    };
    let repeat = repeat::of(&found.header, &found.sample);
    match args.format {
        Format::Json => results::json(&render::as_json(&found, &repeat), out)?,
        Format::Text => write!(out, "{}", render::as_text(&found, &repeat, colour()))?,
    }
    Ok(Exit::Pass)
}
