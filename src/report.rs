//! What people and programs read: pure text from summaries and campaigns. Computes no statistics and
//! decides nothing; the sign-off document counts and ranks what evidence holds.

pub mod annotations;
pub mod campaign;
pub mod compared;
#[cfg(feature = "reports")]
pub mod curves;
pub mod distribution;
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
pub mod signoff;
pub mod terminal;
pub mod waterfall;
