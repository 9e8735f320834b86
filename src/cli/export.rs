//! `relayproof export EVIDENCE…`: the spans of recorded evidence, sent to any OTLP backend.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use super::{Exit, complain, files, with_causes};
use crate::telemetry::replay::{ReplayError, Target, replay};

/// Arguments of `export`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Evidence files, or folders of them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Base URL of the endpoint, /v1/traces is added; protocol, headers and certificates come from
    /// the `OTEL_EXPORTER_OTLP_*` variables, and the URL too where it is not given
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Write OTLP JSON lines to a new file instead
    #[arg(long, value_name = "PATH", conflicts_with = "otlp")]
    file: Option<PathBuf>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let files = match files::all(&args.files) {
        Ok(mut files) => {
            files.sort_unstable();
            files
        }
        Err(mistake) => {
            complain(&format!("error: {mistake}"));
            return Ok(Exit::Usage);
        }
    };
    let target = match &args.file {
        Some(path) => Target::File(path),
        None => Target::Network(args.otlp.as_deref()),
    };
    match replay(&files, target, &|name| env::var(name).ok()) {
        Ok(account) => {
            for warning in &account.warnings {
                complain(&format!("warning: {warning}"));
            }
            writeln!(out, "{account}")?;
            Ok(if account.is_whole() {
                Exit::Pass
            } else {
                Exit::NotMeasured
            })
        }
        Err(error) => {
            complain(&format!("error: {}", with_causes(&error)));
            Ok(match error {
                ReplayError::Evidence(_) | ReplayError::Endpoint(_) => Exit::Usage,
                ReplayError::File { source, .. }
                    if source.kind() == io::ErrorKind::AlreadyExists =>
                {
                    Exit::Usage
                }
                ReplayError::File { .. } | ReplayError::Runtime(_) => Exit::NotMeasured,
            })
        }
    }
}
