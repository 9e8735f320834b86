//! What each metric says of whole, slow, refused, broken and odd answers.

use super::*;
use crate::evidence::fixtures::*;
use crate::observation::Timeline;

fn read(metric: Metric, seen: Observation) -> Reading {
    metric.reading(&sample(0, seen), &judging())
}

fn with(change: impl FnOnce(&mut Observation)) -> Observation {
    let mut seen = good();
    change(&mut seen);
    seen
}

#[test]
fn times_are_offsets_of_the_first_attempt() {
    for (metric, expected) in [
        (Metric::Connect, 0.01),
        (Metric::Ttfb, 0.1),
        (Metric::FirstEvent, 0.12),
        (Metric::Ttft, 0.12),
        (Metric::Total, 0.521),
        (Metric::MaxGap, 0.04),
    ] {
        assert_eq!(read(metric, good()), Reading::Value(expected), "{metric}");
    }
    let late_success = retried(0, vec![refused(503), good()]);
    assert_eq!(
        Metric::Ttft.reading(&late_success, &judging()),
        Reading::Worst,
        "a retry does not make the first attempt fast"
    );
}

#[test]
fn a_refused_call_is_the_worst_of_every_time_it_did_not_reach() {
    for metric in [
        Metric::FirstEvent,
        Metric::Ttft,
        Metric::Total,
        Metric::Tps,
        Metric::Jitter,
        Metric::MaxGap,
    ] {
        assert_eq!(read(metric, refused(503)), Reading::Worst, "{metric}");
    }
    assert_eq!(read(Metric::Ttfb, refused(503)), Reading::Value(0.03));
}

#[test]
fn a_refused_call_is_none_of_the_answers_that_parsing_is_about() {
    for metric in [
        Metric::ParseSuccess,
        Metric::Interruption,
        Metric::ModelMatch,
        Metric::UsageMatch,
    ] {
        assert_eq!(read(metric, refused(429)), Reading::Ineligible, "{metric}");
    }
    assert_eq!(read(Metric::HttpSuccess, refused(429)), Reading::Value(0.0));
}

#[test]
fn a_truncated_stream_keeps_its_first_token_and_loses_the_rest() {
    assert_eq!(read(Metric::Ttft, truncated()), Reading::Value(0.12));
    assert_eq!(read(Metric::Total, truncated()), Reading::Worst);
    assert_eq!(read(Metric::Tps, truncated()), Reading::Worst);
    assert_eq!(read(Metric::Jitter, truncated()), Reading::Worst);
    assert_eq!(read(Metric::Interruption, truncated()), Reading::Value(1.0));
    assert_eq!(read(Metric::ParseSuccess, truncated()), Reading::Value(1.0));
    assert_eq!(
        interruption().outcome(&sample(0, truncated()), &judging()),
        Outcome::Bad
    );
    assert_eq!(
        interruption().outcome(&sample(0, good()), &judging()),
        Outcome::Good
    );
}

#[test]
fn a_phase_that_a_connection_does_not_have_is_not_about_it() {
    assert_eq!(read(Metric::Dns, good()), Reading::Ineligible);
    assert_eq!(read(Metric::Tls, good()), Reading::Ineligible);
    let reused = with(|seen| {
        seen.connection.reused = Some(true);
        seen.timeline.connect = None;
    });
    assert_eq!(read(Metric::Connect, reused), Reading::Ineligible);
}

#[test]
fn a_phase_that_failed_or_was_never_reached_is_the_worst() {
    let lost = |at: Phase| {
        with(|seen| {
            seen.ending = Ending::Unreachable;
            seen.last_phase = at;
            seen.status = None;
            seen.timeline = Timeline::default();
            seen.timeline.dns = Some(Stretch {
                start: ms(0),
                end: (at > Phase::Dns).then_some(ms(5)),
            });
        })
    };
    assert_eq!(read(Metric::Dns, lost(Phase::Dns)), Reading::Worst);
    assert_eq!(read(Metric::Connect, lost(Phase::Dns)), Reading::Worst);
    assert_eq!(
        read(Metric::Dns, lost(Phase::Connect)),
        Reading::Value(0.005)
    );
    assert_eq!(read(Metric::Tls, lost(Phase::Connect)), Reading::Worst);
    assert_eq!(read(Metric::Ttfb, lost(Phase::Connect)), Reading::Worst);
}

#[test]
fn speed_counts_the_tokens_after_the_first_packet() {
    // 21 tokens, 80 of 84 characters after the first packet, in 0.4 s.
    let Reading::Rate { per_second, over_s } = read(Metric::Tps, good()) else {
        panic!("no speed");
    };
    assert!((per_second - 50.0).abs() < 1e-9, "{per_second}");
    assert!((over_s - 0.4).abs() < 1e-9, "{over_s}");
}

