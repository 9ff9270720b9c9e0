//! Names of endpoints: opaque bytes, which processes pass to each other.

use std::ffi::c_uchar;

use am_api::transports;

/// The bytes of each part: a node's name, an endpoint's, an address. Each ends with 0.
const PARTS: [usize; 3] = [32, 32, 192];

/// `en_t` of `am.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    bytes: [c_uchar; PARTS[0] + PARTS[1] + PARTS[2]],
}

impl Name {
    /// `None` if a part is too long.
    pub(crate) fn new(node: &str, endpoint: &str, address: &str) -> Option<Name> {
        let mut bytes = [0; _];
        let mut at = 0;
        for (part, room) in [node, endpoint, address].into_iter().zip(PARTS) {
            if part.len() >= room || part.contains('\0') {
                return None;
            }
            bytes[at..at + part.len()].copy_from_slice(part.as_bytes());
            at += room;
        }
        Some(Name { bytes })
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Name> {
        Some(Name { bytes: bytes.try_into().ok()? })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Node, endpoint and address; `None` for bytes that are no name.
    pub(crate) fn parts(&self) -> Option<[&str; 3]> {
        let mut parts = [""; 3];
        let mut rest = &self.bytes[..];
        for (part, room) in parts.iter_mut().zip(PARTS) {
            let (own, others) = rest.split_at(room);
            let length = own.iter().position(|byte| *byte == 0)?;
            *part = std::str::from_utf8(&own[..length]).ok()?;
            rest = others;
        }
        let [node, endpoint, _] = parts;
        (!node.is_empty() && !endpoint.is_empty()).then_some(parts)
    }

    /// Whether it names the endpoint that its node calls so.
    pub(crate) fn is_endpoint(&self, endpoint: &str) -> bool {
        self.parts().is_some_and(|[_, own, _]| own == endpoint)
    }

    /// The parts of the address that other nodes must be given.
    pub(crate) fn peer_addresses(&self) -> Vec<&str> {
        self.parts().map_or(vec![], |[.., address]| transports::peer_addresses(address).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_as_bytes() {
        let name = Name::new("job.1", "ep3", "shm:lab+udp:10.0.0.7:7000").unwrap();
        let copy = Name::of_bytes(name.bytes()).unwrap();
        assert_eq!(copy.parts(), Some(["job.1", "ep3", "shm:lab+udp:10.0.0.7:7000"]));
        assert_eq!(copy.peer_addresses(), ["udp:10.0.0.7:7000"]);
        assert!(Name::new(&"x".repeat(32), "ep", "").is_none());
        assert!(
            Name::of_bytes(&[0; 256]).unwrap().parts().is_none()
                && Name::of_bytes(&[255; 256]).unwrap().parts().is_none()
        );
        assert!(Name::of_bytes(&[0; 255]).is_none());
    }
}
