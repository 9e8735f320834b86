//! Soaks as they might have been.
