//! `relayproof verify EVIDENCE… --traces URL`: the traces of a backend against the evidence.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;

use super::results::{self, printable};
use super::{Exit, Format, complain, export, with_causes};
use crate::telemetry::readback::{
    Backend, Finding, Question, Standing, Verified, VerifyError, verify,
};

/// Arguments of `verify`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Evidence files, or folders of them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Base URL of Jaeger or Tempo; RELAYPROOF_TRACES_HEADERS holds further request headers,
    /// `name=value,name=value`
    #[arg(long, value_name = "URL")]
    traces: Option<String>,
    /// Which of the two it is, where it cannot be found out
    #[arg(long, value_enum)]
    backend: Option<Asked>,
    /// Samples that are told of, at most
    #[arg(long, default_value_t = 10, value_name = "N")]
    show: usize,
    /// Output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// A backend that can be asked.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Asked {
    /// Jaeger
    Jaeger,
    /// Grafana Tempo
    Tempo,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let Some(url) = &args.traces else {
        complain(
            "error: say what to compare the evidence with: `--traces URL` (Jaeger or Tempo) is the \
             only check of this version",
        );
        return Ok(Exit::Usage);
    };
    let files = match export::evidence(&args.files) {
        Ok(files) => files,
        Err(mistake) => {
            complain(&format!("error: {mistake}"));
            return Ok(Exit::Usage);
        }
    };
    let question = Question {
        files: &files,
        url,
        backend: args.backend.map(|backend| match backend {
            Asked::Jaeger => Backend::Jaeger,
            Asked::Tempo => Backend::Tempo,
        }),
        most_findings: args.show,
    };
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    match verify(&question, &variable) {
        Ok(verified) => {
            match args.format {
                Format::Json => {
                    let mut document = serde_json::to_value(&verified)?;
                    document["schema"] = 1.into();
                    document["whole"] = verified.is_whole().into();
                    results::json(&document, out)?;
                }
                Format::Text => text(&verified, out)?,
            }
            Ok(if verified.is_whole() {
                Exit::Pass
            } else {
                Exit::Violated
            })
        }
        Err(error) => {
            complain(&format!("error: {}", printable(&with_causes(&error))));
            Ok(match error {
                VerifyError::Evidence(_) | VerifyError::Address | VerifyError::Headers => {
                    Exit::Usage
                }
                VerifyError::Backend { .. } | VerifyError::Runtime(_) => Exit::NotMeasured,
            })
        }
    }
}

fn text(verified: &Verified, out: &mut dyn Write) -> io::Result<()> {
    let name = match verified.backend {
        Backend::Jaeger => "Jaeger",
        Backend::Tempo => "Tempo",
    };
    writeln!(
        out,
        "{name} at {}: {} spans of {} samples and {} cells",
        verified.url, verified.spans, verified.samples, verified.cells
    )?;
    let rows = [
        ("as measured", verified.equal),
        ("as measured, values masked", verified.masked),
        ("different", verified.different),
        ("spans missing", verified.incomplete),
        ("missing", verified.missing),
    ];
    for (what, count) in rows {
        writeln!(out, "  {what:<28}{count:>7}")?;
    }
    writeln!(
        out,
        "  {:<28}{:>7} of {}",
        "cells with their verdicts", verified.cells_equal, verified.cells
    )?;
    for finding in &verified.findings {
        told(finding, out)?;
    }
    let untold = verified.different
        + verified.incomplete
        + verified.missing
        + (verified.cells - verified.cells_equal)
        - verified.findings.len() as u64;
    if untold > 0 {
        writeln!(out, "and {untold} more; see --show")?;
    }
    Ok(())
}

fn told(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", printable(&finding.to_string()))?;
    if !finding.missing_spans.is_empty() && !finding.differences.is_empty()
        || finding.standing == Standing::Incomplete
    {
        let names = finding.missing_spans.join(", ");
        writeln!(out, "  not there: {}", printable(&names))?;
    }
    for it in &finding.differences {
        let found = if it.found.is_empty() {
            "nothing"
        } else {
            &it.found
        };
        let line = format!("  {} {}: {}, found {found}", it.span, it.what, it.expected);
        writeln!(out, "{}", printable(&line))?;
    }
    Ok(())
}
