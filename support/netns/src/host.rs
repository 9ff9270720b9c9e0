//! Hosts, and the programs that are called on them: iproute2's and `ethtool`. Nothing else here calls programs.

use std::env;
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::HostError;

/// A host: one network namespace with a loopback interface that is up.
///
/// Cheap to clone; the namespace lives until the last clone is dropped and the
/// last thread, process and socket in it is gone.
#[derive(Clone, Debug)]
pub struct Host {
    name: Arc<str>,
    namespace: Arc<File>,
}

impl Host {
    /// A new host. The name is for error messages only: two hosts may share one.
    ///
    /// # Errors
    /// [`HostError::NotPermitted`] without root, [`HostError::MissingTool`] without iproute2.
    pub fn new(name: &str) -> Result<Host, HostError> {
        // Another thread leaves our namespace, so that the caller stays where it is.
        let host = on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|e| HostError::system("making a network namespace", e))?;
            // "thread-self": "self" would name the namespace of the main thread.
            Host::at(name, "/proc/thread-self/ns/net")
        })??;
        host.run(&IP, &["link", "set", "dev", "lo", "up"])?;
        Ok(host)
    }

    /// The host at a [`path`](Host::path) from another process, or of a process at `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// [`HostError::System`] if that process has ended; [`HostError::NotPermitted`] for a process of another user.
    pub fn at(name: &str, path: &str) -> Result<Host, HostError> {
        let opening = |error| HostError::system(format!("opening the network namespace {path}"), error);
        let namespace = Arc::new(File::open(path).map_err(opening)?);
        Ok(Host { name: name.into(), namespace })
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
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
            setns(self, CloneFlags::CLONE_NEWNET)
                .map_err(|e| HostError::system(format!("entering host {}", self.name()), e))?;
            Ok(work())
        })?
    }

    /// Where another process can open this namespace, as long as this process lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd())
    }

    /// Run a program here. Returns its output.
    pub(crate) fn run(&self, tool: &Tool, arguments: &[&str]) -> Result<String, HostError> {
        self.enter(|| tool.run(self.name(), arguments, None))?
    }

    /// Run with `other`'s namespace as standard input. A command line names it by [`STANDARD_INPUT`].
    pub(crate) fn run_towards(&self, other: &Host, tool: &Tool, arguments: &[&str]) -> Result<String, HostError> {
        self.enter(|| tool.run(self.name(), arguments, Some(&other.namespace)))?
    }
}

/// The file that refers to the namespace.
impl AsFd for Host {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, HostError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .spawn_scoped(scope, work)
            .map_err(|e| HostError::system("starting a thread to enter a network namespace", e))?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// A program and the package that has it.
pub(crate) struct Tool {
    name: &'static str,
    package: &'static str,
}

pub(crate) const IP: Tool = Tool { name: "ip", package: "iproute2" };
pub(crate) const BRIDGE_TOOL: Tool = Tool { name: "bridge", package: "iproute2" };
pub(crate) const TC: Tool = Tool { name: "tc", package: "iproute2" };
pub(crate) const ETHTOOL: Tool = Tool { name: "ethtool", package: "ethtool" };

/// The path of a namespace for a program that has it as standard input. Another path of this process would need rights
/// that `ip` may not have.
pub(crate) const STANDARD_INPUT: &str = "/proc/self/fd/0";

impl Tool {
    /// Run it in the namespace of the calling thread. Returns its output.
    fn run(&self, host: &str, arguments: &[&str], input: Option<&File>) -> Result<String, HostError> {
        let command = format!("{} {}", self.name, arguments.join(" "));
        let doing = |source| HostError::system(format!("`{command}` on host {host}"), source);
        let input = input.map(File::try_clone).transpose().map_err(doing)?;
        let output = Command::new(self.path()?)
            .args(arguments)
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .output()
            .map_err(doing)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(failure(host, command, String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// `PATH`, then the directory where Debian keeps programs for root.
    fn path(&self) -> Result<PathBuf, HostError> {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path)
            .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
            .map(|directory| directory.join(self.name))
            .find(|program| program.is_file())
            .ok_or(HostError::MissingTool { tool: self.name, package: self.package })
    }
}

/// Why a program failed that wrote this to its standard error.
fn failure(host: &str, command: String, stderr: &str) -> HostError {
    if stderr.contains("Operation not permitted") {
        return HostError::NotPermitted { doing: format!("`{command}` on host {host}") };
    }
    if stderr.contains("qdisc kind is unknown") {
        return HostError::MissingQdisc { command };
    }
    HostError::Command { host: host.to_owned(), command, stderr: stderr.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_says_what_to_install() {
        let error = Tool { name: "no-such-tool", package: "some-package" }.run("here", &[], None).unwrap_err();
        assert_eq!(error.to_string(), "`no-such-tool` is not installed: run `apt-get install some-package`");
    }

    #[test]
    fn a_failing_tool_is_quoted_with_its_command() {
        let error = IP.run("here", &["link", "show", "dev", "nosuch0"], None).unwrap_err();
        let HostError::Command { command, stderr, .. } = error else { panic!("{error}") };
        assert_eq!(command, "ip link show dev nosuch0");
        assert!(stderr.contains("does not exist"), "{stderr}");
    }

    #[test]
    fn a_kernel_without_a_qdisc_is_told_from_a_failing_tool() {
        let error = failure("here", "tc qdisc add".to_owned(), "Error: Specified qdisc kind is unknown.");
        assert!(error.to_string().contains("`modprobe sch_tbf`"), "{error}");
    }
}
