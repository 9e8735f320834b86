//! What people and programs read: pure text from summaries. Computes no statistics.

pub mod json;
pub mod terminal;
