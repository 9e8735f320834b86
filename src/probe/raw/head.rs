//! Finds and reads a response head in a growing buffer: sans-IO, bounded, no copies.

use std::ops::Range;

use crate::stream::{FramingFault, Head};

/// Most bytes of one head.
pub(super) const MAX_HEAD: usize = 64 * 1024;

/// Most fields of one head.
const MAX_FIELDS: usize = 100;

/// Most interim (1xx) heads before the final one.
pub(super) const MAX_INTERIM: u32 = 8;

/// A head that was read; its texts stay in the buffer.
#[derive(Debug)]
pub(super) struct Parsed {
    /// Status code.
    pub(super) status: u16,
    /// `1.0` or `1.1`.
    pub(super) version: &'static str,
    /// Bytes of the buffer that the head takes up.
    pub(super) length: usize,
    fields: Vec<(Range<usize>, Range<usize>)>,
}

impl Parsed {
    /// The head as the exchange takes it; `buffer` is the one that was parsed.
    pub(super) fn view<'a>(&self, buffer: &'a [u8]) -> Head<'a> {
        Head {
            status: self.status,
            version: self.version,
            headers: self.pairs(buffer).collect(),
        }
    }

    /// All values of a field, in order; `name` in lower case.
    pub(super) fn values<'a>(
        &self,
        buffer: &'a [u8],
        name: &str,
    ) -> impl Iterator<Item = &'a [u8]> {
        self.pairs(buffer)
            .filter(move |(field, _)| *field == name)
            .map(|(_, value)| value)
    }

    fn pairs<'a>(&self, buffer: &'a [u8]) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.fields.iter().filter_map(move |(name, value)| {
            let name = std::str::from_utf8(buffer.get(name.clone())?).ok()?;
            Some((name, buffer.get(value.clone())?))
        })
    }

    /// Whether another head follows this one.
    ///
    /// 101 is final: nobody asked to switch protocols, so no HTTP can follow it.
    pub(super) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }
}

/// Says when a growing buffer is worth parsing, so that a head sent byte by byte costs linear time.
#[derive(Debug, Default)]
pub(super) struct Scan {
    looked: usize,
    try_at: usize,
}

impl Scan {
    /// Reads the head if it is complete; `None` when it needs more bytes.
    ///
    /// Field names in `buffer` are changed to lower case.
    pub(super) fn parse(&mut self, buffer: &mut [u8]) -> Result<Option<Parsed>, FramingFault> {
        let from = self.looked.saturating_sub(3);
        let ended = buffer.get(from..).is_some_and(holds_empty_line);
        self.looked = buffer.len();
        // Bytes that are no HTTP never bring an empty line: look at them now and then all the same.
        if !ended && buffer.len() < self.try_at {
            return Ok(None);
        }
        self.try_at = buffer.len().saturating_mul(2);
        match parse(buffer)? {
            Some(parsed) if parsed.length > MAX_HEAD => Err(FramingFault::HeadTooLarge),
            None if buffer.len() >= MAX_HEAD => Err(FramingFault::HeadTooLarge),
            parsed => Ok(parsed),
        }
    }
}

fn holds_empty_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

