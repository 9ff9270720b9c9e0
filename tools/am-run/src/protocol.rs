//! The messages between launcher and agent, through the pipes of the remote shell.

use std::io::{self, ErrorKind, Read, Stdout};
use std::sync::{Arc, Mutex, PoisonError};

use am_spmd::rendezvous::{self, variables};
use serde::{Deserialize, Serialize};

/// The argument that starts this program as an agent.
pub(crate) const AGENT: &str = "--agent";

/// The agent's greeting, its first output. Output of the remote shell, such as that of a login script, may come before it.
pub(crate) const GREETING: &[u8] = concat!("\u{1}am-run ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();

/// The prefix of the greeting of every version.
const GREETING_START: &[u8] = b"\x01am-run ";

/// An error shows this many bytes of a remote shell's output, if no agent answers.
const MAX_SHOWN: usize = 200;

/// The most bytes that a remote shell may write before the agent's greeting.
const MAX_BEFORE: usize = 64 * 1024;

/// The longest message between launcher and agent.
pub(crate) const MAX_MESSAGE: usize = 1 << 30;

/// The most bytes of output or input in one message.
pub(crate) const CHUNK: usize = 32 * 1024;

/// The part of a job that runs on one host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The name of the job.
    pub(crate) name: String,
    /// The number of processes on all hosts.
    pub(crate) size: u32,
    /// The ranks on this host.
    pub(crate) ranks: Vec<u32>,
    /// The host, as the user named it.
    pub(crate) host: String,
    /// The program and its arguments.
    pub(crate) program: Vec<Vec<u8>>,
    /// The directory to start in.
    pub(crate) directory: Vec<u8>,
    /// Variables to set.
    pub(crate) environment: Vec<(String, String)>,
    /// The rank that gets the launcher's input.
    pub(crate) reader: Option<u32>,
}

impl Job {
    /// The transport that its processes open, as the user named it.
    pub(crate) fn transport(&self) -> &str {
        let set = self.environment.iter().rev().find(|(name, _)| name == variables::TRANSPORT);
        set.map_or("", |(_, transport)| transport)
    }
}

/// A message to an agent. The first one is a job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToAgent {
    /// Start these processes.
    Start(Job),
    /// Input for the reader; none means its end.
    Input(Vec<u8>),
    /// Send this signal to all processes.
    Signal(i32),
    /// All ranks' blobs of the next exchange.
    Blobs(Vec<Vec<u8>>),
    /// End all processes.
    End,
}

/// One of a process's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A message from an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromAgent {
    /// A process wrote this.
    Written(u32, Stream, Vec<u8>),
    /// The process that reads the input has read the last piece.
    InputTaken,
    /// This signal was sent to the processes.
    Signalled(i32),
    /// A process's blob for its next exchange.
    Blob(u32, Vec<u8>),
    /// A process ends the job on purpose, with this exit code.
    EndJob(u32, u8),
    /// A process ended.
    Ended(u32, End),
    /// The job cannot be started here.
    Failed(String),
}

/// The agent's output to the launcher, shared by all threads.
#[derive(Clone, Debug)]
pub(crate) struct ToLauncher(Arc<Mutex<Stdout>>);

impl Default for ToLauncher {
    fn default() -> Self {
        ToLauncher(Arc::new(Mutex::new(io::stdout())))
    }
}

impl ToLauncher {
    /// Send this to the launcher. Errors are ignored: the main thread reads from the launcher, and so notices its end.
    pub(crate) fn say(&self, message: &FromAgent) {
        let mut stdout = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        _ = rendezvous::write(&mut *stdout, message);
    }
}

/// Skip the remote shell's output before the agent's greeting. Returns the skipped text.
///
/// # Errors
/// The stream's errors; [`ErrorKind::InvalidData`] for an agent of another version, and for a shell that writes too much.
pub(crate) fn await_greeting(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    // The start of the current line.
    let mut line = 0;
    let shown = |seen: &[u8]| String::from_utf8_lossy(&seen[..seen.len().min(MAX_SHOWN)]).trim().to_owned();
    loop {
        if from.read(&mut byte)? == 0 {
            let text =
                if seen.is_empty() { "it said nothing".into() } else { format!("it said only `{}`", shown(&seen)) };
            return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
        }
        if seen.len() == MAX_BEFORE {
            let text = format!("it said {MAX_BEFORE} bytes that are no agent's: `{}..`", shown(&seen));
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        seen.push(byte[0]);
        if seen.ends_with(GREETING) {
            seen.truncate(seen.len() - GREETING.len());
            return Ok(seen);
        }
        if byte != *b"\n" {
            continue;
        }
        if let Some(start) = seen[line..].windows(GREETING_START.len()).position(|window| window == GREETING_START) {
            let version = String::from_utf8_lossy(&seen[line + start + GREETING_START.len()..]).trim().to_owned();
            let own = env!("CARGO_PKG_VERSION");
            return Err(io::Error::new(ErrorKind::InvalidData, format!("am-run there is {version}, and here {own}")));
        }
        line = seen.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_found_behind_what_a_shell_says() {
        let mut text = b"Welcome!\n\x01nothing\n".to_vec();
        let before = text.clone();
        text.extend_from_slice(GREETING);
        text.extend_from_slice(b"rest");
        let mut from = &text[..];
        assert_eq!((await_greeting(&mut from).unwrap(), from), (before, &b"rest"[..]));
        let other = await_greeting(&mut &b"\x01am-run 99.1\n"[..]).unwrap_err();
        assert!(other.to_string().contains("99.1"), "{other}");
        let other = await_greeting(&mut &b"Welcome!\nand \x01am-run 99.1\n"[..]).unwrap_err();
        assert!(other.to_string().contains("99.1"), "{other}");
        let much = await_greeting(&mut io::repeat(b'\n')).unwrap_err();
        assert!(much.to_string().contains("65536 bytes"), "{much}");
        let none = await_greeting(&mut &b"command not found\n"[..]).unwrap_err();
        assert!(none.to_string().contains("`command not found`"), "{none}");
    }
}
