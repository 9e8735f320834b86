//! Each way in which a stream can fail or be odd, written by hand in each protocol.

#[path = "dialects/gemini.rs"]
mod gemini;
#[path = "dialects/openai_responses.rs"]
mod openai_responses;
