//! The events that really happened in a run: faults that struck, and events of the protocol.

use am_netdev_sim::Net;
use am_transport::Transport;

use super::checks::Seen;
use super::node::Node;

/// Add the counts of `more`.
pub fn add(seen: &mut Seen, more: &Seen) {
    more.iter().for_each(|(name, count)| *seen.entry(name).or_default() += count);
}

/// Add the counters of a node's core.
pub fn node(seen: &mut Seen, node: &Node) {
    node.engine.core().counters().each(&mut |name, count| *seen.entry(name).or_default() += count);
}

/// Add the counters of the network: links, switch, and the present NICs.
pub fn net(seen: &mut Seen, net: &mut Net) {
    let switch = net.switch().count;
    let mut add = |name, count| *seen.entry(name).or_default() += count;
    add("switch: flooded", switch.flooded);
    add("switch: full", switch.full);
    add("switch: damaged", switch.damaged);
    add("switch: parted", switch.partitioned);
    add("switch: forgotten", switch.evicted);
    for node in 0..net.options().nodes {
        for link in net.links(node) {
            let count = link.count;
            add("link: lost", count.lost);
            add("link: duplicated", count.duplicated);
            add("link: late", count.late);
            add("link: early", count.early);
            add("link: damaged", count.damaged);
        }
        net.nic(node).counters(&mut add);
    }
}
