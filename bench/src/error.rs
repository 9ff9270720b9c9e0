//! What can fail, what the user can do about it, and the exit codes.

use std::io;
use std::time::Duration;

use crate::plan::Bench;
use crate::via::Via;

/// Why not everything was measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The options contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A message does not fit one frame.
    #[error(
        "{size} bytes do not fit one frame: {via} carries at most {most} here; take a smaller --size, `--size full`{}",
        more(*via)
    )]
    TooLarge {
        via: Via,
        /// The size of the message.
        size: usize,
        /// The limit.
        most: usize,
    },
    /// This process may not use the core, or it does not exist.
    #[error("no core {wanted} for this process: it may use {}", list(.usable))]
    NoCore {
        wanted: usize,
        /// The cores that it may use.
        usable: Vec<usize>,
    },
    /// The interfaces have no IP addresses of the same kind.
    #[error(
        "the two interfaces have no IP addresses of the same kind{0}, which kernel UDP needs: `ip addr add ADDRESS/24 \
         dev INTERFACE` on both machines, or leave udp out with `--via am,raw`"
    )]
    NoIp(String),
    /// A capability is missing.
    #[error("not permitted: missing {missing}\n  run as root:           sudo {command}{grant}")]
    Capability {
        /// The missing ones, and what they are for.
        missing: String,
        /// The command line.
        command: String,
        /// The command that grants them, on a line of its own; empty if there is none.
        grant: String,
    },
    /// The system lacks something, or does not permit it.
    #[error("{0}")]
    Facility(String),
    /// An interface cannot be used for AF_XDP.
    #[error(transparent)]
    Open(#[from] am_afxdp::OpenError),
    /// Namespaces or cables cannot be made.
    #[error(transparent)]
    Hosts(#[from] am_netns::HostError),
    /// The operating system returned an error.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        source: io::Error,
    },
    /// No peer of that name answers.
    #[error(
        "no peer {name} answered on {on} within {} s, {}: is `am-bench --serve --on ... --name {name}` running on the \
         other machine, {}", .waited.as_secs(), others(.heard), meets(.on)
    )]
    PeerUnknown {
        /// The peer's name.
        name: String,
        /// This side's transport.
        on: String,
        /// How long this side waited.
        waited: Duration,
        /// The peers that sent beacons there.
        heard: Vec<String>,
    },
    /// The far side refused the plan.
    #[error("the far side refused: {0}")]
    Refused(String),
    /// The far side does not answer, or no longer.
    #[error("the far side was lost: {doing} by {via}, nothing was heard of it for {} ms", .silence.as_millis())]
    Silent {
        /// What this side was doing.
        doing: &'static str,
        via: Via,
        /// For how long.
        silence: Duration,
    },
    /// The far side's node is gone.
    #[error("the far side was lost: {0}")]
    Lost(String),
    /// Not every message arrived exactly once and unchanged.
    #[error("{0}")]
    Torture(String),
    /// Messages arrived with another length or content than was sent.
    #[error(
        "{wrong} messages by {via} arrived with wrong content or length ({bench}, {size} bytes; one in 16 was compared \
         byte by byte): something between the two sides cuts or changes them, so no figure of this via holds; try a \
         smaller --size, another --xdp mode or, with --hosts, a smaller --mtu to find what does"
    )]
    Wrong {
        via: Via,
        bench: Bench,
        size: usize,
        /// The number of such messages, on both sides.
        wrong: u64,
    },
    /// The near side left early.
    #[error("the near side gave up before the end")]
    GivenUp,
    /// The process of the other side is gone.
    #[error("the other side's process has ended: {0}")]
    PeerGone(String),
    /// A signal arrived.
    #[error("interrupted")]
    Interrupted { signal: i32 },
}

impl Error {
    /// An error of the operating system.
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::System { doing, source }
    }

    /// The exit code of the process, as `--help` documents it.
    pub(crate) fn exit_code(&self) -> u8 {
        use am_netns::HostError::{MissingTool, NotPermitted};
        match self {
            Error::Usage(_) | Error::TooLarge { .. } | Error::NoCore { .. } => 2,
            Error::NoIp(_) => 3,
            Error::Capability { .. } | Error::Facility(_) | Error::Open(_) => 3,
            Error::Hosts(MissingTool { .. } | NotPermitted { .. }) => 3,
            Error::Interrupted { signal } => 128 + (*signal as u8 & 0x7f),
            _ => 1,
        }
    }
}

fn more(via: Via) -> &'static str {
    match via {
        Via::Am => ", or a framing that costs less",
        Via::Raw | Via::Udp | Via::Cacheline | Via::Row(_) => "",
    }
}

fn others(names: &[String]) -> String {
    if names.is_empty() {
        "and nobody else was heard".to_owned()
    } else {
        format!("but heard were: {}", names.join(", "))
    }
}

/// What else both sides need in order to meet on this transport.
fn meets(on: &str) -> &'static str {
    match on.split(':').next() {
        Some("udp" | "tcp") if !on.contains("peer=") => {
            "and who told either where the other is? Add its place to --on: `,peer=IP:PORT`"
        }
        Some("udp" | "tcp") => "and at the place that `peer=` says?",
        Some("shm") => "and are both on one machine, with the same name behind `shm:`?",
        _ => "and are both on one wire?",
    }
}

fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_as_documented() {
        assert_eq!(Error::Usage(String::new()).exit_code(), 2);
        assert_eq!(Error::NoIp(String::new()).exit_code(), 3);
        assert_eq!(Error::PeerGone(String::new()).exit_code(), 1);
        assert_eq!(Error::Interrupted { signal: 2 }.exit_code(), 130);
        assert_eq!(Error::Interrupted { signal: 15 }.exit_code(), 143);
    }

    #[test]
    fn a_peer_that_is_missing_says_who_is_there_and_what_to_do() {
        let text = |on: &str, heard: &[&str]| {
            let heard = heard.iter().map(|name| (*name).to_owned()).collect();
            Error::PeerUnknown { name: "beta".into(), on: on.into(), waited: Duration::from_secs(10), heard }
                .to_string()
        };
        assert!(text("udp:10.0.0.1:7000", &[]).contains("nobody else was heard"));
        assert!(text("udp:10.0.0.1:7000", &[]).ends_with("`,peer=IP:PORT`"));
        assert!(text("udp:10.0.0.1:7000,peer=10.0.0.2:7000", &["gamma"]).ends_with("the place that `peer=` says?"));
        assert!(text("xdp:eth1", &["gamma", "delta"]).contains("but heard were: gamma, delta"));
        assert!(text("xdp:eth1", &[]).ends_with("on one wire?"));
    }

    #[test]
    fn a_size_that_does_not_fit_says_what_would() {
        let error = Error::TooLarge { via: Via::Udp, size: 1500, most: 1472 };
        assert!(error.to_string().contains("udp carries at most 1472"), "{error}");
    }
}
