//! The numbers of nodes (NIDs) and of endpoints (DPIDs), and the table that translates NIDs (the paper's NART).

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use am_api::{Builder, Node, PeerAddressError, tag_of, transports};
use am_base::{Cluster, Rank};
use am_spmd::Place;

use am_input::text_file;

/// The number of a node of the cluster. Several processes of a host may share one: see [`Nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nid(pub u32);

/// The number of an endpoint. No other endpoint of its node has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dpid(pub u32);

impl fmt::Display for Nid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Dpid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Dpid {
    /// The name of the endpoint on the network.
    pub(crate) fn endpoint(self) -> String {
        format!("dp.{self}")
    }

    pub(crate) fn of_endpoint(name: &str) -> Option<Dpid> {
        name.strip_prefix("dp.")?.parse().ok().map(Dpid)
    }
}

/// How nodes are found by their numbers.
#[derive(Clone, Debug)]
enum Names {
    /// By name: one process each.
    Listed(Cluster),
    /// By discovery: the name of each process of node 3 is `dp3.` and a random part.
    Found,
}

/// The translation of NIDs to the names of nodes on the network. Each process of a cluster has an equal one.
///
/// | made by | a NID is | nodes are found |
/// | --- | --- | --- |
/// | [`Nodes::list`] | the place of a name in a list | by name |
/// | [`Nodes::of_place`] | the rank of a process that a launcher started | by name |
/// | [`Nodes::found`], [`NodeTable`] | chosen by the process. Processes of one host that share a NIC through `amd` may share a NID | by discovery |
#[derive(Clone, Debug)]
pub struct Nodes {
    own: Nid,
    names: Names,
    own_name: String,
    tag: u64,
    /// Processes of a host share a NID only if their scopes are equal.
    scope: u64,
    count: Option<usize>,
}

impl Nodes {
    /// The nodes of these names. This process is the one at place `own`. `None` if the list has no such place, or if a name is invalid or
    /// occurs twice.
    pub fn list<S: AsRef<str>>(names: impl IntoIterator<Item = S>, own: Nid) -> Option<Nodes> {
        Cluster::new(names, Rank(own.0 as usize)).ok().map(Nodes::of_cluster)
    }

    /// The processes of a job, by rank.
    pub fn of_place(place: &Place) -> Nodes {
        Nodes::of_cluster(Cluster::of_place(place))
    }

    fn of_cluster(cluster: Cluster) -> Nodes {
        let (own, own_name, tag) = (Nid(cluster.own().0 as u32), cluster.own_name().to_owned(), cluster.tag());
        let count = Some(cluster.nodes());
        Nodes { own, names: Names::Listed(cluster), own_name, tag, scope: tag, count }
    }

    /// Nodes that discover each other on this process's `transport`. All must give the same `tag`: nodes with different tags refuse each
    /// other's connections.
    pub fn found(own: Nid, tag: u64, transport: &str) -> Nodes {
        // A random number, because the hasher's keys are random.
        let unique = RandomState::new().build_hasher().finish() as u32;
        Nodes {
            own,
            names: Names::Found,
            own_name: format!("dp{own}.{unique:08x}"),
            tag,
            scope: tag_of([transport]) ^ tag,
            count: None,
        }
    }

    /// The number of this process's node.
    pub fn own(&self) -> Nid {
        self.own
    }

    /// The name of this process's node on the network.
    pub fn own_name(&self) -> &str {
        &self.own_name
    }

    /// How many nodes there are. `None` if nodes are found by discovery.
    pub fn count(&self) -> Option<usize> {
        self.count
    }

