//! For each fault, what a client must see.

use relayproof::sim::Fault;
use serde_json::Value;

use crate::client::{Ending, Response, json_of};

/// What a fault, struck after three of eight tokens, must look like on the wire of a stream.
pub(crate) fn check_stream(fault: &Fault, seen: &Response, honest: &Response) {
    let whole = seen.ending == Ending::Whole;
    let honest_text = honest.text();
    let three: String = honest_text.split_inclusive(' ').take(3).collect();
    let three = three.trim_end();
    let finished = |response: &Response| response.body().contains(r#""finish_reason":"stop""#);
    let done = |response: &Response| response.body().ends_with("data: [DONE]\n\n");
    let cut = |seen: &Response| {
        assert_eq!(seen.text(), three);
        assert_eq!(seen.events().len(), 1 + 3);
        assert!(!finished(seen) && !done(seen));
    };
    match fault {
        Fault::Fake200 | Fault::Fake200Empty | Fault::Fake200Html | Fault::Status { .. } => {
            check_canned(fault, seen);
        }
        Fault::SlowFirstToken { .. } => {
            assert!(whole && done(seen) && finished(seen));
            assert_eq!(seen.text(), honest_text);
        }
        Fault::Truncate { .. } => {
            assert!(whole);
            cut(seen);
        }
        Fault::TruncateFin { .. } => {
            assert_eq!(seen.ending, Ending::Fin);
            cut(seen);
        }
        Fault::TruncateRst { .. } => {
            assert_eq!(seen.ending, Ending::Reset);
            cut(seen);
        }
        Fault::Stall { .. } => {
            assert_eq!(seen.ending, Ending::Silent);
            cut(seen);
        }
        Fault::ErrorInStream { .. } => {
            assert!(whole && !finished(seen) && !done(seen));
            assert_eq!(seen.text(), three);
            let error = json_of(seen.events().last().unwrap());
            assert!(error["error"]["message"].is_string() && error["choices"].is_null());
        }
        Fault::ErrorAsContent => {
            assert!(whole && finished(seen) && done(seen));
            assert!(seen.text().contains("429: Too Many Requests"));
            assert_eq!(seen.events().len(), 1 + 1 + 1 + 1);
            assert!(!seen.text().contains("END-0123abcd"));
        }
        Fault::MalformedJson { .. } => {
            assert!(whole && finished(seen) && done(seen));
            let (seen, honest) = (seen.events(), honest.events());
            assert_eq!(seen.len(), honest.len());
            let broken: Vec<usize> = (0..seen.len() - 1)
                .filter(|&index| serde_json::from_str::<Value>(&seen[index]).is_err())
                .collect();
            assert_eq!(broken, [1 + 3]);
        }
        Fault::SplitJson { .. } => {
            assert!(whole && finished(seen) && done(seen));
            let events = seen.events();
            assert_eq!(events.len(), honest.events().len() + 1);
            for half in &events[4..6] {
                assert!(serde_json::from_str::<Value>(half).is_err(), "{half}");
            }
            let joined = json_of(&[events[4].as_str(), events[5].as_str()].concat());
            assert!(joined["choices"][0]["delta"]["content"].is_string());
        }
        Fault::Buffer => {
            assert!(whole && finished(seen) && done(seen));
            assert_eq!(seen.text(), honest_text);
            assert_eq!(seen.chunks.len(), 1);
        }
        Fault::WrongModel => {
            assert!(whole && finished(seen) && done(seen));
            assert_eq!(seen.text(), honest_text);
            let label = json_of(&seen.events()[0])["model"].clone();
            assert_ne!(label, "test-model");
            let events = seen.events();
            for event in &events[..events.len() - 1] {
                assert_eq!(json_of(event)["model"], label);
            }
        }
        Fault::DropSeal => {
            assert!(whole && finished(seen) && done(seen));
            assert_eq!(seen.text().split(' ').count(), 4);
            assert!(honest_text.starts_with(&seen.text()));
            assert!(!seen.text().contains("END-0123abcd"));
        }
        Fault::FakeDone { .. } => {
            assert!(whole && done(seen) && !finished(seen));
            assert_eq!(seen.text(), three);
        }
    }
}

/// What a fault looks like that puts something else in the place of an answer.
fn check_canned(fault: &Fault, seen: &Response) {
    assert_eq!(seen.ending, Ending::Whole);
    let kind = seen.header("content-type").unwrap();
    let expected = if let Fault::Status { code, .. } = fault {
        *code
    } else {
        200
    };
    assert_eq!(seen.status, expected);
    if *fault == Fault::Fake200Empty {
        assert!(kind.starts_with("text/event-stream"));
        assert_eq!(seen.body(), "");
    } else if *fault == Fault::Fake200Html {
        assert!(kind.starts_with("text/html"));
        assert!(seen.body().contains("<html>"));
    } else {
        assert_eq!(
            (kind, seen.header("retry-after")),
            ("application/json", None)
        );
        assert!(json_of(&seen.body())["error"]["message"].is_string());
    }
}

/// What it must look like in one JSON body.
pub(crate) fn check_whole(fault: &Fault, seen: &Response, honest: &Response) {
    let whole = seen.ending == Ending::Whole;
    let text = |response: &Response| {
        let choice = json_of(&response.body())["choices"][0].clone();
        assert_eq!(choice["finish_reason"], "stop");
        choice["message"]["content"].as_str().unwrap().to_owned()
    };
    let part = || {
        let body = seen.body();
        assert!(!body.is_empty() && body.len() < honest.body().len());
        assert!(serde_json::from_str::<Value>(&body).is_err(), "{body}");
    };
    match fault {
        Fault::Truncate { .. } | Fault::MalformedJson { .. } => {
            assert!(whole);
            part();
        }
        Fault::TruncateFin { .. } => {
            assert_eq!(seen.ending, Ending::Fin);
            part();
        }
        Fault::TruncateRst { .. } => {
            assert_eq!(seen.ending, Ending::Reset);
            part();
        }
        Fault::Stall { .. } => {
            assert_eq!(seen.ending, Ending::Silent);
            part();
        }
        Fault::ErrorAsContent | Fault::DropSeal => {
            assert!(whole);
            assert!(!text(seen).contains("END-0123abcd"));
        }
        Fault::WrongModel => {
            assert!(whole);
            assert_eq!(text(seen), text(honest));
            assert_ne!(json_of(&seen.body())["model"], "test-model");
        }
        Fault::Fake200 | Fault::Fake200Empty | Fault::Fake200Html | Fault::Status { .. } => {
            check_canned(fault, seen);
        }
        Fault::SlowFirstToken { .. }
        | Fault::ErrorInStream { .. }
        | Fault::SplitJson { .. }
        | Fault::Buffer
        | Fault::FakeDone { .. } => {
            assert!(whole);
            assert_eq!(text(seen), text(honest));
        }
    }
}
