//! What administrators ask a running daemon, on the same socket: a line of JSON, and a line as the answer.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use am_vnic::protocol::MAX_PACKET;
use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use serde::{Deserialize, Serialize};

/// The most bytes of an answer.
const MAX_ANSWER: usize = 128 * 1024;

/// How long a daemon may take to answer.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// What the daemon serves, and for whom.
    List,
    /// Give another weight to the ports of this name. For root and the daemon's user.
    Weight {
        /// The name of a node.
        name: String,
        /// 1 to 64.
        weight: u32,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// What the daemon serves.
    List(Listing),
    /// It is done.
    Done,
    /// It is not: why, and what to do.
    Refused(String),
}

/// What the daemon serves, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// The wire's name and mode.
    pub wire: String,
    /// Why frames do not leave or arrive on the wire now.
    pub link_error: Option<String>,
    /// Frames from the wire.
    pub from_wire: u64,
    /// Frames to the wire.
    pub to_wire: u64,
    /// Frames from the wire that were for no port.
    pub for_no_port: u64,
    /// Frames from the wire with the address of a port as their source.
    pub spoofed: u64,
    /// The ports.
    pub ports: Vec<PortListing>,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortListing {
    /// Its number.
    pub port: usize,
    /// The name of its node, if it has said it.
    pub name: Option<String>,
    /// Its link address.
    pub address: String,
    /// The user's number.
    pub uid: u32,
    /// The process; 0 if there is none, or it is outside of the daemon's PID namespace.
    pub pid: i32,
    /// Whether there is no program, and the one that was here before the daemon restarted is expected.
    #[serde(default)]
    pub is_expected: bool,
    /// Its weight.
    pub weight: u32,
    /// The queue of the NIC that the program has for itself. Frames of this queue are in none of the counts.
    pub queue: Option<u32>,
    /// Why it has none, though a rule allows it one.
    pub no_queue: Option<String>,
    /// Frames from the program that passed.
    pub sent: u64,
    /// Frames for the program that it got.
    pub delivered: u64,
    /// Frames for the program that found no room.
    pub dropped: u64,
    /// Flows on which it may send.
    pub flows: usize,
    /// By reason: frames from the program that were refused.
    pub refused: std::collections::BTreeMap<String, u64>,
}

/// Ask a daemon.
///
/// # Errors
/// No daemon listens there, this user may not ask, there is no answer within [`TIMEOUT`] ([`io::ErrorKind::TimedOut`]), or one of another
/// program ([`io::ErrorKind::InvalidData`]).
pub fn ask(socket: &Path, question: &Question) -> io::Result<Answer> {
    let question = serde_json::to_vec(question)?;
    if question.len() > MAX_PACKET {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name is too long"));
    }
    let connection = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&connection, direction, Some(TIMEOUT))?;
    }
    let address = SocketAddrUnix::new(socket)?;
    // Calls on a socket with a time-out end for any signal of the process, even one that it ignores.
    let answer = retry_on_intr(|| connect(&connection, &address))
        .and_then(|()| retry_on_intr(|| send(&connection, &question, SendFlags::NOSIGNAL)));
    let answer =
        answer.map_err(io::Error::from).and_then(|_| read_answer(&connection)).map_err(|why| match why.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => why,
        })?;
    if answer.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has closed the connection"));
    }
    serde_json::from_slice(&answer).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
}

fn read_answer(connection: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut answer = Vec::with_capacity(MAX_ANSWER);
    retry_on_intr(|| recv(connection, spare_capacity(&mut answer), RecvFlags::empty()))?;
    Ok(answer)
}
