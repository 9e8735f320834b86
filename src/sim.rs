//! The embedded relay: plays timed byte scripts on loopback. Sees nothing of ours.
