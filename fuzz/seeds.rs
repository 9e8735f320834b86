//! Writes the seeds of the fuzz targets from the stream cases: `seeds CASES CORPUS`.
//!
//! Compiled by itself, without a dependency. A case is YAML; all that is needed of it are the strings of its `send` steps, which are JSON.

use std::path::Path;
use std::{env, fs, io};

/// Bytes of all `send` and `send_hex` steps of a case.
fn body(case: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for line in case.lines() {
        let line = line.trim_start().trim_start_matches("- ");
        if let Some(text) = line.strip_prefix("send: ") {
            body.extend_from_slice(unquoted(text).as_bytes());
        } else if let Some(hex) = line.strip_prefix("send_hex: ") {
            let hex = hex.trim_matches(['"', ' ']);
            let pairs = hex
                .as_bytes()
                .chunks(2)
                .filter_map(|two| str::from_utf8(two).ok());
            body.extend(pairs.filter_map(|two| u8::from_str_radix(two, 16).ok()));
        }
    }
    body
}

/// A quoted string without its quotes and escapes, near enough for a seed.
fn unquoted(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.trim().trim_start_matches('"').chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some('0') => out.push('\0'),
                Some('u') => {
                    let code: String = characters.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&code, 16).ok();
                    out.extend(code.and_then(char::from_u32));
                }
                Some(other) => out.push(other),
                None => break,
            },
            other => out.push(other),
        }
    }
    out
}

fn target(case: &str) -> &'static str {
    let protocol = case
        .lines()
        .find_map(|line| line.strip_prefix("protocol: "));
    match protocol.map(str::trim) {
        Some("openai-chat") => "openai_chat",
        Some("openai-responses") => "openai_responses",
        Some("anthropic-messages") => "anthropic_messages",
        Some("gemini") => "gemini",
        _ => "sse",
    }
}

/// A script of an exchange: head, body, end (see `coherent::attempt`).
fn script(protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut script = vec![protocol, 0, 1, 4, 0, 0, 0, 0, 0];
    for part in body.chunks(1024) {
        script.extend_from_slice(&[1, 11]);
        script.extend_from_slice(&u16::try_from(part.len()).unwrap_or(0).to_le_bytes());
        script.extend_from_slice(part);
    }
    script.extend_from_slice(&[1, 7]);
    script
}

fn main() -> io::Result<()> {
    let mut paths = env::args_os().skip(1);
    let (Some(cases), Some(corpus)) = (paths.next(), paths.next()) else {
        return Err(io::Error::other("usage: seeds CASES CORPUS"));
    };
    let corpus = Path::new(&corpus);
    let mut written = 0;
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)
    };
    for entry in fs::read_dir(cases)? {
        let path = entry?.path();
        if path.extension().is_none_or(|ext| ext != "yaml") {
            continue;
        }
        let case = fs::read_to_string(&path)?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let body = body(&case);
        // One byte of settings and four sizes of chunks stand before a body.
        let mut seed = vec![0, 6, 40, 255, 1];
        seed.extend_from_slice(&body);
        let target = target(&case);
        write(target, &name, &seed)?;
        write("sse", &name, &seed)?;
        let protocol = [
            "openai_chat",
            "openai_responses",
            "anthropic_messages",
            "gemini",
        ]
        .iter()
        .position(|known| *known == target);
        let protocol = protocol.and_then(|at| u8::try_from(at).ok()).unwrap_or(0);
        write("exchange", &name, &script(protocol, &body))?;
        written += 1;
    }
    if written == 0 {
        return Err(io::Error::other("no cases there"));
    }
    println!("{written} cases");
    Ok(())
}
