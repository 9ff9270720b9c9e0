//! Transports by name: all of `am_api::transports`, and `loopback:NAME` in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use am_api::transports::OpenError;
use am_fm::Transport;
use am_transport::NameError;
use am_transport::loopback::{Plug, wire};

/// The scheme of a wire in memory.
const LOOPBACK: &str = "loopback:";

/// Why a transport could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// The error of a transport that `am_api::transports` opens.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An unknown scheme.
    #[error("{0}; and between the threads of a process loopback:NAME")]
    Unknown(NameError),
    /// A wire without a name.
    #[error("`loopback` does not say which wire: write `loopback:test`, for instance")]
    Nameless,
    /// No memory for the loopback's frames.
    #[error("no memory for the wire: {0}")]
    Memory(String),
    /// Another thread has this rank.
    #[error("another thread of this process is node {0} on this wire already")]
    Taken(usize),
    /// The wire was made for another number of nodes.
    #[error("the wire `{name}` in this process was made for {ends} nodes, not for {nodes}: use another name")]
    Ends {
        /// The wire's name.
        name: String,
        /// The nodes that it was made for.
        ends: usize,
        /// The nodes that were asked for.
        nodes: usize,
    },
    /// A wire with fewer than two nodes.
    #[error("a wire in memory has two nodes or more")]
    Alone,
}

/// Open the transport of node `own` of `nodes`, on the thread that will use it.
pub(crate) fn open(name: &str, own: usize, nodes: usize) -> Result<Box<dyn Transport>, PlaceError> {
    let Some(wire) = name.strip_prefix(LOOPBACK) else {
        return am_api::transports::open(name).map_err(|error| match error {
            OpenError::Name(NameError::Unknown { scheme, .. }) if scheme == "loopback" => PlaceError::Nameless,
            OpenError::Name(unknown @ NameError::Unknown { .. }) => PlaceError::Unknown(unknown),
            error => error.into(),
        });
    };
    if wire.is_empty() {
        return Err(PlaceError::Nameless);
    }
    let home = wire.to_owned();
    let open = plug(wire, own, nodes)?.open_with(move |plug| unplug(&home, own, plug));
    Ok(Box::new(open.map_err(|error| PlaceError::Memory(error.to_string()))?))
}

/// Wires in memory, by name, with the ends that are not in use.
static WIRES: Mutex<BTreeMap<String, Vec<Option<Plug>>>> = Mutex::new(BTreeMap::new());

/// End `own` of the wire of this name. The first thread makes the wire.
fn plug(name: &str, own: usize, nodes: usize) -> Result<Plug, PlaceError> {
    if nodes < 2 {
        return Err(PlaceError::Alone);
    }
    let mut wires = WIRES.lock().unwrap_or_else(PoisonError::into_inner);
    let ends = wires.entry(name.to_owned()).or_insert_with(|| wire(nodes).into_iter().map(Some).collect());
    if ends.len() != nodes {
        return Err(PlaceError::Ends { name: name.to_owned(), ends: ends.len(), nodes });
    }
    ends.get_mut(own).and_then(Option::take).ok_or(PlaceError::Taken(own))
}

/// Release an end. When all ends are free, the name is free for another wire.
fn unplug(name: &str, own: usize, plug: Plug) {
    let mut wires = WIRES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(ends) = wires.get_mut(name) else { return };
    ends[own] = Some(plug);
    if ends.iter().all(Option::is_some) {
        wires.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_a_wire_is_given_once() {
        let [mut first, mut second] = [0, 1].map(|end| Some(plug("once", end, 2).unwrap()));
        for _ in 0..3 {
            assert!(matches!(plug("once", 0, 2), Err(PlaceError::Taken(0))));
            assert!(matches!(plug("once", 1, 3), Err(PlaceError::Ends { ends: 2, nodes: 3, .. })));
            first.take().into_iter().for_each(|plug| unplug("once", 0, plug));
            first = plug("once", 0, 2).ok();
            assert!(first.is_some());
            second.take().into_iter().for_each(|plug| unplug("once", 1, plug));
            second = plug("once", 1, 2).ok();
        }
        unplug("once", 0, first.unwrap());
        unplug("once", 1, second.unwrap());
        plug("once", 0, 3).expect("a new wire of the same name");
        assert!(matches!(plug("once", 2, 2), Err(PlaceError::Ends { .. })));
        assert!(matches!(plug("one", 0, 1), Err(PlaceError::Alone)));
    }

    #[test]
    fn what_is_no_transport_says_what_is() {
        for (name, says) in [
            ("carrier-pigeon:9", "SCHEME"),
            ("mpi:9", "udp:10.0.0.7:7000"),
            ("mpi:9", "loopback:NAME"),
            ("loopback", "loopback:test"),
            ("loopback:", "loopback:test"),
            ("xdp", "xdp:eth1"),
            ("XDP:eth1", "SCHEME"),
            ("shm:a+", "joins nothing"),
        ] {
            let error = open(name, 0, 2).err().expect(name).to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    /// Each kind of transport in `am_api::transports` is available to C programs.
    #[test]
    fn every_kind_is_known() {
        for kind in am_api::transports::kinds() {
            // A setting that none has: the kind itself has to refuse it.
            let error = open(&format!("{},no-such-setting=1", kind.example), 0, 2).err().expect(kind.scheme);
            assert!(matches!(error, PlaceError::Open(_)), "{}: {error}", kind.scheme);
        }
    }
}
