//! The words: verdict lines, failure blocks, explanations.

use super::*;
use crate::evidence::fixtures::*;
use crate::evidence::{CloseReason, Sample};
use crate::objective::metric::Metric;
use crate::observation::{Class, Ending, Observation, Phase};
use crate::report::document::{Cell, Document};
use crate::verdict::judge;

const TRACES: &str = "jaeger:http://127.0.0.1:16686";

/// 14 samples: head after 92 to 118 ms and a first token 1.8 to 2.6 s later in five of them; the
/// fourth decides.
fn late_tokens() -> Evidence {
    let late = |head: u64, wait: u64| {
        let mut seen = slow(head + wait);
        seen.timeline.head = Some(ms(head));
        seen
    };
    let all = (0..14).map(|index| {
        let seen = match index {
            2 => late(92, 1800),
            5 => late(118, 2600),
            6 => late(100, 2000),
            9 => late(101, 2500),
            12 => late(102, 2400),
            _ => good(),
        };
        sample(index, seen)
    });
    evidence(vec![ttft_p95(), parse_success()], 600, all)
}

fn block(record: &Evidence, index: usize) -> String {
    let mut record = record.clone();
    record.header.otel.trace_url = Some(TRACES.to_owned());
    let record = &record;
    let verdict = judge(record).remove(index);
    failure(record, &verdict, "run/cell.jsonl", false)
}

#[test]
fn a_violation_says_what_was_seen_where_to_look_and_by_which_rule() {
    let mut record = late_tokens();
    record.header.objectives.truncate(1);
    let [first, second, third] = [6, 10, 7].map(|id| format!("{id:032x}"));
    let expected = format!(
        "\
VIOLATED      ttft.p95 < 1.5s  p95 2.72 s; 6 of 10 in time,
              between 23.6% and 92.5% (must be 95%)
              look at: upstream, phase first_token
              samples 5, 6, 9: head after 92-118 ms, then no byte for 1.80-2.60 s
              trace {first} of sample 5:
              http://127.0.0.1:16686/trace/{first}?uiFind=relay.phase%3Dfirst_token
              trace {second} of sample 9:
              http://127.0.0.1:16686/trace/{second}?uiFind=relay.phase%3Dfirst_token
              trace {third} of sample 6:
              http://127.0.0.1:16686/trace/{third}?uiFind=relay.phase%3Dfirst_token
              rule: sequential, 95% (alpha 0.05, gamma 0.05, ratios 5 and 3)
              evidence: run/cell.jsonl
"
    );
    assert_eq!(block(&record, 0), expected);
}

#[test]
fn an_open_verdict_says_what_would_settle_it() {
    let mut record = evidence(
        vec![parse_success()],
        600,
        (0..14).map(|index| sample(index, good())),
    );
    record.close = Some(close(CloseReason::Interrupted));
    let text = block(&record, 0);
    let lines: Vec<&str> = text.lines().take(2).collect();
    assert_eq!(
        lines,
        [
            "INCONCLUSIVE  parse_success >= 99%  14 of 14, at least 75.9%; stopped early,",
            "              359 more clean samples would settle it",
        ]
    );
    assert!(
        text.contains("stopped: the run was interrupted\n"),
        "{text}"
    );
    assert!(!text.contains("look at"), "nothing failed: {text}");
}

#[test]
fn a_pass_says_what_was_measured() {
    let record = evidence(
        vec![ttft_p95(), interruption()],
        232,
        (0..74).map(|index| sample(index, good())),
    );
    assert_eq!(
        cell(&record, &judge(&record), false),
        "\
alpha/test-model/chat  74 of 232 samples in 73.5 s
  PASS          ttft.p95 < 1.5s    p95 120 ms; 74 of 74 in time, at least 95.0%
  PASS          interruption < 5%  74 of 74 whole, at least 95.0%
"
    );
}

#[test]
fn the_trace_id_is_there_without_an_address_too() {
    let record = late_tokens();
    let verdict = judge(&record).remove(0);
    let text = failure(&record, &verdict, "run/cell.jsonl", false);
    assert!(text.contains(&format!("trace {:032x}\n", 6)), "{text}");
}

