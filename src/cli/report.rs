//! `relayproof report [EVIDENCE…]`: the verdicts of evidence, written for other programs.
//!
//! The exit code says whether the report could be written, not what is in it: it runs behind the
//! tests, which have failed already.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;

use super::judge::{self, Judged};
use super::soak::{self, Given, Page, Soak};
use super::{Exit, complain, files, results, signed};
use crate::evidence::{Line, Reader};
use crate::report::curves::Curves;
use crate::report::document::{Cell, Document, Unmeasured};
use crate::report::{annotations, html, json, junit, markdown};
use crate::run::latest_runs;

/// Runs that are looked at for one that holds evidence.
const LOOKED_AT: usize = 100;

/// Arguments of `report`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Evidence files, or folders of them; the latest run when none is given
    files: Vec<PathBuf>,
    /// Where runs lie, when no evidence is given
    #[arg(long, env = "RELAYPROOF_DIR", default_value_os_t = files::runs())]
    dir: PathBuf,
    /// What to write; of a soak `html`, `markdown` and `json` are the document to sign
    #[arg(long, value_enum)]
    format: Form,
    /// Look at a soak as of this time, such as 2026-12-08T00:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = soak::moment)]
    as_of: Option<u64>,
    /// Where to write it, instead of stdout
    #[arg(long, short)]
    out: Option<PathBuf>,
    /// Sign the report of a soak and its evidence: a private key, Ed25519 as PEM or of SSH; the
    /// signature goes beside the report, as OUT.dsse.json
    #[arg(long, value_name = "KEY", requires = "out")]
    sign: Option<PathBuf>,
}

/// A form of report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// JUnit XML
    Junit,
    /// Markdown, for a job's summary or a pull request
    #[value(alias = "md")]
    Markdown,
    /// Workflow commands of GitHub Actions, which mark the lines of the spec
    Github,
    /// GitLab's annotations report: links to traces
    Gitlab,
    /// One JSON document, schema-versioned
    Json,
    /// One page for a browser, with plots
    Html,
}

/// A report and the file that it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    form: Form,
    path: PathBuf,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (form, path) = text
            .split_once('=')
            .filter(|(_, path)| !path.is_empty())
            .ok_or("not of the form FORM=FILE, such as junit=target/relayproof.xml")?;
        let form = Form::from_str(form, false).map_err(|_| {
            let known: Vec<String> = Form::value_variants()
                .iter()
                .filter_map(ValueEnum::to_possible_value)
                .map(|form| form.get_name().to_owned())
                .collect();
            format!("no form `{form}`; there are {}", known.join(", "))
        })?;
        Ok(Self {
            form,
            path: path.into(),
        })
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let files = if args.files.is_empty() {
        match latest_evidence(&args.dir) {
            Some(run) => {
                complain(&format!("report of {}", run.display()));
                vec![run]
            }
            None => {
                complain(&format!(
                    "error: no run with evidence in {}; name a run's folder, or where runs lie with \
                     `--dir`",
                    args.dir.display()
                ));
                return Ok(Exit::Usage);
            }
        }
    } else {
        args.files.clone()
    };
    match soak::given(&files) {
        Err(mistake) => return Ok(soak::refuse(&[mistake])),
        Ok(Given::Soak(files)) => return of_soak(files, args, out),
        Ok(Given::Runs) if args.as_of.is_some() => {
            return Ok(soak::refuse(&[judge::AS_OF.to_owned()]));
        }
        Ok(Given::Runs) => {}
    }
    let (judged, mistakes) = judge::read_all(&files);
    for mistake in &mistakes {
        complain(&format!("error: {mistake}"));
    }
    // A report without a part of what was asked for would read as if that part were fine.
    if !mistakes.is_empty() {
        return Ok(Exit::Usage);
    }
    if args.sign.is_some() {
        let mistake = "only the report of a soak is signed; this is evidence of runs";
        return Ok(soak::refuse(&[mistake.to_owned()]));
    }
    let Some(path) = &args.out else {
        let paths = judge::paths(&judged);
        render(args.format, &judge::document(&judged, &paths, &[]), out)?;
        return Ok(Exit::Pass);
    };
    let wanted = Wanted {
        form: args.format,
        path: path.clone(),
    };
    Ok(match write_all(&[wanted], &judged, &[]) {
        Ok(()) => Exit::Pass,
        Err(mistakes) => {
            complain(mistakes.trim_end());
            Exit::NotMeasured
        }
    })
}

