//! Pacing, retries and stopping, on a stand-in for the HTTP client and a clock that is paused.

use std::sync::{Mutex, PoisonError};

use super::*;
use crate::observation::{Ending, Phase};
use crate::probe::call::{Call, call_once};
use crate::probe::clock::Clock;
use crate::probe::dial::Request;
use crate::probe::testing::{cell, relay, sampling};
use crate::stream::{Exchange, Head, Input, Loss};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What the stand-in does with one attempt.
#[derive(Clone, Copy)]
enum Answer {
    /// A whole answer after so long.
    Whole(Duration),
    /// Silence until called off.
    Silence,
    /// A status, and how many seconds to wait.
    Status(u16, Option<&'static str>),
    /// One token, then a lost connection.
    CutAfterToken,
    /// No connection.
    Refused,
    /// A bug of ours.
    Panic,
}

/// Answers the n-th attempt of the whole run as `script` says.
struct StandIn<F> {
    script: F,
    attempts: Mutex<u64>,
}

impl<F: Fn(u64) -> Answer> StandIn<F> {
    fn new(script: F) -> Self {
        Self {
            script,
            attempts: Mutex::new(0),
        }
    }

    fn next(&self) -> Answer {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        *attempts += 1;
        (self.script)(*attempts - 1)
    }
}

fn head(status: u16, retry_after: Option<&'static str>) -> Head<'static> {
    let mut headers: Vec<(&str, &[u8])> = vec![("content-type", b"text/event-stream")];
    headers.extend(retry_after.map(|wait| ("retry-after", wait.as_bytes())));
    Head {
        status,
        version: "1.1",
        headers,
    }
}

const TOKEN: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"test-model\",\
    \"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello\"},\
    \"finish_reason\":null}]}\n\n";
const END: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"test-model\",\
    \"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

impl<F: Fn(u64) -> Answer + Send + Sync + 'static> Attempts for StandIn<F> {
    async fn attempt(
        &self,
        _: &Request,
        exchange: &mut Exchange,
        clock: &Clock,
        cancel: &mut Cancel,
    ) {
        let answer = self.next();
        exchange.handle(clock.now(), Input::Enter(Phase::Connect));
        if let Answer::Refused = answer {
            return exchange.handle(clock.now(), Input::Lost(Loss::Refused));
        }
        exchange.handle(clock.now(), Input::Leave(Phase::Connect));
        exchange.handle(clock.now(), Input::Enter(Phase::Send));
        exchange.handle(clock.now(), Input::Leave(Phase::Send));
        match answer {
            Answer::Whole(after) => {
                tokio::select! {
                    () = cancel.cancelled() => {
                        return exchange.handle(clock.now(), Input::Cancelled);
                    }
                    () = tokio::time::sleep(after) => {}
                }
                exchange.handle(clock.now(), Input::Head(head(200, None)));
                exchange.handle(clock.now(), Input::Body(TOKEN.as_bytes()));
                exchange.handle(clock.now(), Input::Body(END.as_bytes()));
                exchange.handle(clock.now(), Input::BodyEnd);
            }
            Answer::Silence => {
                cancel.cancelled().await;
                exchange.handle(clock.now(), Input::Cancelled);
            }
            Answer::Status(status, retry_after) => {
                exchange.handle(clock.now(), Input::Head(head(status, retry_after)));
                exchange.handle(clock.now(), Input::BodyEnd);
            }
            Answer::CutAfterToken => {
                exchange.handle(clock.now(), Input::Head(head(200, None)));
                exchange.handle(clock.now(), Input::Body(TOKEN.as_bytes()));
                exchange.handle(clock.now(), Input::Lost(Loss::Closed));
            }
            Answer::Panic => panic!("a bug of ours"),
            Answer::Refused => {}
        }
    }
}

/// Samples `cell()` and collects what comes; the sink breaks after `enough` samples.
async fn run<F: Fn(u64) -> Answer + Send + Sync + 'static>(
    sampling: &Sampling,
    skip: u64,
    enough: usize,
    cancel: Cancel,
    script: F,
) -> (Driven, Vec<Sample>) {
    run_of(&cell(), sampling, skip, enough, cancel, script).await
}

