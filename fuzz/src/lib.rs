//! What the fuzz targets try. The first five bytes of an input decide how the rest is cut.

#[path = "../../tests/streams/coherent.rs"]
mod coherent;

use coherent::{Choices, alike_in_any_chunking};
use relayproof::dialect::Protocol;
use relayproof::stream::sse::{Decoder, Item};

fn sizes(choices: &mut Choices<'_>) -> [usize; 4] {
    [0; 4].map(|_| usize::from(choices.byte()) + 1)
}

/// A body in one protocol.
pub fn body(protocol: Protocol, data: &[u8]) {
    let mut choices = Choices(data);
    let flags = choices.byte();
    let sizes = sizes(&mut choices);
    alike_in_any_chunking(protocol, flags, choices.0, &sizes);
}

/// An attempt in which anything happens.
pub fn exchange(data: &[u8]) {
    coherent::attempt(&mut Choices(data));
}

/// The decoder alone.
pub fn sse(data: &[u8]) {
    let mut choices = Choices(data);
    choices.byte();
    let sizes = sizes(&mut choices);
    let whole = items(choices.0, &[usize::MAX]);
    assert_eq!(items(choices.0, &[1]), whole, "byte by byte");
    assert_eq!(items(choices.0, &sizes), whole, "in chunks of {sizes:?}");
}

/// Everything that a stream gives, in words.
fn items(bytes: &[u8], sizes: &[usize]) -> Vec<String> {
    let mut decoder = Decoder::new();
    let mut items = Vec::new();
    let mut events = 0;
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, later) = rest.split_at((*size).clamp(1, rest.len()));
        decoder.feed(chunk, |item| {
            if let Item::Event(event) = item {
                assert!(event.offset <= bytes.len() as u64);
                events += 1;
            }
            items.push(format!("{item:?}"));
        });
        rest = later;
    }
    assert!(events * 2 <= bytes.len(), "more events than blank lines");
    items.push(format!("{:?}", decoder.finish()));
    items
}
