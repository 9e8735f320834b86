//! For a browser: one self-contained page with tables, distributions against their limits, and the
//! waterfalls of failing samples. Asks for nothing over the network and runs no script.

mod charts;
mod plot;
mod scoreboard;
mod signoff;

pub use scoreboard::scoreboard;
pub use signoff::sign_off;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::curves::Curves;
use super::distribution::Distribution;
use super::document::{Cell, Document, Standing, heading};
use super::explain::{address_of, explain};
use super::said::said;
use super::waterfall::phases;
use crate::attribution::blame;
use crate::evidence::{Attempt, Sample};
use crate::measure::seconds;
use crate::words;

/// What the page looks like; no font or picture of anyone else.
const STYLE: &str = include_str!("html/page.css");

/// Most waterfalls of a cell.
const WATERFALLS: usize = 6;

/// The whole page. `curves` belong to the cells, in their order; a cell beyond their end has none.
pub fn render(document: &Document<'_>, curves: &[Curves]) -> String {
    let overall = document.overall();
    let heading = html! { "relayproof: " span class=(overall.as_str()) { (heading(overall)) } };
    let body = html! {
        (contents(document))
        @for (index, cell) in document.cells.iter().enumerate() {
            (section(index, *cell, curves.get(index)))
        }
        (unmeasured(document))
    };
    page(None, &heading, &body, env!("CARGO_PKG_VERSION"))
}

/// A whole page, `wide` or of the usual width; its title is the text of its heading.
fn page(width: Option<&str>, heading: &Markup, body: &Markup, version: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Even if a text found its way out of its quotes, nothing could be loaded or run.
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'; img-src data:";
                link rel="icon" href="data:,";
                title { (PreEscaped(untagged(&heading.0))) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main class=[width] {
                    h1 { (heading) }
                    (body)
                    footer { p { "Made by relayproof " (version) " from the evidence alone." } }
                }
            }
        }
    };
    page.into_string()
}

/// Markup without its tags; what was escaped stays so.
fn untagged(markup: &str) -> String {
    let mut inside = false;
    let text = markup.chars().filter(|character| {
        let was_inside = inside;
        match character {
            '<' => inside = true,
            '>' => inside = false,
            _ => {}
        }
        !was_inside && !inside
    });
    text.collect()
}

/// One line a cell, for pages with many.
fn contents(document: &Document<'_>) -> Markup {
    html! {
        @if document.cells.len() > 1 {
            ul class="contents" {
                @for (index, cell) in document.cells.iter().enumerate() {
                    @let overall = cell.summary.overall();
                    li {
                        a href={ "#cell-" (index) } { (cell.summary.cell) }
                        " " span class=(overall.as_str()) { (heading(overall)) }
                    }
                }
            }
        }
    }
}

fn section(index: usize, cell: Cell<'_>, curves: Option<&Curves>) -> Markup {
    let summary = cell.summary;
    html! {
        section id={ "cell-" (index) } {
            h2 { (summary.cell) }
            p {
                (summary.samples) " of " (summary.planned) " samples, run " code { (summary.run_id) }
                @if let (Some(first), Some(last)) = (summary.first_unix_ns, summary.last_unix_ns) {
                    ", " (words::seconds(last.saturating_sub(first) as f64 / 1e9))
                }
                @if summary.torn { ", last line torn" }
            }
            div class="scroll" {
                table class="verdicts" {
                    thead { tr { th { "verdict" } th { "objective" } th { "found" } } }
                    tbody {
                        @for (objective, verdict, standing) in cell.rows() {
                            tr class=(standing.as_str()) {
                                td class="mark" { (mark(standing)) }
                                td { code { (objective.text) } }
                                td {
                                    (said(&summary.judging, objective, verdict))
                                    @if let Some(why) = explain(cell.evidence, objective, verdict) {
                                        div class="why" {
                                            "Look at " (why.place()) ": " (why.shown_by()) ". "
                                            (trace(&why.trace_id, why.address(&cell.evidence.header)))
                                        }
                                    }
                                    div class="rule" { (verdict.rule) }
                                }
                            }
                        }
                    }
                }
            }
            (outcomes(cell))
            @for (row, curve) in cell.rows().zip(curves.map(Curves::all).unwrap_or_default()) {
                @let shape = curve.as_ref().and_then(|it| Distribution::of(row.0, row.1, &it.values, it.failed));
                @if let Some(shape) = shape { (plot::distribution(&shape)) }
            }
            (waterfalls(cell))
            p class="rule" { "Spec " code { (summary.spec_source) } ", evidence " code { (cell.path) } }
        }
    }
}

/// A sign and a word, so that neither colour nor font is needed.
const fn mark(standing: Standing) -> &'static str {
    match standing {
        Standing::Passed => "✓ pass",
        Standing::Warned => "! warning",
        Standing::Violated => "✗ violated",
        Standing::Open => "? inconclusive",
        Standing::Broken => "– invalid",
    }
}

/// A trace's id, as a link where it has an address.
fn trace(id: &str, url: Option<String>) -> Markup {
    let is_web = |url: &String| url.starts_with("http://") || url.starts_with("https://");
    html! {
        @if let Some(url) = url.filter(is_web) {
            a href=(url) rel="noreferrer" { "trace " (id) }
        } @else {
            "Trace " code { (id) }
        }
    }
}

