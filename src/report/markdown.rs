//! For a pull request or a job's summary page: Markdown tables, the failing cells first.

use std::fmt::Write as _;

use super::document::{Cell, Document, Standing, heading};
use super::explain::explain;
use super::said::said;

/// Largest document; GitHub takes a mebibyte of summary a step.
pub const MAX_BYTES: usize = 1024 * 1024;
/// Room that is kept for the words on what is left out.
const RESERVE: usize = 256;

/// The whole document.
pub fn render(document: &Document<'_>) -> String {
    let mut text = format!("## relayproof: {}\n", heading(document.overall()));
    let mut cells: Vec<&Cell<'_>> = document.cells.iter().collect();
    // In their own order within each kind: the sort is stable.
    cells.sort_by_key(|cell| cell.failing().next().is_none());
    let mut left_out = 0;
    for cell in cells {
        let section = section(*cell);
        if left_out == 0 && text.len() + section.len() + RESERVE <= MAX_BYTES {
            text.push_str(&section);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        let _ = writeln!(
            text,
            "\n{left_out} more cells find no room here; the evidence has them all."
        );
    }
    let mut unmeasured = String::new();
    for one in document.unmeasured {
        let word = if one.ignored {
            "ignored"
        } else {
            "not measured"
        };
        let _ = writeln!(
            unmeasured,
            "- {word}: {}: {}",
            escaped(&one.cell),
            escaped(&one.reason)
        );
    }
    if !unmeasured.is_empty() && text.len() + unmeasured.len() + RESERVE <= MAX_BYTES {
        let _ = write!(text, "\n{unmeasured}");
    }
    text
}

fn section(cell: Cell<'_>) -> String {
    let summary = cell.summary;
    let mut text = format!(
        "\n### {}\n\n{} of {} samples, run `{}`\n\n| | objective | found |\n|---|---|---|\n",
        escaped(&summary.cell),
        summary.samples,
        summary.planned,
        coded(&summary.run_id),
    );
    for (objective, verdict, standing) in cell.rows() {
        let _ = writeln!(
            text,
            "| {} | `{}` | {} |",
            mark(standing),
            coded(&objective.text),
            escaped(&said(&summary.judging, objective, verdict)),
        );
    }
    for (objective, verdict, _) in cell.failing() {
        let Some(why) = explain(cell.evidence, objective, verdict) else {
            continue;
        };
        let trace = match why.address(&cell.evidence.header) {
            Some(url) => format!(
                "[trace {}](<{}>)",
                coded(&why.trace_id),
                url.replace(['<', '>', '\n'], "")
            ),
            None => format!("trace `{}`", coded(&why.trace_id)),
        };
        let _ = write!(
            text,
            "\n**`{}`**: look at {}\n- {}\n- {trace}\n- rule: {}\n",
            coded(&objective.text),
            escaped(&why.place()),
            escaped(&why.shown_by()),
            escaped(&verdict.rule),
        );
    }
    let _ = writeln!(text, "\nEvidence: `{}`", coded(cell.path));
    text
}

/// A sign and a word, so that neither colour nor font is needed.
const fn mark(standing: Standing) -> &'static str {
    match standing {
        Standing::Passed => "✅ pass",
        Standing::Warned => "⚠️ warning",
        Standing::Violated => "❌ violated",
        Standing::Open => "❔ inconclusive",
        Standing::Broken => "⛔ invalid",
    }
}

/// A text that is shown as it is: no markup, no cell border, no second line.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '@' => {
                escaped.push('\\');
                escaped.push(character);
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

/// A text between backticks, inside a table too.
pub(super) fn coded(text: &str) -> String {
    text.replace(['`', '\n', '\r'], " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;
    use crate::report::document::Unmeasured;
    use crate::verdict::Summary;

    #[test]
    fn the_failing_cell_comes_first_with_where_to_look() {
        let fine = evidence(
            vec![ttft_p95()],
            100,
            (0..100).map(|index| sample(index, good())),
        );
        let mut cut = evidence(
            vec![interruption()],
            100,
            (0..40).map(|index| sample(index, truncated())),
        );
        cut.header.cell = "b|eta/m/w".to_owned();
        let all = [fine, cut];
        let summaries: Vec<Summary> = all.iter().map(Summary::of).collect();
        let cells = all.iter().zip(&summaries).map(|(evidence, summary)| Cell {
            evidence,
            summary,
            path: "run/cell.jsonl",
        });
        let unmeasured = [Unmeasured {
            cell: "gamma/m/w".to_owned(),
            ignored: true,
            reason: "the variable KEY is not set".to_owned(),
        }];
        let text = render(&Document {
            cells: cells.collect(),
            unmeasured: &unmeasured,
        });
        assert!(text.starts_with("## relayproof: violated\n"), "{text}");
        let (first, second) = (text.find("b\\|eta").unwrap(), text.find("alpha").unwrap());
        assert!(first < second, "{text}");
        assert!(
            text.contains("| ❌ violated | `interruption < 5%` |"),
            "{text}"
        );
        assert!(text.contains("look at relay-middleware"), "{text}");
        assert!(text.contains("| ✅ pass | `ttft.p95 < 1.5s` |"), "{text}");
        assert!(
            text.contains("- ignored: gamma/m/w: the variable KEY is not set"),
            "{text}"
        );
    }

    #[test]
    fn a_document_never_grows_beyond_what_a_summary_page_takes() {
        let one = evidence(
            vec![ttft_p95(), interruption()],
            100,
            (0..4).map(|index| sample(index, good())),
        );
        let summary = Summary::of(&one);
        let path = "p".repeat(1000);
        let cell = Cell {
            evidence: &one,
            summary: &summary,
            path: &path,
        };
        let text = render(&Document {
            cells: vec![cell; 2000],
            unmeasured: &[],
        });
        assert!(text.len() <= MAX_BYTES);
        assert!(text.contains("more cells find no room here"));
    }
}
