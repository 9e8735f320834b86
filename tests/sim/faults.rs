//! Every fault against its row of the truth table, and which request it hits.

use std::time::Duration;

use relayproof::sim::{Fault, Params, Planned, Relay, Settings};
use serde_json::Value;

use crate::client::{
    Ending, Response, SEALED, always, ask, ask_on, chat, connect, exchange, post, quick,
};
use crate::truth::{check_stream, check_whole};

/// The honest answer to `body` under the same settings, for comparison.
async fn honest(body: &Value) -> Response {
    let relay = Relay::start(quick()).await.unwrap();
    ask(&relay, body).await
}

/// Every fault, those that strike in mid-answer after three tokens, no delay long enough to wait.
fn struck() -> Vec<Fault> {
    let after = Params {
        after_tokens: Some(3),
        ..Params::default()
    };
    let delay = Params {
        delay: Some(Duration::from_millis(80)),
        ..Params::default()
    };
    Fault::NAMES
        .iter()
        .map(|name| {
            [after, delay, Params::default()]
                .iter()
                .find_map(|params| Fault::from_parts(name, params).ok())
                .unwrap()
        })
        .collect()
}

#[tokio::test]
async fn every_fault_does_to_a_stream_what_it_says_and_nothing_else() {
    let body = chat(SEALED, true);
    let honest = honest(&body).await;
    for fault in struck() {
        let relay = Relay::start(always(fault.clone())).await.unwrap();
        let mut stream = connect(relay.address()).await;
        let stall = matches!(fault, Fault::Stall { .. }).then_some(3);
        let seen = ask_on(&mut stream, &body, stall).await;
        drop(stream);
        check_stream(&fault, &seen, &honest);
        relay.quiet().await;
        let served = relay.served();
        assert_eq!(served.len(), 1);
        assert_eq!(served[0].fault.as_ref(), Some(&fault));
        assert_eq!((served[0].status, served[0].complete), (seen.status, true));
    }
}

#[tokio::test]
async fn every_fault_does_to_a_json_answer_what_it_says_or_leaves_it_alone() {
    let body = chat(SEALED, false);
    let honest = honest(&body).await;
    for fault in struck() {
        let relay = Relay::start(always(fault.clone())).await.unwrap();
        let mut stream = connect(relay.address()).await;
        let stall = matches!(fault, Fault::Stall { .. }).then_some(3);
        let seen = ask_on(&mut stream, &body, stall).await;
        drop(stream);
        check_whole(&fault, &seen, &honest);
        relay.quiet().await;
        let expected = (!fault.needs_stream()).then_some(fault);
        assert_eq!(relay.served()[0].fault, expected);
    }
}

