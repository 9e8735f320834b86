//! The document as Markdown: the same parts and tables, without pictures.

use std::fmt::Write as _;

use super::super::document::heading;
use super::super::markdown::{coded, escaped};
use super::SignOff;
use super::blocks::{Block, Column, Inline, Mark, parts};

/// The whole document.
pub fn render(document: &SignOff) -> String {
    let state = if document.is_final {
        ""
    } else {
        " (provisional)"
    };
    let mut text = format!(
        "# Sign-off of {}: {}{state}\n",
        escaped(&document.spec),
        heading(document.overall)
    );
    for (number, part) in (1..).zip(parts(document)) {
        let _ = writeln!(text, "\n## {number}. {}", part.title);
        for block in &part.blocks {
            self::block(&mut text, block);
        }
    }
    text
}

fn block(text: &mut String, block: &Block<'_>) {
    match block {
        Block::Heading(title) => {
            let _ = writeln!(text, "\n### {}", escaped(title));
        }
        Block::Text(words) => {
            let _ = writeln!(text, "\n{}", inline(words));
        }
        Block::List(points) => {
            text.push('\n');
            for point in points {
                let _ = writeln!(text, "- {}", inline(point));
            }
        }
        Block::Table { columns, rows } => table(text, columns, rows),
        Block::Signatures(who) => {
            text.push_str("\n| who signs | name | date | signature |\n|---|---|---|---|\n");
            for one in *who {
                let _ = writeln!(text, "| {} | | | |", escaped(one));
            }
        }
        Block::Picture(_) => {}
    }
}

fn table(text: &mut String, columns: &[Column], rows: &[(Option<Mark>, Vec<Vec<Inline>>)]) {
    let titles: Vec<&str> = columns.iter().map(|it| it.title).collect();
    let _ = writeln!(text, "\n| {} |", titles.join(" | "));
    let rule = columns
        .iter()
        .map(|it| if it.is_number { "---:" } else { "---" });
    let _ = writeln!(text, "|{}|", rule.collect::<Vec<_>>().join("|"));
    for (_, cells) in rows {
        let cells: Vec<String> = cells.iter().map(|cell| inline(cell)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

fn inline(parts: &[Inline]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Inline::Text(words) => text.push_str(&escaped(words)),
            Inline::Code(name) if name.is_empty() => text.push('–'),
            Inline::Code(name) => {
                let _ = write!(text, "`{}`", coded(name));
            }
            Inline::Link { text: words, url } => {
                let url = url.replace(['<', '>', '|', '\\'], "");
                let _ = write!(text, "[{}](<{url}>)", escaped(words));
            }
            Inline::Mark(mark, word) => {
                let _ = write!(text, "{}{}", sign(*mark), escaped(word));
            }
            Inline::Small(words) => {
                let _ = write!(text, "<br>{}", escaped(words));
            }
        }
    }
    text
}

/// A sign beside the word, so that neither colour nor font is needed.
const fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Pass => "✅ ",
        Mark::Warning => "⚠️ ",
        Mark::Violated => "❌ ",
        Mark::Open => "❔ ",
        Mark::Nothing => "⛔ ",
        Mark::Noted => "",
    }
}
