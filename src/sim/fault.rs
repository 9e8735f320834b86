//! The ways in which the embedded relay can misbehave, and their parameters.
//!
//! Pure: says what a fault is. What each does to the wire is in `damage`, which request it hits in
//! `draw`.

use std::time::Duration;

/// Declares the catalogue once: variant, name and defaults, so that no list can miss a row.
macro_rules! faults {
    ($(
        #[doc = $said:literal]
        $variant:ident $({ $( $(#[$about:meta])* $field:ident: $ty:ty = $default:expr, )+ })? = $name:literal,
    )+) => {
        /// One way to misbehave.
        ///
        /// A fault that needs a stream leaves a request with `stream: false` unharmed; which do is
        /// said by [`Fault::needs_stream`].
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Fault {
            $( #[doc = $said] $variant $({ $( $(#[$about])* $field: $ty, )+ })?, )+
        }

        impl Fault {
            /// Every fault with its default parameters.
            pub const ALL: &'static [Self] = &[ $( Self::$variant $({ $($field: $default,)+ })?, )+ ];

            /// The name of every fault, in the order of [`Fault::ALL`].
            pub const NAMES: &'static [&'static str] = &[ $( $name, )+ ];

            /// The name that specs and the command line use.
            pub fn name(&self) -> &'static str {
                match self { $( Self::$variant { .. } => $name, )+ }
            }

            /// What it does, in one line.
            pub fn about(&self) -> &'static str {
                match self { $( Self::$variant { .. } => $said, )+ }.trim()
            }
        }
    };
}

faults! {
    /// The first token comes later; all else is honest.
    SlowFirstToken {
        /// Added to the time of the first token and of all that follows it.
        delay: Duration = Duration::from_secs(2),
    } = "slow_first_token",
    /// The chunked body ends properly, but before the end mark.
    Truncate {
        /// Tokens sent before; half of the answer when absent.
        after_tokens: Option<u32> = None,
    } = "truncate",
    /// The connection is closed (FIN) inside the body.
    TruncateFin {
        /// Tokens sent before; half of the answer when absent.
        after_tokens: Option<u32> = None,
    } = "truncate_fin",
    /// The connection is reset (RST) inside the body.
    TruncateRst {
        /// Tokens sent before; half of the answer when absent.
        after_tokens: Option<u32> = None,
    } = "truncate_rst",
    /// Nothing more comes; the connection stays open until the client leaves.
    Stall {
        /// Tokens sent before; half of the answer when absent.
        after_tokens: Option<u32> = None,
    } = "stall",
    /// An event with an error object, then a proper end of the body without an end mark.
    ErrorInStream {
        /// Tokens sent before; half of the answer when absent.
        after_tokens: Option<u32> = None,
    } = "error_in_stream",
    /// The text of an upstream's error is delivered as the answer, with a legal ending.
    ErrorAsContent = "error_as_content",
    /// Status 200 with a JSON error body.
    Fake200 = "fake_200",
    /// Status 200 and an event stream without a single byte.
    Fake200Empty = "fake_200_empty",
    /// Status 200 and an HTML page.
    Fake200Html = "fake_200_html",
    /// An honest HTTP error.
    Status {
        /// Status code, 400 to 599.
        code: u16 = 503,
        /// Tries of the same body that fail before it succeeds; all fail when absent.
        recover_after: Option<u32> = None,
        /// Value of the `Retry-After` header, in seconds.
        retry_after_s: Option<u32> = None,
    } = "status",
    /// One event's JSON breaks off; the stream goes on after it.
    MalformedJson {
        /// Tokens sent before; half of the answer when absent.
        after_tokens: Option<u32> = None,
    } = "malformed_json",
    /// One event's JSON is spread over two events; the stream goes on after it.
    SplitJson {
        /// Tokens sent before; half of the answer when absent.
        after_tokens: Option<u32> = None,
    } = "split_json",
    /// The whole answer comes in one burst, when its last token would have been due.
    Buffer = "buffer",
    /// The answer names another model than was asked for.
    WrongModel = "wrong_model",
    /// A legal ending, but the last half of the answer and the seal are missing.
    DropSeal = "drop_seal",
    /// The end mark comes in mid-answer, without any finish reason.
    FakeDone {
        /// Tokens sent before; half of the answer when absent.
        after_tokens: Option<u32> = None,
    } = "fake_done",
}

/// Parameters of a fault as a user gives them; what is absent keeps the fault's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// For `slow_first_token`.
    pub delay: Option<Duration>,
    /// For `status`.
    pub code: Option<u16>,
    /// For `status`.
    pub recover_after: Option<u32>,
    /// For every fault that strikes in mid-answer.
    pub after_tokens: Option<u32>,
    /// For `status`.
    pub retry_after_s: Option<u32>,
}

/// A fault and the share of the requests that it hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What happens.
    pub fault: Fault,
    /// Parts per million of all request bodies.
    pub share_ppm: u32,
}

