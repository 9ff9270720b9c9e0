//! A program's outputs, as far as it pays to keep them.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::error::Error;

/// The most that is kept of an output. Who prints more is stuck, or speaks to somebody else.
pub(super) const MOST: usize = 1 << 20;

/// The last of what it complained about.
const COMPLAINT: usize = 300;

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) status: ExitStatus,
    /// On standard output.
    pub(super) out: Vec<u8>,
    /// On standard error.
    pub(super) err: Vec<u8>,
}

impl Heard {
    /// Both outputs, one after the other.
    pub(super) fn all(self) -> Vec<u8> {
        [self.out, self.err].concat()
    }
}

/// Why a program was not heard to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unheard {
    #[error("starting a program: {0}")]
    Start(io::Error),
    #[error("it was ended, since it printed more than {} MiB", MOST >> 20)]
    TooMuch,
    #[error("it was ended, since it took more than {} s", .0.as_secs())]
    TooLong(Duration),
    /// Somebody has said to stop.
    #[error("{0}")]
    Stopped(Error),
}

/// A program with all that it starts; ended when this is dropped.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // Once it has been waited for its number may be another's.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = killpg(Pid::from_raw(self.0.id() as i32), Signal::SIGKILL);
            let _ = self.0.wait();
        }
    }
}

/// Run it until it has ended, while `go_on` says so.
///
/// # Errors
/// [`Unheard`]; it has been ended, and what it started in its process group.
pub(super) fn hear(
    command: &mut Command,
    limit: Duration,
    go_on: impl Fn() -> Result<(), Error>,
) -> Result<Heard, Unheard> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut group = Group(command.spawn().map_err(Unheard::Start)?);
    let (out, err) = (listen(group.0.stdout.take()), listen(group.0.stderr.take()));
    let begin = Instant::now();
    let in_time = || {
        go_on().map_err(Unheard::Stopped)?;
        if begin.elapsed() > limit { Err(Unheard::TooLong(limit)) } else { Ok(()) }
    };
    let [out, err] = outputs([&out, &err], in_time)?;
    loop {
        match group.0.try_wait().map_err(Unheard::Start)? {
            Some(status) => return Ok(Heard { status, out, err }),
            None => in_time()?,
        }
        sleep(SOON);
    }
}

/// Read an output on a thread of its own: a program that fills one waits until somebody reads it.
fn listen(output: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (to, from) = channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = output.map(|output| output.take(MOST as u64 + 1).read_to_end(&mut text));
        // What was read before an error is as good as what is read before an end; nobody may wait any more.
        drop(read);
        let _ = to.send(text);
    });
    from
}

/// Both, once they have ended; too much in one of them is seen while the other goes on.
fn outputs(from: [&Receiver<Vec<u8>>; 2], in_time: impl Fn() -> Result<(), Unheard>) -> Result<[Vec<u8>; 2], Unheard> {
    let mut texts = [None, None];
    while texts.iter().any(Option::is_none) {
        for (text, from) in texts.iter_mut().zip(from).filter(|(text, _)| text.is_none()) {
            *text = match from.recv_timeout(LOOK) {
                Ok(all) if all.len() > MOST => return Err(Unheard::TooMuch),
                Ok(all) => Some(all),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Vec::new()),
            };
            in_time()?;
        }
    }
    Ok(texts.map(Option::unwrap_or_default))
}

/// What went wrong, with the end of what was said.
pub(super) fn complaint(what: &str, said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let said: String = said.chars().filter(|c| !c.is_control() || *c == '\n').collect();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text: Vec<char> = lines.join("; ").chars().collect();
    let end: String = text[text.len().saturating_sub(COMPLAINT)..].iter().collect();
    format!("{what}: {}", if end.is_empty() { "it said nothing" } else { &end })
}

/// How often it is asked whether to go on.
const LOOK: Duration = Duration::from_millis(20);
/// Between the end of its outputs and its own.
const SOON: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, limit: Duration) -> Result<Heard, Unheard> {
        hear(Command::new("sh").args(["-c", script]), limit, || Ok(()))
    }

    #[test]
    fn both_outputs_and_the_end_are_told() {
        let heard = shell("echo a; echo b >&2; exit 3", LONG).unwrap();
        assert_eq!((heard.status.code(), &heard.out[..], &heard.err[..]), (Some(3), &b"a\n"[..], &b"b\n"[..]));
        let most = shell(&format!("head -c {MOST} /dev/zero"), LONG).unwrap();
        assert_eq!(most.all().len(), MOST);
    }

    #[test]
    fn a_complaint_is_the_end_of_what_was_said() {
        assert_eq!(complaint("it", b"\x1b[1mfirst\n\n  last  \n"), "it: [1mfirst; last");
        assert_eq!(complaint("it", b""), "it: it said nothing");
        let long = complaint("it", "µ".repeat(1000).as_bytes());
        assert!(long.chars().count() == COMPLAINT + 4 && long.starts_with("it: µ"), "{long}");
    }

    #[test]
    fn who_floods_an_output_is_ended() {
        for script in ["yes", "yes >&2", "trap '' PIPE; while :; do echo yes; done 2>&1", "yes & sleep 86121"] {
            let why = shell(script, LONG).unwrap_err();
            assert_eq!(why.to_string(), "it was ended, since it printed more than 1 MiB", "{script}");
        }
    }

    #[test]
    fn who_hangs_is_ended_with_what_it_started() {
        let left = tempfile::tempdir().unwrap();
        let file = left.path().join("pid");
        for script in ["sleep 86122 & echo $! >FILE; wait", "exec >&- 2>&-; sleep 86122 & echo $! >FILE; wait"] {
            let script = script.replace("FILE", &file.display().to_string());
            let why = shell(&script, Duration::from_secs(1)).unwrap_err();
            assert!(matches!(why, Unheard::TooLong(_)), "{why}");
            let pid = std::fs::read_to_string(&file).unwrap();
            let begin = Instant::now();
            let is_there = || {
                let words = std::fs::read(format!("/proc/{}/cmdline", pid.trim()));
                words.is_ok_and(|words| words.ends_with(b"\x0086122\0"))
            };
            while is_there() {
                assert!(begin.elapsed() < LONG, "{script}: {pid} is left");
                sleep(LOOK);
            }
        }
    }

    #[test]
    fn who_is_told_to_stop_does() {
        let stop = || Err(Error::Interrupted { signal: 2 });
        let why = hear(Command::new("sleep").arg("86122"), LONG, stop).unwrap_err();
        assert!(matches!(why, Unheard::Stopped(Error::Interrupted { signal: 2 })), "{why}");
    }
}
