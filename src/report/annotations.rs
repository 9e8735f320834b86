//! Marks beside the code: workflow commands of GitHub Actions, and GitLab's annotations report.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::document::{Document, Standing};
use super::explain::explain;
use super::said::said;
use crate::verdict::Decision;

/// Most commands of one kind; GitHub shows ten errors and ten warnings of a step.
const SHOWN: usize = 10;
/// Most links in GitLab's report.
const LINKS: usize = 100;

/// One workflow command a line, `::error file=…,line=…::…`, at the objective's line of the spec.
///
/// `in_repository` gives the path of a spec below the checkout.
pub fn github(document: &Document<'_>, in_repository: &dyn Fn(&str) -> String) -> String {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for cell in &document.cells {
        for (objective, verdict, standing) in cell.rows() {
            let (kind, lines) = match standing {
                Standing::Passed => continue,
                Standing::Warned => ("warning", &mut warnings),
                Standing::Violated | Standing::Open | Standing::Broken => ("error", &mut errors),
            };
            let mut message = format!(
                "{}: {}",
                standing_word(standing, verdict.decision),
                said(&cell.summary.judging, objective, verdict)
            );
            if let Some(why) = explain(cell.evidence, objective, verdict) {
                let _ = write!(message, "\nlook at: {}\n{}", why.place(), why.shown_by());
                if let Some(url) = why.address(&cell.evidence.header) {
                    let _ = write!(message, "\n{url}");
                }
            }
            let line = format!(
                "::{kind} file={},line={},col={},title={}::{}",
                property(&in_repository(&cell.summary.spec_source)),
                objective.line,
                objective.column,
                property(&format!("{}/{}", cell.summary.cell, objective.text)),
                data(&message),
            );
            lines.push((standing, line));
        }
    }
    for one in document.unmeasured.iter().filter(|one| !one.ignored) {
        let line = format!(
            "::error title={}::{}",
            property(&one.cell),
            data(&format!("nothing was measured: {}", one.reason))
        );
        errors.push((Standing::Broken, line));
    }
    let mut text = String::new();
    for (mut lines, noun) in [(errors, "failures"), (warnings, "warnings")] {
        // What is shown to be broken before what is only open.
        lines.sort_by_key(|(standing, _)| *standing == Standing::Open);
        for (_, line) in lines.iter().take(SHOWN) {
            let _ = writeln!(text, "{line}");
        }
        if let Some(more) = lines.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            let _ = writeln!(text, "::notice::{more} more {noun} are not shown here");
        }
    }
    text
}

/// The document of `artifacts:reports:annotations`: a link to the trace of each failing objective.
pub fn gitlab(document: &Document<'_>) -> Value {
    let mut links = Vec::new();
    for cell in &document.cells {
        for (objective, verdict, _) in cell.failing() {
            let Some(why) = explain(cell.evidence, objective, verdict) else {
                continue;
            };
            if let Some(url) = why.address(&cell.evidence.header) {
                let label = format!("{}/{}", cell.summary.cell, objective.text);
                links.push(json!({ "external_link": { "label": label, "url": url } }));
            }
        }
    }
    links.truncate(LINKS);
    json!({ "relayproof": links })
}

/// `violated`, or what else a verdict is called.
fn standing_word(standing: Standing, decision: Decision) -> &'static str {
    match (standing, decision) {
        (_, Decision::Violated) => "violated",
        (_, Decision::Pass) => "passed",
        (Standing::Broken, _) => "invalid",
        (_, Decision::Inconclusive(_)) => "inconclusive",
    }
}

/// The message of a command: the characters that would end it, as the runner unescapes them.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;
    use crate::evidence::fixtures::*;
    use crate::report::document::{Cell, Unmeasured};
    use crate::verdict::Summary;

    fn cut() -> Evidence {
        let all = (0..20).map(|index| {
            let seen = if index % 4 == 0 { truncated() } else { good() };
            sample(index, seen)
        });
        let mut cut = evidence(vec![ttft_p95(), interruption()], 600, all);
        cut.header.spec_source = "/build/repo/specs/a,b.yaml".to_owned();
        cut.header.otel.trace_url = Some("http://t/{trace_id}".to_owned());
        cut
    }

    fn with<T>(unmeasured: &[Unmeasured], then: impl FnOnce(&Document<'_>) -> T) -> T {
        let evidence = cut();
        let summary = Summary::of(&evidence);
        let cell = Cell {
            evidence: &evidence,
            summary: &summary,
            path: "run/cell.jsonl",
        };
        then(&Document {
            cells: vec![cell],
            unmeasured,
        })
    }

    #[test]
    fn a_violation_is_marked_at_its_line_of_the_spec() {
        let text = with(&[], |document| {
            github(document, &|path| path.replace("/build/repo/", ""))
        });
        let line = text.lines().next().unwrap();
        let place = "::error file=specs/a%2Cb.yaml,line=";
        assert!(line.starts_with(place), "{text}");
        assert!(line.contains("title=alpha/"), "{text}");
        assert!(line.contains("::violated: "), "{text}");
        assert!(line.contains("%0Alook at: relay-middleware"), "{text}");
        assert!(line.contains("%0Ahttp://t/"), "{text}");
    }

    #[test]
    fn nothing_that_a_text_holds_ends_a_command_or_begins_one() {
        let unmeasured = [Unmeasured {
            cell: "a,b::c/m/w".to_owned(),
            ignored: false,
            reason: "50%\r\n::stop-commands::x".to_owned(),
        }];
        let text = with(&unmeasured, |document| github(document, &str::to_owned));
        let line = text.lines().find(|line| line.contains("a%2Cb%3A")).unwrap();
        assert_eq!(
            line,
            "::error title=a%2Cb%3A%3Ac/m/w::nothing was measured: 50%25%0D%0A::stop-commands::x"
        );
    }

    #[test]
    fn gitlab_links_to_the_trace_of_each_failing_objective() {
        let links = with(&[], gitlab);
        let links = links["relayproof"].as_array().unwrap();
        assert!(!links.is_empty());
        let link = &links[0]["external_link"];
        assert!(link["url"].as_str().unwrap().starts_with("http://t/"));
        assert!(link["label"].as_str().unwrap().starts_with("alpha/"));
    }
}
