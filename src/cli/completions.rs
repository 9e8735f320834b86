//! `relayproof completions SHELL` and `relayproof man`: what a shell and a reader of manuals get.

use std::io::{self, Write};

use clap::Command;
use clap_complete::Shell;

use super::Exit;

/// Writes the completions of one shell.
pub(super) fn completions(
    shell: Shell,
    mut command: Command,
    out: &mut dyn Write,
) -> io::Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "relayproof", &mut text);
    out.write_all(&text)?;
    Ok(Exit::Pass)
}

/// Writes the manual page: the command, and each of its subcommands as a section.
pub(super) fn man(command: Command, out: &mut dyn Write) -> io::Result<Exit> {
    clap_mangen::Man::new(command).render(out)?;
    Ok(Exit::Pass)
}
