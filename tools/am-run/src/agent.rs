//! The agent on a host: starts the host's processes, carries what goes to and from them, and ends them when the launcher does.
//!
//! ```text
//!   launcher ── ToAgent ──▶ main thread ── signals, ends ──▶ processes
//!            ◀─ FromAgent ── a thread for each output, each end, each rendezvous
//! ```

use std::io::{self, BufReader, Stdin, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Sender};
use std::thread;

use am_spmd::{rendezvous, segment};

use crate::protocol::{FromAgent, GREETING, MAX_MESSAGE, ToAgent, ToLauncher};
use crate::ranks::{self, Ranks};
use crate::table::Table;

pub(crate) fn run() -> ExitCode {
    let mut from = BufReader::new(io::stdin());
    let to = ToLauncher::default();
    let greeted = io::stdout().write_all(GREETING).and_then(|()| io::stdout().flush());
    let Ok(Some(ToAgent::Start(job))) = greeted.and_then(|()| rendezvous::read(&mut from, MAX_MESSAGE)) else {
        return ExitCode::FAILURE;
    };
    let (table, answers) = match Table::open(&job, &to).and_then(|table| Ok((table, answers(&to)?))) {
        Ok(opened) => opened,
        Err(error) => {
            let why = format!("no socket or thread for the processes: {error}{}", ranks::advice(&error));
            to.say(&FromAgent::Failed(why));
            return ExitCode::FAILURE;
        }
    };
    let code = match Ranks::start(&job, table.variables(), &to) {
        Some(ranks) => serve(from, &ranks, &table, &answers),
        None => ExitCode::FAILURE,
    };
    segment::remove(job.transport(), &job.name);
    code
}

/// A thread that sends answers to the launcher. The pipe to the launcher may be full, when the reader of the output has stopped. The
/// send blocks then, and the main thread must go on reading the launcher's messages.
fn answers(to: &ToLauncher) -> io::Result<Sender<FromAgent>> {
    let (sender, answers) = mpsc::channel();
    let to = to.clone();
    thread::Builder::new().spawn(move || answers.iter().for_each(|answer| to.say(&answer)))?;
    Ok(sender)
}

/// Do what the launcher says, until it ends or all processes have.
fn serve(mut from: BufReader<Stdin>, ranks: &Ranks, table: &Table, answers: &Sender<FromAgent>) -> ExitCode {
    loop {
        match rendezvous::read(&mut from, MAX_MESSAGE) {
            Ok(Some(ToAgent::Input(bytes))) => ranks.input(bytes),
            Ok(Some(ToAgent::Signal(number))) => {
                ranks.signal(number);
                _ = answers.send(FromAgent::Signalled(number));
            }
            Ok(Some(ToAgent::Blobs(blobs))) => table.answer(blobs),
            // The launcher sends this also when all processes have ended.
            Ok(Some(ToAgent::End)) => {
                ranks.end();
                return ExitCode::SUCCESS;
            }
            Ok(Some(ToAgent::Start(_)) | None) | Err(_) => {
                ranks.end();
                return ExitCode::FAILURE;
            }
        }
    }
}
