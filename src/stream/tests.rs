//! Claims about the exchange: phases, limits, classes and bounds. Offsets are literals.

use super::*;
use crate::expect::Expect;
use crate::observation::{Class, Ending, ErrorKind, Warning};

fn asked() -> Asked {
    Asked {
        protocol: Protocol::OpenaiChat,
        stream: true,
        model: "test-model".to_owned(),
        max_tokens: None,
        usage: false,
        seal: None,
        request_bytes: 321,
        expect: Expect::default(),
        keep_text: true,
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn timeouts() -> Timeouts {
    Timeouts {
        dns: ms(2_000),
        connect: ms(3_000),
        tls: ms(4_000),
        headers: ms(30_000),
        first_token: ms(60_000),
        idle: ms(10_000),
        total: ms(120_000),
    }
}

fn new() -> Exchange {
    Exchange::new(asked(), timeouts())
}

fn head(exchange: &mut Exchange, at: Duration, status: u16, kind: &str) {
    let headers = vec![("content-type", kind.as_bytes())];
    let head = Head {
        status,
        version: "1.1",
        headers,
    };
    exchange.handle(at, Input::Head(head));
}

/// An exchange that has the head of a stream.
fn streaming(asked: Asked) -> Exchange {
    let mut exchange = Exchange::new(asked, timeouts());
    head(&mut exchange, ms(100), 200, "text/event-stream");
    exchange
}

fn chunk(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"test-model\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}

fn says(text: &str) -> String {
    chunk(
        &format!("{{\"content\":{}}}", serde_json::json!(text)),
        "null",
    )
}

fn stop() -> String {
    chunk("{}", "\"stop\"")
}

const DONE: &str = "data: [DONE]\n\n";

fn feed(exchange: &mut Exchange, at: Duration, text: &str) {
    exchange.handle(at, Input::Body(text.as_bytes()));
}

/// What a body that comes at once and ends cleanly gives.
fn body(asked: Asked, text: &str) -> Observation {
    let mut exchange = streaming(asked);
    feed(&mut exchange, ms(200), text);
    exchange.handle(ms(300), Input::BodyEnd);
    exchange.finish()
}

fn classes(seen: &Observation) -> Vec<Class> {
    seen.findings.iter().map(|found| found.class).collect()
}

#[test]
fn a_whole_answer_gives_the_offset_of_every_phase() {
    let mut exchange = new();
    for (at, input) in [
        (0, Input::Enter(Phase::Dns)),
        (10, Input::Leave(Phase::Dns)),
        (10, Input::Enter(Phase::Connect)),
        (30, Input::Leave(Phase::Connect)),
        (30, Input::Enter(Phase::Tls)),
        (60, Input::Leave(Phase::Tls)),
        (60, Input::Enter(Phase::Send)),
        (61, Input::Leave(Phase::Send)),
        (90, Input::FirstByte),
    ] {
        exchange.handle(ms(at), input);
    }
    head(&mut exchange, ms(100), 200, "text/event-stream");
    feed(&mut exchange, ms(110), ": hi\n\n");
    feed(
        &mut exchange,
        ms(120),
        &chunk("{\"role\":\"assistant\"}", "null"),
    );
    assert!(!exchange.has_output());
    feed(&mut exchange, ms(150), &says("Hello"));
    assert!(exchange.has_output());
    feed(&mut exchange, ms(170), &says(" world"));
    feed(&mut exchange, ms(180), &stop());
    feed(&mut exchange, ms(190), DONE);
    assert!(!exchange.is_over());
    exchange.handle(ms(200), Input::BodyEnd);
    assert!(exchange.is_over());
    let seen = exchange.finish();

    let line = &seen.timeline;
    let stretch = |start, end| {
        Some(Stretch {
            start: ms(start),
            end: Some(ms(end)),
        })
    };
    assert_eq!(line.dns, stretch(0, 10));
    assert_eq!(line.connect, stretch(10, 30));
    assert_eq!(line.tls, stretch(30, 60));
    assert_eq!(line.send, stretch(60, 61));
    assert_eq!(line.first_byte, Some(ms(90)));
    assert_eq!(line.head, Some(ms(100)));
    assert_eq!(line.first_chunk, Some(ms(110)));
    assert_eq!(line.first_event, Some(ms(120)));
    assert_eq!(line.first_token, Some(ms(150)));
    assert_eq!(line.last_token, Some(ms(170)));
    assert_eq!(line.end_mark, Some(ms(190)));
    assert_eq!(line.over, ms(200));
    assert_eq!(line.pool, None);
    assert_eq!(seen.outcome(), "ok");
    assert_eq!(seen.ending, Ending::Completed);
    assert_eq!(seen.text.as_deref(), Some("Hello world"));
    assert_eq!(seen.finish_reason.as_deref(), Some("stop"));
    assert_eq!((seen.counts.events, seen.counts.comments), (5, 1));
    assert_eq!(seen.counts.request_bytes, 321);
    assert!(seen.parse_ok && !seen.interrupted);
}

#[test]
fn each_step_of_connecting_has_its_limit() {
    let mut exchange = new();
    exchange.handle(ms(5), Input::Enter(Phase::Dns));
    assert_eq!(exchange.deadline(), Some((ms(2_005), Limit::Dns)));
    exchange.handle(ms(10), Input::Leave(Phase::Dns));
    exchange.handle(ms(10), Input::Enter(Phase::Connect));
    assert_eq!(exchange.deadline(), Some((ms(3_010), Limit::Connect)));
    exchange.handle(ms(500), Input::Leave(Phase::Connect));
    exchange.handle(ms(500), Input::Enter(Phase::Tunnel));
    // The tunnel shares the time of the connect that it belongs to.
    assert_eq!(exchange.deadline(), Some((ms(3_010), Limit::Connect)));
    exchange.handle(ms(600), Input::Leave(Phase::Tunnel));
    exchange.handle(ms(600), Input::Enter(Phase::Tls));
    assert_eq!(exchange.deadline(), Some((ms(4_600), Limit::Tls)));
    exchange.handle(ms(700), Input::Leave(Phase::Tls));
    assert_eq!(exchange.deadline(), Some((ms(30_000), Limit::Headers)));
}

#[test]
fn heartbeats_and_empty_chunks_do_not_reset_the_limits_of_output() {
    let mut exchange = streaming(asked());
    assert_eq!(exchange.deadline(), Some((ms(60_000), Limit::FirstToken)));
    feed(&mut exchange, ms(1_000), ": hi\n\n");
    feed(
        &mut exchange,
        ms(1_100),
        &chunk("{\"role\":\"assistant\",\"content\":\"\"}", "null"),
    );
    assert_eq!(exchange.deadline(), Some((ms(60_000), Limit::FirstToken)));
    feed(&mut exchange, ms(2_000), &says("a"));
    assert_eq!(exchange.deadline(), Some((ms(12_000), Limit::Idle)));
    feed(&mut exchange, ms(11_000), ": hi\n\n");
    feed(&mut exchange, ms(11_500), &says(""));
    assert_eq!(exchange.deadline(), Some((ms(12_000), Limit::Idle)));
    exchange.handle(ms(12_000), Input::Deadline);
    let seen = exchange.finish();
    assert_eq!(classes(&seen), [Class::Stalled]);
    assert_eq!(seen.timed_out, Some(Limit::Idle));
    assert_eq!(seen.ending, Ending::Stalled);
    assert_eq!(seen.last_phase, Phase::Stream);
    assert_eq!(seen.counts.idle_comments, 1);
    assert!(seen.parse_ok && seen.interrupted);
}

#[test]
fn the_total_limit_holds_while_output_flows() {
    let mut exchange = streaming(asked());
    feed(&mut exchange, ms(115_000), &says("a"));
    assert_eq!(exchange.deadline(), Some((ms(120_000), Limit::Total)));
}

#[test]
fn a_body_left_open_after_the_end_mark_is_left_after_a_grace() {
    let mut exchange = streaming(asked());
    feed(&mut exchange, ms(200), &(says("a") + &stop() + DONE));
    assert_eq!(exchange.deadline(), Some((ms(1_200), Limit::AfterDone)));
    exchange.handle(ms(1_200), Input::Deadline);
    assert!(exchange.is_over());
    let seen = exchange.finish();
    assert_eq!(seen.outcome(), "ok");
    assert_eq!(seen.warnings, [Warning::BodyNotEndedAfterDone]);
    assert_eq!(seen.timed_out, None);
    assert!(!seen.interrupted);
}

#[test]
fn a_deadline_that_has_not_come_changes_nothing() {
    let mut exchange = streaming(asked());
    exchange.handle(ms(59_999), Input::Deadline);
    assert!(!exchange.is_over());
    exchange.handle(ms(60_000), Input::Deadline);
    assert!(exchange.is_over());
    assert_eq!(exchange.deadline(), None);
}

#[test]
fn a_failure_is_named_by_the_phase_in_which_it_happens() {
    let steps = [
        Phase::Dns,
        Phase::Connect,
        Phase::Tunnel,
        Phase::Tls,
        Phase::Send,
    ];
    for (at, loss, class) in [
        (Phase::Dns, Loss::Dns, Class::DnsFailure),
        (Phase::Dns, Loss::Other, Class::DnsFailure),
        (Phase::Connect, Loss::Refused, Class::ConnectRefused),
        (Phase::Connect, Loss::Unreachable, Class::ConnectRefused),
        (Phase::Connect, Loss::Reset, Class::ConnectRefused),
        (Phase::Tunnel, Loss::Tunnel, Class::ConnectRefused),
        (Phase::Tunnel, Loss::Closed, Class::ConnectRefused),
        (Phase::Tls, Loss::Tls, Class::TlsFailure),
        (Phase::Tls, Loss::Certificate, Class::TlsFailure),
        (Phase::Tls, Loss::CertificateEarly, Class::TlsFailure),
        (Phase::Tls, Loss::CertificateLate, Class::TlsFailure),
        (Phase::Send, Loss::NoHttp, Class::ProtocolViolation),
        (Phase::Tls, Loss::Closed, Class::TlsFailure),
        (Phase::Send, Loss::Reset, Class::NoResponse),
    ] {
        let mut exchange = new();
        for step in steps {
            exchange.handle(ms(1), Input::Enter(step));
            if step == at {
                break;
            }
            exchange.handle(ms(2), Input::Leave(step));
        }
        exchange.handle(ms(9), Input::Lost(loss));
        assert!(exchange.is_over());
        let seen = exchange.finish();
        assert_eq!(classes(&seen), [class], "{at} {loss}");
        assert_eq!(seen.findings[0].phase, at);
        assert_eq!(seen.last_phase, at);
        assert_eq!(seen.lost, Some(loss));
        // Somebody was there, but spoke no HTTP.
        let heard = class == Class::ProtocolViolation;
        let ending = if heard {
            Ending::Malformed
        } else {
            Ending::Unreachable
        };
        assert_eq!(seen.ending, ending, "{loss}");
        assert!(seen.parse_ok && seen.interrupted);
    }
}

#[test]
fn a_limit_passed_while_connecting_is_a_failure_to_connect() {
    for (phase, class, limit) in [
        (Phase::Dns, Class::DnsFailure, Limit::Dns),
        (Phase::Connect, Class::ConnectRefused, Limit::Connect),
        (Phase::Tls, Class::TlsFailure, Limit::Tls),
    ] {
        let mut exchange = new();
        exchange.handle(ms(0), Input::Enter(phase));
        exchange.handle(ms(5_000), Input::Deadline);
        let seen = exchange.finish();
        assert_eq!(classes(&seen), [class]);
        assert_eq!(seen.timed_out, Some(limit));
        assert_eq!(seen.ending, Ending::Unreachable);
    }
}

#[test]
fn no_head_in_time_is_a_stall_in_the_wait() {
    let mut exchange = new();
    exchange.handle(ms(1), Input::Enter(Phase::Send));
    exchange.handle(ms(2), Input::Leave(Phase::Send));
    exchange.handle(ms(30_000), Input::Deadline);
    let seen = exchange.finish();
    assert_eq!(classes(&seen), [Class::Stalled]);
    assert_eq!(seen.findings[0].phase, Phase::Wait);
    assert_eq!(seen.timed_out, Some(Limit::Headers));
}

#[test]
fn an_answer_cut_off_by_ctrl_c_is_blamed_on_nobody() {
    let mut exchange = streaming(asked());
    feed(&mut exchange, ms(200), &says("a"));
    exchange.handle(ms(300), Input::Cancelled);
    let seen = exchange.finish();
    assert_eq!(seen.ending, Ending::Cancelled);
    assert!(seen.findings.is_empty());
}

#[test]
fn offsets_never_run_backwards() {
    let mut exchange = streaming(asked());
    feed(&mut exchange, ms(50), &says("a"));
    let seen = exchange.finish();
    assert_eq!(seen.timeline.first_token, Some(ms(100)));
}

#[test]
fn an_http_error_keeps_a_safe_code_and_never_the_text() {
    for (reply, code, kind) in [
        (
            "{\"error\":{\"message\":\"secret-canary\",\"code\":\"rate_limit_exceeded\"}}",
            Some("rate_limit_exceeded"),
            ErrorKind::RateLimit,
        ),
        (
            "data: {\"error\":{\"message\":\"Content blocked: secret-canary\"}}\n\ndata: [DONE]\n\n",
            None,
            ErrorKind::Guardrail,
        ),
        (
            "{\"error\":{\"code\":\"key secret-canary is wrong\",\"message\":\"\"}}",
            None,
            ErrorKind::Other,
        ),
        ("<html>secret-canary</html>", None, ErrorKind::Page),
        ("secret-canary", None, ErrorKind::Other),
        ("", None, ErrorKind::Other),
    ] {
        let mut exchange = new();
        head(&mut exchange, ms(100), 500, "application/json");
        feed(&mut exchange, ms(101), reply);
        exchange.handle(ms(102), Input::BodyEnd);
        let seen = exchange.finish();
        assert_eq!(classes(&seen), [Class::HttpError]);
        assert_eq!(seen.error_code.as_deref(), code, "{reply}");
        assert_eq!(seen.error_kind, Some(kind), "{reply}");
        assert_eq!(seen.ending, Ending::Refused);
        assert!(!seen.parse_ok && !seen.interrupted);
        let record = serde_json::to_string(&seen).unwrap();
        assert!(!record.contains("secret-canary"), "{record}");
    }
}

#[test]
fn an_error_body_that_never_ends_is_left_in_time() {
    let mut exchange = new();
    head(&mut exchange, ms(100), 503, "text/plain");
    assert_eq!(exchange.deadline(), Some((ms(10_100), Limit::Idle)));
    let mut at = 101;
    while !exchange.is_over() {
        feed(&mut exchange, ms(at), &"x".repeat(64 << 10));
        at += 1;
        assert!(at < 200);
    }
    assert_eq!(exchange.finish().outcome(), "http-error");
}

#[test]
fn a_body_that_is_no_stream_is_named_by_what_it_is() {
    let answer = "{\"id\":\"c\",\"object\":\"chat.completion\",\"choices\":[]}";
    for (kind, text, class, interrupted) in [
        (
            "text/html",
            "<html>log in</html>",
            Class::Fake200Html,
            false,
        ),
        (
            "text/event-stream",
            "<!DOCTYPE html>\n<html>\n",
            Class::Fake200Html,
            true,
        ),
        (
            "application/json",
            "{\"error\":\"x\"}",
            Class::Fake200JsonError,
            false,
        ),
        (
            "text/event-stream",
            "{\n  \"error\": {\n    \"code\": \"x\"\n  }\n}\n\ndata: [DONE]\n\n",
            Class::Fake200JsonError,
            false,
        ),
        ("application/json", answer, Class::NotStreamed, false),
        (
            "application/x-ndjson",
            "{\"a\":1}\n{\"a\":2}\n",
            Class::WrongContentType,
            false,
        ),
        (
            "text/event-stream",
            "{\"a\":1}\n{\"a\":2}\n",
            Class::WrongContentType,
            true,
        ),
        (
            "text/plain",
            "upstream request timeout",
            Class::WrongContentType,
            false,
        ),
        (
            "text/event-stream",
            "upstream request timeout",
            Class::ErrorInStream,
            true,
        ),
    ] {
        let mut exchange = new();
        head(&mut exchange, ms(100), 200, kind);
        feed(&mut exchange, ms(101), text);
        exchange.handle(ms(102), Input::BodyEnd);
        let seen = exchange.finish();
        assert_eq!(seen.class(), Some(class), "{kind} {text}");
        assert_eq!(seen.interrupted, interrupted, "{kind} {text}");
        assert!(!seen.parse_ok, "{kind} {text}");
    }
}

#[test]
fn two_hundred_and_nothing_is_a_fake_only_if_the_body_ended() {
    for text in ["", "\n\n\n", ": hi\n\n: hi\n\n"] {
        let seen = body(asked(), text);
        assert_eq!(classes(&seen), [Class::Fake200Empty], "{text:?}");
        assert!(seen.parse_ok && seen.interrupted);
    }
    let mut exchange = streaming(asked());
    exchange.handle(ms(200), Input::Lost(Loss::Reset));
    assert_eq!(classes(&exchange.finish()), [Class::TruncatedNoTerminator]);
    let mut exchange = streaming(asked());
    exchange.handle(ms(60_000), Input::Deadline);
    assert_eq!(classes(&exchange.finish()), [Class::Stalled]);
}

#[test]
fn events_under_another_type_are_read_and_the_type_is_named() {
    let mut exchange = new();
    head(&mut exchange, ms(100), 200, "application/json");
    feed(&mut exchange, ms(101), &(says("a") + &stop() + DONE));
    exchange.handle(ms(102), Input::BodyEnd);
    let seen = exchange.finish();
    assert_eq!(classes(&seen), [Class::WrongContentType]);
    assert_eq!(seen.text.as_deref(), Some("a"));
    assert!(seen.parse_ok && !seen.interrupted);
}

#[test]
fn an_early_end_says_how_it_came() {
    for (input, detail, warned) in [
        (Input::BodyEnd, "a clean end before the end mark", false),
        (Input::Lost(Loss::Reset), "reset before the end mark", false),
        (
            Input::Framing(FramingFault::ShortBody),
            "closed inside the body, before the end mark",
            false,
        ),
    ] {
        let mut exchange = streaming(asked());
        feed(&mut exchange, ms(200), &says("a"));
        exchange.handle(ms(300), input);
        let seen = exchange.finish();
        assert_eq!(classes(&seen), [Class::TruncatedNoTerminator]);
        assert_eq!(seen.findings[0].detail, detail);
        assert_eq!(!seen.warnings.is_empty(), warned);
        assert!(seen.interrupted && seen.parse_ok);
    }
    let seen = body(asked(), &(says("a") + &stop()));
    assert_eq!(seen.findings[0].detail, "missing-done");
    assert_eq!(seen.findings[0].phase, Phase::End);
    let seen = body(asked(), &(says("a") + "data: {\"id\""));
    assert_eq!(seen.warnings, [Warning::UnfinishedLastEvent]);
}

#[test]
fn an_end_mark_without_its_blank_line_still_ends_the_answer() {
    for mark in ["data: [DONE]\n", "data: [DONE]", "data:[DONE]\r"] {
        let seen = body(asked(), &(says("a") + &stop() + mark));
        assert_eq!(seen.outcome(), "ok", "{mark:?}");
        assert_eq!(seen.warnings, [Warning::UnfinishedLastEvent]);
        assert!(!seen.interrupted);
    }
}

#[test]
fn broken_framing_ends_reading_but_a_second_framing_does_not() {
    let mut exchange = streaming(asked());
    feed(&mut exchange, ms(200), &says("a"));
    exchange.handle(ms(210), Input::Framing(FramingFault::BadChunkEnd));
    assert!(exchange.is_over());
    let seen = exchange.finish();
    assert_eq!(seen.class(), Some(Class::ProtocolViolation));
    assert_eq!(seen.ending, Ending::Malformed);
    assert!(!seen.parse_ok && seen.interrupted);

    let mut exchange = streaming(asked());
    exchange.handle(ms(110), Input::Framing(FramingFault::TwoFramings));
    assert!(!exchange.is_over());
    feed(&mut exchange, ms(200), &(says("a") + &stop() + DONE));
    exchange.handle(ms(210), Input::BodyEnd);
    exchange.handle(ms(210), Input::Framing(FramingFault::BytesAfterBody));
    let seen = exchange.finish();
    assert_eq!(classes(&seen), [Class::ProtocolViolation]);
    assert_eq!(seen.text.as_deref(), Some("a"));
}

#[test]
fn a_head_that_is_no_http_is_a_protocol_violation() {
    let mut exchange = new();
    exchange.handle(ms(1), Input::Enter(Phase::Send));
    exchange.handle(ms(2), Input::Leave(Phase::Send));
    exchange.handle(ms(3), Input::FirstByte);
    exchange.handle(ms(4), Input::Framing(FramingFault::BadHead));
    let seen = exchange.finish();
    assert_eq!(classes(&seen), [Class::ProtocolViolation]);
    assert_eq!(seen.findings[0].phase, Phase::Head);
}

#[test]
fn a_coding_that_was_not_asked_for_is_all_that_is_said_of_its_body() {
    let mut exchange = streaming(asked());
    exchange.handle(ms(110), Input::Framing(FramingFault::UnaskedCoding));
    exchange.handle(ms(200), Input::Body(b"\x1f\x8b\x08\x00\xff\n\n\xfe"));
    exchange.handle(ms(210), Input::BodyEnd);
    let seen = exchange.finish();
    assert_eq!(classes(&seen), [Class::ProtocolViolation]);
    assert!(!seen.parse_ok && !seen.interrupted);
}

#[test]
fn a_coding_is_seen_in_the_head_by_every_transport() {
    for (status, class) in [(200, Class::ProtocolViolation), (500, Class::HttpError)] {
        let mut exchange = new();
        let head = Head {
            status,
            version: "1.1",
            headers: vec![
                ("content-type", b"text/event-stream"),
                ("content-encoding", b"gzip"),
            ],
        };
        exchange.handle(ms(100), Input::Head(head));
        exchange.handle(ms(200), Input::Body(b"\x1f\x8b\xff\n\n\xfe\n"));
        exchange.handle(ms(210), Input::BodyEnd);
        let seen = exchange.finish();
        assert_eq!(seen.class(), Some(class));
        assert!(!seen.has(Class::InvalidUtf8) && seen.has(Class::ProtocolViolation));
        assert!(seen.warnings.is_empty());
    }
}

#[test]
fn switching_protocols_unasked_is_an_http_error() {
    let mut exchange = new();
    let head = Head {
        status: 101,
        version: "1.1",
        headers: vec![("upgrade", &b"websocket"[..])],
    };
    exchange.handle(ms(100), Input::Head(head));
    exchange.handle(ms(110), Input::BodyEnd);
    let seen = exchange.finish();
    assert_eq!(classes(&seen), [Class::HttpError]);
    assert_eq!(seen.status, Some(101));
}

#[test]
fn a_missing_seal_convicts_only_a_claim_to_be_whole() {
    let sealed = || Asked {
        seal: Some("END-0a1b2c3d".to_owned()),
        ..asked()
    };
    let half = says("one") + &says(" two");
    for (text, class, seal) in [
        (
            half.clone() + &says(" `END-0a1b2c3d`.\n") + &stop() + DONE,
            None,
            true,
        ),
        (
            half.clone() + &stop() + DONE,
            Some(Class::MaskedTruncation),
            false,
        ),
        (
            says("END-0a1b2c3d comes first and then there is more") + &stop() + DONE,
            Some(Class::MaskedTruncation),
            false,
        ),
        (half.clone(), Some(Class::TruncatedNoTerminator), false),
        (
            half + &chunk("{}", "\"length\"") + DONE,
            Some(Class::UnexpectedLengthCut),
            false,
        ),
    ] {
        let seen = body(sealed(), &text);
        assert_eq!(seen.class(), class, "{text}");
        assert_eq!(seen.sealed, Some(seal), "{text}");
    }
    assert_eq!(body(asked(), DONE).sealed, None);
}

#[test]
fn an_error_text_needs_a_second_sign() {
    let error = "You exceeded your current quota, please check your plan.";
    let at_once = says(error) + &stop() + DONE;
    let seen = body(asked(), &at_once);
    assert_eq!(classes(&seen), [Class::ErrorAsContent]);
    assert_eq!(seen.error_kind, Some(ErrorKind::Quota));
    assert!(seen.parse_ok);

    let pieces: String = error.split_inclusive(' ').map(says).collect();
    let streamed = pieces.clone() + &stop() + DONE;
    assert_eq!(body(asked(), &streamed).outcome(), "ok");

    let asked_usage = Asked {
        usage: true,
        ..asked()
    };
    assert_eq!(
        body(asked_usage, &streamed).class(),
        Some(Class::ErrorAsContent)
    );
    let seal = || Asked {
        seal: Some("END-1".to_owned()),
        ..asked()
    };
    assert_eq!(body(seal(), &streamed).class(), Some(Class::ErrorAsContent));
    let quoted = says(error) + &says(" END-1") + &stop() + DONE;
    assert_eq!(body(seal(), &quoted).outcome(), "ok");
}

#[test]
fn an_error_said_after_the_end_mark_leads() {
    let late = says("a") + &stop() + DONE + "event: error\ndata: {\"code\":\"rate_limited\"}\n\n";
    let seen = body(asked(), &late);
    assert_eq!(classes(&seen), [Class::ErrorInStream, Class::DataAfterDone]);
    assert_eq!(seen.error_code.as_deref(), Some("rate_limited"));
    assert!(!seen.parse_ok && !seen.interrupted);
}

#[test]
fn an_event_without_data_among_others_is_a_heartbeat() {
    let text =
        says("a") + "data:\n\n" + "event: ping\ndata: {\"type\":\"ping\"}\n\n" + &stop() + DONE;
    let seen = body(asked(), &text);
    assert_eq!(seen.outcome(), "ok");
    assert_eq!(
        seen.warnings,
        [Warning::EmptyEvent, Warning::UnknownEvent]
            .iter()
            .copied()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    assert!(seen.parse_ok);
}

#[test]
fn a_flaw_of_shape_does_not_hide_the_answer() {
    let text = says("a").replace("\"created\":1,", "") + &stop() + DONE;
    let seen = body(asked(), &text);
    assert_eq!(classes(&seen), [Class::SchemaViolation]);
    assert_eq!(seen.findings[0].detail, "no created");
    assert_eq!(seen.findings[0].event, Some(0));
    assert_eq!(seen.text.as_deref(), Some("a"));
    assert!(!seen.parse_ok);
}

#[test]
fn one_json_text_over_three_events_is_put_together() {
    let whole = says("Hello");
    let data = whole.trim().strip_prefix("data: ").unwrap();
    let (first, rest) = data.split_at(20);
    let (second, third) = rest.split_at(30);
    let cut = format!("data: {first}\n\ndata: {second}\n\ndata: {third}\n\n");
    let seen = body(asked(), &(cut + &stop() + DONE));
    assert_eq!(classes(&seen), [Class::JsonSplitAcrossEvents]);
    assert_eq!(seen.text.as_deref(), Some("Hello"));
}

#[test]
fn not_a_number_is_no_json() {
    let text = says("a").replace("\"created\":1", "\"created\":1,\"logprob\":NaN");
    let seen = body(asked(), &(text + &stop() + DONE));
    assert_eq!(seen.class(), Some(Class::MalformedJson));
}

#[test]
fn any_model_may_answer_where_none_was_named() {
    let text = says("a") + &stop() + DONE;
    let named = |model: &str| Asked {
        model: model.to_owned(),
        ..asked()
    };
    assert_eq!(body(named(""), &text).outcome(), "ok");
    let other = body(named("gpt-4o"), &text);
    assert_eq!(other.class(), Some(Class::ModelMismatch));
    assert_eq!(other.model.as_deref(), Some("test-model"));
}

#[test]
fn ids_drawn_anew_for_every_chunk_are_no_splice() {
    let mut text = String::new();
    for index in 0..8 {
        let role = if index % 2 == 0 {
            "\"role\":\"assistant\","
        } else {
            ""
        };
        text += &chunk(&format!("{{{role}\"content\":\"x\"}}"), "null")
            .replace("\"id\":\"c\"", &format!("\"id\":\"c{index}\""));
    }
    let seen = body(asked(), &(text + &stop() + DONE));
    assert_eq!(seen.outcome(), "ok");
}

#[test]
fn an_answer_that_was_not_to_be_streamed_is_read_whole() {
    let unstreamed = || Asked {
        stream: false,
        usage: true,
        ..asked()
    };
    let answer = "{\"id\":\"c\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"test-model\",\
        \"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hello\"},\
        \"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,\
        \"total_tokens\":11}}";
    let read = |text: &str, end: Input<'_>| {
        let mut exchange = Exchange::new(unstreamed(), timeouts());
        head(&mut exchange, ms(100), 200, "application/json");
        assert_eq!(exchange.deadline(), Some((ms(120_000), Limit::Total)));
        feed(&mut exchange, ms(200), text);
        exchange.handle(ms(210), end);
        exchange.finish()
    };
    let seen = read(answer, Input::BodyEnd);
    assert_eq!(seen.outcome(), "ok");
    assert_eq!(seen.text.as_deref(), Some("Hello"));
    assert_eq!(seen.usage.and_then(|usage| usage.output), Some(2));
    assert_eq!(seen.ending, Ending::Completed);
    assert!(!seen.interrupted);
    for (text, class) in [
        ("", Class::Fake200Empty),
        ("<html></html>", Class::Fake200Html),
        ("{\"error\":{\"code\":\"x\"}}", Class::Fake200JsonError),
        ("{\"id\":", Class::MalformedJson),
        ("{\"id\":\"c\"}", Class::SchemaViolation),
        ("data: {}\n\n", Class::WrongContentType),
    ] {
        let seen = read(text, Input::BodyEnd);
        assert_eq!(seen.class(), Some(class), "{text}");
        assert!(!seen.interrupted);
    }
    let cut = read(&answer[..40], Input::Lost(Loss::Reset));
    assert_eq!(cut.class(), Some(Class::TruncatedNoTerminator));
    assert!(cut.interrupted);
}

#[test]
fn what_a_hostile_relay_sends_is_held_within_bounds() {
    let mut exchange = streaming(asked());
    let junk =
        "data: {broken\n\nx: y\n\ndata: {\"choices\":1}\n\n: c\n\ndata: \u{fffd}\n\n".repeat(500);
    for at in 0..100 {
        feed(&mut exchange, ms(200 + at), &junk);
    }
    exchange.handle(ms(400), Input::BodyEnd);
    let seen = exchange.finish();
    assert!(seen.findings.len() <= 64);
    assert!(seen.has(Class::MalformedJson) && seen.has(Class::SchemaViolation));
    assert!(serde_json::to_string(&seen).unwrap().len() < 16 << 10);

    let long = says(&"word ".repeat(50_000));
    let mut exchange = streaming(asked());
    for at in 0..8 {
        feed(&mut exchange, ms(200 + at), &long);
    }
    feed(&mut exchange, ms(300), &(stop() + DONE));
    let seen = exchange.finish();
    assert!(seen.warnings.contains(&Warning::TextLimit));
    assert!(seen.text.is_some_and(|text| text.len() <= 1 << 20));
}

#[test]
fn a_body_without_end_is_left_by_its_size() {
    let mut exchange = streaming(asked());
    let block = ": heartbeat\n".repeat(100_000);
    let mut blocks = 0;
    while !exchange.is_over() {
        feed(&mut exchange, ms(200), &block);
        blocks += 1;
        assert!(blocks < 100);
    }
    assert_eq!(exchange.finish().class(), Some(Class::ProtocolViolation));

    let mut exchange = streaming(asked());
    feed(&mut exchange, ms(200), &(says("a") + &stop() + DONE));
    let mut blocks = 0;
    while !exchange.is_over() {
        feed(&mut exchange, ms(201), &says("more").repeat(1000));
        blocks += 1;
        assert!(blocks < 100);
    }
    assert_eq!(exchange.finish().class(), Some(Class::DataAfterDone));
}

#[test]
fn findings_hold_no_content() {
    let canary = "secret-canary";
    let text = format!(
        "{canary}: x\ndata: {{\"{canary}\n\ndata: {{\"{canary}\":1}}\n\nevent: {canary}\ndata: {{}}\n\n{}",
        says(canary)
    );
    let quiet = Asked {
        keep_text: false,
        ..asked()
    };
    let seen = body(quiet, &text);
    assert!(seen.findings.len() >= 2);
    assert!(!format!("{seen:?}").contains(canary));
}

#[test]
fn evidence_reads_back_as_it_was_written() {
    let seen = body(asked(), &(says("a") + "data: {\n\n" + &says("b")));
    let mut back: Observation =
        serde_json::from_str(&serde_json::to_string(&seen).unwrap()).unwrap();
    back.text = seen.text.clone();
    assert_eq!(back, seen);
}

#[test]
fn a_shape_is_a_seal_without_a_nonce() {
    let shaped = || {
        let mut asked = asked();
        asked.expect.shape = Some(crate::expect::Shape::NumberedLines(2));
        asked
    };
    for (text, sealed, class) in [
        ("1. one\n2. two", true, None),
        ("1. one\n", false, Some(Class::MaskedTruncation)),
    ] {
        let seen = body(shaped(), &format!("{}{}{DONE}", says(text), stop()));
        assert_eq!(seen.sealed, Some(sealed), "{text}");
        assert_eq!(seen.class(), class, "{text}");
    }
}

#[test]
fn the_lines_that_detectors_draw_can_be_moved() {
    let burst: String = (0..20).map(|_| says("word ")).collect();
    let text = format!("{burst}{}{DONE}", stop());
    let cut = |reason| format!("{}{}{DONE}", says("Hello"), chunk("{}", reason));
    let mut asked = asked();
    assert_eq!(body(asked.clone(), &text).class(), Some(Class::NotStreamed));
    asked.expect.detect.least_tokens = 21;
    assert_eq!(body(asked.clone(), &text).class(), None);
    asked.max_tokens = Some(10);
    let usage = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\
                 \"model\":\"test-model\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\
                 \"completion_tokens\":8,\"total_tokens\":9}}\n\n";
    let text = cut("\"length\"").replace(DONE, &format!("{usage}{DONE}"));
    let seen = body(asked.clone(), &text);
    assert_eq!(seen.class(), Some(Class::UnexpectedLengthCut));
    asked.expect.detect.length_tolerance_ppm = 200_000;
    assert_eq!(body(asked, &text).class(), None);
}

#[test]
fn an_opening_that_began_after_the_sending_is_no_wait_that_ends_before_it_begins() {
    let mut exchange = new();
    exchange.handle(ms(10), Input::Enter(Phase::Send));
    exchange.handle(ms(15), Input::Enter(Phase::Connect));
    exchange.handle(
        ms(20),
        Input::Connected(Connection {
            reused: Some(true),
            ..Connection::default()
        }),
    );
    let waited = exchange.finish().timeline.pool;
    let (start, end) = (ms(15), Some(ms(15)));
    assert_eq!(waited, Some(Stretch { start, end }));
}
