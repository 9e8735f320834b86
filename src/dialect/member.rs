//! Members of JSON objects read without copying, and lists that seldom hold more than one item.
//!
//! Building blocks of the dialects; no protocol here.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A string, lent from the input unless it holds escapes.
#[derive(Debug, PartialEq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(value)))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(value.to_owned())))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(TextVisitor)
    }
}

/// A copy of a string that outlives the input.
pub(super) fn owned(text: Option<&Text<'_>>) -> Option<String> {
    text.map(|text| text.0.clone().into_owned())
}

/// The string that such a copy was made of.
pub(super) fn lent(text: Option<&String>) -> Option<Text<'_>> {
    text.map(|text| Text(Cow::Borrowed(text)))
}

/// A string of which only its being there counts.
#[derive(Debug, PartialEq)]
pub(super) struct Present;

struct PresentVisitor;

impl Visitor<'_> for PresentVisitor {
    type Value = Present;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Present)
    }
}

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(PresentVisitor)
    }
}

/// A member outside the protocol's own schema: a string counts, anything else is passed over.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Loose<'a>(pub(super) Option<Cow<'a, str>>);

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Loose(Some(Cow::Borrowed(value))))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Loose(Some(Cow::Owned(value.to_owned()))))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Loose(None))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Loose(None))
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Loose(None))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Loose(None))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Loose(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Loose(None))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(LooseVisitor)
    }
}

/// A list that holds one item as a rule, which then needs no allocation.
///
/// A list of more than `MOST` items is an error. Lists within lists multiply, and an item can be
/// thirty times as large as its text, so the limits of an outer list and its inner ones together
/// bound what an event can take.
#[derive(Debug, PartialEq)]
pub(super) struct Few<T, const MOST: usize = 1024> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T, const MOST: usize> Few<T, MOST> {
    /// A list of one item.
    pub(super) fn one(item: T) -> Self {
        Self {
            first: Some(item),
            rest: Vec::new(),
        }
    }

    /// The item of a list that has no other.
    pub(super) fn only(&self) -> Option<&T> {
        self.first.as_ref().filter(|_| self.rest.is_empty())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

struct FewVisitor<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for FewVisitor<T, MOST> {
    type Value = Few<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let first = seq.next_element()?;
        let mut rest = Vec::new();
        if first.is_some() {
            while let Some(item) = seq.next_element()? {
                if rest.len() + 1 >= MOST {
                    return Err(de::Error::custom("a list of too many items"));
                }
                rest.push(item);
            }
        }
        Ok(Few { first, rest })
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(FewVisitor(PhantomData))
    }
}
