//! When each call starts and what makes its text unique: seeded, so that the same plan gives the
//! same slots.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

use super::{Cell, Endpoint, Plan, Sampling, Slot};
use crate::dialect::{Message, Prompt};
use crate::forms::at_us;
use crate::words::hex;

/// Hex digits of an id.
const ID_DIGITS: usize = 32;
/// Hex digits of a nonce.
const NONCE_DIGITS: usize = 16;
/// Hex digits of a seal.
const SEAL_DIGITS: usize = 8;
/// Longest text of an index.
const INDEX_DIGITS: usize = 20;

impl Cell {
    /// The planned starts, warm-ups first, in the order of their starts.
    ///
    /// Gaps are exponential: starts come at the planned rate and at no regular beat that could fall
    /// in step with anything on the relay's side.
    pub fn slots(&self, sampling: &Sampling) -> impl Iterator<Item = Slot> + use<> {
        self.slots_of_run(sampling, "")
    }

    /// [`Cell::slots`] as one run sends them: the same starts, but ids and texts of its own.
    ///
    /// Texts that came again with each run would let a cache answer all runs but the first. The
    /// embedded relay has no cache, and its faults are drawn by what it is asked: it gets the same
    /// texts in every run, and so the same faults.
    pub fn slots_of_run(
        &self,
        sampling: &Sampling,
        run_id: &str,
    ) -> impl Iterator<Item = Slot> + use<> {
        let run = match self.relay.endpoint {
            Endpoint::Url(_) => run_id.to_owned(),
            Endpoint::Simulate(_) => String::new(),
        };
        let mut starts = Starts::new(sampling, &self.name());
        // A call that waits for another one to end has no moment of its own.
        let closed = self.workload.concurrency.is_some();
        let warmups = u64::from(sampling.warmup);
        let cell = self.id.clone();
        let seed = sampling.seed;
        (0..warmups.saturating_add(sampling.max_samples)).map(move |position| {
            let warmup = position < warmups;
            let index = if warmup { position } else { position - warmups };
            let start = starts.next_start();
            let start = if closed { Duration::ZERO } else { start };
            slot(&cell, &run, seed, index, warmup, start)
        })
    }

    /// The slots of the trusted upstream beside a cell: a share of that cell's, asked the same, at
    /// most half a second before or after.
    ///
    /// Which slots are paired and which of the two goes first is drawn in advance: to ask the
    /// upstream only once the relay has failed would bias both counts.
    pub fn paired_slots(
        &self,
        beside: &Self,
        sampling: &Sampling,
        pair_ppm: u32,
    ) -> impl Iterator<Item = Slot> + use<> {
        let (own, other, seed) = (self.id.clone(), beside.id.clone(), sampling.seed);
        self.paired_starts(beside, sampling, pair_ppm)
            .map(move |(index, start)| paired_slot(&own, &other, seed, index, start))
    }

    /// When those slots start, by their index.
    fn paired_starts(
        &self,
        beside: &Self,
        sampling: &Sampling,
        pair_ppm: u32,
    ) -> impl Iterator<Item = (u64, Duration)> + use<> {
        let (own, seed) = (self.id.clone(), sampling.seed);
        let pair_ppm = beside.pair_ppm(pair_ppm);
        let planned = (0..).zip(starts(sampling, &beside.name()));
        planned.filter_map(move |(index, start)| {
            if !is_paired(&own, seed, index, pair_ppm) {
                return None;
            }
            let shift = Duration::from_micros(drawn("shift", &own, seed, index) % APART_US);
            let first = Duration::from_micros(APART_US / 2);
            Some((index, (start + shift).saturating_sub(first)))
        })
    }
}

impl Plan {
    /// When the slots of a cell of a soak start, by their index; also of the trusted upstream beside
    /// one, whose starts may be out of order by a second.
    ///
    /// Much cheaper than the slots themselves, which [`Plan::soak_slot`] makes one by one.
    pub fn soak_starts(&self, cell: &Cell) -> Box<dyn Iterator<Item = (u64, Duration)> + Send> {
        let own = |cell: &Cell| cell.sampling(&self.sampling);
        match self.beside(cell) {
            Some(beside) => Box::new(cell.paired_starts(beside, &own(beside), self.pair_ppm)),
            None if cell.beside.is_some() => Box::new(std::iter::empty()),
            None => Box::new((0..).zip(starts(&own(cell), &cell.name()))),
        }
    }

    /// A slot of a cell of a soak, by what [`Plan::soak_starts`] says of it.
    pub fn soak_slot(&self, cell: &Cell, index: u64, start: Duration) -> Slot {
        let seed = self.sampling.seed;
        match self.beside(cell) {
            Some(beside) => paired_slot(&cell.id, &beside.id, seed, index, start),
            None => slot(&cell.id, "", seed, index, false, start),
        }
    }

    /// The cell whose pairs this one is the other half of.
    fn beside(&self, cell: &Cell) -> Option<&Cell> {
        let name = cell.beside.as_ref()?;
        self.cells.iter().find(|it| it.name() == *name)
    }
}

impl Cell {
    /// What a slot asks, placeholders filled in.
    pub fn prompt(&self, slot: &Slot) -> Prompt {
        let seal = seal(slot);
        let index = slot.index.to_string();
        let messages = self
            .workload
            .messages
            .iter()
            .map(|message| Message {
                role: message.role.clone(),
                content: fill(&message.content, &slot.nonce, &seal, &index),
            })
            .collect();
        Prompt {
            model: self.model.clone(),
            messages,
            params: self.workload.params.clone(),
            stream: self.relay.stream,
            usage: true,
        }
    }