#[test]
fn speed_is_undefined_without_a_count_or_with_few_tokens() {
    let unknown = || with(|seen| seen.usage = None);
    assert_eq!(read(Metric::Tps, unknown()), Reading::Undefined);
    let few = with(|seen| seen.usage.as_mut().unwrap().output = Some(15));
    assert_eq!(read(Metric::Tps, few), Reading::Undefined);
    let by_events = Judging {
        tokens: Tokens::Events,
        ..judging()
    };
    let reading = Metric::Tps.reading(&sample(0, unknown()), &by_events);
    assert!(reading.value().is_some_and(|tps| (tps - 50.0).abs() < 1e-9));
}

#[test]
fn reasoning_counts_toward_speed_only_when_it_was_streamed() {
    let reasoned = |streamed| {
        with(|seen| {
            let usage = seen.usage.as_mut().unwrap();
            usage.output = Some(61);
            usage.reasoning = Some(40);
            seen.packets.reasoning = streamed;
        })
    };
    let speed = |streamed| read(Metric::Tps, reasoned(streamed)).value().unwrap();
    assert!((speed(false) - 50.0).abs() < 1e-9);
    assert!(speed(true) > 140.0);
    let odd = with(|seen| seen.usage.as_mut().unwrap().reasoning = Some(22));
    assert_eq!(
        read(Metric::Tps, odd),
        Reading::Undefined,
        "more reasoning than output"
    );
}

#[test]
fn a_buffered_answer_has_the_worst_jitter_and_its_speed_from_t0() {
    let burst = || {
        with(|seen| {
            seen.packets.count = 1;
            seen.packets.first_chars = 84;
            seen.packets.last = Some(ms(500));
            seen.packets.first = Some(ms(500));
            seen.packets.longest.clear();
            seen.packets.gap_m2_s2 = None;
        })
    };
    assert_eq!(read(Metric::Jitter, burst()), Reading::Burst);
    assert_eq!(read(Metric::Tps, burst()).value(), Some(42.0));
    assert_eq!(read(Metric::MaxGap, burst()), Reading::Undefined);
}

#[test]
fn a_burst_is_told_from_what_else_makes_an_answer_unusable() {
    let found = |classes: &[Class]| {
        let findings = classes
            .iter()
            .map(|class| finding(*class, Phase::Stream))
            .collect();
        read(Metric::Usable, with(|seen| seen.findings = findings))
    };
    assert_eq!(found(&[Class::NotStreamed]), Reading::Burst);
    assert_eq!(
        found(&[Class::NotStreamed, Class::ModelMismatch]),
        Reading::Value(0.0)
    );
    assert_eq!(found(&[]), Reading::Value(1.0));
}

#[test]
fn a_seal_that_is_missing_is_told_from_what_else_makes_an_answer_unusable() {
    let unsealed = |more: &[Class], unmet: &[&str]| {
        with(|seen| {
            seen.sealed = Some(false);
            let classes = [&[Class::MaskedTruncation], more].concat();
            seen.findings = classes
                .iter()
                .map(|class| finding(*class, Phase::Stream))
                .collect();
            seen.unmet = unmet.iter().map(|it| (*it).to_owned()).collect();
        })
    };
    let only = unsealed(&[], &[]);
    assert_eq!(read(Metric::Usable, only.clone()), Reading::Unsealed);
    for worse in [
        unsealed(&[Class::ModelMismatch], &[]),
        unsealed(&[Class::NotStreamed], &[]),
        unsealed(&[], &["min_chars"]),
    ] {
        assert_eq!(read(Metric::Usable, worse.clone()), Reading::Value(0.0));
        assert_eq!(sealed(&sample(0, worse)), Some(false));
    }
    // Nothing but `usable` looks at it.
    assert_eq!(read(Metric::SuccessIn4, only.clone()), Reading::Value(1.0));
    assert_eq!(
        read(Metric::ParseSuccess, only.clone()),
        Reading::Value(1.0)
    );
    assert_eq!(sealed(&sample(0, only)), Some(false));
    assert_eq!(sealed(&sample(0, good())), Some(true));
    assert_eq!(sealed(&sample(0, truncated())), None);
    assert_eq!(sealed(&sample(0, refused(503))), None);
    let unasked = with(|seen| seen.sealed = None);
    assert_eq!(sealed(&sample(0, unasked)), None);
}

