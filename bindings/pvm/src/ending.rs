//! The end of a virtual machine: its daemon, or the task that halts it, removes the link of its tasks.
//!
//! The last task that leaves removes the link. A halt kills the tasks, so none of them leaves, and the file would stay.

use std::env;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use am_api::Node;
use am_c_runtime::at_exit;

use crate::environment;
use crate::library::Library;

/// How long a killed task may take to end.
const KILLED: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// How the names of PVM's daemon begin.
const DAEMON: &str = "pvmd";

/// This task has halted the machine.
static HAS_HALTED: AtomicBool = AtomicBool::new(false);

/// This task halts the machine.
pub(crate) fn note_halt() {
    HAS_HALTED.store(true, Ordering::Relaxed);
}

/// The library is loaded. If the process is a daemon, it removes the link at its end.
pub(crate) fn on_load() {
    let program = env::current_exe().unwrap_or_default();
    let is_daemon = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with(DAEMON));
    if is_daemon {
        at_exit(remove_link);
    }
}

/// The task ends, and has closed its node.
pub(crate) fn finish() {
    if HAS_HALTED.load(Ordering::Relaxed) {
        remove_link();
    }
}

/// Remove the link once all other tasks have ended: the last one that leaves does.
fn remove_link() {
    let Some(link) = Library::get().and_then(environment::link) else { return };
    let (file, until) = (Path::new(&link.file), Instant::now() + KILLED);
    while file.exists() && Instant::now() < until {
        drop(Node::builder("pvm-am-end").unique_name().open(&link.transport));
        if file.exists() {
            thread::sleep(PAUSE);
        }
    }
}
