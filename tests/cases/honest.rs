//! Honest answers in the many legal forms that services send, drawn by a seeded generator.
//!
//! Written by hand, so that the texts share no mistake with what reads or writes them elsewhere.

#[path = "honest/anthropic.rs"]
pub(crate) mod anthropic;
#[path = "honest/gemini.rs"]
mod gemini;
#[path = "honest/openai_responses.rs"]
pub(crate) mod openai_responses;

use std::time::Duration;

pub(crate) use gemini::gemini;

/// One answer: writes with their times, the text that it says, whether usage was asked for.
pub(crate) struct Honest {
    pub(crate) wire: Vec<(Duration, Vec<u8>)>,
    pub(crate) text: String,
    pub(crate) usage: bool,
}

/// A small generator, so that ten thousand streams are the same on every machine.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new() -> Self {
        Self(0x5EED_1234_ABCD_0001)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A stream of chat completions.
#[expect(clippy::expect_used, reason = "the words are literals of this test")]
pub(crate) fn chat(dice: &mut Dice) -> Honest {
    const WORDS: &[&str] = &[
        "The",
        " error",
        " code",
        " 429",
        " is",
        ",",
        "\\n",
        " Grüße",
        " 你好",
        " 🙂",
        " \\\"quoted\\\"",
        " data: x",
        " rate limit",
        ".",
        " [DONE]",
        "\\u00e9",
    ];
    let line_end = ["\n", "\r\n", "\r"][dice.roll(3) as usize];
    let space = ["", " "][dice.roll(2) as usize];
    let usage = dice.roll(2) == 0;
    let with_role = dice.roll(3) > 0;
    let named = dice.roll(4) == 0;
    let odd_null = dice.roll(5) == 0;
    let mut text = String::new();
    let mut wire = Vec::new();
    let mut now = Duration::from_millis(200);
    if dice.roll(8) == 0 {
        wire.push((now, b"\xEF\xBB\xBF".to_vec()));
    }
    let event = |data: &str| {
        let name = if named {
            format!("event:{space}message{line_end}")
        } else {
            String::new()
        };
        format!("{name}data:{space}{data}{line_end}{line_end}").into_bytes()
    };
    let chunk = |choices: &str, usage: &str| {
        format!(
            "{{\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\
             \"model\":\"openai/test-model-2024-08-06\",\"choices\":[{choices}]{usage}}}"
        )
    };
    let null = if odd_null {
        ""
    } else {
        ",\"finish_reason\":null"
    };
    let empty_usage = if usage { ",\"usage\":null" } else { "" };
    if with_role {
        let choice =
            format!("{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}}{null}}}");
        wire.push((now, event(&chunk(&choice, empty_usage))));
    }
    let tokens = 1 + dice.roll(60);
    for _ in 0..tokens {
        now += Duration::from_micros(1_500 + dice.roll(40_000));
        match dice.roll(12) {
            0 => wire.push((
                now,
                format!(": keep-alive{line_end}{line_end}").into_bytes(),
            )),
            1 => wire.push((now, format!("event: ping{line_end}{line_end}").into_bytes())),
            2 => wire.push((now, format!("retry: 3000{line_end}{line_end}").into_bytes())),
            3 => wire.push((now, format!("id: 7{line_end}").into_bytes())),
            _ => {}
        }
        let word = WORDS[dice.roll(WORDS.len() as u64) as usize];
        let choice = format!("{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}}{null}}}");
        wire.push((now, event(&chunk(&choice, empty_usage))));
        let word = serde_json::from_str::<String>(&format!("\"{word}\""));
        text += &word.expect("a word is a JSON string");
    }
    now += Duration::from_millis(5);
    let choice = "{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}";
    wire.push((now, event(&chunk(choice, empty_usage))));
    if usage {
        let counts = format!(
            ",\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{tokens},\"total_tokens\":{}}}",
            9 + tokens
        );
        wire.push((now, event(&chunk("", &counts))));
    }
    wire.push((now, event("[DONE]")));
    Honest { wire, text, usage }
}
