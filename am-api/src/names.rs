//! Names: of nodes and endpoints, of connections, of handlers.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};

use am_proto::{FlowId, Peer};
use am_wire::Address;
use am_wire::control::{Incarnation, Name, NodeId};

/// The text is no name.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no name: names of nodes and endpoints have 1 to 31 bytes and no control characters", shown(.0))]
pub struct InvalidName(pub String);

am_transport::debug_as_display!(InvalidName);

/// Of a text that is too long its beginning, with control characters escaped.
fn shown(text: &str) -> String {
    const MOST: usize = 40;
    let start: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() { start + "..." } else { start }
}

pub(crate) fn parse(text: &str) -> Result<Name, InvalidName> {
    Name::new(text).ok_or_else(|| InvalidName(text.to_owned()))
}

/// The random letters of a unique name. Among 16,384 names two are equal in one network of a million.
const RANDOM_LETTERS: usize = 10;
/// No vowels, so that no words come out, and nothing that looks like another one.
const LETTERS: &[u8; 27] = b"23456789bcdfghjkmnpqrstvwxz";

/// A name that begins with this text, and that no other node has.
pub(crate) fn unique(start: &str) -> Result<Name, InvalidName> {
    // The system's random numbers: each call has others.
    let mut random = RandomState::new().build_hasher().finish();
    let next = |_| {
        let letter = LETTERS[(random % LETTERS.len() as u64) as usize];
        random /= LETTERS.len() as u64;
        char::from(letter)
    };
    let letters: String = (0..RANDOM_LETTERS).map(next).collect();
    if start.is_empty() {
        return parse(&letters);
    }
    let most = Name::MAX_BYTES - RANDOM_LETTERS - 1;
    let end = (0..=most.min(start.len())).rev().find(|&end| start.is_char_boundary(end)).unwrap_or_default();
    parse(&format!("{}-{letters}", &start[..end]))
}

/// A peer of a static table.
pub(crate) fn fixed(name: &str, address: Address) -> Result<Peer, InvalidName> {
    Ok(unseen(parse(name)?, address))
}

/// A peer that has not introduced itself.
pub(crate) fn unseen(name: Name, address: Address) -> Peer {
    // Run 0 is before any that a peer will tell of.
    Peer { node: NodeId::of(&name), incarnation: Incarnation(0), name, address }
}

/// The tag of a list of texts ([`endpoint_with_tag`](crate::Node::endpoint_with_tag)): nodes that were given different lists have
/// different tags. A guard against mistakes, not a secret (FNV-1a).
///
/// ```
/// use am_api::tag_of;
/// assert_eq!(tag_of(["alpha", "beta"]), tag_of(["alpha", "beta"]));
/// assert_ne!(tag_of(["alpha", "beta"]), tag_of(["alphabeta"]));
/// ```
pub fn tag_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    let bytes = texts.into_iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A connection of two endpoints, as this node names it: small, copied freely, a key for maps. It stays valid as a name when
/// the connection has ended; a later one with the same peer has another.
///
/// It belongs to one endpoint of its node: that endpoint gets its replies, returned messages and events, even if a request
/// was sent through another endpoint of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection(pub(crate) FlowId);

/// Index into the receiving endpoint's table of handlers: what a message names
/// instead of a function. Requests and replies have a table each.
///
/// ```
/// use am_api::HandlerId;
/// const ECHO: HandlerId = HandlerId(0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub u8);

/// A call of an endpoint: what [`Endpoint::try_call`](crate::Endpoint::try_call) returned, and the first word of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

impl CallId {
    /// A small number for a table: smaller than the most calls of the endpoint that ever waited at once. Calls that wait have different
    /// ones; after its outcome, a later call may have it.
    pub fn slot(self) -> usize {
        // The id is a key of a `SlotMap`: the index in the low half, which counts from 1.
        (self.0 as u32).wrapping_sub(1) as usize
    }
}

/// The name of an endpoint on the network: its node's, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointName {
    /// The node.
    pub node: Name,
    /// The endpoint of that node.
    pub endpoint: Name,
}

impl EndpointName {
    pub(crate) fn of((node, endpoint): (Name, Name)) -> EndpointName {
        EndpointName { node, endpoint }
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.node, self.endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_1_to_31_bytes() {
        assert_eq!(parse("").unwrap_err(), InvalidName(String::new()));
        assert!(parse(&"x".repeat(32)).is_err());
        assert_eq!(parse("beta").unwrap().as_str(), "beta");
    }

    #[test]
    fn a_name_compares_with_its_text() {
        let name = parse("beta").unwrap();
        assert!(name == "beta" && name == *"beta" && name != "bet" && name != "beta\0" && name != "");
    }

    #[test]
    fn unique_names_differ_and_fit() {
        let names: std::collections::BTreeSet<Name> = (0..10_000).map(|_| unique("client").unwrap()).collect();
        assert!(names.len() == 10_000 && names.iter().all(|name| name.as_str().starts_with("client-")));
        assert_eq!(unique("").unwrap().as_str().len(), RANDOM_LETTERS);
        for start in ["x".repeat(31), "ö".repeat(200), "a".to_owned() + &"ö".repeat(15)] {
            let name = unique(&start).unwrap();
            assert!(
                name.as_str().len() <= 31 && start.starts_with(&name.as_str()[..name.as_str().len() - 11]),
                "{name}"
            );
        }
        assert!(unique("a\nb").is_err());
    }

    #[test]
    fn an_error_shows_the_start_of_a_text_that_is_no_name() {
        let says = |text: &str| parse(text).unwrap_err().to_string();
        assert!(says("a\0\n").starts_with("`a\\0\\n` is no name:") && says("\n").ends_with("no control characters"));
        assert!(says(&"x".repeat(1000)).starts_with(&format!("`{}...` is", "x".repeat(40))));
    }

    #[test]
    fn node_ids_are_those_of_every_build() {
        // FNV-1a's published test vector for "a".
        assert_eq!(NodeId::of(&parse("a").unwrap()), NodeId(0xaf63_dc4c_8601_ec8c));
        assert_ne!(NodeId::of(&parse("alpha").unwrap()), NodeId::of(&parse("beta").unwrap()));
    }
}
