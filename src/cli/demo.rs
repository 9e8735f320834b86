//! `relayproof demo`: four embedded relays and the three verdicts, in under half a minute.

use std::io::{self, Write};
use std::path::Path;

use super::{Exit, Format, complain, files, run};
use crate::run::{fresh_run_id, plan_text};

/// Arguments of `demo`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Folder that gets a folder per run
    #[arg(long, env = "RELAYPROOF_DIR", default_value_os_t = files::runs())]
    dir: std::path::PathBuf,
}

/// The relays of the demo: a spec as anyone would write it.
const SPECS: &[(&str, &str)] = &[
    ("demo-good.yaml", include_str!("demo/good.yaml")),
    ("demo-fake-200.yaml", include_str!("demo/fake-200.yaml")),
    ("demo-truncating.yaml", include_str!("demo/truncating.yaml")),
    ("demo-hurried.yaml", include_str!("demo/hurried.yaml")),
];

const INTRODUCTION: &str = "\
Four relays on loopback answer streamed chat completions. All of them answer
200. One keeps its promises, one says 200 and sends an error, one stops in
mid-sentence, and one is not given the time to prove itself.

";

pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let mut plans = Vec::new();
    for (name, text) in SPECS {
        match plan_text(name, text, Path::new(""), None) {
            Ok(planned) => plans.push(planned),
            Err(error) => {
                complain(error.render(super::colour()).trim_end());
                return Ok(Exit::NotMeasured);
            }
        }
    }
    write!(out, "{INTRODUCTION}")?;
    out.flush()?;
    let output = run::Output {
        format: Format::Text,
        reports: &[],
    };
    let exit = run::sample(&plans, &args.dir, &fresh_run_id(), &output, out)?;
    // That two relays fail is what the demo is to show.
    if exit == Exit::Violated {
        return Ok(Exit::Pass);
    }
    // As `judge` says of the same evidence.
    let ends_as = if exit == Exit::Pass {
        Exit::NotMeasured
    } else {
        exit
    };
    complain(
        "the demo could not show what it is about: this machine was too busy to measure; run it \
         again when it is idle",
    );
    Ok(ends_as)
}
