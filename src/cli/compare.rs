//! `relayproof compare`: relays ranked by their evidence, or a new run held against an old one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::files::{found, warn_of_altered};
use super::{Exit, complain, results, with_causes};
use crate::compare::alike::{Unlike, apart, forbidding, groups, unlike};
use crate::compare::ranking::{Score, rank};
use crate::compare::regression::{Comparison, regress};
use crate::compare::{Question, Tallied};
use crate::evidence::{EvidenceError, Header, Reader};
use crate::report::compared::length;
use crate::report::{html, ranking, regression};
use crate::stats::interval::Sides;

/// One undefined value in so many is worth a remark.
const UNDEFINED_ONE_IN: u64 = 10;

/// Arguments of `compare`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Evidence files, or folders of them; each cell is one contestant
    #[arg(required = true, value_name = "EVIDENCE")]
    files: Vec<PathBuf>,
    /// Say whether they got worse than in this evidence file or folder, instead of ranking them
    #[arg(long, value_name = "OLD", conflicts_with_all = ["confidence", "sides"])]
    against: Option<PathBuf>,
    /// What counts as good: a metric of yes and no, or a bound like `ttft < 1.5s` [default: usable;
    /// with --against, each objective of the spec]
    #[arg(long)]
    metric: Option<String>,
    /// Confidence of the score
    #[arg(long, value_name = "PERCENTAGE", default_value = "95%", value_parser = confidence)]
    confidence: u32,
    /// Whether it is that of the score alone or of both ends of its interval
    #[arg(long, value_enum, default_value_t = Side::Two)]
    sides: Side,
    /// Compare what differs in model or workload, and runs that are invalid
    #[arg(long)]
    force: bool,
    /// Output
    #[arg(long, value_enum, default_value_t = Form::Text)]
    format: Form,
}

/// How a comparison is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// One JSON document, schema-versioned
    Json,
    /// One static page to publish; of a ranking only
    Html,
}

/// How the confidence of the score is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    /// That of the score alone
    One,
    /// That of both ends together
    Two,
}

fn confidence(text: &str) -> Result<u32, String> {
    let ppm = crate::spec::percentage(text)?;
    if (500_001..1_000_000).contains(&ppm) {
        Ok(ppm)
    } else {
        Err("a confidence is above 50% and below 100%".to_owned())
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let question = match args.metric.as_deref().map(Question::parse).transpose() {
        Ok(question) => question,
        Err(error) => return Ok(refuse(&format!("--metric: {error}"))),
    };
    match &args.against {
        Some(_) if args.format == Form::Html => Ok(refuse(
            "--format html is a page of a ranking; with --against there are text and json",
        )),
        Some(old) => against(old, args, question, out),
        None => ranked(args, &question.unwrap_or_else(Question::usable), out),
    }
}

/// Says what is wrong with the command line.
fn refuse(why: &str) -> Exit {
    complain(&format!("error: {why}"));
    Exit::Usage
}

/// Writes a report, or one of the documents in its stead.
fn show(
    format: Form,
    text: impl FnOnce() -> String,
    json: impl FnOnce() -> serde_json::Value,
    page: impl FnOnce() -> String,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Form::Text => write!(out, "{}", results::printable(&text())),
        Form::Json => results::json(&json(), out),
        Form::Html => out.write_all(page().as_bytes()),
    }
}

/// Counts one evidence file, line by line.
fn tally(path: &Path, questions: Vec<Question>, ttft: bool) -> Result<Tallied, EvidenceError> {
    let mut reader = Reader::open(path)?;
    let shown = path.display().to_string();
    let mut tallied = Tallied::new(reader.header().clone(), shown, questions);
    if ttft {
        tallied = tallied.with_ttft();
    }
    while let Some(line) = reader.next_record()? {
        tallied.take(&line);
    }
    Ok(tallied)
}