#[test]
fn a_long_verdict_is_folded_at_eighty_columns_and_loses_no_word() {
    let words = "one, two; three four five six seven eight nine ten eleven twelve".repeat(5);
    let lines = folded(&words, 40);
    assert!(
        lines.iter().all(|line| line.chars().count() <= 40),
        "{lines:?}"
    );
    let gone: String = lines.concat().split(' ').collect();
    assert_eq!(gone, words.split(' ').collect::<String>());
    let endless = "x".repeat(100);
    assert_eq!(folded(&endless, 40), [endless.as_str()]);
    assert_eq!(folded("ä ö ü", 3), ["ä ö", "ü"]);
    assert_eq!(folded("", 3), [""]);
}

#[test]
fn a_block_says_on_one_line_what_to_try_where_something_can_be_tried() {
    let tried = |seen: fn() -> Observation| {
        let all = (0..14).map(|index| sample(index, seen()));
        let text = block(&evidence(vec![ttft_p95()], 600, all), 0);
        let lines: Vec<String> = text
            .lines()
            .filter(|line| line.trim_start().starts_with("try: "))
            .map(str::to_owned)
            .collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        lines
    };
    assert_eq!(
        tried(|| refused(429)),
        ["              try: check key, balance and rights; lower `sampling.rate`"]
    );
    assert_eq!(tried(truncated), [""; 0], "the relay's to mend");
    assert_eq!(tried(|| slow(2000)), [""; 0], "a whole answer");
}

#[test]
fn failures_that_come_together_are_called_bursty() {
    let all = (0..74).map(|index| {
        let seen = if (40..44).contains(&index) {
            slow(2000)
        } else {
            good()
        };
        sample(index, seen)
    });
    let mut record = evidence(vec![ttft_p95()], 74, all);
    record.header.judge.futility = false;
    record.close = Some(close(CloseReason::Budget));
    let verdict = judge(&record).remove(0);
    let bursts = verdict.bursty.unwrap();
    assert_eq!((bursts.crowd, bursts.failures), (4, 4));
    let text = failure(&record, &verdict, "p", false);
    assert!(
        text.contains("bursty: 4 of 4 failures within 4.00 s"),
        "{text}"
    );
}

#[test]
fn colour_changes_nothing_but_colour() {
    let record = late_tokens();
    let verdict = judge(&record).remove(0);
    let plain = failure(&record, &verdict, "p", false);
    let painted = failure(&record, &verdict, "p", true);
    assert!(painted.contains("\x1b[31mVIOLATED"));
    let mut stripped = String::new();
    for (place, part) in painted.split("\x1b[").enumerate() {
        stripped.push_str(if place == 0 {
            part
        } else {
            part.split_once('m').unwrap().1
        });
    }
    assert_eq!(stripped, plain);
}

fn explained(objective: Objective, seen: impl Fn(u64) -> Observation) -> Explanation {
    let all: Vec<Sample> = (0..6).map(|index| sample(index, seen(index))).collect();
    let record = evidence(vec![objective], 600, all);
    let verdict = judge(&record).remove(0);
    explain(&record, &record.header.objectives[0], &verdict).unwrap()
}

#[test]
fn the_largest_group_of_failures_is_explained() {
    let explanation = explained(ttft_p95(), |index| match index {
        1 => refused(429),
        _ => refused(503),
    });
    assert_eq!(
        (explanation.alike, explanation.of),
        (2, 3),
        "violated at the third"
    );
    assert_eq!(explanation.samples, [0, 2]);
    assert!(
        explanation.words.starts_with("status 503"),
        "{}",
        explanation.words
    );
    assert!(
        explanation.words.contains("over after 31.0 ms"),
        "{}",
        explanation.words
    );
}

