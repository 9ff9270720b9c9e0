use std::io;

use nix::errno::Errno;

/// Why a host, a cable or a switch could not be made or inspected.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A program that this crate calls is not installed.
    #[error("`{tool}` is not installed: run `apt-get install {package}`")]
    MissingTool {
        /// The program.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The kernel refused because a right is missing.
    #[error(
        "not permitted: {doing} needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run as root, as in `sudo {}`",
        std::env::args().collect::<Vec<_>>().join(" ")
    )]
    NotPermitted {
        /// What was refused.
        doing: String,
    },
    /// The kernel lacks the queueing discipline that limits a rate.
    #[error(
        "this kernel cannot limit the rate of a cable: `{command}` found no qdisc tbf; run `modprobe sch_tbf`, or a kernel \
         with CONFIG_NET_SCH_TBF"
    )]
    MissingQdisc {
        /// The whole command line.
        command: String,
    },
    /// The host has no interface of this name.
    #[error("host {host} has no interface {interface}")]
    NoSuchInterface {
        /// The host that was asked.
        host: String,
        /// The name that it does not know.
        interface: String,
    },
    /// The interface is up, but nothing is at the other end.
    #[error("{interface} on host {host} got no carrier within {seconds} s: is its other end up?")]
    NoCarrier {
        /// The host.
        host: String,
        /// The interface.
        interface: String,
        /// How long the wait was.
        seconds: u64,
    },
    /// A program failed.
    #[error("`{command}` on host {host} failed: {stderr}")]
    Command {
        /// The host.
        host: String,
        /// The whole command line.
        command: String,
        /// Its output.
        stderr: String,
    },
    /// The output of a program cannot be parsed.
    #[error("`{command}` gave an answer that is not understood: {source}")]
    Answer {
        /// The whole command line.
        command: String,
        /// The problem.
        source: serde_json::Error,
    },
    /// The process has too many open files.
    #[error("{doing}: {source}: `ulimit -n` says how many a process may have, and raises it")]
    Descriptors {
        /// What failed.
        doing: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel returned another error.
    #[error("{doing}: {source}")]
    System {
        /// What was refused.
        doing: String,
        /// Why.
        source: io::Error,
    },
}

impl HostError {
    pub(crate) fn system(doing: impl Into<String>, source: impl Into<io::Error>) -> HostError {
        let (doing, source) = (doing.into(), source.into());
        match source.kind() {
            io::ErrorKind::PermissionDenied => HostError::NotPermitted { doing },
            _ if source.raw_os_error() == Some(Errno::EMFILE as i32) => HostError::Descriptors { doing, source },
            _ => HostError::System { doing, source },
        }
    }
}
