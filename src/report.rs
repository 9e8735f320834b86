//! What people and programs read: pure text from summaries. Computes no statistics.

pub mod compared;
pub mod explain;
pub mod json;
pub mod ranking;
pub mod regression;
pub mod terminal;
