//! A terminal that was stopped with Ctrl-S, or a pipe that nobody reads: the run goes on and ends.
#![cfg(target_os = "linux")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, Winsize, tcflow, tcsetwinsize};

use crate::place::{PATIENCE, Place};

/// A run of two seconds or so that passes.
const SPEC: &str = "relayproof: 1
relays:
  - { name: r, simulate: { first_token: 5ms, token_gap: 1ms, tokens: 8 }, models: [m] }
sampling: { rate: 50/s, max_samples: 232 }
slos: [ttft.p95 < 5s]
";

/// A terminal of its own: its two ends.
fn terminal() -> (OwnedFd, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = OpenOptions::new()
        .read(true)
        .write(true)
        .open(Path::new(name.to_str().unwrap()))
        .unwrap();
    // Without a size nothing would be drawn.
    let size = Winsize {
        ws_row: 40,
        ws_col: 120,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).unwrap();
    (ours, theirs)
}

/// Runs the spec with this for stderr; gives how it ended and what it printed.
fn run(stderr: impl Into<Stdio>) -> (ExitStatus, String) {
    let place = Place::new();
    place.write("s.yaml", SPEC);
    let mut child = place
        .command(&["run", "s.yaml"])
        .env("TERM", "xterm")
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let (ended, end) = channel();
    // Its output ends with it.
    thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        ended.send(text).ok();
    });
    let Ok(text) = end.recv_timeout(PATIENCE) else {
        stop(child);
        panic!("the run hangs");
    };
    (child.wait().unwrap(), text)
}

fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn is_whole((status, text): &(ExitStatus, String)) {
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(text.contains("PASS"), "{text}");
}

#[test]
fn a_terminal_that_is_stopped_holds_no_run_up() {
    let (_ours, theirs) = terminal();
    tcflow(&theirs, Action::OOff).unwrap();
    is_whole(&run(theirs));
}

#[test]
fn a_terminal_that_is_not_stopped_shows_the_bar() {
    let (ours, theirs) = terminal();
    let seen = thread::spawn(move || {
        let mut text = Vec::new();
        // A terminal whose other end is gone is an error on Linux, and the end.
        File::from(ours).read_to_end(&mut text).ok();
        String::from_utf8_lossy(&text).into_owned()
    });
    is_whole(&run(theirs));
    let seen = seen.join().unwrap();
    assert!(seen.contains("r/m/default"), "{seen}");
    assert!(seen.contains("/232"), "{seen}");
}

#[test]
fn a_pipe_that_nobody_reads_holds_no_run_up() {
    let (ours, theirs) = io::pipe().unwrap();
    let mut filling = theirs.try_clone().unwrap();
    // The writer that finds no room is left behind; there is none for anybody else either.
    let (wrote, written) = channel();
    thread::spawn(move || {
        while filling
            .write(&[b'x'; 4096])
            .is_ok_and(|_| wrote.send(()).is_ok())
        {}
    });
    for _ in 0..16 {
        written.recv_timeout(PATIENCE).unwrap();
    }
    is_whole(&run(theirs));
    drop(ours);
}
