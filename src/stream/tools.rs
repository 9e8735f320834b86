//! Tool calls put together from their pieces. Arguments are held while a stream runs, never kept.

use serde::de::IgnoredAny;

/// Most calls that are followed.
const MAX_CALLS: usize = 128;

/// Most bytes of arguments that are held, all calls together.
const MAX_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Call {
    choice: u64,
    index: u64,
    id: Option<String>,
    named: bool,
    arguments: String,
}

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Tools {
    calls: Vec<Call>,
    bytes: usize,
    /// Calls or arguments beyond the limits, which are not checked.
    pub(super) overflowed: bool,
}

impl Tools {
    /// Takes one piece; an error says how the calls are mixed up.
    pub(super) fn take(
        &mut self,
        choice: u64,
        index: Option<u64>,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
    ) -> Result<(), &'static str> {
        let place = index.unwrap_or(0);
        let found = self
            .calls
            .iter()
            .position(|call| call.choice == choice && call.index == place);
        let at = match found {
            Some(at) => at,
            None if self.calls.len() == MAX_CALLS => {
                self.overflowed = true;
                return Ok(());
            }
            None => {
                self.calls.push(Call {
                    choice,
                    index: place,
                    id: None,
                    named: false,
                    arguments: String::new(),
                });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        let other = match (&call.id, id) {
            (Some(before), Some(now)) => before != now,
            _ => false,
        };
        let second = other && name.is_some();
        call.named |= name.is_some();
        if let Some(id) = id.filter(|_| call.id.is_none()) {
            call.id = Some(super::clean::short(id));
        }
        if self.bytes + arguments.len() > MAX_BYTES {
            self.overflowed = true;
        } else {
            self.bytes += arguments.len();
            call.arguments.push_str(arguments);
        }
        if index.is_none() {
            return Err("a piece without the index of its call");
        }
        if second {
            return Err("two calls under one index");
        }
        Ok(())
    }

    /// Calls begun.
    pub(super) fn count(&self) -> u64 {
        self.calls.len() as u64
    }

    /// What is wrong with the whole calls.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.overflowed {
            return None;
        }
        self.calls.iter().find_map(|call| {
            if !call.named {
                return Some("a call without a name");
            }
            // A call without arguments is sent as nothing at all by some servers.
            let json = call.arguments.is_empty()
                || serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok();
            (!json).then_some("the joined arguments are no JSON")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_json_only_as_a_whole() {
        let mut tools = Tools::default();
        assert_eq!(tools.take(0, Some(0), Some("a"), Some("f"), ""), Ok(()));
        assert_eq!(tools.take(0, Some(0), None, None, "{\"x\""), Ok(()));
        assert_eq!(tools.fault(), Some("the joined arguments are no JSON"));
        assert_eq!(tools.take(0, Some(0), None, None, ":1}"), Ok(()));
        assert_eq!(tools.fault(), None);
        assert_eq!(tools.count(), 1);
    }

    #[test]
    fn an_id_repeated_on_every_piece_is_no_second_call() {
        let mut tools = Tools::default();
        assert_eq!(tools.take(0, Some(0), Some("a"), Some("f"), "{"), Ok(()));
        assert_eq!(tools.take(0, Some(0), Some("a"), Some("f"), "}"), Ok(()));
        assert_eq!(tools.fault(), None);
    }

    #[test]
    fn calls_under_one_index_or_none_are_mixed_up() {
        let mut tools = Tools::default();
        assert!(tools.take(0, None, Some("a"), Some("f"), "{}").is_err());
        assert!(tools.take(0, Some(0), Some("b"), Some("g"), "").is_err());
        assert!(tools.take(0, Some(1), None, None, "{}").is_ok());
        assert_eq!(tools.fault(), Some("a call without a name"));
    }
}
