//! Transports by name. Only here are backends named.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fm::Transport;
use transport::loopback::{Plug, wire};
use transport::{Name, NameError};

/// Why there is no such transport.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// Its name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// AF_XDP.
    #[error(transparent)]
    Xdp(#[from] afxdp::OpenError),
    /// Memory.
    #[error("no memory for the wire: {0}")]
    Memory(String),
    /// Two of one number.
    #[error("another thread of this process is node {0} on this wire already")]
    Taken(usize),
    /// Another number of nodes.
    #[error("the wire `{name}` in this process was made for {ends} nodes, not for {nodes}: use another name")]
    Ends {
        /// The wire.
        name: String,
        /// Those that it has.
        ends: usize,
        /// Those that are wanted.
        nodes: usize,
    },
    /// A wire with one end.
    #[error("a wire in memory has two nodes or more")]
    Alone,
}

/// Open the transport of node `own` of so many, on the thread that will use it.
pub(crate) fn open(name: &str, own: usize, nodes: usize) -> Result<Box<dyn Transport>, PlaceError> {
    let name: Name = name.parse()?;
    match name.scheme() {
        "xdp" => Ok(Box::new(afxdp::open(&afxdp::Options::new(name.rest("eth1")?))?)),
        "loopback" => {
            let open = plug(name.rest("test")?, own, nodes)?.open();
            Ok(Box::new(open.map_err(|error| PlaceError::Memory(error.to_string()))?))
        }
        _ => Err(name.unknown(&["xdp:INTERFACE", "loopback:NAME"]).into()),
    }
}

/// Wires in memory, by name, with the ends that nobody has taken yet.
static WIRES: Mutex<BTreeMap<String, Vec<Option<Plug>>>> = Mutex::new(BTreeMap::new());

/// End `own` of the wire of this name. Whoever comes first makes the wire; when all
/// ends are taken, the name is free for another.
fn plug(name: &str, own: usize, nodes: usize) -> Result<Plug, PlaceError> {
    if nodes < 2 {
        return Err(PlaceError::Alone);
    }
    let mut wires = WIRES.lock().unwrap_or_else(PoisonError::into_inner);
    let ends = wires.entry(name.to_owned()).or_insert_with(|| wire(nodes).into_iter().map(Some).collect());
    if ends.len() != nodes {
        return Err(PlaceError::Ends { name: name.to_owned(), ends: ends.len(), nodes });
    }
    let plug = ends.get_mut(own).and_then(Option::take).ok_or(PlaceError::Taken(own))?;
    if ends.iter().all(Option::is_none) {
        wires.remove(name);
    }
    Ok(plug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_a_wire_is_given_once() {
        plug("once", 0, 2).unwrap();
        assert!(matches!(plug("once", 0, 2), Err(PlaceError::Taken(0))));
        assert!(matches!(plug("once", 1, 3), Err(PlaceError::Ends { ends: 2, nodes: 3, .. })));
        plug("once", 1, 2).unwrap();
        plug("once", 0, 3).expect("a new wire of the same name");
        assert!(matches!(plug("one", 0, 1), Err(PlaceError::Alone)));
    }

    #[test]
    fn what_is_no_transport_says_what_is() {
        for (name, says) in [("tcp:9", "xdp:INTERFACE, loopback:NAME"), ("xdp", "xdp:eth1"), ("XDP:eth1", "SCHEME")] {
            let error = open(name, 0, 2).err().expect(name).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
