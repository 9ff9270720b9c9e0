//! All rows, in the order of the table.

use super::built_in::BUILT_IN;
use super::foreign::FOREIGN;
use super::peer::Peer;
use crate::deploy::processes::LocalTransport;
use crate::error::Error;

fn all() -> Vec<Box<dyn Peer>> {
    let built_in = BUILT_IN.iter().map(|row| Box::new(row) as Box<dyn Peer>);
    built_in.chain(FOREIGN.iter().map(|row| Box::new(row) as Box<dyn Peer>)).collect()
}

/// Whether `wanted` selects the peer of this name: by its name, or by its family (`tcp` selects `tcp-nagle` too).
fn means(wanted: &str, name: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The peers that run over `over` and are named by `wanted`; an empty `wanted` selects all.
///
/// # Errors
/// A name selects no peer.
pub(super) fn chosen(wanted: &[String], over: Option<LocalTransport>) -> Result<Vec<Box<dyn Peer>>, Error> {
    let mut peers = all();
    peers.retain(|peer| over.is_none_or(|over| peer.goes_over(over)));
    let names = || peers.iter().map(|peer| peer.name()).collect::<Vec<_>>().join(", ");
    for word in wanted {
        if !peers.iter().any(|peer| means(word, peer.name())) {
            let there = over.map_or_else(String::new, |over| format!(" over {}", over.name()));
            return Err(Error::Usage(format!("no peer `{word}`{there}: there are {}", names())));
        }
    }
    peers.retain(|peer| wanted.is_empty() || wanted.iter().any(|word| means(word, peer.name())));
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_meant_by_its_name() {
        let of = |wanted: &str| names(&[wanted.to_owned()], None);
        assert_eq!(of("am-udp"), ["am-udp", "am-udp-bundles"]);
        assert_eq!(of("tcp-nagle"), ["tcp-nagle"]);
        let error = chosen(&["tc".to_owned()], None).err().unwrap().to_string();
        assert!(error.starts_with("no peer `tc`: there are am, am-bundles, "), "{error}");
    }

    fn names(wanted: &[String], over: Option<LocalTransport>) -> Vec<&'static str> {
        chosen(wanted, over).unwrap().iter().map(|peer| peer.name()).collect()
    }

    #[test]
    fn those_that_go_over_something_are_ours_and_others() {
        assert_eq!(
            names(&[], Some(LocalTransport::Shm)),
            ["am-shm", "am-shm-bundles", "ucx-shm", "fi-shm", "openmpi-shm", "mpich-shm"]
        );
        assert_eq!(
            names(&[], Some(LocalTransport::VirtioUser)),
            ["am-dpdk-virtio-user", "am-dpdk-virtio-user-bundles", "raw-dpdk-virtio-user"]
        );
        let tcp = names(&[], Some(LocalTransport::Tcp));
        assert!(["am-tcp", "tcp-no-offload", "iperf3", "ucx-tcp", "pvm"].iter().all(|name| tcp.contains(name)));
        assert!(!tcp.iter().any(|name| name.contains("udp") || name.contains("shm")), "{tcp:?}");
        let error = chosen(&["iperf3".to_owned()], Some(LocalTransport::Udp)).err().unwrap().to_string();
        assert!(error.starts_with("no peer `iperf3` over udp: there are am-udp, "), "{error}");
    }

    #[test]
    fn names_are_one_of_a_kind() {
        let mut names = names(&[], None);
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
