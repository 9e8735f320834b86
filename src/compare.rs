//! Cells side by side: which relay is the better one, and whether one got worse.
//!
//! Evidence in, ranking or regression out. Decides by counts and times alone; reads no files and
//! prints nothing. Sources of the statistics are named in `docs/compare.md`.

pub mod alike;
pub mod question;
pub mod ramp;
pub mod ranking;
pub mod regression;
pub mod tallied;

pub use question::Question;
pub use tallied::Tallied;