#[test]
fn a_late_head_points_at_the_gateway() {
    let explanation = explained(ttft_p95(), |_| {
        let mut seen = slow(2000);
        seen.timeline.head = Some(ms(1990));
        seen
    });
    assert_eq!(explanation.party.as_str(), "relay-gateway");
    assert_eq!(explanation.phase, Phase::Wait);
    assert_eq!(
        explanation.words,
        "request sent after 11.0 ms, then no head for 1.98 s"
    );
}

#[test]
fn a_role_frame_long_before_the_first_token_is_told_apart_from_silence() {
    let explanation = explained(ttft_p95(), |_| {
        let mut seen = slow(2000);
        seen.timeline.first_event = Some(ms(130));
        seen
    });
    assert_eq!(
        explanation.words,
        "first event after 130 ms, then no token for 1.87 s"
    );
}

#[test]
fn a_slow_handshake_points_at_the_network() {
    let explanation = explained(ttft_p95(), |_| {
        let mut seen = slow(2000);
        seen.timeline.connect = Some(crate::observation::Stretch {
            start: ms(0),
            end: Some(ms(1800)),
        });
        seen.timeline.send = None;
        seen.timeline.head = Some(ms(1850));
        seen
    });
    assert_eq!(explanation.party.as_str(), "network");
    assert_eq!(explanation.words, "connect took 1.80 s");
}

#[test]
fn a_cut_stream_is_explained_by_its_class() {
    let explanation = explained(interruption(), |_| truncated());
    assert!(
        explanation
            .words
            .starts_with("truncated-no-terminator; first token after 120 ms"),
        "{}",
        explanation.words
    );
}

#[test]
fn an_unmet_expectation_is_named() {
    let usable = Objective {
        text: "usable >= 99%".to_owned(),
        metric: Metric::Usable,
        ..parse_success()
    };
    let explanation = explained(usable, |_| {
        let mut seen = good();
        seen.unmet = vec!["min_chars".to_owned()];
        seen
    });
    assert_eq!(
        explanation.words,
        "a whole answer, but not as expected: min_chars"
    );
}

#[test]
fn a_whole_sample_is_explained_by_its_last_attempt() {
    let record = evidence(
        vec![Objective {
            text: "success_in_4 >= 99%".to_owned(),
            metric: Metric::SuccessIn4,
            ..parse_success()
        }],
        600,
        (0..6).map(|index| retried(index, vec![refused(503), truncated()])),
    );
    let verdict = judge(&record).remove(0);
    let explanation = explain(&record, &record.header.objectives[0], &verdict).unwrap();
    assert!(
        explanation
            .words
            .starts_with(Class::TruncatedNoTerminator.as_str())
    );
}

#[test]
fn the_document_for_programs_has_a_version_and_everything_a_person_sees() {
    let record = late_tokens();
    let summary = Summary::of(&record);
    let cell = Cell {
        evidence: &record,
        summary: &summary,
        path: "run/cell.jsonl",
    };
    let value = crate::report::json::render(&Document {
        cells: vec![cell],
        unmeasured: &[],
    });
    assert_eq!(value["schema"], 1);
    assert_eq!(value["overall"], "violated");
    let cell = &value["cells"][0];
    assert_eq!(cell["cell"], "alpha/test-model/chat");
    let verdict = &cell["verdicts"][0];
    assert_eq!(verdict["decision"], "violated");
    assert_eq!(verdict["reason"], serde_json::Value::Null);
    assert_eq!(verdict["look_at"]["party"], "upstream");
    assert_eq!(cell["verdicts"][1]["reason"], "stopped_early");
}

#[test]
fn a_stalled_answer_that_never_got_a_token_has_no_value() {
    let record = evidence(
        vec![ttft_p95()],
        232,
        (0..20).map(|index| {
            let mut seen = good();
            if index == 3 || index == 4 {
                seen.timeline.first_token = None;
                seen.ending = Ending::Stalled;
                seen.findings = vec![finding(Class::Stalled, Phase::FirstToken)];
            }
            sample(index, seen)
        }),
    );
    let text = cell(&record, &judge(&record), false);
    assert!(
        text.contains("p95 is a failure; 18 of 20 in time"),
        "{text}"
    );
}
