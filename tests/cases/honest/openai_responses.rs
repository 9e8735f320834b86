//! Honest answers of OpenAI responses: reasoning, messages, calls and hosted tools, in the legal
//! forms that services send.

use std::time::Duration;

use super::{Dice, Honest};

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
    " response.completed",
];

/// A stream in the making.
struct Writer<'a> {
    dice: &'a mut Dice,
    wire: Vec<(Duration, Vec<u8>)>,
    now: Duration,
    line_end: &'static str,
    space: &'static str,
    named: bool,
    /// Whether the number stands before the type's own members or behind them.
    number_last: bool,
    /// Members of random text that services add against eavesdroppers.
    obfuscated: bool,
    logprobs: bool,
    number: u64,
    stride: u64,
    /// Items that are closed, as the final response has them.
    output: Vec<String>,
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

    /// One event with the members that its type has.
    fn event(&mut self, name: &str, members: &str) {
        let number = self.number;
        self.number += 1 + self.dice.roll(self.stride);
        let data = if self.number_last {
            format!("{{{members},\"sequence_number\":{number},\"type\":\"{name}\"}}")
        } else {
            format!("{{\"type\":\"{name}\",\"sequence_number\":{number},{members}}}")
        };
        let space = self.space;
        let line = if self.named {
            format!("event:{space}{name}\n")
        } else {
            String::new()
        };
        self.raw(&format!("{line}data:{space}{data}\n\n"));
    }

    /// What may stand between events.
    fn between(&mut self) {
        self.now += Duration::from_micros(1_500 + self.dice.roll(40_000));
        match self.dice.roll(16) {
            0 => self.raw(": keep-alive\n\n"),
            1 => self.raw("event: ping\n\n"),
            2 => self.raw("retry: 3000\n\n"),
            3 => self.raw("id: 7\n"),
            4 => self.raw("event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n"),
            _ => {}
        }
    }

    /// Deltas of one text, and the text as JSON has it.
    fn pieces(&mut self, name: &str, place: &str, most: u64) -> String {
        let mut whole = String::new();
        for _ in 0..1 + self.dice.roll(most) {
            self.between();
            let word = WORDS[self.dice.roll(WORDS.len() as u64) as usize];
            whole += word;
            let mut members = format!("{place},\"delta\":\"{word}\"");
            if self.logprobs {
                members += ",\"logprobs\":[]";
            }
            if self.obfuscated {
                members += &format!(",\"obfuscation\":\"{:x}\"", self.dice.roll(1 << 40));
            }
            self.event(name, &members);
        }
        whole
    }

    fn reasoning(&mut self, index: usize) {
        let id = format!("rs_{index}");
        let item = |summary: &str, content: &str| {
            format!(
                "{{\"id\":\"{id}\",\"type\":\"reasoning\",\"summary\":[{summary}],\
                 \"encrypted_content\":\"gAAA\"{content}}}"
            )
        };
        let place = format!("\"item_id\":\"{id}\",\"output_index\":{index}");
        let announced = format!("\"output_index\":{index},\"item\":{}", item("", ""));
        self.event("response.output_item.added", &announced);
        let mut parts = Vec::new();
        let mut content = String::new();
        match self.dice.roll(3) {
            // Hidden altogether.
            0 => {}
            1 => {
                for part in 0..=self.dice.roll(2) {
                    let place = format!("{place},\"summary_index\":{part}");
                    let said =
                        |text: &str| format!("{{\"type\":\"summary_text\",\"text\":\"{text}\"}}");
                    let empty = format!("{place},\"part\":{}", said(""));
                    self.event("response.reasoning_summary_part.added", &empty);
                    let text = self.pieces("response.reasoning_summary_text.delta", &place, 12);
                    let whole = format!("{place},\"text\":\"{text}\"");
                    self.event("response.reasoning_summary_text.done", &whole);
                    let whole = format!("{place},\"part\":{}", said(&text));
                    self.event("response.reasoning_summary_part.done", &whole);
                    parts.push(said(&text));
                }
            }
            _ => {
                let place = format!("{place},\"content_index\":0");
                let said =
                    |text: &str| format!("{{\"type\":\"reasoning_text\",\"text\":\"{text}\"}}");
                let announced = self.chance(2);
                if announced {
                    let empty = format!("{place},\"part\":{}", said(""));
                    self.event("response.content_part.added", &empty);
                }
                let text = self.pieces("response.reasoning_text.delta", &place, 12);
                let whole = format!("{place},\"text\":\"{text}\"");
                self.event("response.reasoning_text.done", &whole);
                if announced {
                    let whole = format!("{place},\"part\":{}", said(&text));
                    self.event("response.content_part.done", &whole);
                }
                content = format!(",\"content\":[{}]", said(&text));
            }
        }
        let last = item(&parts.join(","), &content);
        let closed = format!("\"output_index\":{index},\"item\":{last}");
        self.event("response.output_item.done", &closed);
        self.output.push(last);
    }

    fn message(&mut self, index: usize, most: u64) {
        let id = format!("msg_{index}");
        let item = |status: &str, content: &str| {
            format!(
                "{{\"id\":\"{id}\",\"type\":\"message\",\"role\":\"assistant\",\
                 \"status\":\"{status}\",\"content\":[{content}]}}"
            )
        };
        let announced = format!(
            "\"output_index\":{index},\"item\":{}",
            item("in_progress", "")
        );
        self.event("response.output_item.added", &announced);
        let mut parts = Vec::new();
        let count = 1 + u64::from(self.chance(5));
        for part in 0..count {
            let place =
                format!("\"item_id\":\"{id}\",\"output_index\":{index},\"content_index\":{part}");
            let refused = part > 0 && self.chance(2);
            let said = |text: &str| {
                if refused {
                    format!("{{\"type\":\"refusal\",\"refusal\":\"{text}\"}}")
                } else {
                    format!("{{\"type\":\"output_text\",\"annotations\":[],\"text\":\"{text}\"}}")
                }
            };
            let (name, member) = if refused {
                ("refusal", "refusal")
            } else {
                ("output_text", "text")
            };
            let empty = format!("{place},\"part\":{}", said(""));
            self.event("response.content_part.added", &empty);
            let text = self.pieces(&format!("response.{name}.delta"), &place, most);
            if !refused {
                self.text += &text;
                if self.chance(4) {
                    let cited = format!("{place},\"annotation_index\":0,\"annotation\":{{}}");
                    self.event("response.output_text.annotation.added", &cited);
                }
            }
            let whole = format!("{place},\"{member}\":\"{text}\"");
            self.event(&format!("response.{name}.done"), &whole);
            let whole = format!("{place},\"part\":{}", said(&text));
            self.event("response.content_part.done", &whole);
            parts.push(said(&text));
        }
        let last = item("completed", &parts.join(","));
        let closed = format!("\"output_index\":{index},\"item\":{last}");
        self.event("response.output_item.done", &closed);
        self.output.push(last);
    }

    /// One call, or two whose pieces alternate.
    fn calls(&mut self, first: usize, count: usize) {
        let item = |index: usize, arguments: &str| {
            format!(
                "{{\"id\":\"fc_{index}\",\"type\":\"function_call\",\"call_id\":\"call_{index}\",\
                 \"name\":\"look\",\"status\":\"completed\",\"arguments\":\"{arguments}\"}}"
            )
        };
        const PIECES: &[&str] = &["{", "\\\"place\\\":", "\\\"Zürich\\\"", "}"];
        let whole = PIECES.concat();
        let streamed = !self.chance(4);
        let all = first..first + count;
        for index in all.clone() {
            let announced = format!("\"output_index\":{index},\"item\":{}", item(index, ""));
            self.event("response.output_item.added", &announced);
        }
        let place = |index: usize| format!("\"item_id\":\"fc_{index}\",\"output_index\":{index}");
        for piece in PIECES.iter().filter(|_| streamed) {
            for index in all.clone() {
                self.between();
                let members = format!("{},\"delta\":\"{piece}\"", place(index));
                self.event("response.function_call_arguments.delta", &members);
            }
        }
        for index in all {
            let members = format!("{},\"arguments\":\"{whole}\"", place(index));
            self.event("response.function_call_arguments.done", &members);
            let last = item(index, &whole);
            let closed = format!("\"output_index\":{index},\"item\":{last}");
            self.event("response.output_item.done", &closed);
            self.output.push(last);
        }
    }

    fn search(&mut self, index: usize) {
        let item = format!(
            "{{\"id\":\"ws_{index}\",\"type\":\"web_search_call\",\"status\":\"completed\",\
             \"action\":{{\"type\":\"search\",\"query\":\"x\"}}}}"
        );
        let members = format!("\"output_index\":{index},\"item\":{item}");
        let place = format!("\"item_id\":\"ws_{index}\",\"output_index\":{index}");
        self.event("response.output_item.added", &members);
        for state in ["in_progress", "searching", "completed"] {
            self.between();
            self.event(&format!("response.web_search_call.{state}"), &place);
        }
        self.event("response.output_item.done", &members);
        self.output.push(item);
    }

    fn state(&mut self, name: &str, status: &str, usage: &str) {
        let output = self.output.join(",");
        let members = format!(
            "\"response\":{{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":1700000000,\
             \"status\":\"{status}\",\"model\":\"openai/test-model-2024-08-06\",\
             \"output\":[{output}],\"parallel_tool_calls\":true,\"tool_choice\":\"auto\",\
             \"tools\":[],\"error\":null,\"incomplete_details\":null,\"instructions\":null,\
             \"metadata\":{{}},\"temperature\":1.0,\"top_p\":1.0,\"usage\":{usage}}}"
        );
        self.event(&format!("response.{name}"), &members);
    }
}

