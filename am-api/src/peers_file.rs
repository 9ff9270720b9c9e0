//! The static table in a file.

use std::path::{Path, PathBuf};
use std::{fs, io};

use am_transport::{Command, PeerAddressError};
use am_wire::Address;
use am_wire::control::Name;

use crate::Node;
use crate::names::{self, InvalidName};

/// Why a file of peers was not loaded. Nothing of it is in use then, unless a transport refused an address.
#[derive(Debug, thiserror::Error)]
pub enum PeersFileError {
    /// The file cannot be read.
    #[error("{}: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A line is not a name and an address.
    #[error("{}, line {line}: {why}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: LineError,
    },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// There is one word, or there are more than two.
    #[error("write a name and an address, as in `beta 02:00:00:00:00:02` or `beta udp:10.0.0.7:7000`")]
    Words,
    /// The name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// An earlier line has this name.
    #[error("line {0} has the same name")]
    Twice(usize),
    /// The transport does not take the address.
    #[error(transparent)]
    Address(#[from] PeerAddressError),
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    line: usize,
    name: Name,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The six bytes in frames.
    Link(Address),
    /// An address of the transport.
    Local(String),
}

/// Each line has a name and an address, with white space between them. Empty lines and what follows a `#` are ignored.
fn parse(text: &str) -> Result<Vec<Entry>, (usize, LineError)> {
    let mut entries: Vec<Entry> = vec![];
    for (line, text) in (1..).zip(text.lines()) {
        let words: Vec<&str> = text.split('#').next().unwrap_or_default().split_whitespace().collect();
        let [name, place] = words[..] else {
            if words.is_empty() {
                continue;
            }
            return Err((line, LineError::Words));
        };
        let name = names::parse(name).map_err(|error| (line, error.into()))?;
        if let Some(first) = entries.iter().find(|entry| entry.name == name) {
            return Err((line, LineError::Twice(first.line)));
        }
        let place = place.parse().map_or_else(|_| Place::Local(place.to_owned()), Place::Link);
        entries.push(Entry { line, name, place });
    }
    Ok(entries)
}

impl Node {
    /// Load a static table of peers: known without discovery, and never forgotten for others. A later call replaces what
    /// the earlier one loaded; connections with peers that are no longer in the file stay. The file has a line for each
    /// peer:
    ///
    /// ```text
    /// # name  address
    /// beta    02:00:00:00:00:02     as `Node::link_address` returns it (AF_XDP, DPDK)
    /// gamma   udp:10.0.0.7:7000     as `Node::local_address` returns it (UDP, TCP)
    /// ```
    ///
    /// A node that is found at a local address is known by the name that it gives itself; the name in the file is for the
    /// reader.
    ///
    /// # Errors
    /// The file cannot be read, or a line is wrong: the error says which. If the transport refuses an address, the lines
    /// before it are in use.
    pub fn load_peers(&self, path: impl AsRef<Path>) -> Result<(), PeersFileError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| PeersFileError::Read { path: path.into(), error })?;
        let wrong = |(line, why)| PeersFileError::Line { path: path.into(), line, why };
        let entries = parse(&text).map_err(wrong)?;
        let mut node = self.state.borrow_mut();
        let before = std::mem::take(&mut node.loaded_peers);
        for entry in
            before.iter().filter(|old| !entries.iter().any(|new| (new.name, &new.place) == (old.name, &old.place)))
        {
            match &entry.place {
                Place::Link(_) => node.core().release_peer(names::node_id(entry.name)),
                // An address that was added before cannot be wrong now.
                Place::Local(place) => _ = node.transport.control(Command::RemovePeer(place)),
            }
        }
        for entry in entries {
            match &entry.place {
                &Place::Link(address) => node.core().add_peer(names::unseen(entry.name, address)),
                Place::Local(place) => {
                    let added = node.transport.control(Command::AddPeer(place));
                    added.map_err(|error| wrong((entry.line, error.into())))?;
                }
            }
            node.loaded_peers.push(entry);
        }
        node.core().request_beacons();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names_and_addresses() {
        let entries = parse("# all\n\nbeta\t02:00:00:00:00:02 # here\n  gamma udp:10.0.0.7:7000\n").unwrap();
        let [beta, gamma] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!(
            (beta.line, beta.name.as_str(), &beta.place),
            (3, "beta", &Place::Link(Address([2, 0, 0, 0, 0, 2])))
        );
        assert_eq!((gamma.line, &gamma.place), (4, &Place::Local("udp:10.0.0.7:7000".into())));
    }

    #[test]
    fn an_error_names_the_line_and_what_is_wrong() {
        let wrong = |text: &str| parse(text).map_err(|(line, why)| (line, why.to_string())).unwrap_err();
        assert_eq!(wrong("a 02:00:00:00:00:02\n\nbeta"), (3, LineError::Words.to_string()));
        assert_eq!(wrong("a b c").0, 1);
        assert_eq!(wrong("a udp:1\nb udp:2\na udp:3"), (3, "line 1 has the same name".into()));
        let long = "x".repeat(32);
        assert!(wrong(&format!("{long} udp:1")).1.contains("is no name"));
    }
}
