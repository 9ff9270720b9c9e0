//! The grammar of the command line. The help of each command shows the options that it takes.

mod commands;
mod values;

use std::io::{ErrorKind, Write, stdout};

use clap::error::ErrorKind::InvalidSubcommand;
use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::cli::Cli;
use crate::error::Error;
use crate::out;

use commands::{NOT_FOR, OWN_HELP, OWN_VALUES};

/// Parse the command line. If it is wrong, or asks for help, print the answer and return the exit code.
pub(crate) fn read() -> Result<Result<Cli, u8>, Error> {
    let error = match grammar().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => return Ok(Ok(cli)),
        Err(error) => error,
    };
    let printed = error.print().and_then(|()| stdout().flush());
    if error.kind() == InvalidSubcommand {
        out::status(&format!("the commands are {}; `am-bench --help` says what they do", names().join(", ")));
    }
    match printed {
        // The reader is gone; or standard error, which fails, is the only place for an error.
        Err(why) if why.kind() != ErrorKind::BrokenPipe && !error.use_stderr() => {
            Err(Error::System { doing: "writing the help", source: why })
        }
        _ => Ok(Err(u8::try_from(error.exit_code()).unwrap_or(2))),
    }
}

/// The commands that a user may give.
fn names() -> Vec<String> {
    Cli::command()
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|of| of.get_name().to_owned())
        .collect()
}

/// An option is valid for every command unless the command has its own of that name. Hidden options still parse, so
/// that a command can refuse them with a reason.
fn grammar() -> Command {
    let grammar = Cli::command();
    let options: Vec<Arg> = grammar.get_arguments().cloned().collect();
    names().into_iter().fold(grammar, |grammar, name| {
        let its: Vec<Arg> = options.iter().filter_map(|option| own(&name, option)).collect();
        grammar.mut_subcommand(&name, |command| command.args(its))
    })
}

/// The option as this command has it, if the command has its own.
fn own(command: &str, option: &Arg) -> Option<Arg> {
    let id = option.get_id().as_str();
    if NOT_FOR.iter().any(|(name, ids)| *name == command && ids.contains(&id)) {
        return Some(option.clone().hide(true));
    }
    let help = OWN_HELP.iter().find(|(name, of, _)| (*name, *of) == (command, id)).map(|(.., help)| help);
    let some = OWN_VALUES.iter().find(|(name, of, _)| (*name, *of) == (command, id)).map(|(.., values)| values);
    let has_own = help.is_some() || some.is_some();
    let option = some.iter().fold(option.clone(), |option, values| values::only(option, values));
    let option = help.iter().fold(option, |option, help| option.help(**help));
    has_own.then_some(option)
}

#[cfg(test)]
mod tests;
