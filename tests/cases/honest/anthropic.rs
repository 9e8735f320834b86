//! Honest answers of Anthropic messages: thinking, text, tools of both sides, in odd but legal forms.

use std::time::Duration;

use super::{Dice, Honest};

const WORDS: &[&str] = &[
    "The",
    " error",
    " overloaded",
    " 429",
    ",",
    "\\n",
    " Grüße",
    " 你好",
    " 🙂",
    " \\\"quoted\\\"",
    " event: x",
    " message_stop",
    ".",
    " {\\\"type\\\":\\\"ping\\\"}",
    "\\u00e9",
    "\\ud83d\\ude42",
];

/// A stream in the making.
struct Writer<'a> {
    dice: &'a mut Dice,
    wire: Vec<(Duration, Vec<u8>)>,
    now: Duration,
    line_end: &'static str,
    space: &'static str,
    /// Members that a cloud adds to its events.
    extra: &'static str,
    blocks: u64,
    text: String,
}

impl Writer<'_> {
    fn chance(&mut self, sides: u64) -> bool {
        self.dice.roll(sides) == 0
    }

    fn raw(&mut self, text: &str) {
        let bytes = text.replace('\n', self.line_end).into_bytes();
        self.wire.push((self.now, bytes));
    }

    /// One event; its lines may come in any order, and its data on several lines.
    fn event(&mut self, name: &str, rest: &str) {
        let comma = if rest.is_empty() { "" } else { "," };
        let extra = self.extra;
        let mut json = format!("{{\"type\":\"{name}\"{comma}{rest}{extra}}}");
        if self.chance(8) {
            json = format!("{{{rest}{comma}\"type\":\"{name}\"{extra}}}");
        }
        let space = self.space;
        if self.chance(12) {
            json = json.replacen("\":", &format!("\":\ndata:{space}"), 1);
        }
        let (name, data) = (
            format!("event:{space}{name}\n"),
            format!("data:{space}{json}\n"),
        );
        let lines = if self.chance(10) {
            format!("{data}{name}")
        } else {
            format!("{name}{data}")
        };
        self.raw(&format!("{lines}\n"));
    }

    /// What may stand between events.
    fn between(&mut self) {
        self.now += Duration::from_micros(1_500 + self.dice.roll(40_000));
        match self.dice.roll(16) {
            0 => self.event("ping", ""),
            1 => self.raw(": keep-alive\n\n"),
            2 => self.raw("event: ping\n\n"),
            3 => self.raw("event: ping\ndata:\n\n"),
            4 => self.raw("retry: 3000\n\n"),
            5 => self.raw("id: 7\n"),
            6 => self.event("future_event", "\"x\":{\"index\":[1,2]}"),
            _ => {}
        }
    }

    fn begin(&mut self, block: &str) {
        let index = self.blocks;
        self.event(
            "content_block_start",
            &format!("\"index\":{index},\"content_block\":{{{block}}}"),
        );
    }

    fn delta(&mut self, delta: &str) {
        self.between();
        let index = self.blocks;
        self.event(
            "content_block_delta",
            &format!("\"index\":{index},\"delta\":{{{delta}}}"),
        );
    }

    fn close(&mut self) {
        let index = self.blocks;
        self.event("content_block_stop", &format!("\"index\":{index}"));
        self.blocks += 1;
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.dice.roll(WORDS.len() as u64) as usize]
    }

    #[expect(clippy::expect_used, reason = "the words are literals of this test")]
    fn said(&mut self, word: &str) {
        let word = serde_json::from_str::<String>(&format!("\"{word}\""));
        self.text += &word.expect("a word is a JSON string");
    }

    fn thinking(&mut self) {
        if self.chance(5) {
            self.begin("\"type\":\"redacted_thinking\",\"data\":\"b3BhcXVl\"");
            self.close();
            return;
        }
        let signature = if self.chance(3) {
            ""
        } else {
            ",\"signature\":\"\""
        };
        self.begin(&format!(
            "\"type\":\"thinking\",\"thinking\":\"\"{signature}"
        ));
        for _ in 0..self.dice.roll(12) {
            let word = self.word();
            self.delta(&format!(
                "\"type\":\"thinking_delta\",\"thinking\":\"{word}\""
            ));
        }
        self.delta("\"type\":\"signature_delta\",\"signature\":\"c2lnbmVk\"");
        self.close();
    }

    fn text(&mut self) {
        let first = if self.chance(10) { self.word() } else { "" };
        self.said(first);
        let citations = if self.chance(6) {
            ",\"citations\":null"
        } else {
            ""
        };
        self.begin(&format!(
            "\"type\":\"text\",\"text\":\"{first}\"{citations}"
        ));
        for _ in 0..=self.dice.roll(50) {
            let word = self.word();
            self.said(word);
            self.delta(&format!("\"type\":\"text_delta\",\"text\":\"{word}\""));
            if self.chance(20) {
                self.delta(
                    "\"type\":\"citations_delta\",\"citation\":{\"type\":\"page_location\"}",
                );
            }
        }
        self.close();
    }

    fn call(&mut self, kind: &str) {
        let id = self.blocks;
        self.begin(&format!(
            "\"type\":\"{kind}\",\"id\":\"toolu_{id}\",\"name\":\"look_up\",\"input\":{{}}"
        ));
        if !self.chance(4) {
            for piece in ["", "{\\\"city\\\":", " \\\"Par", "is\\\"", "}"] {
                self.delta(&format!(
                    "\"type\":\"input_json_delta\",\"partial_json\":\"{piece}\""
                ));
            }
        }
        self.close();
    }
}

