//! How far the cells are, on stderr: a bar for each on a terminal, a calm line now and then where
//! there is none.
//!
//! Measuring threads only note what there is to say. A thread of its own says it, because writing may
//! take for ever: a terminal that was stopped with Ctrl-S takes nothing until it goes on.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::evidence::Header;
use crate::report::live;
use crate::run::Progress;
use crate::session::Viewer;

/// Pause between two calm lines of a cell; a run that is shorter says nothing before its end.
const CALM: Duration = Duration::from_secs(30);
/// Pause between two wordings beside a bar.
#[cfg_attr(
    not(feature = "cli"),
    expect(dead_code, reason = "only the command draws bars")
)]
const SPOKEN: Duration = Duration::from_millis(250);
/// Pause between two looks at what there is to say.
const PACE: Duration = Duration::from_millis(125);
/// Most bars at a time; further cells wait for one of their own.
const BARS: usize = 16;
/// Most lines that wait to be written; more of them are not worth the wait.
const LINES: usize = 64;
/// Longest wait for the bars to be gone.
#[cfg(feature = "cli")]
const PATIENCE: Duration = Duration::from_secs(1);
/// Redraws a second.
#[cfg(feature = "cli")]
const RATE: u8 = 8;

/// Notes how the cells of one process are, for a thread that shows them.
pub(crate) struct Board {
    desk: Arc<Desk>,
    /// Pause between two wordings of a cell.
    pause: Duration,
    /// Whether there are bars.
    bars: bool,
}

/// What lies between those who measure and the one who shows.
#[derive(Default)]
struct Desk {
    notes: Mutex<Notes>,
    /// The end is near, or has been reached.
    ending: Condvar,
}

#[derive(Default)]
struct Notes {
    cells: BTreeMap<String, Note>,
    lines: VecDeque<String>,
    /// Nothing more will be noted.
    last: bool,
    /// Everything is shown, and the bars are gone.
    shown: bool,
}

/// What is known of one cell.
#[derive(Clone)]
struct Note {
    done: u64,
    most: u64,
    words: Option<String>,
    spoken: Instant,
    over: bool,
}

/// How cells are shown.
enum Pen {
    #[cfg_attr(
        not(feature = "cli"),
        expect(dead_code, reason = "only the command draws bars")
    )]
    Bars(MultiProgress, BTreeMap<String, ProgressBar>),
    Lines(Box<dyn Write + Send>),
}

impl Board {
    /// Bars where stderr is a terminal, calm lines where it is not.
    #[cfg(feature = "cli")]
    pub(crate) fn on_stderr() -> Self {
        if !io::IsTerminal::is_terminal(&io::stderr()) {
            return Self::calm();
        }
        let target = indicatif::ProgressDrawTarget::stderr_with_hz(RATE);
        let bars = MultiProgress::with_draw_target(target);
        Self::start(Pen::Bars(bars, BTreeMap::new()), SPOKEN)
    }

    /// Calm lines, for a process whose terminal belongs to somebody else.
    pub(crate) fn calm() -> Self {
        Self::start(Pen::Lines(Box::new(io::stderr())), CALM)
    }

    fn start(pen: Pen, pause: Duration) -> Self {
        let desk = Arc::new(Desk::default());
        let bars = matches!(pen, Pen::Bars(..));
        let shared = Arc::clone(&desk);
        // Without the thread nothing is shown, and that changes no result.
        thread::Builder::new()
            .name("relayproof-progress".to_owned())
            .spawn(move || shared.show(pen))
            .ok();
        Self { desk, pause, bars }
    }

    /// Takes the bars away, unless the terminal does not let that happen soon.
    #[cfg(feature = "cli")]
    pub(crate) fn clear(&self) {
        let mut notes = self.desk.notes();
        notes.last = true;
        self.desk.ending.notify_all();
        let waited = self
            .desk
            .ending
            .wait_timeout_while(notes, PATIENCE, |notes| !notes.shown);
        drop(waited);
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.desk.notes().last = true;
        self.desk.ending.notify_all();
    }
}

