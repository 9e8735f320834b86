//! How far the cells are, on stderr: a bar for each on a terminal, a calm line now and then where
//! there is none.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::evidence::Header;
use crate::report::live;
use crate::run::Progress;
use crate::session::Viewer;

/// Pause between two calm lines of a cell; a run that is shorter says nothing before its end.
const CALM: Duration = Duration::from_secs(30);
/// Pause between two wordings beside a bar.
const SPOKEN: Duration = Duration::from_millis(250);
/// Most bars at a time; further cells wait for one of their own.
const BARS: usize = 16;
/// Redraws a second.
#[cfg(feature = "cli")]
const PACE: u8 = 8;

/// Shows the cells of one process.
pub(crate) struct Board {
    bars: Option<MultiProgress>,
    cells: Mutex<BTreeMap<String, Shown>>,
}

/// One cell, shown.
struct Shown {
    bar: Option<ProgressBar>,
    said: Instant,
}

impl Board {
    /// Bars where stderr is a terminal, calm lines where it is not.
    #[cfg(feature = "cli")]
    pub(crate) fn on_stderr() -> Self {
        let bars = io::IsTerminal::is_terminal(&io::stderr()).then(|| {
            MultiProgress::with_draw_target(indicatif::ProgressDrawTarget::stderr_with_hz(PACE))
        });
        Self {
            bars,
            cells: Mutex::default(),
        }
    }

    /// Calm lines, for a process whose terminal belongs to somebody else.
    pub(crate) const fn calm() -> Self {
        Self {
            bars: None,
            cells: Mutex::new(BTreeMap::new()),
        }
    }

    /// Takes the bars away.
    #[cfg(feature = "cli")]
    pub(crate) fn clear(&self) {
        if let Some(bars) = &self.bars {
            // A terminal that went away needs no cleaning.
            bars.clear().ok();
        }
    }

    fn bar(&self, cells: usize, header: &Header) -> Option<ProgressBar> {
        let bars = self.bars.as_ref().filter(|_| cells < BARS)?;
        let bar = bars.add(ProgressBar::no_length());
        // The template is ours and right; without it the bar has the look of the library.
        if let Ok(style) = ProgressStyle::with_template("{prefix}  {pos}/{len}  {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(header.cell.clone());
        Some(bar)
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
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        let count = cells.len();
        let shown = cells.entry(header.cell.clone()).or_insert_with(|| Shown {
            bar: self.bar(count, header),
            said: now,
        });
        if let Some(bar) = &shown.bar {
            bar.set_length(progress.most);
            bar.set_position(progress.done);
            // Words cost more than the numbers do, and nobody reads them at the pace of samples.
            if progress.done <= 1 || now.duration_since(shown.said) >= SPOKEN {
                shown.said = now;
                bar.set_message(words());
            }
        } else if self.bars.is_none() && now.duration_since(shown.said) >= CALM {
            shown.said = now;
            // Nobody may be left to read it, and that changes no result.
            writeln!(
                io::stderr(),
                "sampling {}: {} of {}; {}",
                header.cell,
                progress.done,
                progress.most,
                words()
            )
            .ok();
        }
    }

    fn end(&self, header: &Header) {
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Shown { bar: Some(bar), .. }) = cells.remove(&header.cell) {
            bar.finish_and_clear();
        }
    }
}
