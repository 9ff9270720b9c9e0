//! **pvm-am** runs a program of PVM over active messages, and says whether that works.
//!
//! ```text
//!   pvm-am run PROGRAM ─▶ the environment (environment.rs): the library, its transports, and that tasks get both ─▶ PROGRAM
//!   pvm-am check       ─▶ PROGRAM, which ends in the library's first moment and says what the library has found
//!   both, before       ─▶ the files (elf.rs): is this the library, does the loader load it; the transports' names (names.rs)
//! ```
//!
//! Read first: `environment.rs`. The manual is docs/pvm.md.
#![forbid(unsafe_code)]

mod elf;
mod environment;
mod names;
mod options;

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use am_input::command_line::{self, NO_JOB};

use crate::elf::Linked;
use crate::environment::{Settings, SettingsError};
use crate::options::{CheckOptions, Options, RunOptions, Subcommand};

/// The exit code of wrong arguments.
const USAGE: u8 = 2;
/// The exit code where the program's messages would take PVM's own routes.
const DOES_NOT_WORK: u8 = 1;

/// Asks the library to say what it has found, and to end the program: `CHECK` of bindings/pvm.
const CHECK: &str = "PVM_AM_CHECK";
/// What is wrong with a program that no library can be loaded into.
const STATIC: &str = "is linked statically: link it with libpvm3.so.3, as by -lpvm3 without -static";

/// What Debian's PVM says to root, and what to do.
const ROOT: (&str, &str) = ("being run as user \"root\"", ": run it as another user, or set PVM_ALLOW_ROOT=1");

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

fn run(options: &RunOptions) -> Result<ExitCode, SettingsError> {
    let settings = Settings::new(options.library.as_deref(), options.transport.as_deref(), options.report)?;
    let program = options.program.display();
    match Linked::of(&options.program) {
        Linked::Statically => say(format_args!("{program} {STATIC}. Its own messages take PVM's routes.")),
        Linked::WithoutPvm if options.report => {
            say(format_args!(
                "{program} does not name libpvm3.so.3. If it does not load it later, it reports nothing."
            ));
        }
        _ => {}
    }
    let mut command = Command::new(&options.program);
    settings.set(command.args(&options.arguments));
    let error = command.exec();
    say(format_args!("{program}: {error}"));
    Ok(ExitCode::from(NO_JOB))
}

fn check(options: &CheckOptions) -> Result<ExitCode, SettingsError> {
    let settings = Settings::new(options.library.as_deref(), options.transport.as_deref(), false)?;
    let (text, works) = ask(&options.program, &settings);
    let written = writeln!(io::stdout(), "{text}\nlibrary: {}", settings.library().display());
    let works = works && written.is_ok();
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::from(DOES_NOT_WORK) })
}

/// Start the program, whose library answers and ends it. A program that the loader has no part in would run, so it is not started.
fn ask(program: &Path, settings: &Settings) -> (String, bool) {
    let name = program.display();
    if Linked::of(program) == Linked::Statically {
        return (format!("pvm-am does not work: {name} {STATIC}"), false);
    }
    let mut command = Command::new(program);
    settings.set(&mut command);
    let output = command.env(CHECK, "1").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match output {
        Ok(output) => answer(&String::from_utf8_lossy(&output.stdout), program),
        Err(error) => (format!("{name}: {error}"), false),
    }
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
            || "does not load the library: it has capabilities of its own, or another user's rights".to_owned(),
            |said| match said.contains(ROOT.0) {
                true => format!("says: {}{}", said.trim_matches(['*', '!', ' ']), ROOT.1),
                false => format!("says: {said}"),
            },
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
        let root = "*** Error: PVM is being run as user \"root\" ***!";
        let (text, works) = answer(root, program);
        assert!(!works && text.ends_with("user \"root\": run it as another user, or set PVM_ALLOW_ROOT=1"), "{text}");
        let (text, works) = answer("", program);
        assert!(!works && text.contains("task does not load"), "{text}");
    }
}
