//! For CI servers: JUnit XML, in which a violated promise, an open question and a probe that was
//! not fit are told apart.

use std::time::Duration;

use quick_junit::{
    NonSuccessKind, Property, Report, SerializeError, TestCase, TestCaseStatus, TestSuite,
};

use super::document::{Cell, Document, Standing};
use super::explain::explain;
use super::said::said;
use crate::objective::Objective;
use crate::plan::window::shown;
use crate::verdict::campaign::{Campaign, Pool, Role, Row};
use crate::verdict::{Decision, Inconclusive, Overall, Verdict};

/// The whole document: a suite for each cell, a case for each objective.
///
/// # Errors
/// When it cannot be written as XML.
pub fn render(document: &Document<'_>) -> Result<String, SerializeError> {
    let mut report = Report::new("relayproof");
    for cell in &document.cells {
        report.add_test_suite(suite(*cell));
    }
    if !document.unmeasured.is_empty() {
        let mut suite = TestSuite::new("not measured");
        for one in document.unmeasured {
            let mut status = if one.ignored {
                TestCaseStatus::skipped()
            } else {
                TestCaseStatus::non_success(NonSuccessKind::Error)
            };
            status.set_message(one.reason.as_str());
            let mut case = TestCase::new(one.cell.as_str(), status);
            case.set_classname(one.cell.as_str());
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    report.to_string()
}

/// A soak: a suite for each relay, model and workload, a case for each row that decides.
///
/// # Errors
/// When it cannot be written as XML.
pub fn campaign(campaign: &Campaign) -> Result<String, SerializeError> {
    let mut report = Report::new("relayproof");
    for pool in &campaign.pools {
        let mut suite = TestSuite::new(pool.name.as_str());
        for (name, value) in [
            ("spec", campaign.spec.clone()),
            ("plan", campaign.plan_digest.clone()),
            ("as_of", shown(campaign.as_of_unix_ns)),
            ("final", campaign.is_final.to_string()),
        ] {
            suite.add_property(Property::new(name, value));
        }
        let deciding = pool.rows.iter().filter(|row| row.role != Role::Shown);
        suite.add_test_cases(deciding.map(|row| row_case(pool, row)));
        report.add_test_suite(suite);
    }
    report.to_string()
}

fn row_case(pool: &Pool, row: &Row) -> TestCase {
    let verdict = &row.verdict;
    let found = said(&pool.judging, &row.objective, verdict);
    let broken = matches!(
        verdict.decision,
        Decision::Inconclusive(Inconclusive::InvalidRun | Inconclusive::NoData)
    );
    let standing = match row.comes_to(&pool.judging) {
        Overall::Pass => None,
        Overall::Violated => Some((NonSuccessKind::Failure, Standing::Violated)),
        Overall::Inconclusive if !broken => Some((NonSuccessKind::Failure, Standing::Open)),
        Overall::Inconclusive | Overall::Nothing => Some((NonSuccessKind::Error, Standing::Broken)),
    };
    let status = match standing {
        None => TestCaseStatus::success(),
        Some((kind, standing)) => {
            let mut status = TestCaseStatus::non_success(kind);
            status
                .set_type(standing.as_str())
                .set_message(found.as_str())
                .set_description(format!("{row}: {found}\nrule: {}", verdict.rule));
            status
        }
    };
    let mut case = TestCase::new(row.to_string(), status);
    case.set_classname(pool.name.as_str());
    if standing.is_none() && verdict.decision != Decision::Pass {
        case.set_system_out(format!("{}: {found}", row.role));
    }
    for (name, value) in [
        ("n", verdict.n.to_string()),
        ("failures", verdict.failures.to_string()),
        ("missing", verdict.missing.to_string()),
        ("required", verdict.required.to_string()),
        ("lower", verdict.lower.to_string()),
        ("upper", verdict.upper.to_string()),
        ("rule", verdict.rule.clone()),
        ("severity", row.objective.severity.to_string()),
        ("role", row.role.to_string()),
        ("votes", row.votes.to_string()),
        ("planned_votes", row.planned_votes.to_string()),
    ] {
        case.add_property(Property::new(name, value));
    }
    if let Some(first) = row.failing.first() {
        case.add_property(Property::new("trace_id", first.trace_id.as_str()));
    }
    case
}

fn suite(cell: Cell<'_>) -> TestSuite {
    let summary = cell.summary;
    let mut suite = TestSuite::new(summary.cell.as_str());
    if let (Some(first), Some(last)) = (summary.first_unix_ns, summary.last_unix_ns) {
        suite.set_time(Duration::from_nanos(last.saturating_sub(first)));
    }
    for (name, value) in [
        ("relay.run.id", summary.run_id.clone()),
        ("spec", summary.spec_source.clone()),
        ("evidence", cell.path.to_owned()),
        ("samples", summary.samples.to_string()),
        ("planned", summary.planned.to_string()),
        ("attempts", summary.attempts.to_string()),
    ] {
        suite.add_property(Property::new(name, value));
    }
    for (objective, verdict, standing) in cell.rows() {
        suite.add_test_case(case(cell, objective, verdict, standing));
    }
    suite
}

fn case(cell: Cell<'_>, objective: &Objective, verdict: &Verdict, standing: Standing) -> TestCase {
    let found = said(&cell.summary.judging, objective, verdict);
    let explanation = explain(cell.evidence, objective, verdict);
    let mut status = match standing {
        Standing::Passed | Standing::Warned => TestCaseStatus::success(),
        Standing::Violated | Standing::Open => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Standing::Broken => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    if standing.fails() {
        let mut text = vec![format!("{}: {found}", objective.text)];
        if let Some(why) = &explanation {
            text.push(format!("look at: {}", why.place()));
            text.push(why.shown_by());
            text.push(match why.address(&cell.evidence.header) {
                Some(url) => url,
                None => format!("trace {}", why.trace_id),
            });
        }
        text.push(format!("rule: {}", verdict.rule));
        text.push(format!("evidence: {}", cell.path));
        status
            .set_type(standing.as_str())
            .set_message(found.as_str())
            .set_description(text.join("\n"));
    }
    let mut case = TestCase::new(objective.text.as_str(), status);
    case.set_classname(cell.summary.cell.as_str());
    if standing == Standing::Warned {
        case.set_system_out(format!("warning: {found}"));
    }
    let observed = verdict.observed.map(|value| value.to_string());
    let trace = explanation.map(|why| why.trace_id);
    let failing: Vec<String> = verdict.failing.iter().map(u64::to_string).collect();
    let failing = (!failing.is_empty()).then(|| failing.join(" "));
    let always = [
        ("n", verdict.n.to_string()),
        ("failures", verdict.failures.to_string()),
        ("missing", verdict.missing.to_string()),
        ("required", verdict.required.to_string()),
        ("lower", verdict.lower.to_string()),
        ("upper", verdict.upper.to_string()),
        ("rule", verdict.rule.clone()),
        ("severity", objective.severity.to_string()),
    ];
    let sometimes = [
        ("observed", observed),
        ("failing_samples", failing),
        ("trace_id", trace),
    ];
    for (name, value) in always {
        case.add_property(Property::new(name, value));
    }
    for (name, value) in sometimes {
        if let Some(value) = value {
            case.add_property(Property::new(name, value));
        }
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;
    use crate::report::document::Unmeasured;
    use crate::verdict::Summary;

    #[test]
    fn failures_errors_and_skipped_tests_are_told_apart() {
        let samples = (0..40).map(|index| {
            let seen = if index % 4 == 0 { truncated() } else { good() };
            sample(index, seen)
        });
        let violated = evidence(vec![ttft_p95(), interruption()], 600, samples);
        let nothing = evidence(vec![ttft_p95()], 600, []);
        let all = [violated, nothing];
        let summaries: Vec<Summary> = all.iter().map(Summary::of).collect();
        let cells = all.iter().zip(&summaries).map(|(evidence, summary)| Cell {
            evidence,
            summary,
            path: "run/cell.jsonl",
        });
        let unmeasured = [Unmeasured {
            cell: "gamma/m/w".to_owned(),
            ignored: true,
            reason: "a \u{1b}[31m \"key\" <is> not set".to_owned(),
        }];
        let text = render(&Document {
            cells: cells.collect(),
            unmeasured: &unmeasured,
        })
        .unwrap();
        assert!(text.contains("<failure message="), "{text}");
        assert!(text.contains("type=\"violated\""), "{text}");
        assert!(text.contains("<error message="), "{text}");
        assert!(text.contains("<skipped message="), "{text}");
        assert!(text.contains("<property name=\"trace_id\""), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains("&lt;is&gt;"), "{text}");
    }
}