/// A stream of typed events.
#[expect(clippy::expect_used, reason = "the words are literals of this test")]
pub(crate) fn stream(dice: &mut Dice) -> Honest {
    let line_end = ["\n", "\r\n", "\r"][dice.roll(3) as usize];
    let space = ["", " "][dice.roll(2) as usize];
    let named = dice.roll(3) > 0;
    let number_last = dice.roll(4) == 0;
    let obfuscated = dice.roll(2) == 0;
    let logprobs = dice.roll(2) == 0;
    let stride = [1, 1, 3][dice.roll(3) as usize];
    let number = [0, 0, 1, 40][dice.roll(4) as usize];
    let mut writer = Writer {
        dice,
        wire: Vec::new(),
        now: Duration::from_millis(200),
        line_end,
        space,
        named,
        number_last,
        obfuscated,
        logprobs,
        number,
        stride,
        output: Vec::new(),
        text: String::new(),
    };
    if writer.chance(8) {
        writer.wire.push((writer.now, b"\xEF\xBB\xBF".to_vec()));
    }
    writer.state("created", "in_progress", "null");
    if writer.chance(6) {
        writer.state("queued", "queued", "null");
    }
    if !writer.chance(4) {
        writer.state("in_progress", "in_progress", "null");
    }
    if writer.chance(3) {
        let index = writer.output.len();
        writer.reasoning(index);
    }
    if writer.chance(6) {
        let index = writer.output.len();
        writer.search(index);
    }
    let talks = !writer.chance(6);
    if talks {
        if writer.chance(8) {
            let index = writer.output.len();
            writer.message(index, 6);
        }
        let index = writer.output.len();
        writer.message(index, 60);
    }
    if !talks || writer.chance(6) {
        let (index, count) = (writer.output.len(), 1 + writer.dice.roll(2) as usize);
        writer.calls(index, count);
    }
    writer.now += Duration::from_millis(5);
    let usage = writer.dice.roll(2) == 0;
    let counts = match (usage, writer.dice.roll(2)) {
        (true, 0) => {
            "{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":4},\
             \"output_tokens\":30,\"output_tokens_details\":{\"reasoning_tokens\":0},\
             \"total_tokens\":39}"
        }
        (true, _) => "{\"input_tokens\":9,\"output_tokens\":30,\"total_tokens\":39}",
        (false, _) => "null",
    };
    writer.state("completed", "completed", counts);
    if writer.chance(4) {
        let space = writer.space;
        writer.raw(&format!("data:{space}[DONE]\n\n"));
    }
    let text = format!("\"{}\"", writer.text);
    let text = serde_json::from_str::<String>(&text).expect("the words make a JSON string");
    Honest {
        wire: writer.wire,
        text,
        usage,
    }
}