#[tokio::test]
async fn a_cut_before_the_first_token_leaves_the_role_alone() {
    for name in [
        "truncate",
        "truncate_fin",
        "truncate_rst",
        "stall",
        "fake_done",
    ] {
        let params = Params {
            after_tokens: Some(0),
            ..Params::default()
        };
        let fault = Fault::from_parts(name, &params).unwrap();
        let relay = Relay::start(always(fault)).await.unwrap();
        let mut stream = connect(relay.address()).await;
        let stall = (name == "stall").then_some(0);
        let seen = ask_on(&mut stream, &chat(SEALED, true), stall).await;
        drop(stream);
        assert_eq!(seen.text(), "", "{name}");
        assert!(seen.body().contains(r#""role":"assistant""#));
        relay.quiet().await;
        assert_eq!(relay.served()[0].first_token, None);
    }
}

#[tokio::test]
async fn a_stall_lasts_until_the_client_leaves() {
    let relay = Relay::start(always(Fault::Stall { after_tokens: None }))
        .await
        .unwrap();
    let mut stream = connect(relay.address()).await;
    let seen = ask_on(&mut stream, &chat(SEALED, true), Some(4)).await;
    assert_eq!(seen.ending, Ending::Silent);
    assert!(relay.served().is_empty(), "the answer is still under way");
    drop(stream);
    relay.quiet().await;
    assert_eq!(relay.served().len(), 1);
}

#[tokio::test]
async fn a_status_fault_recovers_after_its_tries_of_the_same_body() {
    let fault = Fault::Status {
        code: 429,
        recover_after: Some(2),
        retry_after_s: Some(7),
    };
    let relay = Relay::start(always(fault)).await.unwrap();
    let (first, second) = (chat("first", true), chat("second", true));
    for body in [&first, &second, &first] {
        let seen = ask(&relay, body).await;
        assert_eq!((seen.status, seen.header("retry-after")), (429, Some("7")));
    }
    assert_eq!(ask(&relay, &first).await.status, 200);
    assert_eq!(ask(&relay, &second).await.status, 429);
    assert_eq!(ask(&relay, &second).await.status, 200);
    assert_eq!(relay.requests(), 6);
}

/// Name of the fault that each body meets, `-` for an honest answer.
async fn draws(relay: &Relay, prompts: impl Iterator<Item = usize>) -> Vec<(usize, String)> {
    let mut stream = connect(relay.address()).await;
    let mut drawn = Vec::new();
    for prompt in prompts {
        let seen = exchange(
            &mut stream,
            &post(&chat(&format!("prompt {prompt}"), false)),
        )
        .await;
        let fault = match (seen.status, seen.body().contains("<html>")) {
            (429, _) => "status",
            (_, true) => "fake_200_html",
            _ => "-",
        };
        drawn.push((prompt, fault.to_owned()));
    }
    drawn
}

#[tokio::test]
async fn shares_hold_and_the_same_bodies_meet_the_same_faults_in_any_order() {
    const BODIES: usize = 2_000;
    let settings = |seed| Settings {
        seed,
        faults: vec![
            Planned {
                fault: Fault::Status {
                    code: 429,
                    recover_after: None,
                    retry_after_s: None,
                },
                share_ppm: 200_000,
            },
            Planned {
                fault: Fault::Fake200Html,
                share_ppm: 50_000,
            },
        ],
        ..quick()
    };
    let relay = Relay::start(settings(7)).await.unwrap();
    let forth = draws(&relay, 0..BODIES).await;
    let mut back = draws(&relay, (0..BODIES).rev()).await;
    back.reverse();
    assert_eq!(forth, back);

    let share = |name: &str| forth.iter().filter(|(_, fault)| fault == name).count();
    // Four standard deviations of the binomial around the exact expectation.
    assert!(
        (400 - 72..=400 + 72).contains(&share("status")),
        "{}",
        share("status")
    );
    assert!(
        (100 - 39..=100 + 39).contains(&share("fake_200_html")),
        "{}",
        share("fake_200_html")
    );

    let other = Relay::start(settings(8)).await.unwrap();
    assert_ne!(draws(&other, 0..200).await, forth[..200]);
}

#[tokio::test]
async fn shares_beyond_all_requests_and_settings_out_of_bounds_are_refused() {
    let faults = vec![
        Planned {
            fault: Fault::Buffer,
            share_ppm: 600_000,
        },
        Planned {
            fault: Fault::DropSeal,
            share_ppm: 600_000,
        },
    ];
    let remote = "0.0.0.0:0".parse().unwrap();
    for settings in [
        Settings { faults, ..quick() },
        Settings {
            tokens: 0,
            ..quick()
        },
        Settings {
            tokens: relayproof::sim::MAX_TOKENS + 1,
            ..quick()
        },
        Settings {
            bind: remote,
            ..quick()
        },
    ] {
        let error = Relay::start(settings).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
    }
    let allowed = Settings {
        bind: remote,
        allow_remote: true,
        ..quick()
    };
    assert!(Relay::start(allowed).await.is_ok());
}

#[test]
fn the_docs_table_has_one_row_per_fault() {
    let docs = std::fs::read_to_string("docs/faults.md").unwrap();
    let (_, table) = docs.split_once("## The faults").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    assert_eq!(rows, Fault::NAMES);
}
