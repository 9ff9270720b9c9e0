//! A node's queue, steered to: rules of the NIC for as long as the node is open.

use std::io;

use wire::{Address, EtherType};

use crate::ifreq::Query;
use crate::interface::Interface;
use crate::ntuple::{Match, Rule};

/// Rules that were set, until this is dropped.
#[derive(Default)]
pub(crate) struct Steered {
    query: Option<Query>,
    /// And what was there before, for the same frames.
    set: Vec<(Rule, Option<Rule>)>,
}

/// Frames of a node to its queue. Its own address is nobody else's where it is not the interface's, and then all frames
/// to it are; otherwise those of our EtherTypes are, from everybody to whomever.
fn wanted(interface: &Interface, own: Address, ethertype: EtherType) -> Vec<Match> {
    if own == interface.address {
        return vec![Match::EtherType(ethertype.hidden()), Match::EtherType(ethertype.plain())];
    }
    vec![Match::To(own)]
}

impl Steered {
    /// Set what is wanted. What the driver does not take is a note.
    pub(crate) fn new(
        interface: &Interface,
        queue: u32,
        own: Address,
        ethertype: EtherType,
        notes: &mut Vec<String>,
    ) -> Steered {
        let mut steered = Steered { query: Query::new(&interface.name).ok().flatten(), set: Vec::new() };
        let set = wanted(interface, own, ethertype).into_iter().try_for_each(|what| steered.steer(what, queue, notes));
        if let Err(error) = set
            && (queue != 0 || own != interface.address)
        {
            let Interface { name, driver, .. } = interface;
            let help = advice(interface, queue, own);
            notes.push(format!("no rule steers to queue {queue} of {name}: its driver {driver} says {error}; {help}"));
        }
        steered
    }

    fn steer(&mut self, what: Match, queue: u32, notes: &mut Vec<String>) -> io::Result<()> {
        let query = self.query.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let (rules, rule) = (query.rules()?, Rule::new(what, queue));
        let before = rules.all.iter().find(|other| other.is_for_the_same(&rule)).copied();
        let is_ours = matches!(what, Match::To(_));
        match before {
            // Of an earlier run that was killed: nobody else knows the address.
            Some(there) if is_ours && there.queue == rule.queue => self.set.push((there, None)),
            Some(there) if there.queue == rule.queue => notes.push(format!(
                "rule {} of the NIC steers to queue {queue} already, and stays when this node closes",
                there.location
            )),
            Some(there) => {
                query.delete_rule(there.location)?;
                let rule = query.insert_rule(rule.at(there.location)).inspect_err(|_| drop(query.insert_rule(there)))?;
                self.set.push((rule, (!is_ours).then_some(there)));
            }
            None => {
                let full = || io::Error::other("its table of rules is full");
                let location = rules.free(is_ours).ok_or_else(full)?;
                self.set.push((query.insert_rule(rule.at(location))?, None));
            }
        }
        Ok(())
    }
}

impl Drop for Steered {
    fn drop(&mut self) {
        let Some(query) = &self.query else { return };
        for (rule, before) in self.set.drain(..).rev() {
            // The interface may be gone, and its rules with it.
            let _ = query.delete_rule(rule.location);
            before.into_iter().for_each(|before| drop(query.insert_rule(before)));
        }
    }
}

/// What helps a node on this queue to which nothing is steered.
pub(crate) fn advice(interface: &Interface, queue: u32, own: Address) -> String {
    let has_rules = Query::new(&interface.name).is_ok_and(|query| query.is_some_and(|query| query.rules().is_ok()));
    advise(interface, queue, own, has_rules)
}

fn advise(interface: &Interface, queue: u32, own: Address, has_rules: bool) -> String {
    let Interface { name, driver, address, .. } = interface;
    let steer = |what: &str| format!("`ethtool -N {name} flow-type ether {what} action {queue}`");
    match (driver.as_str(), has_rules) {
        ("veth", _) => {
            format!("on a veth it is the sender's queue that counts: open its node on queue {queue}, too (queue={queue})")
        }
        (_, true) if own != *address => steer(&format!("dst {own}")),
        (_, true) => format!("{} and {}", steer("proto 0x88b5"), steer("proto 0x88b6")),
        (_, false) if own != *address => {
            format!("{driver} has no rules that tell the nodes of one interface apart: open this one on another interface")
        }
        (_, false) if queue != 0 => format!("open it on queue 0 (without queue=), or `ethtool -L {name} combined 1`"),
        (_, false) => format!("`ethtool -L {name} combined 1`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(driver: &str) -> Interface {
        let (name, driver, address) = ("eth1".to_owned(), driver.to_owned(), Address([2, 0, 0, 0, 0, 1]));
        Interface { name, index: 2, mtu: 1500, address, driver, queues: Some(4) }
    }

    #[test]
    fn the_advice_is_what_the_driver_can_do() {
        let second = Address([6, 0, 0, 0, 0, 1]);
        for (driver, own, queue, has_rules, says) in [
            ("igb", interface("igb").address, 3, true, "`ethtool -N eth1 flow-type ether proto 0x88b6 action 3`"),
            ("igb", second, 3, true, "`ethtool -N eth1 flow-type ether dst 06:00:00:00:00:01 action 3`"),
            ("virtio_net", second, 3, false, "open this one on another interface"),
            ("virtio_net", interface("").address, 3, false, "on queue 0 (without queue=)"),
            ("virtio_net", interface("").address, 0, false, "`ethtool -L eth1 combined 1`"),
            ("veth", interface("").address, 1, false, "its node on queue 1, too"),
        ] {
            let advice = advise(&interface(driver), queue, own, has_rules);
            assert!(advice.contains(says), "{advice}");
        }
    }

    #[test]
    fn a_node_with_the_interfaces_address_wants_both_ethertypes() {
        let igb = interface("igb");
        let both = [0x88b5, 0x88b6].map(Match::EtherType);
        assert_eq!(wanted(&igb, igb.address, EtherType::DEFAULT), both);
        let second = Address([6, 0, 0, 0, 0, 1]);
        assert_eq!(wanted(&igb, second, EtherType::DEFAULT), [Match::To(second)]);
    }
}
