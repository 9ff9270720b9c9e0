//! **Every transport by its name.** A program chooses at run time what carries its messages. It gives one name, or
//! several; then each peer is reached by the best transport that both nodes have.
//!
//! ```text
//!   --on xdp:eth1                          AF_XDP on an interface, without the kernel's stack
//!   --on dpdk:net_memif0,role=server,…     a DPDK device
//!   --on udp:10.0.0.7:7000                 the kernel's UDP; IPv4 and IPv6
//!   --on tcp:[::1]:7000                    the kernel's TCP: no frame is lost while a connection lives
//!   --on shm:lab                           processes of this machine
//!   --on amd:/run/amd/amd.sock             a NIC that a daemon shares among programs
//!   --on sim:7,loss=0.01                   nodes of this process, on a simulated network
//!   --on shm:lab+udp:10.0.0.7:7000         both: peers of this machine by shm, all others by UDP
//!   --on shm:lab+node:patience=5           for a node: its patience in seconds, window=MESSAGES, trace=FILE
//! ```
//!
//! `xdp`, `dpdk` and `sim` are default features of this crate. The other transports need no library and are always there.
//!
//! [`Node::open`](crate::Node::open) takes such a name. To open a transport without a node:
//!
//! ```
//! let udp = am_api::transports::open("udp:127.0.0.1:0")?;
//! assert_eq!(udp.caps().name.split(':').next(), Some("udp"));
//! # Ok::<(), am_api::transports::OpenError>(())
//! ```

#[cfg(feature = "xdp")]
mod xdp;

use am_multipath::Multipath;
use am_ring::{Owned, Owner};
use am_transport::{NameError, Transport, TransportName};
use am_wire::EtherType;
use am_wire::control::Name;

/// The character between several names.
pub(crate) const SEPARATOR: char = '+';

/// The result of opening a transport.
type Opened = Result<Box<dyn Transport>, Box<dyn std::error::Error + Send + Sync>>;

/// A kind of transport: its name and its description.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The part of a name before the colon.
    pub scheme: &'static str,
    /// An example of a name.
    pub example: &'static str,
    /// The description, in a line.
    pub what: &'static str,
    /// Gets the name of the node, if that is known.
    open: fn(&TransportName, Option<Name>) -> Opened,
}

/// All kinds of this build, the best first. Of several that reach a peer, the first is used.
const KINDS: &[Kind] = &[
    Kind {
        scheme: "shm",
        example: "shm:lab",
        what: "shared memory: processes of this machine",
        open: |name, _| owned(|| Ok(am_shm::open(&am_shm::ShmOptions::from_name(name)?)?)),
    },
    Kind {
        scheme: "amd",
        example: "amd:/run/amd/amd.sock",
        what: "a virtual NIC: programs of this machine, and the NIC that the daemon amd shares among them",
        open: open_vnic,
    },
    #[cfg(feature = "dpdk")]
    Kind {
        scheme: "dpdk",
        example: "dpdk:net_memif0,role=server",
        what: "DPDK: a PCI port or a virtual device; needs scripts/setup --with-dpdk",
        open: |name, _| owned(|| Ok(am_dpdk::open(&am_dpdk::DpdkOptions::of(name)?)?)),
    },
    #[cfg(feature = "xdp")]
    Kind {
        scheme: "xdp",
        example: "xdp:eth1",
        what: "AF_XDP: the rings of an interface, without the kernel's network stack",
        open: |name, _| owned(|| Ok(am_afxdp::open(&xdp::options(name)?)?)),
    },
    Kind {
        scheme: "udp",
        example: "udp:10.0.0.7:7000",
        what: "UDP: any network, without special rights; each frame is a datagram",
        open: |name, _| owned(|| Ok(am_sockets::udp::open(&am_sockets::SocketOptions::from_name(name)?)?)),
    },
    Kind {
        scheme: "tcp",
        example: "tcp:10.0.0.7:7000",
        what: "TCP: any network, without special rights; no frame is lost while a connection lives",
        open: |name, _| owned(|| Ok(am_sockets::tcp::open(&am_sockets::SocketOptions::from_name(name)?)?)),
    },
    #[cfg(feature = "sim")]
    Kind {
        scheme: "sim",
        example: "sim:7,loss=0.01",
        what: "a simulated network with chosen losses and delays: nodes of one process, for tests",
        open: |name, _| owned(|| Ok(am_netdev_sim::live::open(&am_netdev_sim::live::SimSettings::from_name(name)?)?)),
    },
];

