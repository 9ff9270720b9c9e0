//! Starts this program again as a child process. A child ends when its standard input does. The far side of `--hosts`
//! gets its plans there.

use std::env::current_exe;
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cores::Cores;
use crate::error::Error;
use crate::progress::Progress;
use crate::session::{LocatedLink, Order, Session, run};
use crate::watch::Watch;

use super::pipe::{Lines, Pipe};

/// How long a child may take to end by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A child process; killed when it is dropped, if it has not ended by then.
#[derive(Debug)]
pub(crate) struct Child(process::Child);

impl Child {
    /// Start this program with these arguments, on the host of the calling thread.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(words: &[&str]) -> Result<Child, Error> {
        let mut command = Command::new(current_exe().map_err(Error::system("finding this program"))?);
        // Ctrl-C is for the parent, which then ends the child.
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        command.spawn().map(Child).map_err(Error::system("starting this program again"))
    }

    /// Its standard input and output. They can be taken once.
    ///
    /// # Errors
    /// They were taken before.
    pub(crate) fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout), Error> {
        let pipes = self.0.stdin.take().zip(self.0.stdout.take());
        pipes.ok_or_else(|| Error::PeerGone("it was started without a pipe".to_owned()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Pipes that were taken are closed by now.
        let start = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && start.elapsed() < EXIT_TIMEOUT {
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
    /// Start it on this transport, on the host of the calling thread. Its node is called "beta".
    ///
    /// # Errors
    /// This program cannot be started again.
    pub(crate) fn start(on: &str, cores: Cores) -> Result<Far, Error> {
        let core = cores.far.map_or("none".to_owned(), |core| core.to_string());
        Child::start(&["far", "--name", "beta", "--on", on, "--cores", &core]).map(Far)
    }

    /// Measure against it over this link.
    ///
    /// # Errors
    /// The reason for an early end of the session.
    pub(crate) fn measure(
        mut self,
        order: &Order,
        link: &mut dyn LocatedLink,
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
