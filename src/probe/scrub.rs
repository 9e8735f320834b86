//! Takes our own secrets out of what a relay sent back.
//!
//! A relay may echo the key in a header, a model name or an error code, and all of those are
//! evidence. What a relay does with a key beyond repeating it cannot be seen here.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use crate::observation::Observation;

/// Stands where a secret was.
const MARK: &str = "[redacted]";

/// Values shorter than this are words that occur by chance, and no secrets.
const SHORTEST: usize = 8;

/// The secrets of one relay's requests.
#[derive(Clone, Default)]
pub struct Scrub(Vec<SecretString>);

impl fmt::Debug for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrub({})", self.0.len())
    }
}

impl Scrub {
    /// Takes out each of these values.
    pub fn of(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let long = |secret: &SecretString| secret.expose_secret().len() >= SHORTEST;
        Self(secrets.into_iter().filter(long).collect())
    }

    /// Takes the secrets out of everything that came from the relay.
    pub fn clean(&self, seen: &mut Observation) {
        let named = [
            &mut seen.error_code,
            &mut seen.model,
            &mut seen.response_id,
            &mut seen.fingerprint,
            &mut seen.finish_reason,
            &mut seen.text,
        ];
        let headers = seen.headers.iter_mut().map(|(_, value)| value);
        let details = seen.findings.iter_mut().map(|finding| &mut finding.detail);
        for text in named.into_iter().flatten().chain(headers).chain(details) {
            self.clean_text(text);
        }
    }

    fn clean_text(&self, text: &mut String) {
        for secret in &self.0 {
            let secret = secret.expose_secret();
            if text.contains(secret) {
                *text = text.replace(secret, MARK);
            }
            // A text that was cut to its bound may end inside the secret.
            let cut = (SHORTEST..secret.len())
                .rev()
                .filter(|&length| secret.is_char_boundary(length))
                .find(|&length| text.ends_with(&secret[..length]));
            if let Some(length) = cut {
                text.truncate(text.len() - length);
                text.push_str(MARK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::observation;

    const KEY: &str = "sk-canary-0123456789";

    fn scrub() -> Scrub {
        Scrub::of([KEY.into(), "qa".into()])
    }

    #[test]
    fn an_echoed_key_is_taken_out_wherever_it_stands() {
        let mut seen = observation();
        seen.model = Some(format!("m-{KEY}-{KEY}"));
        seen.error_code = Some(KEY.to_owned());
        seen.headers = vec![("x-request-id".to_owned(), format!("a{KEY}b"))];
        seen.text = Some(format!("your key is {KEY}, qa"));
        scrub().clean(&mut seen);
        assert!(!format!("{seen:?}").contains(KEY), "{seen:?}");
        assert_eq!(seen.headers[0].1, "a[redacted]b");
        assert_eq!(seen.text.as_deref(), Some("your key is [redacted], qa"));
    }

    #[test]
    fn a_key_that_was_cut_at_a_bound_is_taken_out_too() {
        let mut text = format!("id {}", &KEY[..KEY.len() - 1]);
        scrub().clean_text(&mut text);
        assert_eq!(text, "id [redacted]");
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", scrub()), "Scrub(1)");
    }
}
