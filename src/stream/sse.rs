//! Incremental server-sent-events decoder (WHATWG).
