//! What may be kept of a relay's strings: short, without control characters. No meaning here.

use crate::forms::steers;

/// Longest string of the relay that is kept, in bytes.
const MAX_BYTES: usize = 256;

/// Longest error code that is kept, in bytes.
const MAX_CODE_BYTES: usize = 64;

/// The string, cut to 256 bytes, without characters that steer a terminal.
pub(super) fn short(text: &str) -> String {
    let mut kept = String::new();
    for character in text.chars().filter(|character| !steers(*character)) {
        if kept.len() + character.len_utf8() > MAX_BYTES {
            break;
        }
        kept.push(character);
    }
    kept
}

/// The longest beginning of `text` that has at most `most` bytes.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// An error code, where it looks like one; anything else could be the relay's prose or a secret.
pub(super) fn code(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let safe = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
    ((1..=MAX_CODE_BYTES).contains(&text.len()) && text.bytes().all(safe)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_string_is_short_and_printable() {
        assert_eq!(short("a\u{1b}[31mb\nc"), "a[31mbc");
        assert_eq!(short("a\u{202e}b\u{9b}c"), "abc");
        assert_eq!(short(&"ü".repeat(1000)).len(), 256);
    }

    #[test]
    fn an_error_code_is_kept_only_if_it_looks_like_one() {
        assert_eq!(
            code("Insufficient_Quota").as_deref(),
            Some("insufficient_quota")
        );
        assert_eq!(code("rate limit for sk-123"), None);
        assert_eq!(code(""), None);
        assert_eq!(code(&"x".repeat(65)), None);
    }
}
