//! The other side of the export: a process that takes whatever it is sent and throws it away.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::Outcome;

/// Serves until standard input ends; the first line of output is the base URL.
pub(crate) fn serve() -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut out = io::stdout();
    writeln!(out, "http://{}", listener.local_addr()?)?;
    out.flush()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that breaks off is the client's affair: its account says so.
            thread::spawn(move || swallow(stream).ok());
        }
    });
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Reads requests of one connection and says yes to each.
fn swallow(stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 16, stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        io::copy(&mut (&mut reader).take(length), &mut io::sink())?;
        reader
            .get_mut()
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}
