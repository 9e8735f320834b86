//! Claims about the shortcut: it is taken, and nobody can tell it from parsing.

use proptest::prelude::*;
use serde::Deserialize;

use super::super::{Frame, Protocol, Reader, anthropic_messages, gemini};
use super::super::{openai_chat, openai_responses};
use super::*;

/// What may stand between the quotes of a text.
const TEXTS: [&str; 30] = [
    "a",
    " the",
    "",
    "0123456789abcdef",
    "a text that is longer than one step of the search",
    "a text with its end, a quote\\\", behind the first step",
    "你好",
    "\u{7f}\u{fffd}",
    "\\n",
    "\\\"",
    "a\\\\",
    "{\\\"city\\\": ",
    "caf\\u00e9 \\/ \\b\\f\\r\\t",
    "\\ud83d\\ude00",
    "\\ud83d",
    "\\ude00\\ud83d",
    "\\ud83dx",
    "\\u12",
    "\\x",
    "\\",
    "\t",
    "a raw line end\nbehind the first step of the search",
    "\\n\u{1f}",
    "\u{0}",
    "\"",
    "x\",\"y\":\"z",
    "x\",\"content\":\"z",
    "x\",\"text\":null,\"y\":\"z",
    "x\",\"delta\":\"z",
    "x\"}",
];

/// How many of them are read.
const GOOD_TEXTS: usize = 14;

/// What may stand in the place of a number.
const NUMBERS: [&str; 24] = [
    "1",
    "2",
    "0",
    "42",
    "700",
    "9999999999999999999",
    "10000000000000000000",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999",
    "007",
    "00",
    "-1",
    "-0",
    "+1",
    "1.0",
    "1e2",
    " 3 ",
    "4x",
    "",
    "null",
    "true",
    "\"5\"",
    "6,\"obfuscation\":7",
];

/// How many of them are read.
const GOOD_NUMBERS: usize = 8;

/// Frames of a protocol; `@` is a text and `#` a number.
struct Wire {
    protocol: Protocol,
    /// What a stream begins with.
    opening: &'static [(&'static str, &'static str)],
    /// How an ordinary frame is named.
    name: &'static str,
    /// The frames; the first ones are ordinary.
    frames: &'static [&'static str],
    ordinary: usize,
}

const CHAT: Wire = Wire {
    protocol: Protocol::OpenaiChat,
    opening: &[],
    name: "message",
    frames: &[
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"@"},"finish_reason":null}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"f","usage":null,"obfuscation":"@","choices":[{"index":0,"delta":{"content":"@"},"finish_reason":null}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"@"},"finish_reason":""}],"obfuscation":#}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"@"}}]}}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":1,"delta":{"content":"","reasoning":"@","reasoning_details":[{"type":"x","text":"@"}]}}]} "#,
        // Frames that no twin may be found of, or hardly.
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a","content":"@"}}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"@","con\u0074ent":"a"}}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"@","content":null}}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"reasoning":"@","reasoning_content":"@"}}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"reasoning":{"content":"@"},"reasoning_content":"@"}}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"@"}}],"tool_calls":[{"index":#,"function":{}}]}}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"@"}},{"index":1,"function":{"arguments":"@"}}]}}]}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"@"}},{"index":1,"delta":{"content":"b"}}]}"#,
        r#"{"choices":[{"delta":{"content":"@"},"index":#,"finish_reason":"stop"}],"model":"m","created":#,"id":"c","object":"x"}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"@"}}],"usage":{"prompt_tokens":#,"completion_tokens":#}}"#,
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[[0,{"content":"@"}]]}"#,
        r#"{"id":"@","choices":[{"index":0,"delta":{"content":"@","error":{"code":"@"}}}],"obfuscation":{"obfuscation":"@"}}"#,
        r#"{"error":{"message":"@"}}"#,
        "[DONE]",
        "",
    ],
    ordinary: 5,
};

