//! What is said of pairs that agree and of pairs that do not.

use super::*;
use crate::evidence::fixtures::{good, header, sample, truncated};
use crate::evidence::{Header, Line};
use crate::observation::{Finding, OwnCount, Phase, Usage};

fn of(header: Header, seen: impl IntoIterator<Item = Observation>) -> Evidence {
    let mut evidence = Evidence::new(header);
    for (index, seen) in (0..).zip(seen) {
        evidence.push(Line::Sample(Box::new(sample(index, seen))));
    }
    evidence
}

fn relay(seen: impl IntoIterator<Item = Observation>) -> Evidence {
    of(header(Vec::new(), 100), seen)
}

fn official(seen: impl IntoIterator<Item = Observation>) -> Evidence {
    let beside = Header {
        cell: "official".to_owned(),
        relay: "official".to_owned(),
        beside: Some("alpha/test-model/chat".to_owned()),
        ..header(Vec::new(), 100)
    };
    of(beside, seen)
}

fn about(evidence: &[Evidence], about: About) -> Signal {
    let mut all = signals(evidence).into_iter();
    all.find(|signal| signal.about == about).unwrap()
}

fn used(input: u64, output: u64) -> Observation {
    Observation {
        usage: Some(Usage {
            input: Some(input),
            output: Some(output),
            ..Usage::default()
        }),
        ..good()
    }
}

#[test]
fn answers_that_name_another_model_are_a_signal_that_names_it() {
    let other = || Observation {
        model: Some("cheaper-model".to_owned()),
        findings: vec![Finding {
            class: Class::ModelMismatch,
            phase: Phase::Stream,
            at: None,
            offset: None,
            event: None,
            detail: String::new(),
        }],
        ..good()
    };
    let named = || Observation {
        model: Some("test-model".to_owned()),
        ..good()
    };
    let mixed = relay((0..40).map(|i| if i % 4 == 0 { other() } else { named() }));
    let signal = about(&[mixed], About::AnsweredModel);
    assert_eq!(signal.seen, Seen::Signal);
    assert_eq!(
        signal.statement,
        "10 of 40 answers name another model: cheaper-model"
    );
    let honest = relay((0..40).map(|_| named()));
    assert_eq!(about(&[honest], About::AnsweredModel).seen, Seen::Nothing);
    let few = relay((0..5).map(|_| other()));
    assert_eq!(about(&[few], About::AnsweredModel).seen, Seen::TooFew);
}

#[test]
fn reported_tokens_beyond_our_own_count_are_a_signal() {
    let counted = |reported: u64, own: u64| Observation {
        own_count: Some(OwnCount {
            prompt: 10,
            answer: own,
        }),
        ..used(10, reported)
    };
    let padded = relay((0..40).map(|i| counted(130 + i, 100 + i)));
    let signal = about(&[padded], About::AnswerTokens);
    assert_eq!(signal.seen, Seen::Signal, "{signal:?}");
    assert!(signal.numbers["ratio"] > 1.2);
    let odd = relay((0..40).map(|i| counted(100 + i % 3, 100)));
    assert_eq!(about(&[odd], About::AnswerTokens).seen, Seen::Nothing);
    let uncounted = relay((0..40).map(|_| used(10, 100)));
    assert_eq!(
        about(&[uncounted], About::AnswerTokens).seen,
        Seen::NotLooked
    );
}

#[test]
fn prompts_that_cost_more_tokens_at_the_relay_are_a_signal() {
    let theirs = || official((0..40).map(|i| used(50 + i, 100)));
    let padded = relay((0..40).map(|i| used(62 + i, 100)));
    let signal = about(&[padded, theirs()], About::PromptTokens);
    assert_eq!(signal.seen, Seen::Signal);
    assert!(
        signal.statement.contains("differ by 12"),
        "{}",
        signal.statement
    );
    let honest = relay((0..40).map(|i| used(50 + i, 100)));
    let signal = about(&[honest, theirs()], About::PromptTokens);
    assert_eq!((signal.seen, signal.numbers["more"]), (Seen::Nothing, 0.0));
    let alone = relay((0..40).map(|i| used(50 + i, 100)));
    assert_eq!(about(&[alone], About::PromptTokens).seen, Seen::NotLooked);
}

