//! The forms that values have on record: closed sets by name, times in whole microseconds.
//!
//! In serialised form a duration is a whole number of microseconds in a field that ends in `_us`;
//! [`at_us`] rounds every offset on its way in, so a value read back from evidence equals the value
//! the run decided on.

use std::time::Duration;

/// Rounds an offset down to whole microseconds, the resolution of evidence and traces.
pub fn at_us(at: Duration) -> Duration {
    Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or(u64::MAX))
}

/// Whether a character could steer a terminal or turn the text beside it around: control
/// characters, and the marks of the bidirectional algorithm.
pub fn steers(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Serde form of `Duration`: whole microseconds.
pub mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes whole microseconds.
    pub fn serialize<S: Serializer>(at: &Duration, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_u64(u64::try_from(at.as_micros()).unwrap_or(u64::MAX))
    }

    /// Reads whole microseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}

/// Serde form of `Option<Duration>`: whole microseconds or absent.
pub mod opt_micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes whole microseconds, or null.
    // serde's `with` contract fixes the argument type.
    pub fn serialize<S: Serializer>(at: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => super::micros::serialize(at, out),
            None => out.serialize_none(),
        }
    }

    /// Reads whole microseconds, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_micros))
    }
}

/// Declares a closed set with one stable name per variant: `ALL`, `as_str`, `Display`, serde.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every variant, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name used in evidence, reports and traces.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(crate) use named;