    /// The text that a slot's answer has to end with; `None` where the workload asks for no seal.
    pub fn seal(&self, slot: &Slot) -> Option<String> {
        let asked = self.workload.messages.iter().any(Message::asks_for_seal);
        asked.then(|| seal(slot))
    }
}

/// A slot of a cell, by the cell's id.
fn slot(cell: &str, run: &str, seed: u64, index: u64, warmup: bool, start: Duration) -> Slot {
    let kind = if warmup { "warm-up" } else { "sample" };
    let (seed, number) = (seed.to_string(), index.to_string());
    let mut nonce = short_hash(&["nonce", cell, run, &seed, kind, &number]);
    nonce.truncate(NONCE_DIGITS);
    Slot {
        index,
        start,
        warmup,
        id: short_hash(&[kind, cell, run, &number]),
        nonce,
    }
}

/// A slot of the trusted upstream: the text of the other half of its pair under an id of its own.
fn paired_slot(own: &str, beside: &str, seed: u64, index: u64, start: Duration) -> Slot {
    Slot {
        id: short_hash(&["sample", own, "", &index.to_string()]),
        ..slot(beside, "", seed, index, false, start)
    }
}

/// Between the earliest and the latest start of the other half of a pair, in microseconds.
const APART_US: u64 = 1_000_000;

/// Whether a slot is asked of the trusted upstream, too; `upstream` is the id of its cell.
pub fn is_paired(upstream: &str, seed: u64, index: u64, pair_ppm: u32) -> bool {
    drawn("pair", upstream, seed, index) % 1_000_000 < u64::from(pair_ppm)
}

fn drawn(what: &str, upstream: &str, seed: u64, index: u64) -> u64 {
    let (seed, index) = (seed.to_string(), index.to_string());
    number_of(&short_hash(&[what, upstream, &seed, &index]))
}

/// The planned starts of the samples of a cell that does not warm up, from its name alone: what
/// evidence knows of it.
pub fn starts(sampling: &Sampling, cell: &str) -> impl Iterator<Item = Duration> + use<> {
    let mut starts = Starts::new(sampling, cell);
    (0..sampling.max_samples).map(move |_| starts.next_start())
}

/// The first 13 hex digits of a hash as a number.
fn number_of(hash: &str) -> u64 {
    let digits = hash.get(..13).unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or(0)
}

/// Draws the starts of a cell, one after the other.
struct Starts {
    rng: ChaCha8Rng,
    at: f64,
    /// Seconds of a gap of mean length.
    gap: f64,
}

impl Starts {
    fn new(sampling: &Sampling, cell: &str) -> Self {
        let seed = Sha256::new()
            .chain_update("starts")
            .chain_update(sampling.seed.to_le_bytes())
            .chain_update(cell)
            .finalize();
        let rng = ChaCha8Rng::from_seed(seed.into());
        let gap = match sampling.duration {
            None => 1.0 / sampling.rate_per_s,
            // All of them within the duration, and otherwise as at random: so many gaps and the one
            // after them, scaled to what there is.
            Some(duration) => {
                let mut ahead = rng.clone();
                let all: f64 = (0..=sampling.max_samples)
                    .map(|_| exponential(&mut ahead))
                    .sum();
                duration.as_secs_f64() / all
            }
        };
        Self { rng, at: 0.0, gap }
    }

    fn next_start(&mut self) -> Duration {
        self.at += exponential(&mut self.rng) * self.gap;
        at_us(Duration::try_from_secs_f64(self.at).unwrap_or(Duration::MAX))
    }
}

impl Message {
    /// Whether its text asks for a seal at the end of the answer.
    pub fn asks_for_seal(&self) -> bool {
        self.content.contains("{{seal}}")
    }
}

/// Fills in the placeholders, each once: what is filled in is not read again.
fn fill(template: &str, nonce: &str, seal: &str, index: &str) -> String {
    let mut out = String::with_capacity(template.len() + NONCE_DIGITS);
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        out.push_str(&rest[..at]);
        let known = [
            ("{{nonce}}", nonce),
            ("{{seal}}", seal),
            ("{{index}}", index),
        ];
        match known.iter().find(|(name, _)| rest[at..].starts_with(name)) {
            Some((name, value)) => {
                out.push_str(value);
                rest = &rest[at + name.len()..];
            }
            None => {
                out.push_str("{{");
                rest = &rest[at + 2..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Most bytes of a message once its placeholders are filled in.
pub(super) fn longest(template: &str) -> u64 {
    let wide = |digits: usize| "0".repeat(digits);
    let seal = format!("END-{}", wide(SEAL_DIGITS));
    let text = fill(template, &wide(NONCE_DIGITS), &seal, &wide(INDEX_DIGITS));
    text.len() as u64
}

fn seal(slot: &Slot) -> String {
    let hash = short_hash(&["seal", &slot.nonce]);
    format!("END-{}", &hash[..SEAL_DIGITS])
}

/// A hash of parts as 32 hex digits; lengths are hashed too, so that parts cannot run together.
pub(crate) fn short_hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut digits = hex(&hash.finalize());
    digits.truncate(ID_DIGITS);
    digits
}

/// An exponentially distributed number with mean 1.
fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    // 53 random bits, shifted by one so that the logarithm is finite.
    let uniform = crate::stats::float((rng.next_u64() >> 11) + 1) / crate::stats::float(1 << 53);
    -uniform.ln()
}
