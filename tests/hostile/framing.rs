//! What each transport can see of HTTP framing: the table of docs/streams.md, line by line.

use std::io::Write;

use relayproof::plan::TransportKind;

use crate::relay::{Ask, BOTH, request, serve};

fn chunk(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n", body.len())
}

fn events() -> [String; 3] {
    let event = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\
             \"model\":\"test-model\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
             \"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    [
        event("{\"content\":\"Hello\"}", "null"),
        event("{}", "\"stop\""),
        "data: [DONE]\n\n".to_owned(),
    ]
}

/// What an attempt at these bytes comes to: outcome, warnings, and the detail of the first finding.
fn seen(kind: TransportKind, wire: &str) -> String {
    let wire = wire.to_owned();
    let relay = serve(move |tcp| {
        request(tcp)?;
        tcp.write_all(wire.as_bytes())
    });
    let (seen, _) = Ask::default().at(kind, relay);
    let warnings = seen.warnings.iter().map(|warning| warning.as_str());
    let detail = seen.findings.first().map(|found| found.detail.as_str());
    let parts: Vec<_> = std::iter::once(seen.outcome())
        .chain(detail)
        .chain(warnings)
        .collect();
    parts.join("; ")
}

#[test]
fn each_fault_of_framing_is_seen_as_the_table_says() {
    let [first, finish, done] = events();
    let whole = format!("{first}{finish}{done}");
    let length = whole.len();
    let head = |fields: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{fields}\r\n")
    };
    let chunked = head("transfer-encoding: chunked\r\n");
    let body = chunk(&whole);
    let rows: Vec<(&str, String, &str, &str)> = vec![
        (
            "an honest answer",
            format!("{chunked}{body}0\r\n\r\n"),
            "ok",
            "ok",
        ),
        (
            "a size that is no number",
            format!("{chunked}{}zz\r\n", chunk(&first)),
            "protocol-violation; a chunk size is no hexadecimal number",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "a chunk not closed by CRLF",
            format!("{chunked}{:x}\r\n{first}XX", first.len()),
            "protocol-violation; a chunk is not closed by CRLF",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "a size of 17 digits",
            format!("{chunked}{}10000000000000000\r\n", chunk(&first)),
            "protocol-violation; a chunk size is no hexadecimal number",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "bare LF in the framing",
            format!("{chunked}{:x}\n{whole}\n0\n\n", length),
            "protocol-violation; a chunk size is no hexadecimal number",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "no last chunk",
            format!("{chunked}{body}"),
            "ok; missing-last-chunk",
            "ok; missing-last-chunk",
        ),
        (
            "cut inside a chunk",
            format!("{chunked}ffff\r\n{first}"),
            "truncated-no-terminator; closed inside the body, before the end mark",
            "truncated-no-terminator; closed inside the body, before the end mark",
        ),
        (
            "bytes after the last chunk",
            format!("{chunked}{body}0\r\n\r\nmore"),
            "protocol-violation; bytes after the body's end",
            "ok",
        ),
        (
            "both framings",
            format!(
                "{}{body}0\r\n\r\n",
                head("content-length: 5\r\ntransfer-encoding: chunked\r\n")
            ),
            "protocol-violation; both Content-Length and Transfer-Encoding",
            "protocol-violation; both Content-Length and Transfer-Encoding",
        ),
        (
            "Content-Length too short",
            format!(
                "{}{whole}",
                head(&format!("content-length: {}\r\n", first.len() + 10))
            ),
            "protocol-violation; bytes after the body's end; unfinished-last-event",
            "truncated-no-terminator; a clean end inside an event, before the end mark; unfinished-last-event",
        ),
        (
            "Content-Length too long",
            format!("{}{first}", head("content-length: 9999\r\n")),
            "truncated-no-terminator; closed inside the body, before the end mark",
            "truncated-no-terminator; closed inside the body, before the end mark",
        ),
        (
            "two Content-Lengths",
            format!(
                "{}{whole}",
                head(&format!(
                    "content-length: {length}\r\ncontent-length: 5\r\n"
                ))
            ),
            "protocol-violation; a bad Content-Length",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "the same Content-Length twice",
            format!(
                "{}{whole}",
                head(&format!(
                    "content-length: {length}\r\ncontent-length: {length}\r\n"
                ))
            ),
            "ok",
            "ok",
        ),
        (
            "a Content-Length that is no number",
            format!("{}{whole}", head("content-length: five\r\n")),
            "protocol-violation; a bad Content-Length",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "a Content-Length with a sign",
            format!("{}{whole}", head(&format!("content-length: +{length}\r\n"))),
            "protocol-violation; a bad Content-Length",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "a content coding",
            format!(
                "{}{body}0\r\n\r\n",
                head("content-encoding: gzip\r\ntransfer-encoding: chunked\r\n")
            ),
            "protocol-violation; a coding that was not asked for",
            "protocol-violation; a coding that was not asked for",
        ),
        (
            "a transfer coding before chunked",
            format!(
                "{}{body}0\r\n\r\n",
                head("transfer-encoding: gzip, chunked\r\n")
            ),
            "protocol-violation; a coding that was not asked for",
            "protocol-violation; a coding that was not asked for",
        ),
        (
            "a transfer coding in place of chunked",
            format!("{}{whole}", head("transfer-encoding: gzip\r\n")),
            "protocol-violation; a coding that was not asked for",
            "protocol-violation; a coding that was not asked for",
        ),
        (
            "chunked in HTTP/1.0",
            format!(
                "{}{body}0\r\n\r\n",
                head("transfer-encoding: chunked\r\n").replace("HTTP/1.1", "HTTP/1.0")
            ),
            "protocol-violation; a coding that was not asked for",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "a folded header",
            format!(
                "{}{body}0\r\n\r\n",
                head("x: a\r\n b\r\ntransfer-encoding: chunked\r\n")
            ),
            "protocol-violation; the head is no HTTP",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "a space before the colon",
            format!(
                "{}{body}0\r\n\r\n",
                head("x : a\r\ntransfer-encoding: chunked\r\n")
            ),
            "protocol-violation; the head is no HTTP",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "a head with bare LF",
            format!(
                "{}{body}0\r\n\r\n",
                head("transfer-encoding: chunked\r\n").replace("\r\n", "\n")
            ),
            "ok",
            "ok",
        ),
        (
            "a status of two digits",
            "HTTP/1.1 20 OK\r\n\r\n".to_owned(),
            "protocol-violation; the head is no HTTP",
            "protocol-violation; HTTP framing is broken",
        ),
        (
            "HTTP/2 in clear text",
            "HTTP/2 200\r\n\r\n".to_owned(),
            "protocol-violation; the head is no HTTP",
            "protocol-violation; what came back is no HTTP",
        ),
        (
            "a reply of another protocol",
            "220 smtp.example ESMTP\r\n".to_owned(),
            "protocol-violation; what came back is no HTTP",
            "protocol-violation; what came back is no HTTP",
        ),
        (
            "101 without being asked",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
                .to_owned(),
            "http-error; a status other than 2xx",
            "http-error; a status other than 2xx",
        ),
        (
            "a body with 204",
            format!("HTTP/1.1 204 No Content\r\ncontent-type: text/event-stream\r\n\r\n{whole}"),
            "protocol-violation; bytes after the body's end",
            "fake-200-empty; nothing",
        ),
    ];
    let mut wrong = Vec::new();
    for (what, wire, raw, reqwest) in &rows {
        for (kind, expected) in BOTH.into_iter().zip([raw, reqwest]) {
            let seen = seen(kind, wire);
            if seen != **expected {
                wrong.push(format!("{what}, {kind:?}: {seen}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
