//! **pvm-am** runs a program of PVM over active messages, and says whether that works.
//!
//! ```text
//!   pvm-am run PROGRAM ─▶ the environment (environment.rs): the library, its transports, and that tasks get both ─▶ PROGRAM
//!   pvm-am check       ─▶ PROGRAM, which ends in the library's first moment and says what the library has found
//! ```
//!
//! Read first: `environment.rs`. The manual is docs/pvm.md.
#![forbid(unsafe_code)]

mod environment;
mod options;

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use am_input::command_line::{self, NO_JOB};

use crate::environment::{LibraryError, Settings};
use crate::options::{CheckOptions, Options, RunOptions, Subcommand};

/// The exit code of wrong arguments.
const USAGE: u8 = 2;
/// The exit code where the program's messages would take PVM's own routes.
const DOES_NOT_WORK: u8 = 1;

/// Asks the library to say what it has found, and to end the program: `CHECK` of bindings/pvm.
const CHECK: &str = "PVM_AM_CHECK";
/// What the library's answer begins with.
const ANSWERS: [(&str, bool); 2] = [("pvm-am works: ", true), ("pvm-am does not work: ", false)];

fn say(line: std::fmt::Arguments<'_>) {
    // Without a standard error there is no place for it.
    _ = writeln!(io::stderr(), "pvm-am: {line}");
}

fn main() -> ExitCode {
    let options: Options = match command_line::parse(USAGE, say) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let done = match options.command {
        Subcommand::Run(options) => run(&options),
        Subcommand::Check(options) => check(&options),
    };
    done.unwrap_or_else(|error| {
        say(format_args!("{error}"));
        ExitCode::from(NO_JOB)
    })
}

fn run(options: &RunOptions) -> Result<ExitCode, LibraryError> {
    let settings = Settings::new(options.library.as_deref(), options.transport.as_deref(), options.report)?;
    let mut command = Command::new(&options.program);
    settings.set(command.args(&options.arguments));
    let error = command.exec();
    say(format_args!("{}: {error}", options.program.display()));
    Ok(ExitCode::from(NO_JOB))
}

fn check(options: &CheckOptions) -> Result<ExitCode, LibraryError> {
    let settings = Settings::new(options.library.as_deref(), options.transport.as_deref(), false)?;
    let mut command = Command::new(&options.program);
    settings.set(&mut command);
    let output = command.env(CHECK, "1").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let (text, works) = match output {
        Ok(output) => answer(&String::from_utf8_lossy(&output.stdout), &options.program),
        Err(error) => (format!("{}: {error}", options.program.display()), false),
    };
    let written = writeln!(io::stdout(), "{text}\nlibrary: {}", settings.library().display());
    let works = works && written.is_ok();
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::from(DOES_NOT_WORK) })
}

/// What the library has said in this output of the program, and whether it works.
fn answer(output: &str, program: &Path) -> (String, bool) {
    let line = |line: &str| {
        let (_, works) = ANSWERS.into_iter().find(|(start, _)| line.starts_with(start))?;
        Some((line.to_owned(), works))
    };
    output.lines().find_map(line).unwrap_or_else(|| {
        let said = output.lines().find(|line| !line.is_empty());
        let why = said.map_or_else(
            || "does not load the library: it is linked statically, or has capabilities of its own".to_owned(),
            |said| format!("says: {said}"),
        );
        (format!("pvm-am does not work: {} {why}", program.display()), false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_answer_is_found_in_what_a_program_says() {
        let program = Path::new("task");
        assert_eq!(answer("pvm-am works: x\n", program), ("pvm-am works: x".into(), true));
        assert_eq!(answer("hello\npvm-am does not work: y\n", program), ("pvm-am does not work: y".into(), false));
        assert_eq!(answer("\nhello\n", program), ("pvm-am does not work: task says: hello".into(), false));
        let (text, works) = answer("", program);
        assert!(!works && text.contains("task does not load"), "{text}");
    }
}