fn ranked(args: &Args, question: &Question, out: &mut dyn Write) -> io::Result<Exit> {
    let (files, mut mistakes) = found(&args.files);
    warn_of_altered(&files);
    let (mut cells, mut unfit) = (Vec::new(), Vec::new());
    let is_page = args.format == Form::Html;
    let mut questions = vec![question.clone()];
    if is_page {
        questions.extend([Question::usable(), Question::http_success()]);
    }
    for file in &files {
        match tally(file, questions.clone(), is_page) {
            Ok(cell) => match cell.invalid() {
                Some(why) if !args.force => unfit.push((cell.header.cell, why)),
                Some(_) | None => cells.push(cell),
            },
            Err(error) => mistakes.push(with_causes(&error)),
        }
    }
    for mistake in &mistakes {
        complain(&format!("error: {mistake}"));
    }
    for (cell, why) in &unfit {
        complain(&format!(
            "not ranked: {cell}: its run is invalid ({why}); --force ranks it all the same"
        ));
    }
    let unread = if mistakes.is_empty() && unfit.is_empty() {
        Exit::Pass
    } else {
        Exit::NotMeasured
    };
    if cells.len() < 2 {
        if unread == Exit::NotMeasured {
            complain("error: fewer than two cells are left to compare");
            return Ok(unread);
        }
        return Ok(refuse("one cell alone; name the evidence of another relay"));
    }
    let groups = if args.force {
        vec![cells.iter().collect()]
    } else {
        groups(&cells)
    };
    if groups.iter().all(|group| group.len() < 2) {
        return Ok(refuse(&nothing_alike(&cells)));
    }
    let score = Score {
        confidence_ppm: args.confidence,
        sides: match args.sides {
            Side::One => Sides::One,
            Side::Two => Sides::Two,
        },
    };
    let mut tables = Vec::new();
    for group in groups {
        if let [alone] = group[..] {
            complain(&format!(
                "not ranked: {}: no other relay was asked the same",
                alone.header.cell
            ));
            continue;
        }
        tables.push(ranking::Table {
            unlike: differences(&group),
            notes: remarks(&group, question),
            ranking: rank(group, question, score),
            question,
        });
    }
    let text = || {
        let texts: Vec<String> = tables.iter().map(ranking::text).collect();
        texts.join("\n")
    };
    let json = || ranking::json(&tables, score);
    let page = || html::scoreboard(&tables, score);
    show(args.format, text, json, page, out)?;
    let measured = tables.iter().any(|table| !table.ranking.ranked.is_empty());
    Ok(if measured { unread } else { Exit::NotMeasured })
}

/// Why no two of several cells can be compared.
fn nothing_alike(cells: &[Tallied]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    if let Some((first, others)) = cells.split_first() {
        for other in others {
            for it in forbidding(&first.header, &other.header) {
                let reason = format!("{} ({})", it.words, other.header.cell);
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
    }
    let first = cells.first().map_or("", |it| it.header.cell.as_str());
    format!(
        "no two of these cells were asked the same; {first} differs: {}; --force compares them all \
         the same",
        reasons.join(", ")
    )
}

/// In what the cells of a group differ from the first, each once.
fn differences(group: &[&Tallied]) -> Vec<Unlike> {
    let mut found: Vec<Unlike> = Vec::new();
    if let Some((first, others)) = group.split_first() {
        for it in others
            .iter()
            .flat_map(|other| unlike(&first.header, &other.header))
        {
            if !found.contains(&it) {
                found.push(it);
            }
        }
    }
    found
}

/// What makes a ranking one to take with care.
fn remarks(group: &[&Tallied], question: &Question) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((first, others)) = group.split_first() {
        let gap = others.iter().filter_map(|other| apart(first, other)).max();
        if let Some(gap) = gap {
            notes.push(format!(
                "not all were sampled at the same time; {} between two of them",
                length(gap)
            ));
        }
    }
    for cell in group {
        let name = &cell.header.cell;
        let counts = cell.counts_of(question).unwrap_or_default();
        if counts.undefined.saturating_mul(UNDEFINED_ONE_IN) > cell.samples {
            notes.push(format!(
                "{name}: {} of {} samples have no value and are left out",
                counts.undefined, cell.samples
            ));
        }
        if counts.unsealed > 0 {
            notes.push(format!(
                "{name}: {} of its bad samples lack nothing but the seal",
                counts.unsealed
            ));
        }
        if let Some(why) = cell.invalid() {
            notes.push(format!("{name}: its run is invalid ({why})"));
        }
        if cell.doubt.is_some() && (question.is_of_time() || counts.bursts > 0) {
            notes.push(format!(
                "{name}: the client was saturated, so slow answers and bursts may be ours"
            ));
        }
    }
    notes
}

/// An evidence file that is still to be counted.
struct Uncounted {
    path: PathBuf,
    header: Header,
}

/// Opens files as far as their headers.
fn open(paths: &[PathBuf], mistakes: &mut Vec<String>) -> Vec<Uncounted> {
    let (files, wrong) = found(paths);
    warn_of_altered(&files);
    mistakes.extend(wrong);
    let mut opened = Vec::new();
    for path in files {
        match Reader::open(&path) {
            Ok(reader) => opened.push(Uncounted {
                header: reader.header().clone(),
                path,
            }),
            Err(error) => mistakes.push(with_causes(&error)),
        }
    }
    opened
}

fn against(
    old: &Path,
    args: &Args,
    question: Option<Question>,
    out: &mut dyn Write,
) -> io::Result<Exit> {
    let mut mistakes = Vec::new();
    let before = open(std::slice::from_ref(&old.to_owned()), &mut mistakes);
    let after = open(&args.files, &mut mistakes);
    let pairs = match pairs(&before, &after, args.force) {
        Ok(pairs) => pairs,
        Err(why) => {
            mistakes
                .iter()
                .for_each(|it| complain(&format!("error: {it}")));
            if mistakes.is_empty() || !(before.is_empty() || after.is_empty()) {
                return Ok(refuse(&why));
            }
            return Ok(Exit::NotMeasured);
        }
    };
    let mut counted = Vec::new();
    for (old, new) in pairs {
        let questions = question
            .clone()
            .map_or_else(|| promised(&new.header), |question| vec![question]);
        let read = tally(&old.path, questions.clone(), true)
            .and_then(|before| Ok((before, tally(&new.path, questions, true)?)));
        match read {
            Ok((before, after)) => match unfit(&before, &after, args.force) {
                Some(why) => mistakes.push(format!("{}: {why}", new.header.cell)),
                None => counted.push((before, after)),
            },
            Err(error) => mistakes.push(with_causes(&error)),
        }
    }
    for mistake in &mistakes {
        complain(&format!("error: {mistake}"));
    }
    if counted.is_empty() {
        complain("error: nothing could be compared");
        return Ok(Exit::NotMeasured);
    }
    let reports: Vec<_> = regress(counted.iter().map(|(old, new)| (old, new)))
        .into_iter()
        .map(|comparison| regression::Pair {
            unlike: unlike(&comparison.old.header, &comparison.new.header),
            notes: doubts(&comparison),
            comparison,
        })
        .collect();
    show(
        args.format,
        || regression::text(&reports),
        || regression::json(&reports),
        String::new,
        out,
    )?;
    let worse = reports.iter().any(|it| it.comparison.is_worse());
    Ok(if !mistakes.is_empty() {
        Exit::NotMeasured
    } else if worse {
        Exit::Violated
    } else {
        Exit::Pass
    })
}

type Pairs<'a> = Vec<(&'a Uncounted, &'a Uncounted)>;

/// Old and new of each cell; of one file each, whatever they are called.
fn pairs<'a>(
    before: &'a [Uncounted],
    after: &'a [Uncounted],
    force: bool,
) -> Result<Pairs<'a>, String> {
    let mut pairs: Pairs<'a> = Vec::new();
    if let ([old], [new]) = (before, after) {
        pairs.push((old, new));
    } else {
        for new in after {
            let same = |it: &&&Uncounted| it.header.cell == new.header.cell;
            let mut alike = before.iter().filter(|it| same(&it));
            match (alike.next(), alike.next()) {
                (Some(old), None) => pairs.push((old, new)),
                (Some(_), Some(_)) => {
                    return Err(format!(
                        "more than one old cell is called {}; name one file",
                        new.header.cell
                    ));
                }
                (None, _) => complain(&format!(
                    "not compared: {}: not among the old cells",
                    new.header.cell
                )),
            }
        }
        for old in before {
            if !after.iter().any(|new| new.header.cell == old.header.cell) {
                complain(&format!(
                    "not compared: {}: not among the new cells",
                    old.header.cell
                ));
            }
        }
    }
    if pairs.is_empty() {
        return Err("no cell is both among the old and the new ones".to_owned());
    }
    for (old, new) in &pairs {
        let differs: Vec<String> = forbidding(&old.header, &new.header)
            .into_iter()
            .map(|it| it.words)
            .collect();
        if !differs.is_empty() && !force {
            return Err(format!(
                "{} was not asked the same as {}: {}; --force compares them all the same",
                new.header.cell,
                old.header.cell,
                differs.join(", ")
            ));
        }
    }
    Ok(pairs)
}

