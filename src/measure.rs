//! From attempts to values: what each metric says of one sample. Aggregates nothing.

pub mod metric;