    /// A number that all nodes with the same table compute: a guard against mistakes (AM-II's tag).
    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }

    /// Whether a node with this number may exist.
    pub(crate) fn may_have(&self, nid: Nid) -> bool {
        match &self.names {
            Names::Listed(cluster) => (nid.0 as usize) < cluster.nodes(),
            Names::Found => true,
        }
    }

    /// Processes of a host with one scope and one NID share the DPIDs of that node.
    pub(crate) fn scope(&self) -> u64 {
        self.scope
    }

    /// Whether several processes may have one NID.
    pub(crate) fn has_siblings(&self) -> bool {
        matches!(self.names, Names::Found)
    }

    /// The known names of processes that may have an endpoint of this node.
    pub(crate) fn processes(&self, nid: Nid, node: &Node) -> Vec<String> {
        match &self.names {
            Names::Listed(cluster) => cluster.name(Rank(nid.0 as usize)).map(str::to_owned).into_iter().collect(),
            Names::Found => {
                let prefix = format!("dp{nid}.");
                let names = node.peers().into_iter().map(|peer| peer.name.as_str().to_owned());
                names.filter(|name| name.starts_with(&prefix)).collect()
            }
        }
    }

    /// The number of the node to which the process with this name belongs.
    pub(crate) fn nid_of(&self, name: &str) -> Option<Nid> {
        match &self.names {
            Names::Listed(cluster) => cluster.rank(name).and_then(|Rank(at)| u32::try_from(at).ok()).map(Nid),
            Names::Found => name.strip_prefix("dp")?.split_once('.')?.0.parse().ok().map(Nid),
        }
    }
}

/// The table of all nodes (the paper's Network Address Resolution Table), from a file that all of them share:
///
/// ```text
/// # NID  transport
/// 0      udp:10.0.0.7:7000        the transport that this node opens, and its address for the others
/// 1      udp:10.0.0.8:7000
/// 2      xdp:eth1                 found by discovery, as are nodes on shm, amd and dpdk
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTable {
    transports: BTreeMap<u32, String>,
}

/// Why a table cannot be used.
#[derive(thiserror::Error)]
pub enum TableError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A line is wrong.
    #[error("{path}, line {line}: {why}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The table has no such node.
    #[error("the table has no node {0}: add a line `{0} TRANSPORT`")]
    NoNode(Nid),
    /// The node could not be opened.
    #[error("node {nid}: {why}")]
    Open {
        /// The node.
        nid: Nid,
        /// Why.
        why: am_api::OpenError,
    },
    /// The transport refuses a node's address.
    #[error("node {nid} at {address}: {why}")]
    Address {
        /// The node.
        nid: Nid,
        /// Its address.
        address: String,
        /// Why.
        why: PeerAddressError,
    },
}

am_api::debug_as_display!(TableError);

/// Whether a transport of this name may exist. Only the node that has it can check this by opening it.
fn is_complete(name: &str) -> bool {
    let parts = name.split_once(':');
    parts.is_some_and(|(scheme, rest)| scheme.starts_with(|c: char| c.is_ascii_lowercase()) && !rest.is_empty())
}

/// The addresses of a node, for the others, without the settings, which are for the node itself.
fn peer_addresses(transport: &str) -> impl Iterator<Item = &str> {
    transports::peer_addresses(transport).map(|address| address.split(',').next().unwrap_or(address))
}

