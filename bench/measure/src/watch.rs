//! External reasons to stop: a signal, or the end of the other process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::Error;

/// How long the other side may take to open its end.
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// Every loop that waits checks it. Cloning and checking are cheap.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    signal: Arc<AtomicUsize>,
    gone: Arc<AtomicBool>,
}

impl Watch {
    /// Catches Ctrl-C and similar signals. A second signal ends the process at once; the kernel then removes namespaces
    /// and programs.
    pub fn signals() -> Result<Watch, Error> {
        let watch = Watch::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let asked = Arc::new(AtomicBool::new(false));
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))
                .and_then(|_| flag::register(signal, asked))
                .and_then(|_| flag::register_usize(signal, Arc::clone(&watch.signal), signal as usize))
                .map_err(Error::system("asking for signals"))?;
        }
        Ok(watch)
    }

    /// A watch with the same signals, for the other side of the same process, or for another session.
    pub fn of_another_peer(&self) -> Watch {
        Watch { signal: Arc::clone(&self.signal), gone: Arc::default() }
    }

    /// Note that the other side's process has ended.
    pub fn peer_is_gone(&self) {
        self.gone.store(true, Relaxed);
    }

    /// Whether to continue.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        let signal = self.signal.load(Relaxed);
        if signal != 0 {
            return Err(Error::Interrupted { signal: signal as i32 });
        }
        if self.gone.load(Relaxed) {
            return Err(Error::gone());
        }
        Ok(())
    }

    /// Try again after each `interval`, for so long, if the error is one that `passes`.
    pub(crate) fn retry<T>(
        &self,
        timeout: Duration,
        interval: Duration,
        passes: impl Fn(&Error) -> bool,
        mut open: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let begin = Instant::now();
        loop {
            match open() {
                Err(error) if passes(&error) && begin.elapsed() < timeout => {
                    self.check()?;
                    sleep(interval);
                }
                result => return result,
            }
        }
    }
}
