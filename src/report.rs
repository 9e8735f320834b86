//! What people and programs read: pure text from summaries. Computes no statistics.

pub mod annotations;
pub mod compared;
#[cfg(feature = "reports")]
pub mod curves;
pub mod document;
pub mod explain;
#[cfg(feature = "reports")]
pub mod html;
pub mod json;
#[cfg(feature = "reports")]
pub mod junit;
pub mod live;
pub mod markdown;
pub mod ramp;
pub mod ranking;
pub mod regression;
mod said;
pub mod terminal;
pub mod waterfall;
