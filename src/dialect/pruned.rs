//! A JSON text as a small tree: strict about all of it, kept only near the top. No protocol here.
//!
//! A tree of the whole would be many times the size of a hostile text (`[{"":0},{"":0},…` becomes
//! eighty times as large), and its depth would be the relay's to choose. What is looked for (errors,
//! names of members) stands near the top, so the rest is checked and passed over.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::Unreadable;

/// Levels that are kept.
const DEPTH: usize = 8;

/// Memory that a tree may take, roughly, in bytes.
const ROOM: usize = 1 << 20;

/// Longest string that is kept, in bytes; the rest of a longer one is cut off.
const MAX_STRING: usize = 4096;

/// What a value takes beside its text, and a container beside its values.
const VALUE: usize = 64;
const CONTAINER: usize = 512;

/// The top of a JSON text; values that are not kept are null in it, or missing.
pub(super) fn value(json: &str) -> Result<Value, Unreadable> {
    let room = Cell::new(ROOM);
    let mut text = serde_json::Deserializer::from_str(json);
    let kept = Kept::new(&room, DEPTH).deserialize(&mut text);
    match kept.and_then(|value| text.end().map(|()| value)) {
        Ok(value) => Ok(value),
        // Its grammar knows no range, so that the text is JSON all the same.
        Err(error)
            if error.to_string().starts_with("number out of range")
                && serde_json::from_str::<IgnoredAny>(json).is_ok() =>
        {
            Err(Unreadable::Shape("a number out of range"))
        }
        Err(_) => Err(Unreadable::NotJson),
    }
}

/// The members of an object whose own members are of no interest.
pub(super) fn members<'de, A: MapAccess<'de>>(map: A) -> Result<Map<String, Value>, A::Error> {
    let room = Cell::new(ROOM);
    Kept::new(&room, 1).members(map)
}

/// Reads one value, as far as there is room.
#[derive(Clone, Copy)]
struct Kept<'r> {
    room: &'r Cell<usize>,
    depth: usize,
}

impl<'r> Kept<'r> {
    fn new(room: &'r Cell<usize>, depth: usize) -> Self {
        Self { room, depth }
    }

    fn deeper(self) -> Self {
        Self {
            depth: self.depth.saturating_sub(1),
            ..self
        }
    }

    /// Takes room; false when there is none left.
    fn take(self, bytes: usize) -> bool {
        let left = self.room.get().checked_sub(bytes);
        self.room.set(left.unwrap_or(0));
        left.is_some()
    }

    fn members<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<Map<String, Value>, A::Error> {
        let mut members = Map::new();
        while self.room.get() > 0 {
            let Some(name) = map.next_key::<String>()? else {
                return Ok(members);
            };
            let fits = self.take(VALUE + name.len());
            let value = map.next_value_seed(self.deeper())?;
            if fits {
                members.insert(name, value);
            }
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(members)
    }
}

impl<'de> DeserializeSeed<'de> for Kept<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Kept<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        let mut end = value.len().min(MAX_STRING);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        let text = value.get(..end).unwrap_or_default();
        Ok(if self.take(text.len()) {
            Value::String(text.to_owned())
        } else {
            Value::Null
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        if self.depth > 0 && self.take(CONTAINER) {
            while self.room.get() > 0 {
                let Some(item) = seq.next_element_seed(self.deeper())? else {
                    return Ok(Value::Array(items));
                };
                if self.take(VALUE) {
                    items.push(item);
                }
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        if self.depth > 0 && self.take(CONTAINER) {
            return self.members(map).map(Value::Object);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Object(Map::new()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A rough count of what a tree takes.
    fn size(value: &Value) -> usize {
        VALUE
            + match value {
                Value::Null | Value::Bool(_) | Value::Number(_) => 0,
                Value::String(text) => text.len(),
                Value::Array(items) => CONTAINER + items.iter().map(size).sum::<usize>(),
                Value::Object(members) => {
                    let sizes = members.iter().map(|(name, value)| name.len() + size(value));
                    CONTAINER + sizes.sum::<usize>()
                }
            }
    }

    #[test]
    fn an_ordinary_text_is_kept_whole() {
        for kept in [
            json!({"error": {"code": 1, "message": "m", "more": [true, null, -1, 1.5]}}),
            json!([[], {}, ""]),
            json!("text"),
        ] {
            assert_eq!(value(&kept.to_string()), Ok(kept));
        }
    }

    #[test]
    fn a_large_text_is_read_to_its_end_and_kept_in_little_room() {
        for (open, part, close) in [
            ("[", "0,", "0]"),
            ("[", "{\"\":0},", "0]"),
            ("[", "\"xxxxxxxxxxxxxxxxxxxxxxxx\",", "0]"),
        ] {
            let text = format!("{open}{}{close}", part.repeat((1 << 20) / part.len()));
            let kept = value(&text).unwrap();
            assert!(size(&kept) <= 2 * ROOM, "{part}: {}", size(&kept));
            assert_eq!(value(&text[..text.len() - 1]), Err(Unreadable::NotJson));
            assert_eq!(value(&format!("{text}x")), Err(Unreadable::NotJson));
        }
        let members: Vec<_> = (0..100_000).map(|at| format!("\"m{at}\":0")).collect();
        let kept = value(&format!("{{{}}}", members.join(","))).unwrap();
        assert!(size(&kept) <= 2 * ROOM);
        let long = value(&format!("\"{}\"", "ü".repeat(100_000))).unwrap();
        assert_eq!(long.as_str().map(str::len), Some(MAX_STRING));
    }

    #[test]
    fn depth_is_no_fault_and_takes_no_stack() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = format!("{}1{}", open.repeat(200_000), close.repeat(200_000));
            assert!(value(&text).is_ok());
            assert_eq!(value(&text[..text.len() - 1]), Err(Unreadable::NotJson));
        }
    }

    #[test]
    fn a_number_that_nothing_can_hold_is_json_all_the_same() {
        let out_of_range = Err(Unreadable::Shape("a number out of range"));
        assert_eq!(value("{\"created\":1e999}"), out_of_range);
        assert_eq!(value("{\"created\":1e999"), Err(Unreadable::NotJson));
        assert!(value(&format!("[{}]", "9".repeat(100))).is_ok());
    }
}
