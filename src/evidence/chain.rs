//! The hash chain of an evidence file: what a line ends with, and what that value is made of.
//!
//! Pure: bytes in, values out. A chain shows that lines were changed, removed or put elsewhere by
//! whoever did not make it anew; against somebody who does, its last value has to be kept or signed
//! somewhere else.

mod walk;

pub use walk::{Break, Broken};
pub(super) use walk::{Walk, Walked};

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// What stands before the value at the end of a line.
const MEMBER: &[u8] = b",\"chain\":\"";

/// Digits of a value.
const DIGITS: usize = 64;

/// What stands behind the value at the end of a line.
const END: &[u8] = b"\"}";

/// Length of the whole last member.
const LENGTH: usize = MEMBER.len() + DIGITS + END.len();

/// A value of the chain: SHA-256 over the value before it and a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainValue([u8; 32]);

/// Text that is no value of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hex digits")]
pub struct NoChainValue;

impl ChainValue {
    /// What stands before the first line of all.
    pub const START: Self = Self([0; 32]);

    /// The value of a line that follows this one: the line's bytes without their last member.
    pub(super) fn then(self, record: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(self.0).chain_update(record);
        Self(hash.finalize().into())
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Lower-case digits only: there is one way to write a line.
    fn of_digits(digits: &[u8]) -> Option<Self> {
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        if digits.len() != DIGITS {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for ChainValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChainValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainValue({self})")
    }
}

impl FromStr for ChainValue {
    type Err = NoChainValue;

    fn from_str(text: &str) -> Result<Self, NoChainValue> {
        Self::of_digits(text.to_ascii_lowercase().as_bytes()).ok_or(NoChainValue)
    }
}

impl Serialize for ChainValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChainValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Ends a record, one JSON object in a buffer, with its value behind `previous`, and gives it.
pub(super) fn seal(previous: ChainValue, record: &mut Vec<u8>) -> ChainValue {
    // The brace comes back behind the value.
    record.pop();
    let value = previous.then(record);
    record.extend_from_slice(MEMBER);
    record.extend_from_slice(value.to_string().as_bytes());
    record.extend_from_slice(END);
    value
}

/// How a line ends, as far as its chain goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending<'a> {
    /// With a value.
    Value {
        /// What the value covers.
        record: &'a [u8],
        /// The value.
        value: ChainValue,
    },
    /// With what was a value once.
    Damaged,
    /// Without any, as versions before the chain wrote it.
    Bare,
}

/// The end of a line, which stands without its line feed.
pub(super) fn ending(line: &[u8]) -> Ending<'_> {
    let Some((record, member)) = line
        .len()
        .checked_sub(LENGTH)
        .map(|start| line.split_at(start))
    else {
        return Ending::Bare;
    };
    let (name, rest) = member.split_at(MEMBER.len());
    let (digits, end) = rest.split_at(DIGITS);
    let value = ChainValue::of_digits(digits);
    match value {
        Some(value) if name == MEMBER && end == END => Ending::Value { record, value },
        // One of the three is not as it was, or two lines have become one with more behind them.
        // No line of a version without a chain ends with 64 digits, or holds the member's name.
        Some(_) if name == MEMBER || end == END => Ending::Damaged,
        _ if memchr::memmem::find(member, MEMBER).is_some() => Ending::Damaged,
        Some(_) | None => Ending::Bare,
    }
}

/// Whether the start of a line, torn off anywhere, can be what is left of a record.
///
/// `previous` is the value of the line before it.
pub(super) fn can_be_torn(tail: &[u8], previous: Option<ChainValue>) -> bool {
    // What a machine that lost its power leaves where nothing was written yet.
    let zeros = tail.iter().rev().take_while(|byte| **byte == 0).count();
    let tail = &tail[..tail.len() - zeros];
    if tail.is_empty() {
        return true;
    }
    match serde_json::from_slice::<serde::de::IgnoredAny>(tail) {
        // A whole record, but for its line feed.
        Ok(_) if zeros > 0 => false,
        Ok(_) => match (ending(tail), previous) {
            (Ending::Value { record, value }, Some(previous)) => previous.then(record) == value,
            (Ending::Bare, None) => tail.ends_with(b"}"),
            _ => false,
        },
        Err(error) => error.is_eof() && tail.starts_with(b"{"),
    }
}