fn outcomes(cell: Cell<'_>) -> Markup {
    let groups = cell.summary.failures.all();
    html! {
        @if !groups.is_empty() {
            h3 { "What went wrong" }
            div class="scroll" {
                table class="groups" {
                    thead {
                        tr { th { "look at" } th { "phase" } th { "class" } th { "samples" } th { "such as" } }
                    }
                    tbody {
                        @for group in groups {
                            tr {
                                td { (group.party) }
                                td { (group.phase) }
                                td { (group.class) }
                                td class="number" { (group.count) }
                                td {
                                    @for (index, one) in group.telling.iter().enumerate() {
                                        @if index > 0 { ", " }
                                        "#" (one.index)
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The samples that the explanations of failing objectives name, each once.
fn waterfalls(cell: Cell<'_>) -> Markup {
    let mut named: Vec<u64> = Vec::new();
    for (objective, verdict, _) in cell.failing() {
        let why = explain(cell.evidence, objective, verdict);
        for index in why.into_iter().flat_map(|why| why.samples) {
            if !named.contains(&index) && named.len() < WATERFALLS {
                named.push(index);
            }
        }
    }
    let samples = cell.evidence.samples.iter();
    let shown: Vec<&Sample> = samples
        .filter(|sample| sample.counts() && named.contains(&sample.index))
        .collect();
    html! {
        @if !shown.is_empty() {
            h3 { "Failing samples" }
            @for sample in shown {
                details {
                    summary {
                        "Sample " (sample.index) ": "
                        (sample.attempts.last().map_or("", |last| last.observation.outcome()))
                    }
                    p { (trace(&sample.trace_id, address_of(&cell.evidence.header, sample))) }
                    @for (index, attempt) in sample.attempts.iter().enumerate() {
                        (attempt_of(index, sample.attempts.len(), attempt))
                    }
                }
            }
        }
    }
}

fn attempt_of(index: usize, of: usize, attempt: &Attempt) -> Markup {
    let seen = &attempt.observation;
    html! {
        @if of > 1 {
            h4 { "Attempt " (index + 1) " of " (of) ", after " (words::seconds(seconds(attempt.start))) }
        }
        (plot::waterfall(&phases(&seen.timeline), seen.timeline.over))
        @if !seen.findings.is_empty() {
            ul {
                @for finding in &seen.findings {
                    li {
                        (finding.class) " in phase " (finding.phase)
                        @if let Some(event) = finding.event { ", event " (event) }
                        @if let Some(offset) = finding.offset { ", body byte " (offset) }
                        @if !finding.detail.is_empty() { ": " (finding.detail) }
                    }
                }
            }
            p { "Look at " (blame(seen).party) "." }
        }
    }
}

fn unmeasured(document: &Document<'_>) -> Markup {
    html! {
        @if !document.unmeasured.is_empty() {
            section {
                h2 { "Without a verdict" }
                ul {
                    @for one in document.unmeasured {
                        li {
                            @if one.ignored { "ignored: " } @else { "not measured: " }
                            (one.cell) ": " (one.reason)
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;
    use crate::report::document::Unmeasured;
    use crate::verdict::Summary;

    fn page(cell_name: &str) -> String {
        let samples: Vec<Sample> = (0..40)
            .map(|index| {
                let seen = match index % 4 {
                    0 => truncated(),
                    1 => slow(2000),
                    _ => good(),
                };
                sample(index, seen)
            })
            .collect();
        let mut evidence = evidence(vec![ttft_p95(), interruption(), tps_p05()], 600, samples);
        evidence.header.cell = cell_name.to_owned();
        let mut curves = Curves::new(&evidence.header);
        evidence.samples.iter().for_each(|one| curves.take(one));
        let summary = Summary::of(&evidence);
        let cell = Cell {
            evidence: &evidence,
            summary: &summary,
            path: "run/cell.jsonl",
        };
        let unmeasured = [Unmeasured {
            cell: "gamma/m/w".to_owned(),
            ignored: true,
            reason: "no <b>key</b>".to_owned(),
        }];
        let document = Document {
            cells: vec![cell],
            unmeasured: &unmeasured,
        };
        render(&document, &[curves])
    }

    #[test]
    fn a_page_has_verdicts_distributions_and_waterfalls() {
        let text = page("alpha/m/w");
        for wanted in [
            "✗ violated",
            "Look at relay-middleware",
            "truncated-no-terminator",
            "<h3>Failing samples</h3>",
            "ttft.p95 &lt; 1.5s",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
        // A plot for each quantile, a waterfall for each sample that is named.
        assert!(text.matches("<svg").count() >= 2 + 3, "{text}");
    }

    #[test]
    fn no_text_leaves_its_quotes_and_nothing_is_loaded() {
        let text = page("\"><script>alert(1)</script>");
        assert!(!text.contains("<script"), "{text}");
        assert!(text.contains("&lt;b&gt;key"), "{text}");
        for loaded in ["src=", "url(", "@import", "http://", "https://"] {
            assert!(!text.contains(loaded), "{loaded} in {text}");
        }
    }
}
