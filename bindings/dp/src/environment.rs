//! Which node this process is, and how it finds the others: by its launcher, or by `DP_NID` and `DP_NODES`.

use std::env::{self, VarError};
use std::error::Error;
use std::time::Duration;
use std::{io, iter};

use am_api::{Builder, Node};
use am_c_runtime::KeptPlace;
use am_dp::{Nid, NodeTable, Nodes, TableError};
use am_spmd::rendezvous::variables;
use nix::errno::Errno;

use crate::failure::Failure;

/// The program's death is noticed in this time, whether messages are under way or not.
const KEEPALIVE: Duration = Duration::from_secs(3);

/// The variables that this library reads, beside those of launchers.
const NID: &str = "DP_NID";
const NODES: &str = "DP_NODES";
const POOL: &str = "DP_POOL";

/// The size of a pool where none is asked for.
const DEFAULT_POOL: usize = 262_144;

/// The node, and the list of all nodes. Under a launcher `place` is set, also where this fails.
pub(crate) fn open(place: &mut KeptPlace) -> Result<(Node, Nodes), Failure> {
    let set = |builder: Builder| builder.keepalive(KEEPALIVE);
    let Some(nid) = number(NID)? else {
        if env::var_os(NODES).is_some() {
            return Err(Failure::new(
                Errno::EINVAL,
                format!("{NODES} is set, and {NID} is not: say which line is this node's"),
            ));
        }
        let place = place.find().map_err(|error| down(&error))?;
        return Ok((place.open_with(set).map_err(|error| down(&error))?, Nodes::of_place(place)));
    };
    let nid = u32::try_from(nid).map(Nid).map_err(|_| Failure::new(Errno::EINVAL, format!("{NID} is too large")))?;
    if let Some(path) = env::var_os(NODES) {
        let table = NodeTable::load(&path).map_err(|error| no_table(&error))?;
        return table.open(nid, set).map_err(|error| down(&error));
    }
    let transport = env::var(variables::TRANSPORT).map_err(|why| {
        let name = variables::TRANSPORT;
        let text = match why {
            VarError::NotPresent => {
                format!("{NID} is set: name the transport in {name}, or the file of all nodes in {NODES}")
            }
            VarError::NotUnicode(_) => format!("{name} is not UTF-8"),
        };
        Failure::new(Errno::EINVAL, text)
    })?;
    let nodes = Nodes::found(nid, 0, &transport);
    let node = set(Node::builder(nodes.own_name())).open(&transport).map_err(|error| down(&error))?;
    Ok((node, nodes))
}

/// The file of all nodes is missing, or wrong.
fn no_table(error: &TableError) -> Failure {
    let advice = match error {
        TableError::Read { .. } => {
            ": a file with a line for each node, as in `0 udp:10.0.0.7:7000` (docs/directed-point.md)"
        }
        _ => "",
    };
    Failure::new(Errno::ENETDOWN, format!("{NODES}: {error}{advice}"))
}

/// There is no node. Where descriptors are missing, the caller can get more.
fn down(error: &(dyn Error + 'static)) -> Failure {
    let mut causes = iter::successors(Some(error), |&error| error.source());
    let is_too_many = |io: &io::Error| io.raw_os_error() == Some(Errno::EMFILE as i32);
    let has_too_many = causes.any(|cause| cause.downcast_ref().is_some_and(is_too_many));
    Failure::new(if has_too_many { Errno::EMFILE } else { Errno::ENETDOWN }, error)
}

/// The size of a pool.
pub(crate) fn pool_size() -> Result<usize, Failure> {
    Ok(number(POOL)?.unwrap_or(DEFAULT_POOL))
}

fn number(name: &str) -> Result<Option<usize>, Failure> {
    let Some(text) = env::var_os(name) else { return Ok(None) };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Failure::new(Errno::EINVAL, format!("{name} is `{}`, not a number", text.display())))
}
