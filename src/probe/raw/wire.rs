//! Writes a request as HTTP/1.1 bytes: pure.

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use url::{Position, Url};

use crate::probe::dial::Request;

/// Head and body in one buffer, so that a small request leaves in one packet.
pub(super) fn encode(request: &Request) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024 + request.body.len());
    out.extend_from_slice(b"POST ");
    out.extend_from_slice(target(&request.url).as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    match request.headers.get(HOST) {
        Some(host) => out.extend_from_slice(host.as_bytes()),
        None => out.extend_from_slice(authority(&request.url).as_bytes()),
    }
    out.extend_from_slice(b"\r\n");
    fields(&request.headers, &mut out);
    // Decoding would move the boundaries of what arrives together.
    out.extend_from_slice(b"accept-encoding: identity\r\n");
    out.extend_from_slice(format!("content-length: {}\r\n\r\n", request.body.len()).as_bytes());
    out.extend_from_slice(&request.body);
    out
}

fn fields(headers: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in headers {
        // Ours to say: they describe this connection and this framing.
        if [
            HOST,
            ACCEPT_ENCODING,
            CONNECTION,
            CONTENT_LENGTH,
            TRANSFER_ENCODING,
        ]
        .contains(name)
        {
            continue;
        }
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Path and query.
fn target(url: &Url) -> &str {
    let target = &url[Position::BeforePath..Position::AfterQuery];
    if target.is_empty() { "/" } else { target }
}

/// Host, and the port where it is not the scheme's own.
fn authority(url: &Url) -> &str {
    &url[Position::BeforeHost..Position::AfterPort]
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderValue;

    use super::*;

    fn encoded(url: &str, headers: &[(&'static str, &'static str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let request = Request {
            url: Url::parse(url).unwrap(),
            headers: map,
            body: Bytes::from_static(b"{}"),
        };
        String::from_utf8(encode(&request)).unwrap()
    }

    #[test]
    fn a_request_is_written_whole() {
        assert_eq!(
            encoded(
                "http://[::1]:8080/v1/chat?a=b",
                &[("accept", "text/event-stream")]
            ),
            "POST /v1/chat?a=b HTTP/1.1\r\nhost: [::1]:8080\r\naccept: text/event-stream\r\n\
             accept-encoding: identity\r\ncontent-length: 2\r\n\r\n{}"
        );
    }

    #[test]
    fn the_default_port_is_left_out_and_a_given_host_wins() {
        assert!(encoded("https://relay.example:443/", &[]).contains("\r\nhost: relay.example\r\n"));
        let given = encoded("https://relay.example/", &[("host", "front.example")]);
        assert!(given.contains("\r\nhost: front.example\r\n"));
        assert_eq!(given.matches("host:").count(), 1);
    }

    #[test]
    fn framing_and_coding_are_not_the_callers_to_set() {
        let text = encoded(
            "http://relay.example/",
            &[
                ("content-length", "99"),
                ("accept-encoding", "gzip"),
                ("transfer-encoding", "chunked"),
                ("connection", "close"),
            ],
        );
        assert!(!text.contains("99") && !text.contains("gzip") && !text.contains("chunked"));
        assert!(!text.contains("close"));
    }
}
