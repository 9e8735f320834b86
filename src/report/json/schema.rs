//! The JSON Schema of the report. Closed sets of words are taken from their types; the members are
//! held to real reports by the tests, which also leave each one out and put another one in.

use serde_json::{Map, Value, json};

use super::SCHEMA;
use crate::attribution::Party;
use crate::evidence::{CameTo, CloseReason};
use crate::objective::Severity;
use crate::objective::metric::Metric;
use crate::observation::{Class, Phase};
use crate::verdict::{Inconclusive, Overall};

/// The schema of a whole report.
pub fn document() -> Value {
    let mut root = object(
        "What a run came to: its cells, their verdicts, and what could not be measured.",
        vec![
            (
                "schema",
                json!({
                    "const": SCHEMA,
                    "description": "Version of this form; members may be added within one."
                }),
            ),
            ("overall", overall("What all cells come to.")),
            ("cells", list("The judged cells.", definition("cell"))),
            (
                "unmeasured",
                list(
                    "Cells without a verdict; evidence alone does not know them.",
                    definition("unmeasured"),
                ),
            ),
        ],
    );
    if let Some(root) = root.as_object_mut() {
        root.insert(
            "$schema".to_owned(),
            json!("http://json-schema.org/draft-07/schema#"),
        );
        root.insert("title".to_owned(), json!("relayproof report"));
        root.insert("definitions".to_owned(), definitions());
    }
    root
}

fn definitions() -> Value {
    json!({
        "cell": cell(),
        "unmeasured": object(
            "A cell without a verdict.",
            vec![
                ("cell", text("`relay/model/workload`.")),
                ("ignored", flag("Whether that is meant to be so: the spec says it, or a key is not set.")),
                ("reason", text("Why.")),
            ],
        ),
        "verdict": verdict(),
        "look_at": look_at(),
        "group": object(
            "Samples whose first attempts failed alike.",
            vec![
                ("party", party()),
                ("phase", phase("Phase of the leading finding.")),
                ("class", words("The leading class.", Class::ALL.iter().map(|it| it.as_str()))),
                ("count", count("How many.")),
                ("samples", list("The most telling of them.", object(
                    "A sample of the group.",
                    vec![("index", index()), ("trace_id", trace_id())],
                ))),
            ],
        ),
        "self_check": self_check(),
    })
}

fn cell() -> Value {
    let classes = Class::ALL.iter().map(|class| class.as_str());
    let outcomes: Vec<&str> = std::iter::once("ok").chain(classes).collect();
    let reasons = [
        CloseReason::Decided,
        CloseReason::Budget,
        CloseReason::Limit,
        CloseReason::Interrupted,
        CloseReason::Failed,
    ];
    object(
        "One relay, model and workload, with one set of samples.",
        vec![
            ("cell", text("`relay/model/workload`.")),
            ("run_id", text("Name of the run's folder.")),
            ("spec", text("Path of the spec, as it was given.")),
            ("overall", overall("What the verdicts come to.")),
            ("planned", count("Samples at most.")),
            ("samples", count("Samples that count.")),
            (
                "uncounted",
                count("Warm-ups, and calls that were called off."),
            ),
            (
                "attempts",
                count("HTTP attempts of the samples that count."),
            ),
            (
                "outcomes",
                json!({
                    "description": "Samples that count, by the class of their first attempt.",
                    "type": "object",
                    "propertyNames": { "enum": outcomes },
                    "additionalProperties": count("How many."),
                }),
            ),
            (
                "failures",
                list(
                    "What went wrong in first attempts, the largest group first.",
                    definition("group"),
                ),
            ),
            (
                "first_unix_ns",
                or_null(count(
                    "Start of the first sample, nanoseconds since the epoch.",
                )),
            ),
            (
                "last_unix_ns",
                or_null(count(
                    "End of the last sample, nanoseconds since the epoch.",
                )),
            ),
            (
                "closed",
                json!({
                    "description": "Why sampling ended; null where the evidence has no end.",
                    "enum": reasons.iter().map(|it| json!(it)).chain([Value::Null]).collect::<Vec<_>>(),
                }),
            ),
            ("self_check", or_null(definition("self_check"))),
            ("torn", flag("Whether the evidence ends inside a line.")),
            (
                "continued",
                list(
                    "The times that the run went on after its end.",
                    object(
                        "One of them.",
                        vec![
                            ("at_unix_ns", count("When, nanoseconds since the epoch.")),
                            ("max_samples", count("Samples at most from then on.")),
                        ],
                    ),
                ),
            ),
            (
                "earlier_runs",
                list(
                    "Runs of the same plan right before this one that did not pass.",
                    object(
                        "One of them.",
                        vec![
                            ("run_id", text("Its name.")),
                            (
                                "came_to",
                                words("What it came to.", CameTo::ALL.iter().map(|it| it.as_str())),
                            ),
                        ],
                    ),
                ),
            ),
            (
                "false_pass_at_most",
                number("Chance that one of the runs up to this one passes falsely, at most."),
            ),
            (
                "verdicts",
                list("In the order of the spec.", definition("verdict")),
            ),
        ],
    )
}

