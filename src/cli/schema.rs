//! `relayproof schema`: the JSON Schema of a spec, for editors, or of a report, for programs.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;

use super::{Exit, complain};
use crate::{report, spec};

/// Arguments of `schema`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// What the schema is of
    #[arg(value_enum, default_value_t = Of::Spec)]
    of: Of,
    /// File to write, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What there is a schema of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Of {
    /// A spec, for editors
    Spec,
    /// The report that `--format json` of `run`, `judge` and `report` writes
    Report,
}

/// Prints or writes the schema.
///
/// # Errors
///
/// When standard output cannot be written.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let document = match args.of {
        Of::Spec => spec::schema::document(),
        Of::Report => report::json::schema::document(),
    };
    let mut text = serde_json::to_string_pretty(&document)?;
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
    if args.of == Of::Report {
        writeln!(out, "wrote {}", path.display())?;
        return Ok(Exit::Pass);
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