impl Viewer for Board {
    #[expect(
        clippy::disallowed_methods,
        reason = "how often to speak is the terminal's business"
    )]
    fn progress(&self, header: &Header, progress: Progress<'_>) {
        let now = Instant::now();
        let words = || live::words(header, &progress.standing(), progress.spent);
        let mut notes = self.desk.notes();
        let Notes { cells, lines, .. } = &mut *notes;
        let note = cells.entry(header.cell.clone()).or_insert_with(|| Note {
            done: 0,
            most: 0,
            words: None,
            spoken: now,
            over: false,
        });
        (note.done, note.most) = (progress.done, progress.most);
        // Words cost more than the numbers do, and nobody reads them at the pace of samples.
        let due = now.duration_since(note.spoken) >= self.pause;
        if self.bars && (due || progress.done <= 1) {
            note.spoken = now;
            note.words = Some(words());
        } else if !self.bars && due {
            note.spoken = now;
            if lines.len() < LINES {
                lines.push_back(format!(
                    "sampling {}: {} of {}; {}",
                    header.cell,
                    progress.done,
                    progress.most,
                    words()
                ));
            }
        }
    }

    fn end(&self, header: &Header) {
        if let Some(note) = self.desk.notes().cells.get_mut(&header.cell) {
            note.over = true;
        }
    }
}

impl Desk {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what is noted until nothing more will be; holds nothing that a measuring thread may want
    /// while it writes.
    fn show(&self, mut pen: Pen) {
        loop {
            let (notes, _) = self
                .ending
                .wait_timeout_while(self.notes(), PACE, |notes| !notes.last)
                .unwrap_or_else(PoisonError::into_inner);
            let mut notes = notes;
            let cells = notes.cells.clone();
            notes.cells.retain(|_, note| !note.over);
            for note in notes.cells.values_mut() {
                note.words = None;
            }
            let lines = std::mem::take(&mut notes.lines);
            let last = notes.last;
            drop(notes);
            pen.draw(&cells, lines);
            if last {
                pen.clear();
                self.notes().shown = true;
                self.ending.notify_all();
                return;
            }
        }
    }
}

impl Pen {
    /// Nobody may be left to read it, and that changes no result.
    fn draw(&mut self, cells: &BTreeMap<String, Note>, lines: VecDeque<String>) {
        let (all, bars) = match self {
            Self::Bars(all, bars) => (all, bars),
            Self::Lines(out) => {
                for line in lines {
                    writeln!(out, "{line}").ok();
                }
                return;
            }
        };
        for (cell, note) in cells {
            if note.over {
                if let Some(bar) = bars.remove(cell) {
                    bar.finish_and_clear();
                }
                continue;
            }
            if !bars.contains_key(cell) && bars.len() < BARS {
                bars.insert(cell.clone(), bar(all, cell));
            }
            if let Some(bar) = bars.get(cell) {
                bar.set_length(note.most);
                bar.set_position(note.done);
                if let Some(words) = &note.words {
                    bar.set_message(words.clone());
                }
            }
        }
    }

    fn clear(&mut self) {
        if let Self::Bars(all, _) = self {
            // A terminal that went away needs no cleaning.
            all.clear().ok();
        }
    }
}

fn bar(all: &MultiProgress, cell: &str) -> ProgressBar {
    let bar = all.add(ProgressBar::no_length());
    // The template is ours and right; without it the bar has the look of the library.
    if let Ok(style) = ProgressStyle::with_template("{prefix}  {pos}/{len}  {wide_msg}") {
        bar.set_style(style);
    }
    bar.set_prefix(cell.to_owned());
    bar
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::evidence::fixtures::{good, header, sample, ttft_p95};
    use crate::verdict::Judge;

    /// A stderr that takes what it is given once it is told to.
    struct Stopped {
        go_on: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.go_on.recv().map_err(io::Error::other)?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.written.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_terminal_that_takes_nothing_holds_no_measuring_thread_up() {
        let (go_on, stopped) = channel();
        let (written, lines) = channel();
        let stopped = Stopped {
            go_on: stopped,
            written,
        };
        // Something to say at each sample.
        let board = Board::start(Pen::Lines(Box::new(stopped)), Duration::ZERO);
        let head = header(vec![ttft_p95()], 600);
        let mut judge = Judge::for_header(&head);
        for index in 0..500 {
            judge.take(&sample(index, good()));
            board.progress(&head, Progress::of(index + 1, 600, &judge));
        }
        board.end(&head);
        assert!(board.desk.notes().lines.len() <= LINES);
        // All of that came to an end without a byte written; what is left is said when it can be.
        assert!(lines.try_recv().is_err());
        drop(board);
        for _ in 0..10_000 {
            go_on.send(()).ok();
        }
        let said: String = lines.iter().collect();
        assert!(said.starts_with("sampling "), "{said}");
        assert!(said.contains(": 1 of 600; "), "{said}");
    }
}