fn parse(buffer: &mut [u8]) -> Result<Option<Parsed>, FramingFault> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(buffer) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(FramingFault::HeadTooLarge),
        Err(
            httparse::Error::HeaderName
            | httparse::Error::HeaderValue
            | httparse::Error::NewLine
            | httparse::Error::Status
            | httparse::Error::Token
            | httparse::Error::Version,
        ) => return Err(FramingFault::BadHead),
    };
    let (Some(status @ 100..), Some(minor)) = (response.code, response.version) else {
        return Err(FramingFault::BadHead);
    };
    let start = buffer.as_ptr() as usize;
    let span = |part: &[u8]| {
        let from = (part.as_ptr() as usize).saturating_sub(start);
        from..from + part.len()
    };
    let parsed = Parsed {
        status,
        version: if minor == 0 { "1.0" } else { "1.1" },
        length,
        fields: response
            .headers
            .iter()
            .map(|field| (span(field.name.as_bytes()), span(field.value)))
            .collect(),
    };
    for (name, _) in &parsed.fields {
        if let Some(name) = buffer.get_mut(name.clone()) {
            name.make_ascii_lowercase();
        }
    }
    Ok(Some(parsed))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Option<(u16, &'static str, usize, usize)>, FramingFault> {
        let mut buffer = text.as_bytes().to_vec();
        Scan::default().parse(&mut buffer).map(|parsed| {
            parsed.map(|head| (head.status, head.version, head.length, head.fields.len()))
        })
    }

    #[test]
    fn names_come_in_lower_case_and_values_as_they_are() {
        let mut buffer =
            b"HTTP/1.1 200 OK\r\nX-Request-ID: AbC \r\nvia: a\r\nVia: b\r\n\r\nrest".to_vec();
        let head = Scan::default().parse(&mut buffer).unwrap().unwrap();
        assert_eq!(&buffer[head.length..], b"rest");
        let view = head.view(&buffer);
        assert_eq!((view.status, view.version), (200, "1.1"));
        assert_eq!(view.headers[0], ("x-request-id", &b"AbC"[..]));
        assert_eq!(
            head.values(&buffer, "via").collect::<Vec<_>>(),
            [&b"a"[..], b"b"]
        );
    }

    #[test]
    fn a_head_without_fields_is_complete() {
        assert_eq!(read("HTTP/1.0 503 \r\n\r\n"), Ok(Some((503, "1.0", 17, 0))));
        assert_eq!(read("HTTP/1.1 200\n\n"), Ok(Some((200, "1.1", 14, 0))));
    }

    #[test]
    fn bytes_that_are_no_http_are_a_bad_head_without_waiting_for_an_empty_line() {
        assert_eq!(read("SSH-2.0-OpenSSH_9.6\r\n"), Err(FramingFault::BadHead));
        assert_eq!(read("HTTP/2.0 200 OK\r\n"), Err(FramingFault::BadHead));
        assert_eq!(read("HTTP/1.1 099 OK\r\n\r\n"), Err(FramingFault::BadHead));
        assert_eq!(
            read("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"),
            Err(FramingFault::BadHead)
        );
    }

    #[test]
    fn size_and_count_of_the_fields_are_bounded() {
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(101));
        assert_eq!(read(&many), Err(FramingFault::HeadTooLarge));
        let most = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(100));
        assert!(matches!(read(&most), Ok(Some((200, "1.1", _, 100)))));
        let long = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "x".repeat(MAX_HEAD));
        assert_eq!(read(&long), Err(FramingFault::HeadTooLarge));
        let endless = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(MAX_HEAD));
        assert_eq!(read(&endless), Err(FramingFault::HeadTooLarge));
    }

    #[test]
    fn a_head_is_found_however_it_is_split() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nbody";
        let head_length = text.len() - 4;
        let mut scan = Scan::default();
        for end in 1..=text.len() {
            let mut buffer = text[..end].to_vec();
            let found = scan.parse(&mut buffer).unwrap();
            assert_eq!(found.is_some(), end == head_length, "{end}");
            if found.is_some() {
                break;
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(tail in proptest::collection::vec(any::<u8>(), 0..300), prefix in 0usize..40) {
            let mut buffer = b"HTTP/1.1 200 OK\r\nserver: relay\r\n\r\n"[..prefix.min(33)].to_vec();
            buffer.extend_from_slice(&tail);
            let mut scan = Scan::default();
            for end in 1..=buffer.len() {
                let mut so_far = buffer[..end].to_vec();
                match scan.parse(&mut so_far) {
                    Ok(None) => {}
                    Ok(Some(head)) => {
                        prop_assert!(head.length <= end);
                        head.view(&so_far);
                        break;
                    }
                    Err(_) => break,
                }
            }
        }
    }
}