const RESPONSES: Wire = Wire {
    protocol: Protocol::OpenaiResponses,
    opening: &[
        (
            "response.created",
            r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","created_at":1,"status":"in_progress","model":"m","output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[]}}"#,
        ),
        (
            "response.output_item.added",
            r#"{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"i","type":"message","status":"in_progress","role":"assistant","content":[]}}"#,
        ),
        (
            "response.content_part.added",
            r#"{"type":"response.content_part.added","sequence_number":2,"item_id":"i","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":""}}"#,
        ),
    ],
    name: "response.output_text.delta",
    frames: &[
        r#"{"type":"response.output_text.delta","sequence_number":#,"item_id":"i","output_index":0,"content_index":0,"delta":"@","logprobs":[],"obfuscation":"@"}"#,
        r#"{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"@","sequence_number":#}"#,
        r#"{"type":"response.function_call_arguments.delta","sequence_number":#,"item_id":"j","output_index":1,"delta":"@","obfuscation":"@"}"#,
        r#"{"type":"response.reasoning_summary_text.delta","sequence_number":#,"item_id":"i","output_index":0,"summary_index":0,"delta":"@","obfuscation":#}"#,
        r#"{"type":"response.output_text.delta","sequence_number":#,"sequence_number":#,"item_id":"i","output_index":0,"content_index":0,"delta":"@"}"#,
        r#"{"type":"response.output_text.delta","sequence_number":#,"item_id":"i","output_index":0,"content_index":#,"delta":"@","del\u0074a":"a"}"#,
        r#"{"type":"response.output_text.delta","item_id":"@","output_index":0,"content_index":0,"delta":"@"}"#,
        r#"{"type":"response.output_text.done","sequence_number":#,"item_id":"i","output_index":0,"content_index":0,"text":"@"}"#,
        r#"{"type":"response.output_text.done","sequence_number":#,"item_id":"i","output_index":0,"content_index":0,"text":"@","delta":"@"}"#,
        r#"{"type":"response.elsewhere","sequence_number":#,"delta":"@"}"#,
        r#"{"type":"error","sequence_number":#,"delta":"@","error":{"message":"@"}}"#,
        r#"{"type":"response.completed","sequence_number":#,"delta":"@"}"#,
        r#"{"sequence_number":#,"delta":"@"}"#,
        r#"["response.output_text.delta",#,"i",0,0,null,"@"]"#,
        "[DONE]",
        "",
    ],
    ordinary: 4,
};

const MESSAGES: Wire = Wire {
    protocol: Protocol::AnthropicMessages,
    opening: &[
        (
            "message_start",
            r#"{"type":"message_start","message":{"id":"msg","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#,
        ),
        (
            "content_block_start",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        ),
    ],
    name: "content_block_delta",
    frames: &[
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"@"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"@"}}"#,
        r#"{"index": 1, "delta": {"partial_json": "@", "type": "input_json_delta"}, "type": "content_block_delta"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"@","text":"@"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"@","te\u0078t":"a"}}"#,
        r#"{"type":"content_block_delta","index":#,"delta":{"type":"text_delta","text":"@","thinking":"@"}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"@"},"delta":null}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"@","text":"@"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":["text_delta","@"]}"#,
        r#"{"type":"content_block_stop","index":0,"delta":{"text":"@"}}"#,
        r#"{"type":"content_block_start","index":#,"content_block":{"type":"text","text":"@"}}"#,
        r#"{"type":"elsewhere","index":0,"delta":{"text":"@"}}"#,
        r#"{"type":"error","error":{"message":"@"},"delta":{"text":"@"}}"#,
        r#"{"type":"ping","delta":{"text":"@"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","text":"@"},"usage":{"output_tokens":#}}"#,
        r#"{"index":0,"delta":{"type":"text_delta","text":"@"}}"#,
        "",
    ],
    ordinary: 3,
};

