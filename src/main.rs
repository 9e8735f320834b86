//! The command `relayproof`; everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    relayproof::cli::main()
}