/// The root of many files: one value for all of their last ones, by the ids of their cells.
///
/// It is SHA-256 over one line for each file, `VALUE  CELL_ID` and a line feed, sorted by their
/// bytes and each once: neither the order nor the names of files and folders are in it, and a file
/// that is there twice counts once.
pub fn root<'a>(ends: impl IntoIterator<Item = (&'a str, ChainValue)>) -> ChainValue {
    let lines: BTreeSet<String> = ends
        .into_iter()
        // An id is our own hex; in a forged file it must not pass for two lines.
        .map(|(cell, value)| format!("{value}  {}\n", cell.escape_default()))
        .collect();
    let mut hash = Sha256::new();
    lines.iter().for_each(|line| hash.update(line));
    ChainValue(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(previous: ChainValue, record: &str) -> (Vec<u8>, ChainValue) {
        let mut line = record.as_bytes().to_vec();
        let value = seal(previous, &mut line);
        (line, value)
    }

    #[test]
    fn a_value_is_sha256_of_the_value_before_and_the_bytes_before_the_member() {
        let (line, value) = sealed(ChainValue::START, "{\"a\":1}");
        // (head -c 32 /dev/zero; printf '{"a":1') | sha256sum
        assert_eq!(
            value.to_string(),
            "607ca6addc015e6bd181f4700e76996f0a2361ee7a2e4b2dbe5d7dd2f948d448"
        );
        let text = String::from_utf8(line.clone()).unwrap();
        assert_eq!(text, format!("{{\"a\":1,\"chain\":\"{value}\"}}"));
        let record = b"{\"a\":1".as_slice();
        assert_eq!(ending(&line), Ending::Value { record, value });
    }

    #[test]
    fn no_byte_of_the_member_can_change_and_leave_the_line_with_a_value_or_without_any() {
        let (line, _) = sealed(ChainValue::START, "{\"a\":1}");
        let start = line.len() - LENGTH;
        for at in start..line.len() {
            for new in 0..=u8::MAX {
                let mut changed = line.clone();
                changed[at] = new;
                let is_digit = matches!(new, b'0'..=b'9' | b'a'..=b'f');
                let in_digits = (start + MEMBER.len()..line.len() - END.len()).contains(&at);
                match ending(&changed) {
                    Ending::Damaged => assert!(new != line[at]),
                    Ending::Value { .. } => assert!(new == line[at] || in_digits && is_digit),
                    Ending::Bare => panic!("{at}: {}", new.escape_ascii()),
                }
            }
        }
    }

    #[test]
    fn what_older_versions_wrote_has_no_value() {
        for line in [
            "",
            "{}",
            "{\"sample\":{\"attempts\":[]}}",
            &format!("{{\"prompt\":[{{\"sha256\":\"{}\"}}]}}", "ab".repeat(32)),
        ] {
            assert_eq!(ending(line.as_bytes()), Ending::Bare, "{line}");
        }
    }

    #[test]
    fn a_torn_end_is_the_start_of_a_record_and_nothing_else() {
        let (first, value) = sealed(ChainValue::START, "{\"a\":1}");
        let (line, _) = sealed(value, "{\"b\":\"é\"}");
        for end in 0..=line.len() {
            assert!(can_be_torn(&line[..end], Some(value)), "{end}");
        }
        assert!(can_be_torn(&[&line[..5], &[0; 9]].concat(), Some(value)));
        // A line feed that became something else, and a record from elsewhere.
        for byte in [0, b' ', b'\r', b'x', b'\\'] {
            assert!(!can_be_torn(&[&line[..], &[byte]].concat(), Some(value)));
        }
        assert!(!can_be_torn(&first, Some(value)));
        assert!(!can_be_torn(b"hello", None));
        assert!(can_be_torn(b"{\"sample\":{}}", None));
    }

    #[test]
    fn the_root_knows_no_order_and_no_copies() {
        let value = |text: &str| ChainValue::START.then(text.as_bytes());
        let (a, b) = (("cell-a", value("a")), ("cell-b", value("b")));
        assert_eq!(root([a, b]), root([b, a, b]));
        assert_ne!(root([a, b]), root([a]));
        assert_ne!(root([a, b]), root([("cell-b", a.1), ("cell-a", b.1)]));
        // printf '%064d  c\n' 0 | sha256sum
        assert_eq!(
            root([("c", ChainValue::START)]).to_string(),
            "7763bc10096f36b9e4e92c24845ad0c259ea3d519f5612284406b26542beba3d"
        );
        let forged = format!("c\n{}  d", b.1);
        assert_ne!(root([(&*forged, a.1)]), root([("c", a.1), ("d", b.1)]));
    }

    #[test]
    fn a_value_is_written_as_it_is_read() {
        let value = ChainValue::START.then(b"x");
        assert_eq!(value.to_string().parse(), Ok(value));
        assert_eq!(value.to_string().to_uppercase().parse(), Ok(value));
        for wrong in ["", "0", &"0".repeat(63), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(wrong.parse::<ChainValue>(), Err(NoChainValue));
        }
    }
}
