//! What a user may write: YAML text in, a valid [`Spec`] or every mistake out. No IO.

pub mod objective;
