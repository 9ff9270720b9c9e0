//! The address of a task as text: what a program passes to other tasks, in messages of PVM, files or arguments.
//!
//! ```text
//!   am1/HOST/NODE/LINK/TRANSPORTS      am1/alpha/t40002-k3m9x2q7rt/020000000007/shm:pvmam-1000+udp:10.0.0.7:40123
//! ```

use am_api::{Address, Node, tag_of, transports};

/// The version of the text.
const VERSION: &str = "am1";

/// Where a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: String,
    /// The name of its node.
    pub(crate) node: String,
    /// The six bytes that stand for the node in frames.
    link: Address,
    /// The names of its transports, as others have to be given them.
    transports: String,
}

impl Place {
    /// The place of a node on this host. `host` may be any text.
    pub(crate) fn new(host: &str, node: &str, link: Address, transports: String) -> Place {
        let host = host.replace(|c: char| c == '/' || c.is_whitespace() || c.is_control(), "-");
        Place { host, node: node.to_owned(), link, transports }
    }

    /// The text of it.
    pub(crate) fn text(&self) -> String {
        let link: String = self.link.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{VERSION}/{}/{}/{link}/{}", self.host, self.node, self.transports)
    }

    /// The place that a text names.
    pub(crate) fn parse(text: &str) -> Option<Place> {
        let mut parts = text.trim().splitn(5, '/');
        if parts.next()? != VERSION {
            return None;
        }
        let (host, node, digits, transports) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let mut link = Address([0; 6]);
        if digits.len() != 12 || !digits.is_ascii() {
            return None;
        }
        for (at, byte) in link.0.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
        }
        let is_whole = !node.is_empty() && !transports.is_empty();
        is_whole.then(|| Place {
            host: host.to_owned(),
            node: node.to_owned(),
            link,
            transports: transports.to_owned(),
        })
    }

    /// The tag that its endpoint has.
    pub(crate) fn tag(&self) -> u64 {
        tag_of([self.node.as_str()])
    }

    /// Let this node, which is at `own`, know the place.
    ///
    /// # Errors
    /// No transport leads there; the text says why.
    pub(crate) fn note(&self, own: &Place, node: &Node) -> Result<(), String> {
        let common: Vec<&str> = transports::split(&self.transports)
            .into_iter()
            .filter(|theirs| transports::split(&own.transports).into_iter().any(|ours| may_reach(ours, theirs)))
            .collect();
        if common.is_empty() {
            return Err(format!(
                "the task is at {}, and this interface at {}: give both a transport in common",
                self.transports, own.transports
            ));
        }
        if self.host == own.host && common.iter().any(|name| name.starts_with("shm:")) {
            // Without a search for the name. A wrong name was refused before.
            _ = node.add_peer(&self.node, self.link);
        }
        let mut refused = None;
        for address in common.iter().flat_map(|name| transports::peer_addresses(name)) {
            refused = node.add_peer_address(address).err().or(refused);
        }
        // Another transport may lead there.
        refused.filter(|_| common.len() == 1).map_or(Ok(()), |error| Err(error.to_string()))
    }

    /// Let this node forget the place.
    pub(crate) fn forget(&self, node: &Node) {
        for address in transports::peer_addresses(&self.transports) {
            // Refused where the node has no transport of this kind, and never knew it.
            _ = node.remove_peer_address(address);
        }
        _ = node.remove_peer(&self.node);
    }
}

/// Transports of one Ethernet: NICs, and what shares one.
const ETHERNET: [&str; 3] = ["xdp", "amd", "dpdk"];

/// Whether frames of one transport may reach the other.
fn may_reach(ours: &str, theirs: &str) -> bool {
    let scheme = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    let (own, other) = (scheme(ours), scheme(theirs));
    match own.as_str() {
        "shm" | "sim" => transports::split_settings(ours).0 == transports::split_settings(theirs).0,
        own if ETHERNET.contains(&own) => ETHERNET.contains(&other.as_str()),
        own => own == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place::new("al/pha\n", "t40002-x", Address([2, 0, 0, 0, 0, 0xa7]), "shm:a+amd:/run/x/y".into())
    }

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let text = place().text();
        assert_eq!(text, "am1/al-pha-/t40002-x/0200000000a7/shm:a+amd:/run/x/y");
        assert_eq!(Place::parse(&format!("{text}\n")), Some(place()));
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "am1",
            "am2/h/n/020000000007/udp:1.2.3.4:5",
            "am1/h/n/020000000007",
            "am1/h/n/020000000007/",
            "am1/h//020000000007/udp:1.2.3.4:5",
            "am1/h/n/02000000000/udp:1.2.3.4:5",
            "am1/h/n/02000000000g/udp:1.2.3.4:5",
            "am1/h/n/0200000\u{e4}0007/udp:1.2.3.4:5",
        ] {
            assert_eq!(Place::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_on_one_network_may_reach_each_other() {
        for (ours, theirs, may) in [
            ("udp:10.0.0.7:7000", "udp:10.0.0.8:1", true),
            ("udp:10.0.0.7:7000", "tcp:10.0.0.8:1", false),
            ("shm:a,members=64", "shm:a", true),
            ("shm:a", "shm:b", false),
            ("xdp:eth1", "amd:/run/amd/am.sock", true),
            ("xdp:eth1", "shm:eth1", false),
        ] {
            assert_eq!(may_reach(ours, theirs), may, "{ours} {theirs}");
        }
    }
}
