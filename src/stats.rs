//! Numbers in, numbers out; imports nothing of ours.
