//! The sign-off document as one page, for a browser or for paper.

use maud::{Markup, html};

use super::super::document::heading;
use super::super::signoff::{Block, Column, Inline, Mark, Part, Picture, SignOff, parts};
use super::{charts, page, plot};

/// Most columns of a table that fits a phone as it is.
const NARROW: usize = 6;

/// The whole page.
pub fn sign_off(document: &SignOff) -> String {
    let overall = document.overall;
    let heading = html! {
        "Sign-off of " (document.spec) ": "
        span class=(overall.as_str()) { (heading(overall)) }
        @if !document.is_final { " (provisional)" }
    };
    let parts = parts(document);
    let body = html! {
        nav {
            ol class="contents" {
                @for (number, part) in (1..).zip(&parts) {
                    li { a href={ "#part-" (number) } { (part.title) } }
                }
            }
        }
        @for (number, part) in (1..).zip(&parts) { (section(number, part, document)) }
    };
    page(&heading, &body, &document.tool.version)
}

fn section(number: u32, part: &Part<'_>, document: &SignOff) -> Markup {
    html! {
        section id={ "part-" (number) } {
            h2 { (number) ". " (part.title) }
            @for block in &part.blocks { (self::block(block, document)) }
        }
    }
}

fn block(block: &Block<'_>, document: &SignOff) -> Markup {
    html! {
        @match block {
            Block::Heading(title) => h3 { (title) },
            Block::Text(words) => p { (inline(words)) },
            Block::List(points) => ul { @for point in points { li { (inline(point)) } } },
            Block::Table { columns, rows } => (table(columns, rows)),
            Block::Signatures(who) => (signatures(who)),
            Block::Picture(Picture::Latency(pool)) => {
                (charts::hours(pool, &document.clock))
                @for shape in &pool.spread { (plot::distribution(shape)) }
            },
            Block::Picture(Picture::Days(relay, days)) => (charts::days(relay, days)),
        }
    }
}

/// On a phone a wide table is read card by card, each value behind the name of its column.
fn table(columns: &[Column], rows: &[(Option<Mark>, Vec<Vec<Inline>>)]) -> Markup {
    let numbers = columns.iter().skip(1).all(|column| column.is_number);
    let is_narrow = columns.len() <= NARROW && numbers;
    let class = |column: &Column| column.is_number.then_some("number");
    html! {
        div class="scroll" {
            table class=(if is_narrow { "records narrow" } else { "records cards" }) {
                thead {
                    tr {
                        @for column in columns { th class=[class(column)] { (column.title) } }
                    }
                }
                tbody {
                    @for (mark, cells) in rows {
                        tr class=[mark.map(name)] {
                            @for (cell, column) in cells.iter().zip(columns) {
                                td class=[class(column)] data-label=(column.title) {
                                    div { (inline(cell)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn inline(parts: &[Inline]) -> Markup {
    html! {
        @for part in parts {
            @match part {
                Inline::Text(words) => (words),
                Inline::Code(name) => code { (name) },
                Inline::Link { text, url } => a href=(url) rel="noreferrer" { (text) },
                Inline::Mark(mark, word) => span class={ "mark " (name(*mark)) } {
                    (sign(*mark)) (word)
                },
                Inline::Small(words) => div class="rule" { (words) },
            }
        }
    }
}

fn signatures(who: &[String]) -> Markup {
    html! {
        div class="signatures" {
            @for one in who {
                div class="signature" {
                    div class="who" { (one) }
                    @for line in ["name", "date", "signature"] {
                        div class="line" { span { (line) } }
                    }
                }
            }
        }
    }
}

/// A sign beside the word, so that neither colour nor font is needed.
const fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Pass => "✓ ",
        Mark::Warning => "! ",
        Mark::Violated => "✗ ",
        Mark::Open => "? ",
        Mark::Nothing => "– ",
        Mark::Noted => "",
    }
}

const fn name(mark: Mark) -> &'static str {
    match mark {
        Mark::Pass => "pass",
        Mark::Warning => "warning",
        Mark::Violated => "violated",
        Mark::Open => "inconclusive",
        Mark::Nothing => "nothing_measured",
        Mark::Noted => "noted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::signoff::{Block, fixtures, markdown};
    use crate::verdict::Overall;

    #[test]
    fn a_page_has_the_eleven_parts_and_pictures_and_lines_to_sign_on() {
        let document = fixtures::final_one();
        let text = sign_off(&document);
        for number in 1..=11 {
            assert!(text.contains(&format!("<h2>{number}. ")), "{number}");
        }
        assert_eq!(text.matches("class=\"signature\"").count(), 3);
        let pictures = parts(&document);
        let pictures = pictures.iter().flat_map(|part| &part.blocks);
        let days = pictures
            .filter(|block| matches!(block, Block::Picture(Picture::Days(..))))
            .count();
        let spread: usize = document.latency.iter().map(|it| it.spread.len()).sum();
        assert_eq!((days, spread), (1, 4), "two quantiles of two relays");
        let hours = document.latency.len();
        assert_eq!(text.matches("<svg").count(), hours + spread + days);
        assert_eq!(
            text.matches("class=\"peak\"").count(),
            hours * 4,
            "hours of the peak"
        );
    }

    #[test]
    fn no_script_runs_and_nothing_is_loaded_whatever_a_relay_says() {
        let mut files = fixtures::files();
        for one in &mut files {
            one.header.otel.trace_url = None;
            one.header.base_url = "\"><script>alert(1)</script>".to_owned();
        }
        let text = sign_off(&fixtures::document(files, "2026-12-09T00:00:00Z"));
        assert!(!text.contains("<script"));
        for loaded in ["src=", "url(", "@import", "http://", "https://"] {
            assert!(!text.contains(loaded), "{loaded}");
        }
    }

    #[test]
    fn the_same_verdicts_stand_in_all_forms() {
        let document = fixtures::final_one();
        let json = document.json().unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let (page, text) = (sign_off(&document), markdown(&document));
        for (index, row) in document.rows.iter().enumerate() {
            let said = &json["rows"][index];
            assert_eq!(said["decision"], row.decision.as_str());
            let word = match row.comes_to {
                Overall::Violated => "violated\">✗ violated",
                Overall::Inconclusive => "inconclusive\">? inconclusive",
                Overall::Pass | Overall::Nothing => continue,
            };
            assert!(page.contains(word), "{}", row.name);
        }
        let count = |text: &str, sign: &str| text.matches(sign).count();
        let violated = document
            .rows
            .iter()
            .filter(|row| row.comes_to == Overall::Violated);
        let relays = document
            .relays
            .iter()
            .filter(|it| it.overall == Overall::Violated);
        let violated = violated.count() + relays.count();
        assert!(violated > 2, "{violated}");
        assert_eq!(count(&page, "✗ violated"), violated);
        assert_eq!(count(&text, "❌ violated"), violated);
        let passed = document
            .rows
            .iter()
            .filter(|row| row.decision == "pass")
            .count();
        assert_eq!(count(&page, "✓ pass"), passed);
        assert_eq!(count(&text, "✅ pass"), passed);
    }
}