/// Writes the report of a soak.
fn of_soak(files: Vec<PathBuf>, args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let soak = match Soak::read(files, args.as_of) {
        Ok(soak) => soak,
        Err(mistakes) => return Ok(soak::refuse(&mistakes)),
    };
    let page = match args.format {
        Form::Markdown => Page::Markdown,
        Form::Json => Page::Json,
        Form::Html => Page::Html,
        Form::Junit if args.sign.is_some() => {
            let mistake = "only the document is signed: html, markdown or json";
            return Ok(soak::refuse(&[mistake.to_owned()]));
        }
        Form::Junit => {
            if let Err(mistake) = soak.root() {
                return Ok(soak::refuse(&[mistake]));
            }
            let text = junit::campaign(&soak.campaign).map_err(io::Error::other)?;
            return written(&text, args.out.as_deref(), out);
        }
        Form::Github | Form::Gitlab => {
            let mistake = "these forms are for runs in CI; of a soak there are html, markdown, json \
                           and junit";
            return Ok(soak::refuse(&[mistake.to_owned()]));
        }
    };
    let (document, root) = match soak.sign_off() {
        Ok(made) => made,
        Err(mistake) => return Ok(soak::refuse(&[mistake])),
    };
    let text = page.write(&document)?;
    let exit = written(&text, args.out.as_deref(), out)?;
    let (Some(key), Some(path), Exit::Pass) = (&args.sign, &args.out, exit) else {
        return Ok(exit);
    };
    match signed::sign(path, text.as_bytes(), &root, &soak.campaign, key) {
        Ok(envelope) => {
            complain(&format!("signed: {}", envelope.display()));
            Ok(Exit::Pass)
        }
        Err(mistake) => Ok(soak::refuse(&[mistake])),
    }
}

/// Writes a report to its file, or to where everything is printed.
fn written(text: &str, path: Option<&Path>, out: &mut dyn Write) -> io::Result<Exit> {
    let Some(path) = path else {
        out.write_all(text.as_bytes())?;
        return Ok(Exit::Pass);
    };
    Ok(match fs::write(path, text) {
        Ok(()) => Exit::Pass,
        Err(error) => {
            complain(&format!("error: cannot write {}: {error}", path.display()));
            Exit::NotMeasured
        }
    })
}

/// The folder of the latest run that holds evidence.
pub(super) fn latest_evidence(root: &Path) -> Option<PathBuf> {
    let holds = |run: &PathBuf| files::in_place(run).is_ok_and(|files| !files.is_empty());
    latest_runs(root).into_iter().take(LOOKED_AT).find(holds)
}

/// Writes each report to its file; what cannot be written is told in the error, and the others are
/// written all the same.
pub(super) fn write_all(
    reports: &[Wanted],
    judged: &[Judged],
    unmeasured: &[Unmeasured],
) -> Result<(), String> {
    let paths = judge::paths(judged);
    let document = judge::document(judged, &paths, unmeasured);
    let mut mistakes = String::new();
    for Wanted { form, path } in reports {
        let mut text = Vec::new();
        let written = render(*form, &document, &mut text).and_then(|()| fs::write(path, text));
        if let Err(error) = written {
            mistakes.push_str(&format!(
                "error: cannot write {}: {error}\n",
                path.display()
            ));
        }
    }
    if mistakes.is_empty() {
        Ok(())
    } else {
        Err(mistakes)
    }
}

fn render(form: Form, document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    match form {
        Form::Junit => {
            let text = junit::render(document).map_err(io::Error::other)?;
            out.write_all(text.as_bytes())
        }
        Form::Markdown => out.write_all(markdown::render(document).as_bytes()),
        Form::Github => {
            let text = annotations::github(document, &in_repository);
            out.write_all(results::printable(&text).as_bytes())
        }
        Form::Gitlab => results::json(&annotations::gitlab(document), out),
        Form::Json => results::json(&json::render(document), out),
        Form::Html => {
            let curves: Vec<Curves> = document
                .cells
                .iter()
                .map(curves)
                .collect::<Result<_, _>>()?;
            out.write_all(html::render(document, &curves).as_bytes())
        }
    }
}

/// Reads a cell's record once more for what is drawn of it: its samples are not kept in memory.
fn curves(cell: &Cell<'_>) -> io::Result<Curves> {
    let mut reader = Reader::open(Path::new(cell.path)).map_err(io::Error::other)?;
    let mut curves = Curves::new(reader.header());
    while let Some(line) = reader.next_record().map_err(io::Error::other)? {
        match line {
            Line::Sample(sample) => curves.take(&sample),
            Line::Close(_) | Line::Continued(_) | Line::Session(_) | Line::Skipped(_) => {}
        }
    }
    Ok(curves)
}

/// The path of a spec below the checkout of a GitHub workflow; as it is everywhere else.
fn in_repository(path: &str) -> String {
    let root = std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from);
    let here = std::env::current_dir().ok();
    let below = root.zip(here).and_then(|(root, here)| {
        let whole = here.join(path);
        whole.strip_prefix(root).map(Path::to_owned).ok()
    });
    below.map_or_else(|| path.to_owned(), |below| below.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_asked_for_by_its_form_and_its_file() {
        let wanted: Wanted = "junit=a=b.xml".parse().unwrap();
        assert_eq!((wanted.form, wanted.path), (Form::Junit, "a=b.xml".into()));
        let unknown = "junitt=x".parse::<Wanted>().unwrap_err();
        assert!(unknown.contains("there are junit, markdown"), "{unknown}");
        assert!("junit".parse::<Wanted>().is_err());
        assert!("junit=".parse::<Wanted>().is_err());
    }
}
