//! Decoding speed on one core: the decoder alone, the decoder with the signals of each protocol, and
//! a whole exchange, each in 16 KiB chunks, against two baselines of the same run.
//!
//! Run with `cargo bench --bench decode`; criterion prints MB/s (as MiB/s).

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use relayproof::dialect::{Frame, Protocol};
use relayproof::expect::Expect;
use relayproof::stream::sse::{Decoder, Item};
use relayproof::stream::{Asked, Exchange, Head, Input, Timeouts};

const CHUNK: usize = 16 << 10;

const WORDS: [&str; 8] = [
    "The", " quick", " brown", " fox", " jumps", ",\\n", " você", " 你好",
];

/// A stream of single-token chunks, about 4 MiB.
///
/// `service`: with the members that OpenAI adds, among them one of random text, so that no chunk
/// is like another in anything but its content.
fn stream(service: bool) -> Vec<u8> {
    let mut body = String::new();
    let mut token = 0;
    while body.len() < 4 << 20 {
        let word = WORDS[token % WORDS.len()];
        token += 1;
        let extra = if service {
            format!(
                "\"service_tier\":\"default\",\"system_fingerprint\":\"fp_0f2a7c1b9d\",\"usage\":null,\
                 \"obfuscation\":\"{:08x}\",",
                token.wrapping_mul(0x9E37_79B9) as u32
            )
        } else {
            String::new()
        };
        body += &format!(
            "data: {{\"id\":\"chatcmpl-9xK2\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\
             \"model\":\"test-model-2024-08-06\",{extra}\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\
             \"{word}\"}},\"finish_reason\":null}}]}}\n\n"
        );
    }
    body.into_bytes()
}

/// The same of Anthropic messages, as the service sends them.
fn messages() -> Vec<u8> {
    let mut body = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_01\",\
                    \"type\":\"message\",\"role\":\"assistant\",\"model\":\"test-model\",\"content\":[],\
                    \"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":9,\
                    \"output_tokens\":1}}}\n\nevent: content_block_start\ndata: \
                    {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\
                    \"text\":\"\"}}\n\n"
        .to_owned();
    for word in WORDS.iter().cycle() {
        if body.len() >= 4 << 20 {
            break;
        }
        body += &format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
             \"delta\":{{\"type\":\"text_delta\",\"text\":\"{word}\"}}}}\n\n"
        );
    }
    body.into_bytes()
}

/// A stream of Gemini's chunks with the members that the service sends, about 4 MiB.
fn gemini() -> Vec<u8> {
    let mut body = String::new();
    let mut tokens = 0;
    while body.len() < 4 << 20 {
        tokens += 12;
        body += &format!(
            "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{{\"text\": \" the quick brown fox, você, \
             jumps over 你好 and the lazy dog\"}}],\"role\": \"model\"}},\"index\": 0}}],\"usageMetadata\": \
             {{\"promptTokenCount\": 9,\"candidatesTokenCount\": {tokens},\"totalTokenCount\": {},\
             \"promptTokensDetails\": [{{\"modality\": \"TEXT\",\"tokenCount\": 9}}]}},\"modelVersion\": \
             \"test-model\",\"responseId\": \"x9kqaL3fMoWBvdIP\"}}\r\n\r\n",
            tokens + 9
        );
    }
    body.into_bytes()
}

