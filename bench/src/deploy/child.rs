//! This program once more, as a process of its own; of the far side of `--hosts` plans go to its standard input.
//! Who is started so takes the end of its standard input for its own.

use std::env::current_exe;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::cores::Cores;
use crate::error::Error;
use crate::progress::Progress;
use crate::session::{Order, Placed, Session, run};
use crate::watch::Watch;

use super::pipe::{Lines, Pipe};

/// It has so long to end by itself.
const LEAVE: Duration = Duration::from_secs(2);

/// A process of ours; ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Child(process::Child);

impl Child {
    /// Start this program with these words, on the host that the calling thread is on.
    ///
    /// # Errors
    /// It cannot be started again.
    pub(crate) fn start(words: &[&str]) -> Result<Child, Error> {
        spawn(&mut command(words)?)
    }

    /// The same, with what it says on standard error, and those that it starts: once all of them have ended.
    ///
    /// # Errors
    /// As [`start`](Child::start).
    pub(crate) fn start_aside(words: &[&str]) -> Result<(Child, JoinHandle<String>), Error> {
        let mut child = spawn(command(words)?.stderr(Stdio::piped()))?;
        let errors = child.0.stderr.take();
        let read = move || {
            let mut said = Vec::new();
            // What cannot be read was not said.
            errors.map(|mut errors| errors.read_to_end(&mut said));
            String::from_utf8_lossy(&said).into_owned()
        };
        Ok((child, thread::spawn(read)))
    }

    /// The ways to it and from it, once.
    ///
    /// # Errors
    /// They are taken.
    pub(crate) fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout), Error> {
        let pipes = self.0.stdin.take().zip(self.0.stdout.take());
        pipes.ok_or_else(|| Error::PeerGone("it was started without a pipe".to_owned()))
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

fn command(words: &[&str]) -> Result<Command, Error> {
    let mut command = Command::new(current_exe().map_err(Error::system("finding this program"))?);
    // Ctrl-C is for who started it, and then ends it.
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    Ok(command)
}

fn spawn(command: &mut Command) -> Result<Child, Error> {
    command.spawn().map(Child).map_err(Error::system("starting this program again"))
}

impl Drop for Child {
    fn drop(&mut self) {
        // Where its pipes were taken they are closed by now.
        let start = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && start.elapsed() < LEAVE {
            sleep(Duration::from_millis(2));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process of the far side.
#[derive(Debug)]
pub(crate) struct Far(Child);

impl Far {
    /// Start it on this transport of the host that the calling thread is on; it is called "beta".
    ///
    /// # Errors
    /// This program cannot be started again.
    pub(crate) fn start(on: &str, cores: Cores) -> Result<Far, Error> {
        let core = cores.far.map_or("none".to_owned(), |core| core.to_string());
        Child::start(&["far", "--name", "beta", "--on", on, "--cores", &core]).map(Far)
    }

    /// Measure against it by this link.
    ///
    /// # Errors
    /// Whatever ended the session early.
    pub(crate) fn measure(
        mut self,
        order: &Order,
        link: &mut dyn Placed,
        progress: &Progress,
        watch: &Watch,
    ) -> Result<Session, Error> {
        let (to, from) = self.0.pipes()?;
        let closed = watch.clone();
        let (from, far) = (Lines::read(from, move || closed.peer_is_gone()), Some(self.0.id()));
        let mut control = Pipe { to, from, far };
        let here = link.here()?;
        run(order, &here, &mut control, link, progress, watch)
    }
}