#[test]
fn jitter_needs_sixteen_gaps() {
    let packets = |count| {
        read(
            Metric::Jitter,
            with(|seen| {
                seen.packets.count = count;
                seen.packets.gap_m2_s2 = Some(0.0016);
            }),
        )
    };
    assert_eq!(packets(16), Reading::Undefined);
    let Reading::Value(jitter) = packets(17) else {
        panic!("no jitter");
    };
    assert!((jitter - (0.0016_f64 / 15.0).sqrt()).abs() < 1e-12);
}

#[test]
fn an_error_dressed_up_as_an_answer_fails_parsing() {
    for class in [
        Class::ErrorAsContent,
        Class::ErrorInStream,
        Class::Fake200JsonError,
        Class::Fake200Html,
        Class::Fake200Empty,
    ] {
        let seen = with(|seen| seen.findings = vec![finding(class, Phase::Stream)]);
        assert_eq!(
            read(Metric::ParseSuccess, seen.clone()),
            Reading::Value(0.0),
            "{class}"
        );
        assert_eq!(
            read(Metric::SuccessIn4, seen),
            Reading::Value(0.0),
            "{class}"
        );
    }
}

#[test]
fn a_suspicious_answer_is_a_success_but_not_usable() {
    let seen = || with(|seen| seen.findings = vec![finding(Class::ModelMismatch, Phase::Stream)]);
    assert_eq!(read(Metric::SuccessIn4, seen()), Reading::Value(1.0));
    assert_eq!(read(Metric::Usable, seen()), Reading::Value(0.0));
    assert_eq!(read(Metric::ModelMatch, seen()), Reading::Value(0.0));
    let unmet = with(|seen| seen.unmet = vec!["min_chars".to_owned()]);
    assert_eq!(read(Metric::Usable, unmet), Reading::Value(0.0));
    // A cut at the budget is no claim to have come to the end.
    let unsealed = with(|seen| seen.sealed = Some(false));
    assert_eq!(read(Metric::Usable, unsealed), Reading::Value(0.0));
    assert_eq!(read(Metric::Usable, good()), Reading::Value(1.0));
}

#[test]
fn a_retry_that_recovers_counts_for_the_whole_call() {
    let of = |metric: Metric, attempts| metric.reading(&retried(0, attempts), &judging());
    let recovered = || vec![refused(503), refused(503), good()];
    assert_eq!(of(Metric::RetrySuccess, recovered()), Reading::Value(1.0));
    assert_eq!(of(Metric::SuccessIn4, recovered()), Reading::Value(1.0));
    assert_eq!(of(Metric::Usable, recovered()), Reading::Value(1.0));
    assert_eq!(of(Metric::HttpSuccess, recovered()), Reading::Value(0.0));
    let lost = || vec![refused(503), truncated()];
    assert_eq!(of(Metric::RetrySuccess, lost()), Reading::Value(0.0));
    assert_eq!(of(Metric::SuccessIn4, lost()), Reading::Value(0.0));
    let fifth = vec![
        refused(503),
        refused(503),
        refused(503),
        refused(503),
        good(),
    ];
    assert_eq!(of(Metric::SuccessIn4, fifth), Reading::Value(0.0));
}

#[test]
fn a_call_that_did_not_fail_at_first_is_not_about_retries() {
    assert_eq!(read(Metric::RetrySuccess, good()), Reading::Ineligible);
    assert_eq!(
        read(Metric::RetrySuccess, refused(404)),
        Reading::Ineligible
    );
    assert_eq!(
        read(Metric::RetrySuccess, refused(429)),
        Reading::Value(0.0)
    );
}

#[test]
fn a_value_on_the_bound_breaks_less_than_and_keeps_at_most() {
    let on_bound = || sample(0, slow(1500));
    let mut promise = ttft_p95();
    assert_eq!(promise.outcome(&on_bound(), &judging()), Outcome::Bad);
    promise.op = Op::AtMost;
    assert_eq!(promise.outcome(&on_bound(), &judging()), Outcome::Good);
    // 1.123 s as whole seconds plus a fraction would be one bit above the literal.
    promise.bound = 1.123;
    assert_eq!(
        promise.outcome(&sample(0, slow(1123)), &judging()),
        Outcome::Good
    );
}

#[test]
fn warm_ups_and_calls_that_we_called_off_do_not_count() {
    assert!(sample(0, good()).counts());
    let warm = Sample {
        warmup: true,
        ..sample(0, good())
    };
    assert!(!warm.counts());
    let off = with(|seen| seen.ending = Ending::Cancelled);
    assert!(!sample(0, off.clone()).counts());
    assert!(!retried(0, vec![refused(503), off]).counts());
}
