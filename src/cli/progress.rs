//! One line on a terminal while cells are being sampled.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::session::OnSample;

/// Redrawn at most this often.
const EVERY: Duration = Duration::from_millis(100);

/// Widest line that is drawn.
const COLUMNS: usize = 79;

/// How far each cell is.
pub(super) struct Board(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Done and most, by cell.
    cells: BTreeMap<String, (u64, u64)>,
    drawn: Option<Instant>,
}

impl Board {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// What the session calls for each sample.
    pub(super) fn listener(&self) -> Box<OnSample> {
        let state = Arc::clone(&self.0);
        Box::new(move |header, _, progress| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state
                .cells
                .insert(header.cell.clone(), (progress.done, progress.most));
            state.draw();
        })
    }

    /// Takes the line away.
    pub(super) fn clear(self) {
        // A terminal that went away needs no cleaning.
        write!(io::stderr(), "\r{:COLUMNS$}\r", "").ok();
    }
}

impl State {
    #[expect(
        clippy::disallowed_methods,
        reason = "how often to redraw is the terminal's business"
    )]
    fn draw(&mut self) {
        let now = Instant::now();
        if self.drawn.is_some_and(|drawn| now - drawn < EVERY) {
            return;
        }
        self.drawn = Some(now);
        let line = self.line();
        write!(io::stderr(), "\r{line:<COLUMNS$}").ok();
    }

    fn line(&self) -> String {
        let mut line = String::from("sampling");
        for (name, (done, most)) in &self.cells {
            let relay = name.split('/').next().unwrap_or(name);
            // Writing to a string cannot fail.
            write!(line, "  {relay} {done}/{most}").ok();
        }
        if line.chars().count() > COLUMNS {
            let (done, most) = self
                .cells
                .values()
                .fold((0, 0), |(a, b), (done, most)| (a + done, b + most));
            line = format!("sampling {} cells  {done}/{most}", self.cells.len());
        }
        line
    }
}
