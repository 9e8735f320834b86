//! Takes our own secrets out of what a relay sent back.
//!
//! A relay may echo the key in a header, a model name or an error code, and all of those are
//! evidence. What a relay does with a key beyond repeating it cannot be seen here.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::dialect::Message;
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

    /// Takes out the proxy's password as well: as the URL has it, as it is, and as it is sent.
    pub(super) fn with_proxy(&self, proxy: &Url) -> Self {
        let password = proxy.password().unwrap_or_default();
        let plain = decoded(password);
        let sent = [decoded(proxy.username()), plain.clone()].join(&b':');
        let forms = [
            password.to_owned(),
            String::from_utf8_lossy(&plain).into_owned(),
            base64(&sent),
        ];
        let forms = forms.into_iter().map(SecretString::from);
        let known = self.0.iter().cloned();
        Self::of(known.chain(forms.filter(|_| !password.is_empty())))
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
        let headers = seen
            .headers
            .iter_mut()
            .flat_map(|(name, value)| [name, value]);
        let details = seen.findings.iter_mut().map(|finding| &mut finding.detail);
        for text in named.into_iter().flatten().chain(headers).chain(details) {
            self.clean_text(text);
        }
    }

    /// Takes the secrets out of a prompt.
    pub(super) fn messages(&self, mut messages: Vec<Message>) -> Vec<Message> {
        for message in &mut messages {
            self.clean_text(&mut message.content);
        }
        messages
    }

    fn clean_text(&self, text: &mut String) {
        for secret in &self.0 {
            let secret = secret.expose_secret();
            let mut from = 0;
            while let Some(at) = find(&text[from..], secret) {
                let at = from + at;
                text.replace_range(at..at + secret.len(), MARK);
                from = at + MARK.len();
            }
            // A text that was cut to its bound may end inside the secret.
            let cut = (SHORTEST..secret.len())
                .rev()
                .filter(|&length| secret.is_char_boundary(length))
                .find(|&length| ends_with(text, &secret[..length]));
            if let Some(length) = cut {
                text.truncate(text.len() - length);
                text.push_str(MARK);
            }
        }
    }
}

/// Where a secret stands in a text, in whatever case: header names and error codes are kept in lower
/// case.
fn find(text: &str, secret: &str) -> Option<usize> {
    text.as_bytes()
        .windows(secret.len())
        .position(|part| part.eq_ignore_ascii_case(secret.as_bytes()))
}

/// Whether a text ends with the beginning of a secret, in whatever case.
fn ends_with(text: &str, start: &str) -> bool {
    let from = text.len().checked_sub(start.len());
    from.and_then(|from| text.as_bytes().get(from..))
        .is_some_and(|end| end.eq_ignore_ascii_case(start.as_bytes()))
}

/// Bytes behind the percent signs of a URL's part.
fn decoded(part: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let code = match (first, behind) {
            (b'%', [high, low, ..]) => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    bytes
}

/// Base64 without its padding, so that it is found whether or not that is there.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 1);
    for group in bytes.chunks(3) {
        let byte = |at: usize| group.get(at).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..=group.len() {
            let index = bits >> (18 - 6 * digit) & 63;
            text.push(char::from(DIGITS[index as usize]));
        }
    }
    text
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
    fn a_key_in_another_case_and_in_a_headers_name_is_taken_out_too() {
        let key = "sk-CANARY-0123456789";
        let mut seen = observation();
        seen.error_code = Some(key.to_ascii_lowercase());
        seen.headers = vec![(
            format!("x-ratelimit-{}", key.to_ascii_lowercase()),
            String::new(),
        )];
        Scrub::of([key.into()]).clean(&mut seen);
        assert_eq!(seen.error_code.as_deref(), Some(MARK));
        assert_eq!(seen.headers[0].0, "x-ratelimit-[redacted]");

        let mut text = "redacted and Redacted".to_owned();
        Scrub::of(["redacted".into()]).clean_text(&mut text);
        assert_eq!(text, "[redacted] and [redacted]");
    }

    #[test]
    fn a_key_that_was_cut_at_a_bound_is_taken_out_too() {
        let mut text = format!("id {}", &KEY[..KEY.len() - 1]);
        scrub().clean_text(&mut text);
        assert_eq!(text, "id [redacted]");
    }

    #[test]
    fn a_proxys_password_is_taken_out_in_each_of_its_forms() {
        let proxy = Url::parse("http://user:pass%2Fword@proxy.example:3128").unwrap();
        let scrub = scrub().with_proxy(&proxy);
        for form in ["pass%2Fword", "pass/word", "dXNlcjpwYXNzL3dvcmQ=", KEY] {
            let mut text = format!("<{form}>");
            scrub.clean_text(&mut text);
            assert!(text.starts_with("<[redacted]"), "{text}");
        }
        let open = Url::parse("http://user@proxy.example:3128").unwrap();
        assert_eq!(
            format!("{:?}", Scrub::default().with_proxy(&open)),
            "Scrub(0)"
        );
    }

    #[test]
    fn base64_and_percent_signs_are_read_as_everyone_does() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("\u{fb}\u{ff}", "w7vDvw"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        for (part, bytes) in [
            ("a%20b", "a b"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz%41", "%zzA"),
        ] {
            assert_eq!(decoded(part), bytes.as_bytes(), "{part}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", scrub()), "Scrub(1)");
    }
}