/// A stream of events.
pub(crate) fn messages(dice: &mut Dice) -> Honest {
    let line_end = ["\n", "\r\n", "\r"][dice.roll(3) as usize];
    let space = ["", " "][dice.roll(2) as usize];
    let extra = ["", "", "", ",\"p\":\"abcdefgh\""][dice.roll(4) as usize];
    let usage = dice.roll(2) == 0;
    let mut writer = Writer {
        dice,
        wire: Vec::new(),
        now: Duration::from_millis(200),
        line_end,
        space,
        extra,
        blocks: 0,
        text: String::new(),
    };
    if writer.chance(8) {
        writer.wire.push((writer.now, b"\xEF\xBB\xBF".to_vec()));
    }
    let cache = if writer.chance(3) {
        ",\"cache_creation_input_tokens\":3,\"cache_read_input_tokens\":50,\
         \"cache_creation\":{\"ephemeral_5m_input_tokens\":3},\"service_tier\":\"standard\""
    } else {
        ""
    };
    let model = [
        "test-model",
        "test-model-20241022",
        "us.anthropic.test-model-20241022-v1:0",
    ][writer.dice.roll(3) as usize];
    writer.between();
    writer.event(
        "message_start",
        &format!(
            "\"message\":{{\"id\":\"msg_01\",\"type\":\"message\",\"role\":\"assistant\",\
             \"model\":\"{model}\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\
             \"usage\":{{\"input_tokens\":9{cache},\"output_tokens\":1}}}}"
        ),
    );
    let calls = writer.chance(3);
    if writer.chance(3) {
        writer.thinking();
    }
    if writer.chance(5) {
        writer.call("server_tool_use");
        writer.begin("\"type\":\"web_search_tool_result\",\"tool_use_id\":\"x\",\"content\":[]");
        writer.close();
    }
    if !calls || writer.chance(2) {
        for _ in 0..=writer.dice.roll(2) {
            writer.text();
        }
    }
    if calls {
        for _ in 0..=writer.dice.roll(3) {
            writer.call("tool_use");
        }
    }
    writer.between();
    let reason = if calls {
        "tool_use"
    } else {
        ["end_turn", "stop_sequence", "pause_turn"][writer.dice.roll(3) as usize]
    };
    if writer.chance(6) {
        writer.event(
            "message_delta",
            "\"delta\":{\"stop_reason\":null},\"usage\":{\"output_tokens\":2}",
        );
    }
    let input = if writer.chance(4) {
        "\"input_tokens\":9,\"output_tokens_details\":{\"thinking_tokens\":0},"
    } else {
        ""
    };
    writer.event(
        "message_delta",
        &format!(
            "\"delta\":{{\"stop_reason\":\"{reason}\",\"stop_sequence\":null}},\
             \"usage\":{{{input}\"output_tokens\":77}}"
        ),
    );
    writer.event("message_stop", "");
    if writer.chance(6) {
        writer.event("ping", "");
    }
    Honest {
        wire: writer.wire,
        text: writer.text,
        usage,
    }
}
