//! The static table in a file.

use std::io;
use std::path::PathBuf;

use am_transport::PeerAddressError;
use am_wire::Address;
use am_wire::control::Name;

use crate::names::{self, InvalidName};

/// Why a file of peers was not loaded. Nothing of it is in use then, unless a transport refused an address.
#[derive(thiserror::Error)]
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

am_transport::debug_as_display!(PeersFileError);

/// What is wrong with a line.
#[derive(thiserror::Error)]
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

am_transport::debug_as_display!(LineError);

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) line: usize,
    pub(crate) name: Name,
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The six bytes in frames.
    Link(Address),
    /// An address of the transport.
    Local(String),
}

/// Each line has a name and an address, with white space between them. Empty lines and what follows a `#` are ignored.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, (usize, LineError)> {
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
