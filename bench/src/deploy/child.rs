//! The far side as a process of its own: plans go to its standard input, and
//! its end ends the far side.

use std::env::current_exe;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cores::Cores;
use crate::error::Error;
use crate::progress::Progress;
use crate::session::{Order, Placed, Session, run};
use crate::watch::Watch;

use super::pipe::{Lines, Pipe};

/// The far side has so long to end by itself.
const LEAVE: Duration = Duration::from_secs(2);

/// The process of the far side; ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Far(Child);

impl Far {
    /// Start it on this transport of the host that the calling thread is on; it is called "beta".
    ///
    /// # Errors
    /// This program cannot be started again.
    pub(crate) fn start(on: &str, cores: Cores) -> Result<Far, Error> {
        let program = current_exe().map_err(Error::system("finding this program"))?;
        let core = cores.far.map_or("none".to_owned(), |core| core.to_string());
        let child = Command::new(program)
            .args(["far", "--name", "beta", "--on", on, "--cores", &core])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for the near side, which then ends the far side.
            .process_group(0)
            .spawn();
        child.map(Far).map_err(Error::system("starting the far side"))
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
        let (Some(to), Some(from)) = (self.0.stdin.take(), self.0.stdout.take()) else {
            return Err(Error::PeerGone("it was started without a pipe".to_owned()));
        };
        let closed = watch.clone();
        let (from, far) = (Lines::read(from, move || closed.peer_is_gone()), Some(self.0.id()));
        let mut control = Pipe { to, from, far };
        let here = link.here()?;
        run(order, &here, &mut control, link, progress, watch)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // Its standard input is closed by now, which it takes for its end.
        let start = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && start.elapsed() < LEAVE {
            sleep(Duration::from_millis(2));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
