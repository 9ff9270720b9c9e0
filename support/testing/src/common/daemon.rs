//! Daemons that share a NIC among programs, each on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use am_daemon::{Daemon, DaemonOptions};

/// A daemon without a wire, its socket in a directory of its own. It ends when dropped.
pub struct Serving {
    place: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Start one, and wait until it serves.
    pub fn start() -> Serving {
        let place = tempfile::tempdir().expect("a directory");
        let options = DaemonOptions::new(place.path().join("amd.sock"));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (tell, told) = channel();
        // The daemon's frames stay on its thread.
        let thread = std::thread::spawn(move || {
            let mut daemon = Daemon::open(options).unwrap_or_else(|error| panic!("{error}"));
            tell.send(()).expect("the test waits");
            daemon.run(&stopped);
        });
        told.recv().expect("it serves");
        Serving { place, stop, thread: Some(thread) }
    }

    /// The transport of its programs.
    pub fn transport(&self) -> String {
        format!("amd:{}", self.place.path().join("amd.sock").display())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}
