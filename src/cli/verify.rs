//! `relayproof verify EVIDENCE…`: whether evidence is as it was written and, with `--traces URL`,
//! whether a backend holds what it says.

mod chains;

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Map, Value};

use super::results::{self, printable};
use super::{Exit, Format, complain, files, signed, soak, with_causes};
use crate::evidence::{ChainValue, check_all};
use crate::telemetry::readback::{
    Backend, Finding, Question, Standing, Verified, VerifyError, verify,
};

/// Arguments of `verify`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Evidence files, or folders of them; with a report (*.json, *.html, *.md) among them, whether
    /// it is what the evidence gives
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Public keys that are trusted: the report has to be signed by one of them
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// The signature of the report [default: REPORT.dsse.json]
    #[arg(long, value_name = "FILE", requires = "keys")]
    signature: Option<PathBuf>,
    /// As of when the report was made, where it does not say so in JSON
    #[arg(long, value_name = "TIME", value_parser = soak::moment)]
    as_of: Option<u64>,
    /// The evidence root that they came to before, from a report, a signature or an earlier
    /// `verify`: also finds lines that were removed at the end
    #[arg(long, value_name = "HEX")]
    root: Option<ChainValue>,
    /// Also compare a backend's traces: base URL of Jaeger or Tempo; RELAYPROOF_TRACES_HEADERS
    /// holds further request headers, `name=value,name=value`
    #[arg(long, value_name = "URL")]
    traces: Option<String>,
    /// Which of the two it is, where it cannot be found out
    #[arg(long, value_enum, requires = "traces")]
    backend: Option<Asked>,
    /// Alterations of a file, and samples without their traces, that are told of at most
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
    if let Some(question) = signed::report_among(&args.files) {
        let question = signed::Question {
            keys: &args.keys,
            signature: args.signature.as_deref(),
            as_of: args.as_of,
            ..question
        };
        return report(args, &question, out);
    }
    if !args.keys.is_empty() || args.as_of.is_some() {
        complain("error: `--key` and `--as-of` are for a report; name it among the files");
        return Ok(Exit::Usage);
    }
    let files = match files::all(&args.files) {
        Ok(files) => files,
        Err(mistake) => {
            complain(&format!("error: {mistake}"));
            return Ok(Exit::Usage);
        }
    };
    let set = check_all(&files, args.show);
    for error in &set.unreadable {
        complain(&format!("error: {}", printable(&with_causes(error))));
    }
    let as_expected = args.root.map(|root| set.comes_to(root));
    let mut whole = set.is_whole() && as_expected != Some(false);
    let mut exit = if !set.unreadable.is_empty() {
        Exit::Usage
    } else if whole {
        Exit::Pass
    } else {
        Exit::Violated
    };
    let mut document = Map::new();
    if args.format == Format::Json {
        document.insert("evidence".to_owned(), chains::json(&set, args.root));
    } else {
        chains::text(&set, args.root, out)?;
    }
    // What cannot be read has no traces to look for.
    if let Some(url) = args.traces.as_deref().filter(|_| set.unreadable.is_empty()) {
        let (verified, traced) = match compare(args, &files, url) {
            Ok(verified) if verified.is_whole() => (Some(verified), Exit::Pass),
            Ok(verified) => (Some(verified), Exit::Violated),
            Err(error) => {
                complain(&format!("error: {}", printable(&with_causes(&error))));
                (None, exit_of(&error))
            }
        };
        whole &= traced == Exit::Pass;
        exit = worse(exit, traced);
        match (verified, args.format) {
            (Some(verified), Format::Text) => text(&verified, out)?,
            (Some(verified), Format::Json) => {
                if let Value::Object(members) = serde_json::to_value(&verified)? {
                    document.extend(members);
                }
            }
            // There is no document of half an answer.
            (None, Format::Json) => return Ok(exit),
            (None, Format::Text) => {}
        }
    }
    if args.format == Format::Json {
        document.insert("schema".to_owned(), 1.into());
        document.insert("whole".to_owned(), whole.into());
        results::json(&Value::Object(document), out)?;
    }
    Ok(exit)
}

/// Checks the report among the files.
fn report(args: &Args, question: &signed::Question<'_>, out: &mut dyn Write) -> io::Result<Exit> {
    if args.root.is_some() || args.traces.is_some() {
        complain(
            "error: `--root` and `--traces` are for evidence alone; check it without the report",
        );
        return Ok(Exit::Usage);
    }
    let found = match signed::verify(question) {
        Ok(found) => found,
        Err(mistakes) => {
            for mistake in mistakes {
                complain(&format!("error: {}", printable(&mistake)));
            }
            return Ok(Exit::Usage);
        }
    };
    match args.format {
        Format::Text => signed::text(&found, out)?,
        Format::Json => signed::json(&found, out)?,
    }
    Ok(if found.fits() {
        Exit::Pass
    } else {
        Exit::Violated
    })
}

/// Asks the backend.
fn compare(args: &Args, files: &[PathBuf], url: &str) -> Result<Verified, VerifyError> {
    let question = Question {
        files,
        url,
        backend: args.backend.map(|backend| match backend {
            Asked::Jaeger => Backend::Jaeger,
            Asked::Tempo => Backend::Tempo,
        }),
        most_findings: args.show,
    };
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    verify(&question, &variable)
}

const fn exit_of(error: &VerifyError) -> Exit {
    match error {
        VerifyError::Evidence(_) | VerifyError::Address | VerifyError::Headers => Exit::Usage,
        VerifyError::Backend { .. } | VerifyError::Runtime(_) => Exit::NotMeasured,
    }
}

/// Of two ends the one that outranks the other.
fn worse(a: Exit, b: Exit) -> Exit {
    let ranking = [Exit::Usage, Exit::NotMeasured, Exit::Violated];
    let ranked = ranking.into_iter().find(|exit| a == *exit || b == *exit);
    ranked.unwrap_or(Exit::Pass)
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