const GEMINI: Wire = Wire {
    protocol: Protocol::Gemini,
    opening: &[],
    name: "message",
    frames: &[
        r#"{"candidates": [{"content": {"parts": [{"text": "@"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": #,"candidatesTokenCount": #,"totalTokenCount": #,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 9}]},"modelVersion": "m","responseId": "r"}"#,
        r#"{"candidates":[{"content":{"parts":[{"thought":true,"text":"@","thoughtSignature":"@"}]}}],"usageMetadata":{"thoughtsTokenCount":#,"cachedContentTokenCount":null,"toolUsePromptTokenCount":#,"candidatesTokensDetails":[{"tokenCount":#},{"tokenCount":#}]},"modelVersion":"m"}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"@"}],"role":"model"},"finishReason":"STOP","index":0}],"responseId":"r"}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"a","text":"@"}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"@","te\u0078t":"a"}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"@","text":null}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"@"},{"text":"@"}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"@"}]}},{"index":1,"content":{"parts":[]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"@","functionCall":{"name":"f","args":{"a":"@"}}}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"@"}]},"index":#}],"usageMetadata":{"totalTokenCount":#,"totalTokenCount":#}}"#,
        r#"{"candidates":[{"content":[[{"text":"@"}]]}],"usageMetadata":[#,#]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"@"}]},"error":{"code":#}}]}"#,
        r#"{"promptFeedback":{"blockReason":"@"},"candidates":[{"content":{"parts":[{"text":"@"}]}}]}"#,
        r#"{"usageMetadata":{"totalTokenCount":#}}"#,
        "",
    ],
    ordinary: 3,
};

const WIRES: [&Wire; 4] = [&CHAT, &RESPONSES, &MESSAGES, &GEMINI];

/// A frame with its places filled; the values are taken in turn.
fn filled(frame: &str, texts: &[usize], numbers: &[usize]) -> String {
    let (mut texts, mut numbers) = (texts.iter().cycle(), numbers.iter().cycle());
    let mut data = String::new();
    for character in frame.chars() {
        match character {
            '@' => data += texts.next().map_or("", |place| TEXTS[*place]),
            '#' => data += numbers.next().map_or("", |place| NUMBERS[*place]),
            other => data.push(other),
        }
    }
    data
}

/// All that a reader says of one frame.
fn said(reader: &mut Reader, name: &str, data: &str) -> Vec<String> {
    let mut said = Vec::new();
    let read = reader.frame(Frame { name, data }, &mut |signal| {
        said.push(format!("{signal:?}"));
    });
    said.push(format!("{read:?}, {}", reader.is_open()));
    said
}

/// Two readers of one stream, one with the shortcut and one without.
struct Both(Reader, Reader);

impl Both {
    fn of(wire: &Wire) -> Self {
        let mut both = Self(wire.protocol.reader(), wire.protocol.reader().parsing());
        for (name, data) in wire.opening {
            both.read(name, data);
        }
        both
    }

    fn read(&mut self, name: &str, data: &str) {
        let (short, parsed) = (said(&mut self.0, name, data), said(&mut self.1, name, data));
        assert_eq!(short, parsed, "{name}: {data}");
    }

    fn end(mut self) {
        let mut said: [Vec<String>; 2] = Default::default();
        self.0
            .end(&mut |signal| said[0].push(format!("{signal:?}")));
        self.1
            .end(&mut |signal| said[1].push(format!("{signal:?}")));
        assert_eq!(said[0], said[1]);
        let state = |reader: &Reader| {
            let state = format!("{reader:?}");
            // All but the remembered frame, which stands last.
            state.split_once("Twin").map(|(life, _)| life.to_owned())
        };
        assert_eq!(state(&self.0), state(&self.1));
    }
}

/// One change to the text of a frame; places are taken modulo its length.
#[derive(Clone, Debug)]
enum Change {
    Put(usize, usize, &'static str),
    Repeat(usize, usize),
    Cut(usize),
}

const PIECES: [&str; 26] = [
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\n",
    "\u{1}",
    "0",
    "1",
    "-",
    ".",
    "e",
    "null",
    "é",
    "\\u0022",
    "\\n",
    "\"a\":1,",
    "\"delta\":",
    "\"text\":\"b\",",
    "\"content\":\"b\",",
    "x",
    "",
];

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any::<usize>(), 0usize..3, proptest::sample::select(&PIECES[..]))
            .prop_map(|(at, gone, piece)| Change::Put(at, gone, piece)),
        1 => any::<(usize, usize)>().prop_map(|(from, to)| Change::Repeat(from, to)),
        1 => any::<usize>().prop_map(Change::Cut),
    ]
}

