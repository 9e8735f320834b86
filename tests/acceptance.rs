//! The specs of this repository as tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    relayproof::main("specs")
}
