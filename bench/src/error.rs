//! What can go wrong, what to do about it, and the exit code that says so.

use std::io;
use std::time::Duration;

use crate::plan::Bench;
use crate::via::Via;

/// Why nothing, or not everything, was measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line asks for something that does not go together.
    #[error("{0}")]
    Usage(String),
    /// A message that does not fit one frame.
    #[error(
        "{size} bytes do not fit one frame: {via} carries at most {most} here; take a smaller --size, `--size full`{}",
        more(*via)
    )]
    TooLarge {
        /// By which via.
        via: Via,
        /// What was asked for.
        size: usize,
        /// What would go.
        most: usize,
    },
    /// A core that this process may not use, or that does not exist.
    #[error("no core {wanted} for this process: it may use {}", list(.usable))]
    NoCore {
        /// What was asked for.
        wanted: usize,
        /// What there is.
        usable: Vec<usize>,
    },
    /// The interfaces have no IP addresses that could talk to each other.
    #[error(
        "the two interfaces have no IP addresses of the same kind{0}, which kernel UDP needs: `ip addr add ADDRESS/24 \
         dev INTERFACE` on both machines, or leave udp out with `--via am,raw`"
    )]
    NoIp(String),
    /// A capability is missing.
    #[error("not permitted: missing {missing}\n  run as root:           sudo {command}{grant}")]
    Capability {
        /// Which are missing, and what they are for.
        missing: String,
        /// The command as it was given.
        command: String,
        /// Another way, on a line of its own; empty where there is none.
        grant: String,
    },
    /// Something that the system does not have or does not let us use.
    #[error("{0}")]
    Facility(String),
    /// An interface cannot be used for AF_XDP.
    #[error(transparent)]
    Open(#[from] am_afxdp::OpenError),
    /// Namespaces or cables could not be made.
    #[error(transparent)]
    Hosts(#[from] am_netns::HostError),
    /// The operating system refused.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// Nobody of that name answers.
    #[error(
        "no peer {name} answered on {on} within {} s, {}: is `am-bench --serve --on ... --name {name}` running on the \
         other machine, {}", .waited.as_secs(), others(.heard), meets(.on)
    )]
    PeerUnknown {
        /// Who was asked for.
        name: String,
        /// On which wire.
        on: String,
        /// How long.
        waited: Duration,
        /// Who was heard there.
        heard: Vec<String>,
    },
    /// The far side said no.
    #[error("the far side refused: {0}")]
    Refused(String),
    /// The far side does not answer, or no longer.
    #[error("the far side was lost: {doing} by {via}, nothing was heard of it for {} ms", .silence.as_millis())]
    Silent {
        /// What it was asked.
        doing: &'static str,
        /// By which via.
        via: Via,
        /// For how long.
        silence: Duration,
    },
    /// Its node has gone.
    #[error("the far side was lost: {0}")]
    Lost(String),
    /// Not every message arrived once, as it was sent.
    #[error("{0}")]
    Torture(String),
    /// Messages arrived with another length or content than they were sent with.
    #[error(
        "{wrong} messages by {via} arrived with wrong content or length ({bench}, {size} bytes; one in 16 was compared \
         byte by byte): something between the two sides cuts or changes them, so no figure of this via holds; try a \
         smaller --size, another --xdp mode or, with --hosts, a smaller --mtu to find what does"
    )]
    Wrong {
        /// By which via.
        via: Via,
        /// What was measured.
        bench: Bench,
        /// Bytes that a message has.
        size: usize,
        /// How many were found, at both sides.
        wrong: u64,
    },
    /// The near side has said that it leaves.
    #[error("the near side gave up before the end")]
    GivenUp,
    /// The process at the other end is gone.
    #[error("the other side's process has ended: {0}")]
    PeerGone(String),
    /// Asked to stop by a signal.
    #[error("interrupted")]
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

impl Error {
    /// An error of the operating system.
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::System { doing, source }
    }

    /// What the process ends with; documented in `--help`.
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

/// What else two sides need to meet on this transport.
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
