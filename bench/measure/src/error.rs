//! What can fail, what the user can do about it, and the exit codes.

use std::io;
use std::time::Duration;

/// Why not everything was measured.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say what each is")]
pub enum Error {
    /// The options contradict each other.
    #[error("{0}")]
    Usage(String),
    #[error(
        "{size} bytes do not fit one frame: {driver} carries at most {most}; give a smaller --size, `--size full`{}",
        if *driver == "am" { ", or a framing that costs less" } else { "" }
    )]
    TooLarge { driver: &'static str, size: usize, most: usize },
    /// This process may not use the core, or it does not exist.
    #[error("no core {wanted} for this process: it may use {}", list(.usable))]
    NoCore { wanted: usize, usable: Vec<usize> },
    /// The interfaces have no IP addresses of the same kind.
    #[error(
        "the two interfaces have no IP addresses of the same kind{0}, which kernel UDP needs: `ip addr add ADDRESS/24 \
         dev INTERFACE` on both machines, or omit udp with `--driver am,raw`"
    )]
    NoIp(String),
    #[error("not permitted: missing {missing}\n  run as root:           sudo {command}{grant}")]
    Capability {
        /// The missing ones, and what they are for.
        missing: String,
        command: String,
        /// The command that grants them, on a line of its own; empty if there is none.
        grant: String,
    },
    /// The system lacks something, or does not permit it.
    #[error("{0}")]
    Facility(String),
    /// An interface cannot be used for AF_XDP.
    #[error(transparent)]
    Open(#[from] am_afxdp::XdpOpenError),
    /// Namespaces or cables cannot be made.
    #[error(transparent)]
    Hosts(#[from] am_netns::HostError),
    #[error("{doing}: {source}")]
    System { doing: &'static str, source: io::Error },
    /// No peer of that name answers.
    #[error(
        "no peer {name} answered on {on} within {} s; {}. Check that `am-bench --serve --on ... --name {name}` runs on \
         the other machine, {}", .waited.as_secs(), others(.other_nodes), meets(.on)
    )]
    PeerUnknown {
        name: String,
        on: String,
        waited: Duration,
        /// The peers that sent beacons there.
        other_nodes: Vec<String>,
    },
    /// The far side cannot be reached, and this side is why.
    #[error("{problem}\n  and {error}")]
    Here { problem: String, error: Box<Error> },
    #[error("the far side refused: {0}")]
    Refused(String),
    /// The far side does not answer, or no longer.
    #[error("the far side was lost: {doing} with {driver}, this side received nothing for {} ms", .silence.as_millis())]
    Silent { doing: &'static str, driver: &'static str, silence: Duration },
    /// The far side's node is gone.
    #[error("the far side was lost: {0}")]
    Lost(String),
    /// Messages arrived with wrong content.
    #[error("{0}")]
    Changed(String),
    #[error(
        "{wrong} messages of {driver} arrived with wrong content or length ({bench}, {size} bytes; one in 16 was compared \
         byte by byte): something between the two sides cuts or changes them, so no figure of this driver is valid; to find \
         the cause, try a smaller --size, another --xdp mode or, with --hosts, a smaller --mtu"
    )]
    Wrong {
        driver: &'static str,
        bench: &'static str,
        size: usize,
        /// The number of such messages, on both sides.
        wrong: u64,
    },
    #[error("the near side left before the end")]
    GivenUp,
    #[error("the other side's process has ended: {0}")]
    PeerGone(String),
    #[error("interrupted")]
    Interrupted { signal: i32 },
}

impl Error {
    /// An error of the operating system.
    pub fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::System { doing, source }
    }

    /// Where it names the far side, what keeps this side from it comes first.
    pub(crate) fn after(self, problem: Option<String>) -> Error {
        match (self, problem) {
            (error @ (Error::PeerUnknown { .. } | Error::Silent { .. } | Error::Lost(_)), Some(problem)) => {
                Error::Here { problem, error: Box::new(error) }
            }
            (error, _) => error,
        }
    }

    /// The other process ended.
    pub(crate) fn gone() -> Error {
        Error::PeerGone("it was killed, or printed its error above".to_owned())
    }

    /// The exit code of the process, as `--help` documents it.
    pub fn exit_code(&self) -> u8 {
        use am_netns::HostError::{Descriptors, MissingQdisc, MissingTool, NotPermitted};
        match self {
            Error::Usage(_) | Error::TooLarge { .. } | Error::NoCore { .. } => 2,
            Error::NoIp(_) | Error::Capability { .. } | Error::Facility(_) | Error::Open(_) => 3,
            Error::Hosts(MissingTool { .. } | MissingQdisc { .. } | NotPermitted { .. } | Descriptors { .. }) => 3,
            Error::Interrupted { signal } => 128 + (*signal as u8 & 0x7f),
            _ => 1,
        }
    }
}

fn others(names: &[String]) -> String {
    match names {
        [] => "no other node was seen there".to_owned(),
        _ => format!("other nodes there: {}", names.join(", ")),
    }
}

/// What else both sides need in order to meet on this transport.
fn meets(on: &str) -> &'static str {
    match on.split(':').next() {
        Some("udp" | "tcp") if !on.contains("peer=") => {
            "and tell one side the address of the other: add `,peer=IP:PORT` to its --on"
        }
        Some("udp" | "tcp") => "at the address that `peer=` gives",
        Some("shm") => "and that both are on one machine, with the same name after `shm:`",
        _ => "and that both are on one wire",
    }
}

fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}