fn changed(data: &str, change: &Change) -> String {
    let mut characters: Vec<char> = data.chars().collect();
    let place = |at: usize| at % (characters.len() + 1);
    match *change {
        Change::Put(at, gone, piece) => {
            let at = place(at);
            let end = (at + gone).min(characters.len());
            characters.splice(at..end, piece.chars());
        }
        Change::Repeat(from, to) => {
            let (from, to) = (place(from), place(to));
            let (from, to) = (from.min(to), from.max(to));
            let part = characters[from..to].to_vec();
            characters.splice(to..to, part);
        }
        Change::Cut(at) => characters.truncate(place(at)),
    }
    characters.into_iter().collect()
}

/// One frame of a stream: which one, its values, its name, and what was done to it.
type Draw = (usize, Vec<usize>, Vec<usize>, u8, Option<Change>);

/// A stream that keeps to a few of the frames, most of them ordinary and whole.
fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let text = prop_oneof![6 => 0..GOOD_TEXTS, 1 => 0..TEXTS.len()];
    let number = prop_oneof![8 => 0..GOOD_NUMBERS, 1 => 0..NUMBERS.len()];
    let draw = (
        0usize..3,
        proptest::collection::vec(text, 1..4),
        proptest::collection::vec(number, 1..4),
        any::<u8>(),
        prop_oneof![4 => Just(None), 1 => change().prop_map(Some)],
    );
    proptest::collection::vec(draw, 2..14)
}

fn alike(wire: &Wire, few: [usize; 3], draws: &[Draw]) {
    let mut both = Both::of(wire);
    for (which, texts, numbers, name, change) in draws {
        // The first of the few is an ordinary frame.
        let frame = match which {
            0 => few[0] % wire.ordinary,
            other => few[*other] % wire.frames.len(),
        };
        let data = filled(wire.frames[frame], texts, numbers);
        let data = change
            .as_ref()
            .map_or_else(|| data.clone(), |change| changed(&data, change));
        let name = match name {
            0..=9 => "error",
            10..=29 => "message",
            30..=34 => "ping",
            _ => wire.name,
        };
        both.read(name, &data);
    }
    both.end();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chat_is_read_as_if_each_frame_were_parsed(few in any::<[usize; 3]>(), draws in draws()) {
        alike(&CHAT, few, &draws);
    }

    #[test]
    fn responses_are_read_as_if_each_frame_were_parsed(few in any::<[usize; 3]>(), draws in draws()) {
        alike(&RESPONSES, few, &draws);
    }

    #[test]
    fn messages_are_read_as_if_each_frame_were_parsed(few in any::<[usize; 3]>(), draws in draws()) {
        alike(&MESSAGES, few, &draws);
    }

    #[test]
    fn gemini_is_read_as_if_each_frame_were_parsed(few in any::<[usize; 3]>(), draws in draws()) {
        alike(&GEMINI, few, &draws);
    }

    #[test]
    fn a_string_is_taken_if_json_takes_it(text in "(\\PC|[\u{0}-\u{1f}]|\\\\[\"\\\\/bfnrtux]|\\\\u[d0][8c0][0-9a-f]{2}){0,40}") {
        let data = format!("\"{text}\",");
        let mut values = serde_json::Deserializer::from_str(&data).into_iter::<String>();
        let parsed = values.next().and_then(Result::ok);
        let end = values.byte_offset().saturating_sub(1);
        let parsed = parsed.map(|text| (Cow::Owned(text), end));
        prop_assert_eq!(string(&data, 1), parsed);
    }

    #[test]
    fn a_number_is_taken_only_if_json_takes_it(number in "[-+0-9.eE]{1,22}") {
        if let Some(digits) = digits(&number, 0) {
            let parsed = serde_json::from_str::<u64>(digits).ok();
            prop_assert_eq!(parsed, digits.parse().ok());
            prop_assert!(parsed.is_some());
        }
    }
}

#[test]
fn every_frame_is_read_alike_after_every_other() {
    for wire in WIRES {
        for before in wire.frames {
            let first = filled(before, &[0], &[0]);
            for after in wire.frames {
                let (mut texts, mut numbers) = (vec![1], vec![1]);
                if before == after {
                    texts = (0..TEXTS.len()).collect();
                    numbers = (0..NUMBERS.len()).collect();
                }
                let texts = texts.iter().map(|text| filled(after, &[*text, 0], &[1, 3]));
                let numbers = numbers
                    .iter()
                    .map(|number| filled(after, &[1], &[*number, 1]));
                for second in texts.chain(numbers) {
                    let mut both = Both::of(wire);
                    both.read(wire.name, &first);
                    both.read(wire.name, &second);
                    both.end();
                }
            }
        }
    }
}

