use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::HostError;
use crate::tool::{IP, Tool};

/// A host: one network namespace with a loopback interface that is up.
///
/// Cheap to clone; the namespace lives until the last clone is dropped and the
/// last thread, process and socket in it is gone.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    namespace: File,
}

impl Host {
    /// A new host. The name is for error messages only: two hosts may share one.
    ///
    /// # Errors
    /// [`HostError::NotPermitted`] without root, [`HostError::MissingTool`] without iproute2.
    pub fn new(name: &str) -> Result<Host, HostError> {
        // Another thread leaves our namespace, so that the caller stays where it is.
        let namespace = on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|e| HostError::system("making a network namespace", e))?;
            open_own()
        })??;
        let host = Host::of(name.to_owned(), namespace);
        host.run(&IP, &["link", "set", "dev", "lo", "up"])?;
        Ok(host)
    }

    /// The host of the calling thread.
    ///
    /// # Errors
    /// [`HostError::System`] if `/proc` is missing.
    pub fn here() -> Result<Host, HostError> {
        Ok(Host::of("here".to_owned(), open_own()?))
    }

    /// The host of another process.
    ///
    /// # Errors
    /// [`HostError::NoSuchProcess`]; [`HostError::NotPermitted`] for a process of another user.
    pub fn of_process(pid: u32) -> Result<Host, HostError> {
        let namespace = File::open(format!("/proc/{pid}/ns/net")).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => HostError::NoSuchProcess { pid },
            _ => HostError::system(format!("opening the network namespace of process {pid}"), source),
        })?;
        Ok(Host::of(format!("of process {pid}"), namespace))
    }

    /// The host at a [`path`](Host::path) from another process.
    ///
    /// # Errors
    /// [`HostError::System`] if that process has ended.
    pub fn at(name: &str, path: &str) -> Result<Host, HostError> {
        let opening = |error| HostError::system(format!("opening the network namespace {path}"), error);
        Ok(Host::of(name.to_owned(), File::open(path).map_err(opening)?))
    }

    fn of(name: String, namespace: File) -> Host {
        Host { inner: Arc::new(Inner { name, namespace }) }
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Run `work` on this host, on a thread that lives as long as the closure runs, and return its value. A panic in it
    /// continues in the caller.
    ///
    /// Sockets opened and processes started inside stay on this host. `PR_SET_PDEATHSIG` is useless for such a process,
    /// because its parent thread ends with the closure: let it watch its standard input instead.
    ///
    /// # Errors
    /// [`HostError::NotPermitted`] without root.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, HostError> {
        on_a_thread(|| {
            setns(&self.inner.namespace, CloneFlags::CLONE_NEWNET)
                .map_err(|e| HostError::system(format!("entering host {}", self.name()), e))?;
            Ok(work())
        })?
    }

    /// Where another process can open this namespace, as long as this process lives.
    pub fn path(&self) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", std::process::id(), self.inner.namespace.as_raw_fd())
    }

    pub(crate) fn run(&self, tool: &Tool, arguments: &[&str]) -> Result<String, HostError> {
        self.enter(|| tool.run(self.name(), arguments, None))?
    }

    /// Run with `other`'s namespace as standard input. A command line names it by
    /// [`STANDARD_INPUT`](crate::tool::STANDARD_INPUT).
    pub(crate) fn run_towards(&self, other: &Host, tool: &Tool, arguments: &[&str]) -> Result<String, HostError> {
        self.enter(|| tool.run(self.name(), arguments, Some(&other.inner.namespace)))?
    }
}

/// The file that refers to the namespace.
impl AsFd for Host {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.namespace.as_fd()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({})", self.name())
    }
}

fn open_own() -> Result<File, HostError> {
    // "thread-self": "self" would name the namespace of the main thread.
    File::open("/proc/thread-self/ns/net").map_err(|e| HostError::system("opening this thread's network namespace", e))
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, HostError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .spawn_scoped(scope, work)
            .map_err(|e| HostError::system("starting a thread to enter a network namespace", e))?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}