fn verdict() -> Value {
    let reasons = Inconclusive::ALL.iter().map(|it| json!(it.as_str()));
    object(
        "What was decided about one objective.",
        vec![
            ("objective", text("As it was written.")),
            (
                "metric",
                words(
                    "What is measured.",
                    Metric::ALL.iter().map(|it| it.as_str()),
                ),
            ),
            (
                "severity",
                words(
                    "What a miss does to the test.",
                    Severity::ALL.iter().map(|it| it.as_str()),
                ),
            ),
            (
                "decision",
                words("The decision.", ["pass", "violated", "inconclusive"]),
            ),
            (
                "reason",
                json!({
                    "description": "Why nothing was decided; null where something was.",
                    "enum": reasons.chain([Value::Null]).collect::<Vec<_>>(),
                }),
            ),
            ("note", or_null(text("Further words on it."))),
            ("n", count("Samples that the decision rests on.")),
            ("failures", count("Failures among them.")),
            (
                "undefined",
                count("Samples without a value for the metric."),
            ),
            (
                "ineligible",
                count("Samples that the objective is not about."),
            ),
            (
                "missing",
                count("Planned samples that were never answered, though later ones were."),
            ),
            (
                "required",
                number("Share of good samples that is asked for; 0 for a mean."),
            ),
            (
                "lower",
                number("Lower bound of that share; 0 claims nothing."),
            ),
            (
                "upper",
                number("Upper bound of that share; 1 claims nothing."),
            ),
            (
                "observed",
                or_null(number(
                    "What was observed: the statistic in seconds or per second, or a share.",
                )),
            ),
            (
                "censored",
                flag("Whether the observed rank falls among samples without a value."),
            ),
            (
                "further_clean",
                or_null(count("Further clean samples that would settle it.")),
            ),
            (
                "rule",
                text("The statistical rule, with the numbers to check it by hand."),
            ),
            ("failing", list("The first failures.", index())),
            (
                "bursty",
                or_null(object(
                    "Failures that came together in time, where that is no accident.",
                    vec![
                        (
                            "crowd",
                            count("Failures in the bucket that holds the least likely number."),
                        ),
                        ("failures", count("Failures in all.")),
                        ("bucket_s", number("Length of a bucket in seconds.")),
                        ("buckets", count("Buckets with samples.")),
                        (
                            "design_effect",
                            number("Variance of the share over that of independent samples."),
                        ),
                    ],
                )),
            ),
            (
                "seals",
                or_null(object(
                    "Normal ends and the seals that were asked for, where there is an allowance.",
                    vec![
                        ("stops", count("Answers that claim a normal end.")),
                        ("unsealed", count("Those without the seal.")),
                        ("allowance", number("Share that is allowed.")),
                        ("violated", flag("Shown to be more than that.")),
                    ],
                )),
            ),
            ("look_at", or_null(definition("look_at"))),
        ],
    )
}

fn look_at() -> Value {
    object(
        "Where to look for the cause of the failures: the largest group of them.",
        vec![
            ("party", party()),
            ("phase", phase("In which phase.")),
            ("alike", count("Failing samples that look like this.")),
            ("of", count("Failing samples that were looked at.")),
            ("samples", list("The most telling of them.", index())),
            ("trace_id", trace_id()),
            (
                "traces",
                list(
                    "Their traces, the most telling first.",
                    object(
                        "One of them.",
                        vec![
                            ("index", index()),
                            ("trace_id", trace_id()),
                            ("phase", phase("The phase to open it at.")),
                            (
                                "url",
                                or_null(text("Its address; null where traces went nowhere.")),
                            ),
                        ],
                    ),
                ),
            ),
            ("words", text("What they have in common.")),
            (
                "try",
                or_null(text(
                    "What to try, where something can be tried on our side; Markdown.",
                )),
            ),
        ],
    )
}

fn self_check() -> Value {
    let mut schema = object(
        "How fit the probe was.",
        vec![
            (
                "late_starts",
                count("Samples that started more than 100 ms late."),
            ),
            ("max_lag_us", count("The latest start, in microseconds.")),
            (
                "loop_lag_p99_us",
                count("99th percentile of the event loop's lag, in microseconds."),
            ),
            ("loop_lag_max_us", count("The worst of it.")),
            ("loop_probes", count("How often it was measured.")),
            (
                "clock_step_us",
                count("How far the wall clock was set meanwhile, in microseconds."),
            ),
            (
                "own_failures",
                count("Calls for which this machine had no means."),
            ),
            (
                "invalid",
                text("Why the run says nothing of the relay; absent where it does."),
            ),
        ],
    );
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "invalid");
    }
    schema
}

/// An object that has these members and no other.
fn object(about: &str, members: Vec<(&str, Value)>) -> Value {
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let required = json!(names);
    let properties: Map<String, Value> = members
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect();
    json!({
        "description": about,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn list(about: &str, items: Value) -> Value {
    json!({ "description": about, "type": "array", "items": items })
}

fn definition(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

fn or_null(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn words<'a>(about: &str, words: impl IntoIterator<Item = &'a str>) -> Value {
    let words: Vec<&str> = words.into_iter().collect();
    json!({ "description": about, "enum": words })
}

fn overall(about: &str) -> Value {
    words(about, Overall::ALL.iter().map(|it| it.as_str()))
}

fn party() -> Value {
    words("Who to look at.", Party::ALL.iter().map(|it| it.as_str()))
}

fn phase(about: &str) -> Value {
    words(about, Phase::ALL.iter().map(|it| it.as_str()))
}

fn text(about: &str) -> Value {
    json!({ "description": about, "type": "string" })
}

fn trace_id() -> Value {
    text("Trace of the sample, 32 hex digits.")
}

fn flag(about: &str) -> Value {
    json!({ "description": about, "type": "boolean" })
}

fn number(about: &str) -> Value {
    json!({ "description": about, "type": "number" })
}

fn count(about: &str) -> Value {
    json!({ "description": about, "type": "integer", "minimum": 0 })
}

fn index() -> Value {
    count("Index of the sample.")
}
