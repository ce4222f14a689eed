//! `fastness completions` and `fastness man`: made from the command line itself, so that they cannot
//! tell of flags that are not there.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Cli, Command, CompletionsArgs, ManArgs};
use crate::render::{self, Exit};
use crate::settings::Environment;

/// Answers these two commands. They need no home, no settings and no runtime, because shells and the
/// builds of packages ask for them.
pub(crate) fn answer(command: &Command) -> Option<ExitCode> {
    let printed = if let Command::Completions(args) = command {
        completions(args)
    } else if let Command::Man(args) = command {
        pages(args)
    } else {
        return None;
    };
    Some(match printed {
        Ok(()) => Exit::Success.into(),
        Err(error) => render::report(&error.into(), &Environment::default()),
    })
}

fn completions(args: &CompletionsArgs) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fastness", &mut script);
    render::stdout().write_all(&script)
}

fn pages(args: &ManArgs) -> io::Result<()> {
    match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            clap_mangen::generate_to(Cli::command(), dir)
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            render::stdout().write_all(&page)
        }
    }
}