/// What the objectives of a cell ask of its samples, each question once.
fn promised(header: &Header) -> Vec<Question> {
    let mut questions: Vec<Question> = Vec::new();
    for question in header.objectives.iter().filter_map(Question::of) {
        if !questions.iter().any(|known| known.same_as(&question)) {
            questions.push(question);
        }
    }
    if questions.is_empty() {
        questions.push(Question::usable());
    }
    questions
}

/// Why two cells say nothing of a relay.
fn unfit(old: &Tallied, new: &Tallied, force: bool) -> Option<String> {
    for (word, side) in [("old", old), ("new", new)] {
        if side.samples == 0 {
            return Some(format!("nothing was measured in the {word} run"));
        }
        if let Some(why) = side.invalid().filter(|_| !force) {
            return Some(format!(
                "the {word} run is invalid ({why}); --force compares it all the same"
            ));
        }
    }
    None
}

/// What makes a comparison one to take with care.
fn doubts(comparison: &Comparison<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    for (word, side) in [("old", comparison.old), ("new", comparison.new)] {
        if let Some(why) = side.invalid() {
            notes.push(format!("the {word} run is invalid ({why})"));
        }
        if let Some(lag) = side.doubt {
            notes.push(format!(
                "the client of the {word} run was saturated: its times may be too long by up to {}",
                length(lag)
            ));
        }
    }
    if comparison.old.header.relay != comparison.new.header.relay {
        notes.push(format!(
            "two relays: {} and {}",
            comparison.old.header.relay, comparison.new.header.relay
        ));
    }
    notes
}
