//! What people and programs read: pure text from summaries. Computes no statistics.

pub mod annotations;
pub mod compared;
pub mod document;
pub mod explain;
pub mod json;
#[cfg(feature = "reports")]
pub mod junit;
pub mod markdown;
pub mod ranking;
pub mod regression;
mod said;
pub mod terminal;