/// The same of OpenAI responses, as the service sends them.
fn responses() -> Vec<u8> {
    let response = "\"response\":{\"id\":\"resp_68af4030\",\"object\":\"response\",\"created_at\":1,\
                    \"status\":\"in_progress\",\"model\":\"test-model\",\"output\":[],\
                    \"parallel_tool_calls\":true,\"tool_choice\":\"auto\",\"tools\":[]}";
    let item = "msg_68af4030baa48193b0b43b4c2a176a1a0e6967589f080e78";
    let place = format!("\"item_id\":\"{item}\",\"output_index\":0,\"content_index\":0");
    let mut number = 0;
    let mut event = |name: &str, members: &str| {
        number += 1;
        format!(
            "event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{number},{members}}}\n\n"
        )
    };
    let mut body = event("response.created", response);
    body += &event(
        "response.output_item.added",
        &format!(
            "\"output_index\":0,\"item\":{{\"id\":\"{item}\",\"type\":\"message\",\
             \"status\":\"in_progress\",\"role\":\"assistant\",\"content\":[]}}"
        ),
    );
    body += &event(
        "response.content_part.added",
        &format!("{place},\"part\":{{\"type\":\"output_text\",\"annotations\":[],\"text\":\"\"}}"),
    );
    for (index, word) in WORDS.iter().cycle().enumerate() {
        if body.len() >= 4 << 20 {
            break;
        }
        let salt = (index as u32).wrapping_mul(0x9E37_79B9);
        body += &event(
            "response.output_text.delta",
            &format!("{place},\"delta\":\"{word}\",\"logprobs\":[],\"obfuscation\":\"{salt:08x}\""),
        );
    }
    body.into_bytes()
}

fn exchange(protocol: Protocol) -> Exchange {
    let asked = Asked {
        protocol,
        stream: true,
        model: "test-model".to_owned(),
        max_tokens: None,
        usage: false,
        seal: None,
        request_bytes: 0,
        expect: Expect::default(),
        keep_text: false,
    };
    let mut exchange = Exchange::new(asked, Timeouts::default());
    let head = Head {
        status: 200,
        version: "1.1",
        headers: vec![("content-type", b"text/event-stream")],
    };
    exchange.handle(Duration::ZERO, Input::Head(head));
    exchange
}

fn decode(criterion: &mut Criterion) {
    let plain = stream(false);
    let service = stream(true);
    let messages = messages();
    let responses = responses();
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Bytes(plain.len() as u64));

    group.bench_function("baseline: count lines", |bench| {
        bench.iter(|| {
            let chunks = plain.chunks(CHUNK);
            chunks
                .map(|chunk| memchr::memchr_iter(b'\n', chunk).count())
                .sum::<usize>()
        });
    });
    group.bench_function("baseline: sse-parse", |bench| {
        bench.iter(|| {
            let mut parser = sse_parse::SseParser::new();
            let mut bytes = 0;
            for chunk in plain.chunks(CHUNK) {
                parser.feed(chunk);
                while let Some(event) = parser.next_event() {
                    bytes += event.data.len();
                }
            }
            bytes
        });
    });
    group.bench_function("events", |bench| {
        bench.iter(|| {
            let mut decoder = Decoder::new();
            let mut bytes = 0;
            for chunk in plain.chunks(CHUNK) {
                decoder.feed(chunk, |item| {
                    if let Item::Event(event) = item {
                        bytes += event.data.len();
                    }
                });
            }
            bytes
        });
    });
    let gemini = gemini();
    let chat = Protocol::OpenaiChat;
    for (name, protocol, body) in [
        ("minimal chunks", chat, &plain),
        ("service chunks", chat, &service),
        ("service events", Protocol::AnthropicMessages, &messages),
        ("service chunks", Protocol::Gemini, &gemini),
        ("service events", Protocol::OpenaiResponses, &responses),
    ] {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("events and {protocol} signals, {name}"), |bench| {
            bench.iter(|| {
                let mut decoder = Decoder::new();
                let mut reader = protocol.reader();
                let mut signals = 0u64;
                for chunk in body.chunks(CHUNK) {
                    decoder.feed(chunk, |item| {
                        if let Item::Event(event) = item {
                            let frame = Frame {
                                name: event.name,
                                data: event.data,
                            };
                            let read = reader.frame(frame, &mut |signal| {
                                black_box(&signal);
                                signals += 1;
                            });
                            assert!(read.is_ok());
                        }
                    });
                }
                signals
            });
        });
        group.bench_function(format!("whole exchange of {protocol}, {name}"), |bench| {
            bench.iter(|| {
                let mut exchange = exchange(protocol);
                for (index, chunk) in body.chunks(CHUNK).enumerate() {
                    let at = Duration::from_millis(index as u64);
                    exchange.handle(at, Input::Body(chunk));
                }
                exchange.has_output()
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = decode
}
criterion_main!(benches);