impl Fault {
    /// Builds a fault from its name and parameters.
    ///
    /// # Errors
    /// Says in one line what is wrong: an unknown name, a parameter that this fault does not take,
    /// a status code that is not an error.
    pub fn from_parts(name: &str, params: &Params) -> Result<Self, String> {
        let default = Self::ALL
            .iter()
            .find(|fault| fault.name() == name)
            .ok_or_else(|| {
                format!(
                    "unknown fault `{name}`; known are {}",
                    Self::NAMES.join(", ")
                )
            })?;
        let mut rest = *params;
        let fault = match default.clone() {
            Self::SlowFirstToken { delay } => Self::SlowFirstToken {
                delay: rest.delay.take().unwrap_or(delay),
            },
            Self::Truncate { .. } => Self::Truncate {
                after_tokens: rest.after_tokens.take(),
            },
            Self::TruncateFin { .. } => Self::TruncateFin {
                after_tokens: rest.after_tokens.take(),
            },
            Self::TruncateRst { .. } => Self::TruncateRst {
                after_tokens: rest.after_tokens.take(),
            },
            Self::Stall { .. } => Self::Stall {
                after_tokens: rest.after_tokens.take(),
            },
            Self::ErrorInStream { .. } => Self::ErrorInStream {
                after_tokens: rest.after_tokens.take(),
            },
            Self::Status { code, .. } => Self::Status {
                code: rest.code.take().unwrap_or(code),
                recover_after: rest.recover_after.take(),
                retry_after_s: rest.retry_after_s.take(),
            },
            Self::MalformedJson { .. } => Self::MalformedJson {
                after_tokens: rest.after_tokens.take(),
            },
            Self::SplitJson { .. } => Self::SplitJson {
                after_tokens: rest.after_tokens.take(),
            },
            Self::FakeDone { .. } => Self::FakeDone {
                after_tokens: rest.after_tokens.take(),
            },
            bare @ (Self::ErrorAsContent
            | Self::Fake200
            | Self::Fake200Empty
            | Self::Fake200Html
            | Self::Buffer
            | Self::WrongModel
            | Self::DropSeal) => bare,
        };
        if let Some(stray) = rest.first() {
            return Err(format!("fault `{name}` takes no `{stray}`"));
        }
        if let Self::Status { code, .. } = fault
            && !(400..=599).contains(&code)
        {
            return Err(format!(
                "fault `status` needs a `code` from 400 to 599, not {code}"
            ));
        }
        Ok(fault)
    }

    /// Whether it can only be done to a stream; `stream: false` then gets the honest answer.
    pub fn needs_stream(&self) -> bool {
        match self {
            Self::ErrorInStream { .. }
            | Self::SplitJson { .. }
            | Self::Buffer
            | Self::FakeDone { .. } => true,
            Self::SlowFirstToken { .. }
            | Self::Truncate { .. }
            | Self::TruncateFin { .. }
            | Self::TruncateRst { .. }
            | Self::Stall { .. }
            | Self::ErrorAsContent
            | Self::Fake200
            | Self::Fake200Empty
            | Self::Fake200Html
            | Self::Status { .. }
            | Self::MalformedJson { .. }
            | Self::WrongModel
            | Self::DropSeal => false,
        }
    }
}

impl Params {
    /// Name of the first parameter that is given.
    fn first(&self) -> Option<&'static str> {
        [
            (self.delay.is_some(), "delay"),
            (self.code.is_some(), "code"),
            (self.recover_after.is_some(), "recover_after"),
            (self.after_tokens.is_some(), "after_tokens"),
            (self.retry_after_s.is_some(), "retry_after_s"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gives_its_fault_with_defaults() {
        for (name, fault) in Fault::NAMES.iter().zip(Fault::ALL) {
            assert_eq!(
                Fault::from_parts(name, &Params::default()).as_ref(),
                Ok(fault)
            );
        }
    }

    #[test]
    fn a_parameter_of_another_fault_is_refused_by_name() {
        let params = Params {
            delay: Some(Duration::from_secs(1)),
            ..Params::default()
        };
        let error = Fault::from_parts("truncate", &params).unwrap_err();
        assert_eq!(error, "fault `truncate` takes no `delay`");
        assert!(Fault::from_parts("slow_first_token", &params).is_ok());
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = Fault::from_parts("trunkate", &Params::default()).unwrap_err();
        assert!(error.contains("`trunkate`") && error.contains("truncate_rst"));
    }

    #[test]
    fn a_success_code_is_no_status_fault() {
        for code in [200, 399, 600] {
            let params = Params {
                code: Some(code),
                ..Params::default()
            };
            assert!(Fault::from_parts("status", &params).is_err());
        }
    }
}