/// Whether the shortcut is taken for the second of two frames.
fn is_taken<K: Kept>(first: &str, second: &str) -> bool
where
    for<'a> K::Event<'a>: Deserialize<'a>,
{
    let mut twin = Twin::<K>::default();
    if let Ok(event) = serde_json::from_str::<K::Event<'_>>(first) {
        twin.learn(first, &event);
    }
    twin.find(second).is_some()
}

fn takes(wire: &Wire, first: &str, second: &str) -> bool {
    match wire.protocol {
        Protocol::OpenaiChat => is_taken::<openai_chat::Kept>(first, second),
        Protocol::OpenaiResponses => is_taken::<openai_responses::Kept>(first, second),
        Protocol::AnthropicMessages => is_taken::<anthropic_messages::Kept>(first, second),
        Protocol::Gemini => is_taken::<gemini::Kept>(first, second),
    }
}

#[test]
fn the_shortcut_is_taken_for_ordinary_frames_and_never_for_broken_ones() {
    for wire in WIRES {
        for frame in &wire.frames[..wire.ordinary] {
            let first = filled(frame, &[0], &[0]);
            for text in 0..TEXTS.len() {
                let second = filled(frame, &[text, 0], &[1, 2, 3]);
                let good = text < GOOD_TEXTS;
                assert_eq!(takes(wire, &first, &second), good, "{second}");
            }
            for number in 0..NUMBERS.len() {
                let second = filled(frame, &[1], &[number]);
                // One more digit and not all numbers would fit.
                let good = number < 6 || !frame.contains('#');
                assert_eq!(takes(wire, &first, &second), good, "{second}");
            }
        }
    }
}

#[test]
fn a_frame_that_is_large_deep_or_full_of_holes_is_not_remembered() {
    let frame = |more: &str| {
        format!(
            "{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"a\"}}{more}}}"
        )
    };
    let taken = |more: &str| takes(&MESSAGES, &frame(more), &frame(more));
    assert!(taken(",\"more\":[[{\"a\":[\"\"]}]]"));
    assert!(!taken(&format!(",\"more\":\"{}\"", "x".repeat(MAX_BYTES))));
    let deep = format!(
        ",\"more\":{}{}",
        "[".repeat(MAX_DEPTH),
        "]".repeat(MAX_DEPTH)
    );
    assert!(!taken(&deep));
    let counted = |items: usize| {
        let item = vec!["{\"tokenCount\":1}"; items].join(",");
        format!(
            "{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"a\"}}]}}}}],\"usageMetadata\":{{\"candidatesTokensDetails\":[{item}]}}}}"
        )
    };
    assert!(takes(
        &GEMINI,
        &counted(MAX_HOLES - 1),
        &counted(MAX_HOLES - 1)
    ));
    assert!(!takes(&GEMINI, &counted(MAX_HOLES), &counted(MAX_HOLES)));
}

#[test]
fn frames_are_seldom_looked_at_where_none_has_a_twin() {
    let frame = |id: u32, text: &str| {
        format!(
            "{{\"type\":\"content_block_delta\",\"index\":{id},\"delta\":{{\"text\":\"{text}\"}}}}"
        )
    };
    let mut twin = Twin::<anthropic_messages::Kept>::default();
    let mut off = Twin::<anthropic_messages::Kept>::off();
    let mut remembered = Vec::new();
    for id in 1..=2 * RARELY {
        let first = frame(id, "a");
        let event = serde_json::from_str(&first).unwrap();
        let misses = twin.misses;
        twin.learn(&first, &event);
        off.learn(&first, &event);
        assert!(off.find(&first).is_none());
        if twin.find(&frame(id, "b")).is_some() {
            remembered.push(id);
            assert_eq!(twin.misses, 0);
            twin.misses = misses + 1;
        }
    }
    let first: Vec<u32> = (1..=MAX_MISSES).chain([RARELY, 2 * RARELY]).collect();
    assert_eq!(remembered, first);
}
