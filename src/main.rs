//! The command `relayproof`; everything it does is in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    relayproof::cli::main()
}
