//! Which node this process is, and how it finds the others: by its launcher, or by `DP_NID` and `DP_NODES`.

use std::env;
use std::time::Duration;

use am_api::{Builder, Node};
use am_dp::{Nid, NodeTable, Nodes};
use am_spmd::Place;
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

/// The node, who the others are, and the launcher's place if there is one.
pub(crate) fn open() -> Result<(Node, Nodes, Option<Place>), Failure> {
    let down = |error: &dyn std::error::Error| Failure::new(Errno::ENETDOWN, error);
    let set = |builder: Builder| builder.keepalive(KEEPALIVE);
    let Some(nid) = number(NID)? else {
        if env::var_os(NODES).is_some() {
            return Err(Failure::new(
                Errno::EINVAL,
                format!("{NODES} is set, and {NID} is not: say which line is this node's"),
            ));
        }
        let mut place = Place::find().map_err(|error| down(&error))?;
        let nodes = Nodes::of_place(&place);
        let node = place.open_with(set).map_err(|error| down(&error))?;
        return Ok((node, nodes, Some(place)));
    };
    let nid = u32::try_from(nid).map(Nid).map_err(|_| Failure::new(Errno::EINVAL, format!("{NID} is too large")))?;
    if let Some(path) = env::var_os(NODES) {
        let table = NodeTable::load(&path).map_err(|error| down(&error))?;
        let (node, nodes) = table.open(nid, set).map_err(|error| down(&error))?;
        return Ok((node, nodes, None));
    }
    let transport = env::var(variables::TRANSPORT).map_err(|_| {
        let text = format!(
            "{NID} is set: name the transport in {}, or the file of all nodes in {NODES}",
            variables::TRANSPORT
        );
        Failure::new(Errno::EINVAL, text)
    })?;
    let nodes = Nodes::found(nid, 0, &transport);
    let node = set(Node::builder(nodes.own_name())).open(&transport).map_err(|error| down(&error))?;
    Ok((node, nodes, None))
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