#[test]
fn pairs_of_which_one_answer_is_not_whole_are_not_compared() {
    let theirs = official((0..40).map(|i| if i < 30 { truncated() } else { used(50, 100) }));
    let own = relay((0..40).map(|_| used(62, 100)));
    let signal = about(&[own, theirs], About::PromptTokens);
    assert_eq!((signal.seen, signal.numbers["n"]), (Seen::TooFew, 10.0));
}

#[test]
fn answers_that_end_otherwise_are_a_signal() {
    let ends = |reason: &str| Observation {
        finish_reason: Some(reason.to_owned()),
        ..good()
    };
    let theirs = || official((0..100).map(|_| ends("stop")));
    let cut = relay((0..100).map(|i| ends(if i < 12 { "length" } else { "stop" })));
    let signal = about(&[cut, theirs()], About::FinishReasons);
    assert_eq!(signal.seen, Seen::Signal, "{signal:?}");
    assert_eq!(signal.numbers["relay_only"], 12.0);
    let same = relay((0..100).map(|_| ends("stop")));
    assert_eq!(
        about(&[same, theirs()], About::FinishReasons).seen,
        Seen::Nothing
    );
}

#[test]
fn fingerprints_that_the_upstream_never_names_are_a_signal_when_all_are() {
    let named = |name: &str| Observation {
        fingerprint: Some(name.to_owned()),
        ..good()
    };
    let theirs = || official((0..40).map(|i| named(if i % 2 == 0 { "fp_a" } else { "fp_b" })));
    let foreign = relay((0..40).map(|_| named("fp_x")));
    assert_eq!(
        about(&[foreign, theirs()], About::SystemFingerprint).seen,
        Seen::Signal
    );
    let some = relay((0..40).map(|i| named(if i % 2 == 0 { "fp_a" } else { "fp_x" })));
    assert_eq!(
        about(&[some, theirs()], About::SystemFingerprint).seen,
        Seen::Nothing
    );
}

/// Answers of a model that says one of so many words at each place.
fn said(words: u32, salt: u64) -> impl Iterator<Item = Observation> {
    (0..60).map(move |answer: u64| {
        let word = |place: u64| {
            let mixed =
                (answer * 7919 + place * 104_729 + salt * 1_299_709).wrapping_mul(2_654_435_761);
            u32::try_from(mixed >> 16 & 0xffff).unwrap_or(0) % words
        };
        Observation {
            words: (0..30).map(word).collect(),
            ..good()
        }
    })
}

#[test]
fn answers_of_another_model_to_the_same_prompt_are_a_signal() {
    let calibrated = |mut evidence: Evidence| {
        evidence.header.calibration = true;
        evidence
    };
    let theirs = || calibrated(official(said(4, 1)));
    let swapped = calibrated(relay(said(3, 2)));
    let found = signals(&[swapped, theirs()]);
    assert_eq!(found.len(), 1, "a calibration is for this only");
    assert_eq!(
        (found[0].about, found[0].seen),
        (About::Answers, Seen::Signal)
    );
    let same = calibrated(relay(said(4, 2)));
    let signal = about(&[same, theirs()], About::Answers);
    assert_eq!(signal.seen, Seen::Nothing, "{signal:?}");
    let alone = calibrated(relay(said(4, 2)));
    assert_eq!(about(&[alone], About::Answers).seen, Seen::TooFew);
}

#[test]
fn the_order_of_the_files_changes_no_signal() {
    let mut evidence = vec![
        relay(said(4, 1)),
        official((0..40).map(|i| used(50 + i, 100))),
    ];
    let forth = signals(&evidence);
    evidence.reverse();
    for one in &mut evidence {
        one.samples.reverse();
    }
    assert_eq!(forth, signals(&evidence));
}
