//! What the two nodes of the measured program are connected by.

use std::path::PathBuf;

use am_api::Transport;
use am_daemon::{Daemon, DaemonOptions};
use am_sockets::udp;
use am_transport::{Command, loopback};

use crate::Error;
use crate::marks::marked;

/// As few as will do: their memory is cleared while valgrind tells of each access.
pub(crate) const FRAMES: usize = 1024;

/// Endpoints that send and receive nothing.
pub(crate) const IDLE_ENDPOINTS: usize = 10_000;

/// Endpoints that one thread polls, and those of them that get messages where there are several.
#[cfg(feature = "several")]
pub(crate) const POLLED: usize = 64;
pub(crate) const ACTIVE: usize = 8;

/// Connections on which nothing happens.
pub(crate) const IDLE_CONNECTIONS: usize = 999;

/// The transports of the nodes, the requester's first.
pub(crate) type Ends = Vec<Box<dyn Transport>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Over {
    Loopback,
    /// Loopback, without `am-api`: see [`bare`](crate::bare).
    Core,
    /// Loopback, by Directed Point's calls: see [`points`](crate::points).
    Dp,
    /// Loopback, by remote procedure calls: see [`calls`](crate::calls).
    Rpc,
    /// Loopback, by Active Messages 2 in C: see [`am2`](crate::am2).
    Am2,
    /// Loopback, to a node with [`IDLE_ENDPOINTS`] idle endpoints besides.
    Endpoints,
    /// Loopback, between two nodes with [`IDLE_CONNECTIONS`] idle connections besides.
    Connections,
    /// Loopback, from a node with 100 flows, and from one with 15,900 idle ones besides: see `many_flows`.
    Flows100,
    Flows16000,
    Shm,
    Udp,
    /// Loopback, to the members of a group in turn, each of which has a connection.
    Members1,
    Members2,
    Members4,
    Members8,
    /// Loopback, to one of `POLLED` endpoints, each polled by itself in turn: plain round robin.
    Turns,
    /// The same, polled as a set: weighted visits that skip empty endpoints and loiter.
    Visits,
    /// Both with [`ACTIVE`] endpoints that get messages in turn.
    Turns8,
    Visits8,
    /// Two programs of one daemon.
    Amd,
    /// The same, with [`IDLE_PORTS`] idle programs beside them.
    Amd128,
    /// The same, beside a program that floods the daemon with frames on flows that nobody granted it.
    Hostile,
    /// The same, beside a program that scribbles over the memory that it shares with the daemon.
    Scribbling,
    /// Two programs, each with a daemon, and a wire in memory between these.
    Amd2,
    /// No round trip by steps, but the system calls of nodes that sleep: see [`sleeps`](crate::sleeps).
    Sleeps,
}

impl Over {
    /// Nodes that answer.
    pub(crate) fn servers(self) -> usize {
        match self {
            Over::Members2 => 2,
            Over::Members4 => 4,
            Over::Members8 => 8,
            _ => 1,
        }
    }

    /// Endpoints of each node that answers which get messages.
    pub(crate) fn active(self) -> usize {
        if matches!(self, Over::Turns8 | Over::Visits8) { ACTIVE } else { 1 }
    }

    /// Whether it is in the committed table. Groups of members are compared with each other only, and so are ways to poll many
    /// endpoints, and nodes with many flows. The scribbling program is compared with none, and what stands above am-api is in a table of its own.
    pub(crate) fn is_in_table(self) -> bool {
        let is_members = matches!(self, Over::Members1 | Over::Members2 | Over::Members4 | Over::Members8);
        let is_compared_only = is_members || self.is_of_several() || self.is_many_flows();
        !is_compared_only && !matches!(self, Over::Scribbling | Over::Dp | Over::Rpc | Over::Am2)
    }

    /// Whether only the side of a node with many flows is counted.
    pub(crate) fn is_many_flows(self) -> bool {
        matches!(self, Over::Flows100 | Over::Flows16000)
    }

    /// Whether the node that answers polls several endpoints.
    pub(crate) fn is_of_several(self) -> bool {
        matches!(self, Over::Turns | Over::Visits | Over::Turns8 | Over::Visits8)
    }

    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The daemons, in the order in which a request passes them, and the two nodes' transports.
    pub(crate) fn open(self) -> Result<(Vec<Daemon>, Ends), Error> {
        let mut daemons = match self {
            Over::Amd | Over::Amd128 | Over::Hostile | Over::Scribbling => {
                vec![Daemon::open(DaemonOptions::new(socket(0)))?]
            }
            Over::Amd2 => {
                let ends = plugs(2).into_iter().enumerate();
                let serve = |(number, plug): (usize, loopback::Plug)| {
                    Ok(Daemon::open_on(DaemonOptions::new(socket(number)), marked(plug.open()?))?)
                };
                ends.map(serve).collect::<Result<_, Error>>()?
            }
            _ => vec![],
        };
        let ends = self.open_ends(&mut daemons)?;
        Ok((daemons, ends))
    }

    fn open_ends(self, daemons: &mut [Daemon]) -> Result<Ends, Error> {
        Ok(match self {
            Over::Amd | Over::Amd128 | Over::Hostile | Over::Scribbling | Over::Amd2 => {
                let last = daemons.len() - 1;
                vec![marked(attach(daemons, 0, FRAMES)?), marked(attach(daemons, last, FRAMES)?)]
            }
            Over::Shm => {
                let name = format!("shm:am-cost-{},frame=1514,frames={FRAMES}", std::process::id());
                let open = || am_shm::open(&am_shm::ShmOptions::from_name(&name.parse()?)?).map_err(Error::from);
                vec![marked(open()?), marked(open()?)]
            }
            Over::Udp => {
                let open = || {
                    udp::open(&am_sockets::SocketOptions::from_name(
                        &format!("udp:127.0.0.1:0,frame=1514,frames={FRAMES}").parse()?,
                    )?)
                    .map_err(Error::from)
                };
                let (mut left, right) = (open()?, open()?);
                left.control(Command::AddPeer(&right.caps().name))?;
                vec![marked(left), marked(right)]
            }
            _ => open_loopback(1 + self.servers())?,
        })
    }
}

/// The ends of a wire in memory.
pub(crate) fn open_loopback(count: usize) -> Result<Ends, Error> {
    plugs(count).into_iter().map(|plug| Ok(marked(plug.open()?))).collect()
}

/// The same ends before they are opened.
pub(crate) fn plugs(count: usize) -> Vec<loopback::Plug> {
    loopback::wire_with(count, loopback::LoopbackOptions { frames: FRAMES, ..loopback::LoopbackOptions::default() })
}

/// The socket of a daemon.
pub(crate) fn socket(number: usize) -> PathBuf {
    std::env::temp_dir().join(format!("am-cost-{}-{number}.sock", std::process::id()))
}

/// Attach to a daemon that this thread turns.
pub(crate) fn attach(daemons: &mut [Daemon], number: usize, frames: usize) -> Result<am_vnic::Vnic, Error> {
    let options = am_vnic::VnicOptions { max_frame: Some(1514), frames, ..am_vnic::VnicOptions::new(socket(number)) };
    let attaching = am_vnic::begin(&options)?;
    // It accepts the connection, and then reads from it.
    (0..2).for_each(|_| daemons[number].attend());
    Ok(attaching.finish()?)
}
