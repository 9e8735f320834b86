//! Errors that a relay says inside JSON, whatever their shape. No protocol here.
//!
//! The word `error` as a key is not enough: `"error": null`, `false`, `""` and `{}` are none.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::pruned;

/// Levels of nesting that are searched for an `error` member.
const DEPTH: usize = 4;

/// The value of an `error` member.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said<'a> {
    /// Code or type.
    pub(super) code: Option<Cow<'a, str>>,
    /// Wording.
    pub(super) message: Option<Cow<'a, str>>,
    /// Whether it is an error at all.
    pub(super) real: bool,
}

struct SaidVisitor;

impl<'de> Visitor<'de> for SaidVisitor {
    type Value = Said<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Said {
            code: None,
            message: Some(Cow::Owned(value.to_owned())),
            real: !value.is_empty(),
        })
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Said {
            real: value,
            ..Said::default()
        })
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(number(i128::from(value)))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(number(i128::from(value)))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Said {
            real: value != 0.0,
            ..Said::default()
        })
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Said::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let first = seq.next_element()?;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first.unwrap_or_default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Ok(object(&pruned::members(map)?).unwrap_or_default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Said<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SaidVisitor)
    }
}

fn number(value: i128) -> Said<'static> {
    Said {
        code: Some(Cow::Owned(value.to_string())),
        message: None,
        real: value != 0,
    }
}

/// An error object's code and wording; an empty object is none.
fn object(members: &serde_json::Map<String, Value>) -> Option<Said<'static>> {
    if members.is_empty() {
        return None;
    }
    let text = |names: &[&str]| {
        names.iter().find_map(|name| match members.get(*name)? {
            Value::String(text) if !text.is_empty() => Some(Cow::Owned(text.clone())),
            Value::Number(number) => Some(Cow::Owned(number.to_string())),
            Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        })
    };
    let code = text(&["code"]);
    let kind = text(&["type", "status", "error_code", "name"]);
    // A word says more than a number, and more than a word that only says "error".
    let code = match (code, kind) {
        (Some(code), Some(kind)) if is_number(&code) && kind != "error" => Some(kind),
        (code, kind) => code.or(kind),
    };
    Some(Said {
        code,
        message: text(&["message", "msg", "error_msg", "detail", "error"]),
        real: true,
    })
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The error that a JSON value is, or holds, where it is not the protocol's own object.
///
/// An `error` member counts at any depth (up to four levels); the looser shapes (`success: false`,
/// a code with a message, a lone `detail`) count at the top only.
pub(super) fn said_in(value: &Value) -> Option<Said<'static>> {
    if let Some(said) = nested(value, DEPTH) {
        return Some(said);
    }
    let members = value.as_object()?;
    let has = |name: &str| {
        members
            .get(name)
            .is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
    };
    let is = |name: &str, text: &str| members.get(name).and_then(Value::as_str) == Some(text);
    let failed = members.get("success") == Some(&Value::Bool(false))
        || is("type", "error")
        || is("object", "error")
        || is("status", "error");
    let worded = has("message") || has("msg") || has("error_msg");
    let coded = has("code") || has("error_code") || has("status_code");
    let answer = has("choices") || has("content") || has("output") || has("candidates");
    let detailed = has("detail") && members.len() <= 2;
    if failed || (!answer && ((worded && coded) || detailed)) {
        return object(members);
    }
    None
}

/// The same of a value that is known to be an error: whatever it holds is read as one.
pub(super) fn said_by(value: &Value) -> Said<'static> {
    said_in(value)
        .or_else(|| object(value.as_object()?))
        .unwrap_or_default()
}

fn nested(value: &Value, depth: usize) -> Option<Said<'static>> {
    if depth == 0 {
        return None;
    }
    match value {
        Value::Object(members) => {
            if let Some(error) = members.get("error").or_else(|| members.get("errors")) {
                let said = Said::deserialize(error).ok().filter(|said| said.real);
                if let Some(mut said) = said {
                    // `{"error": "text", "code": …}`: the code stands beside the member.
                    if said.code.is_none() {
                        said.code = object(members).and_then(|beside| beside.code);
                    }
                    return Some(Said {
                        code: said.code.map(|code| Cow::Owned(code.into_owned())),
                        message: said.message.map(|text| Cow::Owned(text.into_owned())),
                        real: true,
                    });
                }
            }
            members.values().find_map(|value| nested(value, depth - 1))
        }
        Value::Array(items) => items.iter().find_map(|value| nested(value, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_member_counts_at_any_depth_unless_it_is_empty() {
        for value in [
            json!({"error": {"message": "no"}}),
            json!({"error": "no"}),
            json!({"choices": [{"index": 0, "error": {"code": 504}}]}),
            json!({"response": {"error": {"code": "x"}}}),
            json!({"errors": [{"message": "no"}]}),
            json!([{"error": {"code": 503, "status": "UNAVAILABLE"}}]),
            json!({"success": false}),
            json!({"type": "error", "code": "x", "message": "no"}),
            json!({"object": "error", "message": "no", "code": 400}),
            json!({"code": "rate_limited", "message": "busy"}),
            json!({"detail": "Too many requests"}),
        ] {
            assert!(said_in(&value).is_some(), "{value}");
        }
        for value in [
            json!({"error": null}),
            json!({"error": {}}),
            json!({"error": ""}),
            json!({"error": false}),
            json!({"response": "hi"}),
            json!({"choices": [], "message": "hi", "code": 1}),
            json!([]),
            json!("error"),
        ] {
            assert!(said_in(&value).is_none(), "{value}");
        }
    }

    #[test]
    fn a_word_is_preferred_to_a_number_as_the_code() {
        let said = said_in(&json!({"error": {"code": 400, "type": "invalid_request_error"}}));
        assert_eq!(
            said.and_then(|said| said.code).as_deref(),
            Some("invalid_request_error")
        );
    }
}
