//! A program that is only to say something, with all that it starts in a place of their own: process 1 there ends with
//! who asked, however that ends, and the kernel ends all others.
//!
//! ```text
//!   am-bench compare ──▶ room alone PROGRAM: makes the place, waits ──▶ room first PROGRAM: is the program
//! ```

use std::env::current_exe;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{self, Command};

use nix::sched::{CloneFlags, unshare};

use super::{end_with_parent, failed};
use crate::error::Error;

/// How it ends where the program was not started; shells end so where they find none.
pub(crate) const NOT_STARTED: i32 = 127;

/// What starts this program so.
///
/// # Errors
/// This program is not found again.
pub(crate) fn command(program: &str, arguments: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(current_exe()?);
    command.args(["room", "alone", program]).args(arguments);
    Ok(command)
}

/// `PROGRAM ARGUMENT...`: it, as process 1 of others; ends as it does.
pub(crate) fn keep(words: &[String]) -> ! {
    match first(words) {
        Ok(code) => process::exit(code),
        Err(why) => not_started(&why),
    }
}

fn first(words: &[String]) -> Result<i32, Error> {
    end_with_parent()?;
    unshare(CloneFlags::CLONE_NEWPID).map_err(failed("making a namespace for a program"))?;
    let ourselves = current_exe().map_err(Error::system("finding this program"))?;
    let status = Command::new(ourselves).args(["room", "first"]).args(words).status();
    let status = status.map_err(Error::system("starting a process"))?;
    Ok(status.code().unwrap_or(1))
}

/// `PROGRAM ARGUMENT...`: become it.
pub(crate) fn become_it(words: &[String]) -> ! {
    not_started(&enter(words))
}

fn enter(words: &[String]) -> Error {
    let [program, arguments @ ..] = words else { return Error::Usage("room: which program?".to_owned()) };
    match end_with_parent() {
        // It holds for what this process becomes.
        Ok(()) => Error::Facility(Command::new(program).args(arguments).exec().to_string()),
        Err(why) => why,
    }
}

fn not_started(why: &Error) -> ! {
    eprintln!("{why}");
    process::exit(NOT_STARTED)
}
