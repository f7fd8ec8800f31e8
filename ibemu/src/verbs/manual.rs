//! `ibemu completions`, `ibemu man`: what shells and manuals know of the command line, made from its definition.

use std::fs;

use anyhow::{Context, Result};
use clap::CommandFactory as _;
use clap_mangen::Man as Page;

use crate::cli::{Cli, Completions, Man};
use crate::output;

/// Prints a shell's completions.
///
/// # Errors
/// If standard output cannot be written.
pub fn completions(options: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "ibemu", &mut script);
    output::bytes(&script)
}

/// Prints the manual page, or writes all pages into a folder.
///
/// # Errors
/// If standard output or the folder cannot be written.
pub fn man(options: &Man) -> Result<()> {
    let Some(folder) = &options.to else {
        let mut page = Vec::new();
        Page::new(Cli::command().disable_help_subcommand(true)).render(&mut page)?;
        return output::bytes(&page);
    };
    let written =
        fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.with_context(|| format!("cannot write the manual pages to {}", folder.display()))
}
