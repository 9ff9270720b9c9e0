//! What the tests share: a running daemon, and the patience of tests.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use am_daemon::admin::{self, Answer, Listing, PortListing, Question};
use am_daemon::{Daemon, DaemonOptions};

/// What should happen happens in far less; nothing is measured by it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a daemon's socket in it.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    pub fn socket(&self) -> PathBuf {
        self.0.path().join("amd.sock")
    }

    pub fn files(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.0.path()).unwrap().map(|file| file.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }
}

/// A process, killed when dropped.
pub struct Ends(pub Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon on a thread of its own; ends when dropped.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// `open` runs on the daemon's thread, because its pool stays there.
    pub fn start(open: impl FnOnce() -> Daemon + Send + 'static) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut daemon = open();
            tell.send(()).unwrap();
            daemon.run(&stopped);
        });
        told.recv().unwrap();
        Running { stop, thread: Some(thread) }
    }

    /// A daemon without a wire.
    pub fn local(socket: &Path) -> Running {
        let options = DaemonOptions::new(socket);
        Running::start(|| Daemon::open(options).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// What `amd list` shows.
pub fn list(socket: &Path) -> Listing {
    match admin::ask(socket, &Question::List).unwrap() {
        Answer::List(listing) => listing,
        other => panic!("{other:?}"),
    }
}

/// The port of the node with this name.
pub fn port(socket: &Path, name: &str) -> Option<PortListing> {
    list(socket).ports.into_iter().find(|port| port.name.as_deref() == Some(name))
}

/// Nothing of it was refused but what was under way when a flow ended.
#[track_caller]
pub fn is_honest(port: &PortListing) {
    let is_late = |why: &str, count: u64| why == "not_granted" && count < 100;
    assert!(port.refused.iter().all(|(why, count)| is_late(why, *count)), "{port:?}");
}

/// Do it until it says that it is done.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Whether a daemon answers at this socket.
pub fn is_served(socket: &Path) -> bool {
    admin::ask(socket, &Question::List).is_ok()
}
