//! `relayproof schema`: the JSON Schema of a spec, for editors.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use super::{Exit, complain};
use crate::spec;

/// Arguments of `schema`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// File to write, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Prints or writes the schema.
///
/// # Errors
///
/// When standard output cannot be written.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let mut text = serde_json::to_string_pretty(&spec::schema::document())?;
    text.push('\n');
    let Some(path) = &args.out else {
        out.write_all(text.as_bytes())?;
        return Ok(Exit::Pass);
    };
    if let Err(error) = fs::write(path, text) {
        complain(&format!(
            "error: cannot write {}: {error}\n  = help: name a file in a folder that is there",
            path.display()
        ));
        return Ok(Exit::Usage);
    }
    writeln!(
        out,
        "wrote {}; with it beside a spec, begin the spec with\n\
         # yaml-language-server: $schema={}",
        path.display(),
        path.file_name().unwrap_or_default().display(),
    )?;
    Ok(Exit::Pass)
}
