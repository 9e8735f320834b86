//! One call to the relay: attempts, the waits between them, and the sample they make.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Attempts;
use super::cancel::Cancel;
use super::clock::Clock;
use super::count::Counter;
use super::dial::Request;
use super::endpoint::Endpoint;
use super::scrub::Scrub;
use super::{propagation, retry, words};
use crate::dialect::{Message, Prompt};
use crate::evidence::{Attempt, Sample, ids};
use crate::observation::{Ending, Loss};
use crate::plan::{Cell, Propagation, Retry, Slot};
use crate::stream::{Asked, Exchange, Timeouts};

/// A call, written out to the last byte, waiting for its moment.
#[derive(Clone, Debug)]
pub struct Call {
    slot: Slot,
    trace_id: String,
    propagation: Propagation,
    request: Request,
    asked: Asked,
    timeouts: Timeouts,
    retry: Retry,
    scrub: Arc<Scrub>,
    /// The prompt, where what is said is to be handed out.
    said: Option<Vec<Message>>,
    /// Whether the visible answer is handed out.
    hand_out: bool,
    /// What the words of the answer are hashed with, where they are to be compared.
    compared: Option<String>,
    /// Counts tokens of our own.
    counter: Option<Counter>,
}

impl Call {
    /// Writes the request of one slot.
    pub fn new(cell: &Cell, slot: Slot, endpoint: &Endpoint, run_id: &str) -> Self {
        let prompt = cell.prompt(&slot);
        Self::asking(cell, slot, prompt, endpoint, run_id)
    }

    /// Writes the request of one slot; what is said will be handed out beside the sample.
    pub(super) fn aloud(cell: &Cell, slot: Slot, endpoint: &Endpoint, run_id: &str) -> Self {
        let prompt = cell.prompt(&slot);
        let said = Some(prompt.messages.clone());
        let mut call = Self::asking(cell, slot, prompt, endpoint, run_id).keep_text();
        call.said = said;
        call
    }

    /// Writes the request of one slot with another prompt than the cell's own.
    pub fn asking(
        cell: &Cell,
        slot: Slot,
        prompt: Prompt,
        endpoint: &Endpoint,
        run_id: &str,
    ) -> Self {
        let body = Bytes::from(cell.relay.protocol.body(&prompt));
        let counter = Counter::of(&cell.model, &prompt.messages);
        let compared = cell.workload.calibration.map(|_| run_id.to_owned());
        Self {
            trace_id: ids::trace_id(run_id, &slot.id),
            propagation: cell.relay.propagate,
            asked: Asked {
                protocol: cell.relay.protocol,
                stream: prompt.stream,
                model: prompt.model.clone(),
                max_tokens: cell.relay.protocol.budget(&prompt.params),
                usage: prompt.usage,
                seal: cell.seal(&slot),
                request_bytes: body.len() as u64,
                expect: cell.workload.expect.clone(),
                keep_text: counter.is_some() || compared.is_some(),
            },
            request: Request {
                url: endpoint.url().clone(),
                headers: endpoint.headers().clone(),
                body,
            },
            timeouts: cell.relay.timeouts,
            retry: cell.relay.retry.clone(),
            scrub: Arc::clone(endpoint.scrub()),
            said: None,
            hand_out: false,
            compared,
            counter,
            slot,
        }
    }

    /// The same call, with any answered model taken for the one asked for.
    #[must_use]
    pub fn any_model(mut self) -> Self {
        self.asked.model.clear();
        self
    }

    /// The same call, with the visible answer handed out in the observation.
    #[must_use]
    pub fn keep_text(mut self) -> Self {
        self.hand_out = true;
        self.asked.keep_text = true;
        self
    }
}

/// What was said in a call, for a span and nothing else: evidence has no place for it.
///
/// `Debug` shows nothing of it.
#[derive(Clone, PartialEq)]
pub struct Said {
    /// The prompt, as it was asked.
    pub prompt: Vec<Message>,
    /// The visible answer of the last attempt that had one.
    pub answer: Option<String>,
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Said").finish_non_exhaustive()
    }
}

/// Makes one call, now; a called-off one ends as [`Ending::Cancelled`].
pub async fn call_once<T: Attempts>(attempts: &T, call: Call, mut cancel: Cancel) -> Sample {
    make(attempts, call, None, &mut cancel).await.sample
}

/// Makes one call, so long after its planned moment; `None` for one that our side ended.
pub async fn call_late<T: Attempts>(
    attempts: &T,
    call: Call,
    lag: Duration,
    mut cancel: Cancel,
) -> Option<Sample> {
    let now = tokio::time::Instant::now().into_std();
    let made = make(attempts, call, now.checked_sub(lag), &mut cancel).await;
    (!made.called_off).then_some(made.sample)
}

/// A call that was made.
pub(super) struct Made {
    pub(super) sample: Sample,
    /// What was said, where that was asked for.
    pub(super) said: Option<Said>,
    /// Whether our side ended it before it was through.
    pub(super) called_off: bool,
}

/// Makes a call; `due` is the moment for which it was planned.
pub(super) async fn make<T: Attempts>(
    attempts: &T,
    call: Call,
    due: Option<Instant>,
    cancel: &mut Cancel,
) -> Made {
    let Call {
        propagation,
        mut request,
        said,
        ..
    } = call;
    let mut said = said.map(|prompt| Said {
        prompt: call.scrub.messages(prompt),
        answer: None,
    });
    let clock = Clock::start();
    let mut sample = Sample {
        id: call.slot.id,
        index: call.slot.index,
        warmup: call.slot.warmup,
        trace_id: call.trace_id,
        t0_unix_ns: clock.unix_ns(),
        planned: call.slot.start,
        lag: due.map_or(Duration::ZERO, |due| clock.lag_behind(due)),
        attempts: Vec::with_capacity(1),
    };
    let (mut own, mut start, mut backoff) = (clock, Duration::ZERO, None);
    loop {
        let number = sample.attempts.len();
        propagation::write(propagation, &mut request.headers, &sample.trace_id, number);
        let mut exchange = Exchange::new(call.asked.clone(), call.timeouts);
        attempts
            .attempt(&request, &mut exchange, &own, cancel)
            .await;
        let mut observation = exchange.finish();
        if let Some(text) = &observation.text {
            if let Some(counter) = call.counter.clone() {
                observation.own_count = counter.count_aside(text.clone()).await;
            }
            if let Some(key) = &call.compared {
                observation.words = words::hashed(key, text);
            }
        }
        if said.is_none() && !call.hand_out {
            observation.text = None;
        }
        call.scrub.clean(&mut observation);
        if let Some(said) = &mut said {
            said.answer = observation.text.take().filter(|text| !text.is_empty());
        }
        // A call for which this machine had no means is on record, though it counts for nothing.
        let called_off =
            observation.ending == Ending::Cancelled && observation.lost != Some(Loss::Local);
        let tried = u32::try_from(sample.attempts.len() + 1).unwrap_or(u32::MAX);
        let wait = retry::next(&call.retry, tried, &observation, &sample.id);
        sample.attempts.push(Attempt {
            start,
            backoff: backoff.take(),
            observation,
        });
        let Some(wait) = wait else {
            return Made {
                sample,
                said,
                called_off,
            };
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Made { sample, said, called_off: true },
            () = tokio::time::sleep(wait.length) => backoff = Some(wait),
        }
        (own, start) = clock.restart();
    }
}
