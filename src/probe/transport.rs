//! The two HTTP clients behind one door: a request and an exchange in, timed inputs to the exchange.
