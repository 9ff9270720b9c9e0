//! A program that listens while another one measures.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read, pipe};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use super::super::heard::{MOST, Unheard, complaint};
use super::places::{at, command};
use super::{Order, Server};
use crate::error::Error;

/// It has so long until it listens.
const LISTENS: Duration = Duration::from_secs(5);
/// Who has ended may have left something in the pipe; others may have the pipe, too.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Where what it says is kept.
const SAID: &str = "server.said";

/// One that listens; ended when this is dropped.
pub(super) struct Listening {
    process: Child,
    name: String,
    says: Says,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Listening {
    /// Start it and wait until it listens.
    ///
    /// # Errors
    /// It cannot be started, ends at once, or does not listen.
    pub(super) fn start(server: &Server, order: &Order) -> Result<Listening, Error> {
        let (from, to) = pipe().map_err(Error::system("making a pipe"))?;
        let errors = to.try_clone().map_err(Error::system("making a pipe"))?;
        let mut command = command(&server.run, order);
        command.stdin(Stdio::null()).stdout(to).stderr(errors);
        let process = command.spawn().map_err(Error::system("starting a program"))?;
        // It holds the pipe's other end, which is to be the program's alone.
        drop(command);
        let says = Says::keep(from, File::create(at(SAID)).map_err(Error::system("making a file"))?);
        let name = server.run.words.first().cloned().unwrap_or_default();
        let mut started = Listening { process, name, says };
        started.wait_until_it_listens(server.port)?;
        Ok(started)
    }

    fn wait_until_it_listens(&mut self, port: u16) -> Result<(), Error> {
        let mut ended = false;
        let listens = eventually(LISTENS, || {
            ended = matches!(self.process.try_wait(), Ok(Some(_)));
            ended || listens(self.process.id(), port)
        });
        self.is_quiet()?;
        if listens && !ended {
            return Ok(());
        }
        eventually(LAST_WORDS, || self.says.reader.is_finished());
        let said = fs::read(at(SAID)).unwrap_or_default();
        let what = if ended { "ended at once" } else { "does not listen" };
        Err(Error::Facility(complaint(&format!("{} {what}", self.name), &said)))
    }

    /// What a program measures beside one that only prints is nothing.
    ///
    /// # Errors
    /// It has printed too much.
    pub(super) fn is_quiet(&self) -> Result<(), Error> {
        let too_much = || Error::Facility(format!("{}: {}", self.name, Unheard::TooMuch));
        if self.says.too_much.load(Relaxed) { Err(too_much()) } else { Ok(()) }
    }
}

/// What it says goes into a file, up to [`MOST`] bytes; then its pipe is closed.
struct Says {
    reader: JoinHandle<()>,
    too_much: Arc<AtomicBool>,
}

impl Says {
    fn keep(from: PipeReader, mut file: File) -> Says {
        let too_much = Arc::new(AtomicBool::new(false));
        let noticed = Arc::clone(&too_much);
        let reader = thread::spawn(move || {
            let copied = io::copy(&mut from.take(MOST as u64 + 1), &mut file);
            noticed.store(copied.is_ok_and(|bytes| bytes > MOST as u64), Relaxed);
        });
        Says { reader, too_much }
    }
}

/// Whether somebody in this process's network has this port.
fn listens(process: u32, port: u16) -> bool {
    let of = |table: &str| {
        let text = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        text.lines().any(|line| has_port(line, port))
    };
    ["tcp", "tcp6", "udp", "udp6"].into_iter().any(of)
}

/// A line of the kernel's table of sockets: of one that waits for whoever comes, on this port.
fn has_port(line: &str, port: u16) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, state, ..] = fields[..] else { return false };
    // Listening, and what UDP has instead.
    ["0A", "07"].contains(&state) && local.rsplit(':').next() == Some(format!("{port:04X}").as_str())
}

/// Until it is so, or for too long.
fn eventually(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !so() {
        if begin.elapsed() > limit {
            return false;
        }
        sleep(Duration::from_millis(5));
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn who_listens_is_found_in_the_kernels_table() {
        let tcp = "   0: 02004D0A:1389 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12";
        let udp = " 401: 00000000:1389 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 5 2 0 0";
        let talks = "   1: 02004D0A:1389 01004D0A:B2A4 01 00000000:00000000 02:0000C350 00000000     0        0 2";
        assert!(has_port(tcp, 5001) && has_port(udp, 5001));
        assert!(!has_port(talks, 5001) && !has_port(tcp, 5002) && !has_port("", 5001) && !has_port("sl local", 0));
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        for (bytes, too_much) in [(MOST, false), (MOST + (1 << 20), true)] {
            let (from, mut to) = pipe().unwrap();
            let file = tempfile::NamedTempFile::new().unwrap();
            let says = Says::keep(from, file.reopen().unwrap());
            assert_eq!(to.write_all(&vec![b'y'; bytes]).is_err(), too_much, "its pipe is closed");
            drop(to);
            says.reader.join().unwrap();
            assert_eq!(says.too_much.load(Relaxed), too_much);
            assert!(file.as_file().metadata().unwrap().len() <= MOST as u64 + 1);
        }
    }
}