impl NodeTable {
    /// Read a file.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn load(path: impl AsRef<Path>) -> Result<NodeTable, TableError> {
        let path = path.as_ref();
        let text = text_file::read(path).map_err(|error| TableError::Read { path: path.into(), error })?;
        NodeTable::parse(&text).map_err(|(line, why)| TableError::Line { path: path.into(), line, why })
    }

    fn parse(text: &str) -> Result<NodeTable, (usize, String)> {
        let (mut transports, mut taken) = (BTreeMap::new(), HashMap::new());
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(nid) = words.next() else { continue };
            let wrong = |why: String| (at + 1, why);
            let nid: u32 =
                nid.parse().map_err(|_| wrong(format!("`{nid}` is no NID: a number from 0 to {}", u32::MAX)))?;
            let (Some(transport), None) = (words.next(), words.next()) else {
                return Err(wrong("a line has a NID and a transport, as in `0 udp:10.0.0.7:7000`".into()));
            };
            if let Some(part) = transports::split(transport).into_iter().find(|part| !is_complete(part)) {
                return Err(wrong(format!("`{part}` is no transport: write SCHEME:REST, as in `udp:10.0.0.7:7000`")));
            }
            if transports.insert(nid, transport.to_owned()).is_some() {
                return Err(wrong(format!("NID {nid} has a line already")));
            }
            for address in peer_addresses(transport) {
                if let Some((other, line)) = taken.insert(address, (nid, at + 1)) {
                    return Err(wrong(format!(
                        "node {nid} has the address {address}, which node {other} has in line {line}"
                    )));
                }
            }
        }
        Ok(NodeTable { transports })
    }

    /// The NIDs that it has.
    pub fn nids(&self) -> impl Iterator<Item = Nid> {
        self.transports.keys().copied().map(Nid)
    }

    /// Open the node of this number on its transport, with settings, and add the addresses of the other nodes to it.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn open(&self, own: Nid, set: impl FnOnce(Builder) -> Builder) -> Result<(Node, Nodes), TableError> {
        let transport = self.transports.get(&own.0).ok_or(TableError::NoNode(own))?;
        let lines: Vec<String> = self.transports.iter().map(|(nid, transport)| format!("{nid} {transport}")).collect();
        let nodes = Nodes::found(own, tag_of(lines.iter().map(String::as_str)), transport);
        let nodes = Nodes { count: Some(self.transports.len()), ..nodes };
        let opened = set(Node::builder(nodes.own_name())).open(transport);
        let node = opened.map_err(|why| TableError::Open { nid: own, why })?;
        for (&nid, transport) in self.transports.iter().filter(|(nid, _)| **nid != own.0) {
            for address in peer_addresses(transport) {
                let refused = |why| TableError::Address { nid: Nid(nid), address: address.to_owned(), why };
                node.add_peer_address(address).map_err(refused)?;
            }
        }
        Ok((node, nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_node() {
        let table = NodeTable::parse("# all\n0 udp:10.0.0.7:7000\n\n7   xdp:eth1 # the last\n").unwrap();
        assert_eq!(table.nids().collect::<Vec<_>>(), [Nid(0), Nid(7)]);
        assert!(matches!(table.open(Nid(1), |set| set), Err(TableError::NoNode(Nid(1)))));
    }

    #[test]
    fn what_has_no_end_is_no_table() {
        let fifo = std::env::temp_dir().join(format!("am-dp-fifo-{}", std::process::id()));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let errors = ["/dev/zero".as_ref(), &*fifo].map(|path| NodeTable::load(path).unwrap_err().to_string());
        std::fs::remove_file(&fifo).unwrap();
        assert!(errors[0].ends_with(": it has more than 16 MiB") && errors[1].contains(": it is a FIFO"), "{errors:?}");
    }

    #[test]
    fn a_wrong_line_says_what_is_wrong() {
        for (text, line, says) in [
            ("one udp:1", 1, "`one` is no NID"),
            ("0 udp:1\n0 udp:2", 2, "has a line already"),
            ("\n1", 2, "a NID and a transport"),
            ("1 udp:1 more", 1, "a NID and a transport"),
            ("-1 udp:1", 1, "is no NID"),
            ("4294967296 udp:1", 1, "a number from 0 to 4294967295"),
            (
                "0 udp:10.0.0.7:1,frame=9000\n\n7 shm:lab+udp:10.0.0.7:1",
                3,
                "udp:10.0.0.7:1, which node 0 has in line 1",
            ),
            ("0 udp:1\n1 udp", 2, "`udp` is no transport"),
            ("0 shm:lab+udp:", 1, "`udp:` is no transport"),
            ("0 10.0.0.7:7000", 1, "is no transport"),
        ] {
            let (at, why) = NodeTable::parse(text).unwrap_err();
            assert!(at == line && why.contains(says), "{text}: {at}: {why}");
        }
    }

    #[test]
    fn a_found_node_says_its_number_in_its_name() {
        let nodes = Nodes::found(Nid(3), 7, "sim:1");
        assert_eq!(nodes.nid_of(nodes.own_name()), Some(Nid(3)));
        assert_ne!(nodes.own_name(), Nodes::found(Nid(3), 7, "sim:1").own_name());
        assert_eq!((nodes.nid_of("dp13.5"), nodes.nid_of("beta"), nodes.nid_of("dp.5")), (Some(Nid(13)), None, None));
    }

    #[test]
    fn a_list_counts_from_0() {
        let nodes = Nodes::list(["alpha", "beta"], Nid(1)).unwrap();
        assert_eq!((nodes.own_name(), nodes.nid_of("alpha"), nodes.count()), ("beta", Some(Nid(0)), Some(2)));
        assert!(Nodes::list(["alpha", "beta"], Nid(2)).is_none());
    }
}