/// [`run`] of a cell of its own.
async fn run_of<F: Fn(u64) -> Answer + Send + Sync + 'static>(
    cell: &Cell,
    sampling: &Sampling,
    skip: u64,
    enough: usize,
    cancel: Cancel,
    script: F,
) -> (Driven, Vec<Sample>) {
    let job = Job {
        cell,
        sampling,
        transport: StandIn::new(script),
        endpoint: endpoint(),
        run_id: "run",
        skip,
        allowance: None,
        aside: None,
    };
    let mut samples = Vec::new();
    let driven = drive(job, cancel, &mut |sample| {
        samples.push(sample);
        if samples.len() >= enough {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .await;
    (driven, samples)
}

fn endpoint() -> Endpoint {
    Endpoint::new("http://relay.example/v1", &relay(), "test-model", None).unwrap()
}

/// Calls off after so long.
fn after(wait: Duration) -> Cancel {
    let (switch, cancel) = cancel_pair();
    tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        switch.cancel();
    });
    cancel
}

fn never() -> Cancel {
    cancel_pair().1
}

const ALL: usize = usize::MAX;

#[tokio::test(start_paused = true)]
async fn every_planned_call_becomes_a_sample() {
    let (driven, samples) = run(&sampling(40), 0, ALL, never(), |_| Answer::Whole(ms(300))).await;
    assert_eq!((driven.reason, driven.abandoned), (CloseReason::Budget, 0));
    assert_eq!(driven.error, None);
    let mut indices: Vec<u64> = samples.iter().map(|sample| sample.index).collect();
    indices.sort_unstable();
    assert_eq!(indices, (0..40).collect::<Vec<_>>());
    for sample in &samples {
        assert_eq!(sample.attempts.len(), 1);
        assert_eq!(sample.attempts[0].observation.ending, Ending::Completed);
        assert_eq!(sample.trace_id.len(), 32);
    }
}

/// Ten calls a second by the plan, which a workload that holds four open does not follow.
#[tokio::test(start_paused = true)]
async fn a_workload_that_holds_calls_open_starts_one_when_another_one_ends() {
    let mut held = cell();
    held.workload.concurrency = Some(4);
    let limited = Sampling {
        concurrency: 1,
        ..sampling(40)
    };
    let begin = Instant::now();
    let answer = |_| Answer::Whole(ms(300));
    let (driven, samples) = run_of(&held, &limited, 0, ALL, never(), answer).await;
    assert_eq!((driven.reason, samples.len()), (CloseReason::Budget, 40));
    assert_eq!(
        begin.elapsed().as_millis() / 10,
        300,
        "ten rounds of 300 ms"
    );
    assert_eq!(driven.self_check.late_starts, 0);
    for sample in &samples {
        assert!(sample.lag <= ms(2), "{:?}", sample.lag);
        assert_eq!(sample.planned, Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_falls_silent_is_not_replaced_and_holds_up_no_other() {
    let mut held = cell();
    held.workload.concurrency = Some(2);
    let silent = |n| match n {
        0 => Answer::Silence,
        _ => Answer::Whole(ms(100)),
    };
    let begin = Instant::now();
    let (driven, samples) = run_of(&held, &sampling(11), 0, ALL, after(ms(5000)), silent).await;
    assert_eq!((samples.len(), driven.abandoned), (10, 1));
    assert!(begin.elapsed() >= ms(5000));
}

#[tokio::test(start_paused = true)]
async fn starts_keep_to_the_plan_while_no_answer_comes() {
    // The first call never ends, and half of the others take a minute: a closed loop would start
    // next to nothing.
    let begin = Instant::now();
    let (driven, samples) = run(&sampling(100), 0, ALL, after(ms(100_000)), |n| match n {
        0 => Answer::Silence,
        n if n % 2 == 0 => Answer::Whole(ms(60_000)),
        _ => Answer::Whole(ms(50)),
    })
    .await;
    assert_eq!(samples.len(), 99);
    assert_eq!(driven.abandoned, 1);
    assert!(begin.elapsed() >= ms(60_000));
    for sample in &samples {
        assert!(sample.lag <= ms(2), "{:?}", sample.lag);
    }
    assert_eq!(driven.self_check.late_starts, 0);
    let last = samples.iter().map(|sample| sample.planned).max().unwrap();
    assert!(last < ms(20_000), "100 starts at 10/s, not one a minute");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_the_concurrency_limit_delays_is_recorded_as_lag() {
    let one_at_a_time = Sampling {
        concurrency: 1,
        ..sampling(10)
    };
    let (driven, samples) = run(&one_at_a_time, 0, ALL, never(), |_| Answer::Whole(ms(1000))).await;
    for pair in samples.windows(2) {
        let t0 = |sample: &Sample| sample.planned + sample.lag;
        assert!(t0(&pair[1]) >= t0(&pair[0]) + ms(1000));
        // The wait is not part of what the relay is charged with.
        assert!(pair[1].attempts[0].observation.timeline.over < ms(1100));
    }
    assert!(samples[9].lag > ms(5000));
    assert_eq!(driven.self_check.max_lag, samples[9].lag);
    assert!(driven.self_check.late_starts >= 8);
    let why = driven.self_check.invalid.unwrap();
    assert!(why.contains("sampling.concurrency"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for_and_recorded() {
    let (driven, samples) = run(&sampling(1), 0, ALL, never(), |n| match n {
        0 => Answer::Status(429, Some("7")),
        1 => Answer::Refused,
        _ => Answer::Whole(ms(100)),
    })
    .await;
    assert_eq!(driven.reason, CloseReason::Budget);
    let attempts = &samples[0].attempts;
    assert_eq!(attempts.len(), 3);
    assert_eq!((attempts[0].start, &attempts[0].backoff), (ms(0), &None));
    let backoff = attempts[1].backoff.as_ref().unwrap();
    assert_eq!(backoff.length, ms(7000));
    assert_eq!(backoff.retry_after, Some(ms(7000)));
    assert!(attempts[1].start >= ms(7000) && attempts[1].start < ms(7010));
    assert_eq!(attempts[2].backoff.as_ref().unwrap().length, ms(1000));
    assert!(attempts[2].start >= attempts[1].start + ms(1000));
    // Offsets of an attempt count from its own start.
    assert!(attempts[2].observation.timeline.over < ms(200));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tried_again_after_the_first_token() {
    let (_, samples) = run(&sampling(1), 0, ALL, never(), |_| Answer::CutAfterToken).await;
    assert_eq!(samples[0].attempts.len(), 1);
    assert_eq!(samples[0].attempts[0].observation.ending, Ending::Truncated);
}

#[tokio::test(start_paused = true)]
async fn a_sample_ends_when_the_retries_are_used_up() {
    let (_, samples) = run(&sampling(1), 0, ALL, never(), |_| Answer::Status(503, None)).await;
    assert_eq!(samples[0].attempts.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn an_interruption_keeps_what_is_finished_and_calls_off_the_rest() {
    let begin = Instant::now();
    let (driven, samples) = run(&sampling(1000), 0, ALL, after(ms(5000)), |n| {
        if n % 2 == 0 {
            Answer::Whole(ms(10))
        } else {
            Answer::Silence
        }
    })
    .await;
    assert_eq!(driven.reason, CloseReason::Interrupted);
    assert!(begin.elapsed() < ms(5100), "{:?}", begin.elapsed());
    assert!(samples.len() > 10 && driven.abandoned > 10);
    assert!(samples.len() as u64 + driven.abandoned < 200);
    for sample in &samples {
        assert_eq!(sample.attempts[0].observation.ending, Ending::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_to_try_again_is_called_off_too() {
    let (driven, samples) = run(&sampling(1), 0, ALL, after(ms(10_000)), |_| {
        Answer::Status(429, Some("60"))
    })
    .await;
    assert_eq!(driven.reason, CloseReason::Interrupted);
    assert_eq!((samples.len(), driven.abandoned), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn when_the_sink_has_enough_calls_under_way_get_two_seconds() {
    let begin = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&begin);
    let (driven, samples) = run(&sampling(1000), 0, 1, never(), move |n| match n {
        0 => Answer::Whole(ms(3000)),
        // Under way when the first one ends, and through within the grace.
        n if n < 10 => {
            let mut begin = seen.lock().unwrap();
            begin.get_or_insert_with(Instant::now);
            Answer::Whole(ms(4000))
        }
        _ => Answer::Silence,
    })
    .await;
    assert_eq!(driven.reason, CloseReason::Decided);
    assert_eq!(samples[0].index, 0);
    assert!(samples.len() > 1, "the grace brought nothing");
    assert!(driven.abandoned > 0);
    let calls = samples.len() as u64 + driven.abandoned;
    assert!(
        calls < 80,
        "{calls} calls were started in about 3 s at 10/s"
    );
    let begin = begin.lock().unwrap().unwrap();
    assert!(begin.elapsed() < ms(6000));
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_ends_sampling() {
    let limited = Sampling {
        max_duration: Some(ms(3000)),
        ..sampling(1000)
    };
    let begin = Instant::now();
    let (driven, samples) = run(&limited, 0, ALL, never(), |n| {
        if n < 5 {
            Answer::Silence
        } else {
            Answer::Whole(ms(20))
        }
    })
    .await;
    assert_eq!((driven.reason, driven.abandoned), (CloseReason::Limit, 5));
    assert!(begin.elapsed() >= ms(5000) && begin.elapsed() < ms(5100));
    assert!(samples.iter().all(|sample| sample.planned < ms(3000)));
}

#[tokio::test(start_paused = true)]
async fn warm_ups_are_over_before_the_first_counted_call() {
    let warm = Sampling {
        warmup: 3,
        ..sampling(5)
    };
    let (driven, samples) = run(&warm, 0, ALL, never(), |n| {
        Answer::Whole(if n < 3 { ms(20_000) } else { ms(10) })
    })
    .await;
    assert_eq!(driven.reason, CloseReason::Budget);
    let flags: Vec<bool> = samples.iter().map(|sample| sample.warmup).collect();
    assert_eq!(flags, [true, true, true, false, false, false, false, false]);
    // Waiting for them is no lag of the counted calls.
    assert!(samples.iter().all(|sample| sample.lag <= ms(2)));
}

#[tokio::test(start_paused = true)]
async fn a_run_taken_up_again_goes_on_at_once_behind_the_record() {
    let begin = Instant::now();
    let (_, samples) = run(&sampling(103), 100, ALL, never(), |_| Answer::Whole(ms(10))).await;
    let indices: Vec<u64> = samples.iter().map(|sample| sample.index).collect();
    assert_eq!(indices, [100, 101, 102]);
    assert!(begin.elapsed() < ms(5000));
    assert!(samples.iter().all(|sample| sample.lag <= ms(2)));
}

#[tokio::test(start_paused = true)]
async fn a_bug_inside_a_call_fails_the_run_and_not_the_relay() {
    let (driven, samples) = run(&sampling(3), 0, ALL, never(), |n| match n {
        1 => Answer::Panic,
        _ => Answer::Whole(ms(10)),
    })
    .await;
    assert_eq!(driven.reason, CloseReason::Failed);
    assert_eq!(samples.len(), 2);
    assert_eq!(
        driven.error.as_deref(),
        Some("1 of 3 calls broke off inside the probe")
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_drops_the_run_ends_its_calls() {
    let open = Arc::new(());
    let held = Arc::clone(&open);
    let forgotten = tokio::time::timeout(
        ms(2000),
        run(&sampling(1000), 0, ALL, never(), move |_| {
            let _ = &held;
            Answer::Silence
        }),
    )
    .await;
    assert!(forgotten.is_err());
    // Each call holds the stand-in, and so its script, for as long as it is open.
    tokio::time::sleep(ms(10)).await;
    assert_eq!(Arc::strong_count(&open), 1);
}

#[tokio::test(start_paused = true)]
async fn a_single_call_is_made_at_once() {
    let cell = cell();
    let slot = cell.slots(&sampling(1)).next().unwrap();
    let call = Call::new(&cell, slot, &endpoint(), "run").keep_text();
    let whole = StandIn::new(|_| Answer::Whole(ms(100)));
    let sample = call_once(&whole, call.clone(), never()).await;
    assert_eq!(sample.lag, ms(0));
    let seen = &sample.attempts[0].observation;
    assert_eq!(seen.text.as_deref(), Some("Hello"));
    let silent = StandIn::new(|_| Answer::Silence);
    let sample = call_once(&silent, call, after(ms(50))).await;
    assert_eq!(sample.attempts[0].observation.ending, Ending::Cancelled);
}
