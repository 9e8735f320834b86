//! `cargo relayproof …`: starts the command `relayproof` that lies beside this program, with the
//! same arguments.
//!
//! Names nothing of the library, so that it costs no second copy of it.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Exit code where there is no command to start; the command's own for "nothing was measured".
const NOT_STARTED: u8 = 4;

fn main() -> ExitCode {
    let program = beside_this();
    let mut command = Command::new(&program);
    command.args(without_own_name(env::args_os().skip(1)));
    let error = become_it(command);
    let program = program.display();
    writeln!(
        io::stderr(),
        "error: cannot start {program}: {error}\n  = help: `cargo relayproof` is the command \
         `relayproof` under another name; install both with `cargo install`"
    )
    .ok();
    ExitCode::from(NOT_STARTED)
}

/// Cargo hands its subcommand's name on as the first argument.
fn without_own_name(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut arguments = arguments.peekable();
    arguments.next_if(|first| first == "relayproof");
    arguments
}

/// The command in the folder of this program; the one of the search path where that is unknown.
fn beside_this() -> PathBuf {
    let name = format!("relayproof{}", env::consts::EXE_SUFFIX);
    let beside = env::current_exe()
        .ok()
        .and_then(|this| Some(this.parent()?.join(&name)));
    match beside {
        Some(path) if path.is_file() => path,
        Some(_) | None => PathBuf::from(name),
    }
}

/// Turns this process into the command, so that signals and the exit code are the command's own;
/// comes back where that fails.
#[cfg(unix)]
fn become_it(mut command: Command) -> io::Error {
    std::os::unix::process::CommandExt::exec(&mut command)
}

/// Waits for the command and ends as it ended; comes back where it cannot be started.
#[cfg(not(unix))]
#[expect(clippy::exit, reason = "the exit code is the command's own")]
fn become_it(mut command: Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(i32::from(NOT_STARTED))),
        Err(error) => error,
    }
}