/// A virtual NIC, which uses a queue of the daemon's interface if it is given one.
fn open_vnic(name: &TransportName, node: Option<Name>) -> Opened {
    let options = am_vnic::VnicOptions { node, ..am_vnic::VnicOptions::from_name(name)? };
    #[cfg(feature = "xdp")]
    return Ok(am_vnic::open_with_queue(&options, am_afxdp::open_given)?);
    #[cfg(not(feature = "xdp"))]
    Ok(Box::new(am_vnic::open(&options)?))
}

/// Open a transport of this process: a forked child does not close its copy.
fn owned<T: Transport + 'static>(open: impl FnOnce() -> Result<T, Box<dyn std::error::Error + Send + Sync>>) -> Opened {
    // Before it is open: a child may be forked meanwhile.
    let owner = Owner::new()?;
    Ok(Box::new(Owned::new(owner, open()?)))
}

/// The schemes that a build can leave out. Each is a feature of this crate.
const FEATURES: [&str; 3] = ["dpdk", "sim", "xdp"];

/// What the settings of a node begin with.
pub(crate) const NODE_SCHEME: &str = "node";

/// What an operator sets of a node, behind its transports.
pub(crate) const NODE_SETTINGS: [&str; 3] = ["patience", "window", "trace"];

/// Why a transport could not be opened.
#[derive(thiserror::Error)]
pub enum OpenError {
    /// The text names no transport, or has an unknown setting.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A `+` has no name on one side.
    #[error("`{0}` has a `+` that joins nothing: write a name on both sides of it, as in `shm:lab+udp:10.0.0.7:7000`")]
    Missing(String),
    /// The transport could not be opened.
    #[error("`{name}`: {why}")]
    Kind {
        /// The name.
        name: String,
        /// The cause, and what to do.
        #[source]
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// This build was made without the transport.
    #[error("`{0}` was left out of this program: build it with the feature `{0}` of am-api")]
    LeftOut(&'static str),
    /// Several transports could not be joined.
    #[error(transparent)]
    Several(#[from] am_multipath::MultipathOpenError),
}

am_transport::debug_as_display!(OpenError);

impl OpenError {
    /// Whether another name would help. Otherwise something is missing on this machine, or in use.
    pub fn is_about_the_name(&self) -> bool {
        match self {
            OpenError::Name(_) | OpenError::Missing(_) => true,
            OpenError::Kind { why, .. } => {
                #[cfg(feature = "xdp")]
                if matches!(why.downcast_ref(), Some(am_afxdp::XdpOpenError::Options(_))) {
                    return true;
                }
                matches!(why.downcast_ref(), Some(am_shm::ShmOpenError::Name(_) | am_shm::ShmOpenError::Options(_)))
                    || matches!(why.downcast_ref(), Some(am_vnic::VnicOpenError::Setting { .. }))
                    || matches!(why.downcast_ref(), Some(am_sockets::SocketOpenError::Frame { .. }))
            }
            OpenError::LeftOut(_) | OpenError::Several(_) => false,
        }
    }
}

/// All kinds of transports in this build, the best first.
pub fn kinds() -> &'static [Kind] {
    KINDS
}

/// Whether a name begins with this, in this build or in one with all features: the scheme of a transport, or of a node's settings.
///
/// ```
/// assert!(am_api::transports::is_scheme("udp") && am_api::transports::is_scheme("node"));
/// assert!(!am_api::transports::is_scheme("UDP"));
/// ```
pub fn is_scheme(text: &str) -> bool {
    text == NODE_SCHEME || FEATURES.contains(&text) || KINDS.iter().any(|kind| kind.scheme == text)
}

/// The parts of a node's address that other nodes must be given ([`add_peer_address`](crate::Node::add_peer_address)). Other
/// transports find their peers themselves.
///
/// ```
/// let addresses: Vec<&str> = am_api::transports::peer_addresses("shm:lab+udp:10.0.0.7:7000").collect();
/// assert_eq!(addresses, ["udp:10.0.0.7:7000"]);
/// ```
pub fn peer_addresses(address: &str) -> impl Iterator<Item = &str> {
    split(address).into_iter().filter(|part| part.starts_with("udp:") || part.starts_with("tcp:"))
}

/// Split several names at the `+` between them. An interface's name may contain a `+`, so behind `xdp:` a `+` separates
/// names only if a scheme follows.
///
/// ```
/// assert_eq!(am_api::transports::split("shm:lab+udp:10.0.0.7:7000"), ["shm:lab", "udp:10.0.0.7:7000"]);
/// assert_eq!(am_api::transports::split("xdp:eth+1+udp:10.0.0.7:7000"), ["xdp:eth+1", "udp:10.0.0.7:7000"]);
/// ```
pub fn split(names: &str) -> Vec<&str> {
    let has_scheme = |text: &str| {
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        scheme.starts_with(|c: char| c.is_ascii_lowercase()) && scheme.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let (mut all, mut begin) = (Vec::new(), 0);
    for (at, _) in names.match_indices(SEPARATOR) {
        if !names[begin..].starts_with("xdp:") || has_scheme(&names[at + SEPARATOR.len_utf8()..]) {
            all.push(&names[begin..at]);
            begin = at + SEPARATOR.len_utf8();
        }
    }
    all.push(&names[begin..]);
    all
}

/// Split one name in front of its settings. An interface's name may contain a `,`, so behind `xdp:` a `,` begins the settings only if
/// one follows.
///
/// ```
/// assert_eq!(am_api::transports::split_settings("udp:10.0.0.7:7000,frame=1514"), ("udp:10.0.0.7:7000", ",frame=1514"));
/// # #[cfg(feature = "xdp")]
/// assert_eq!(am_api::transports::split_settings("xdp:eth+a,1,queue=1"), ("xdp:eth+a,1", ",queue=1"));
/// ```
pub fn split_settings(name: &str) -> (&str, &str) {
    #[cfg(feature = "xdp")]
    if let Some(rest) = name.strip_prefix("xdp:") {
        return name.split_at(name.len() - rest.len() + xdp::interface(rest).len());
    }
    name.split_at(name.find(',').unwrap_or(name.len()))
}

/// Open the transport of this name, or the transports of several names with `+` between them.
pub fn open(names: &str) -> Result<Box<dyn Transport>, OpenError> {
    open_for(names, None)
}

/// The same for the node of this name.
pub(crate) fn open_for(names: &str, node: Option<Name>) -> Result<Box<dyn Transport>, OpenError> {
    let all = split(names);
    if names.contains(SEPARATOR) && all.iter().any(|name| name.is_empty()) {
        return Err(OpenError::Missing(names.to_owned()));
    }
    let mut ways = all.into_iter().map(|name| open_one(name, node)).collect::<Result<Vec<_>, _>>()?;
    if ways.len() == 1 {
        return Ok(ways.swap_remove(0).1);
    }
    ways.sort_by_key(|(rank, _)| *rank);
    let ways = ways.into_iter().map(|(_, transport)| transport).collect();
    Ok(Box::new(Multipath::new(ways, EtherType::DEFAULT)?))
}

/// An error about a transport's setting that is a node's says where that is written.
fn with_place(error: NameError) -> NameError {
    match error {
        NameError::Setting { scheme, setting, .. }
            if NODE_SETTINGS.contains(&setting.split('=').next().unwrap_or_default()) =>
        {
            let hint =
                format!("it is a setting of the node, and has its place behind all transports: `+node:{setting}`");
            NameError::Setting { scheme, setting, hint }
        }
        other => other,
    }
}

fn open_one(text: &str, node: Option<Name>) -> Result<(usize, Box<dyn Transport>), OpenError> {
    let name: TransportName = text.parse()?;
    let Some(rank) = KINDS.iter().position(|kind| kind.scheme == name.scheme()) else {
        return Err(match FEATURES.into_iter().find(|feature| *feature == name.scheme()) {
            Some(feature) => OpenError::LeftOut(feature),
            None => name.unknown_error(&KINDS.iter().map(|kind| kind.example).collect::<Vec<_>>()).into(),
        });
    };
    match (KINDS[rank].open)(&name, node) {
        Ok(transport) => Ok((rank, transport)),
        // The text of a `NameError` has the name already.
        Err(why) => Err(match why.downcast::<NameError>() {
            Ok(error) => OpenError::Name(with_place(*error)),
            Err(why) => OpenError::Kind { name: text.to_owned(), why },
        }),
    }
}
