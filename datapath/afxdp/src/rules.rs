//! Rules of the NIC that steer a node's frames to its queue, for as long as the node is open.

use std::io;

use am_wire::{Address, EtherType};

use crate::addresses::is_derived;
use crate::ifreq::Query;
use crate::interface::Interface;
use crate::ntuple::{Match, Rule, Table};

/// Installed rules. Dropping this removes them and restores those that were there before.
pub(crate) struct InstalledRules<T: Table = Query> {
    table: Option<T>,
    /// For the log.
    interface: String,
    /// Each rule that was installed, and the one that it replaced.
    installed: Vec<(Rule, Option<Rule>)>,
}

impl InstalledRules {
    /// No rules.
    pub(crate) fn none() -> InstalledRules {
        InstalledRules { table: None, interface: String::new(), installed: Vec::new() }
    }

    /// Install the rules for a node. If the driver refuses, that is a note.
    pub(crate) fn new(
        interface: &Interface,
        queue: u32,
        own: Address,
        ethertype: EtherType,
        notes: &mut Vec<String>,
    ) -> InstalledRules {
        let Ok(Some(query)) = Query::new(&interface.name) else { return InstalledRules::none() };
        let wanted = wanted(interface, own, ethertype);
        let (mut steered, set) = InstalledRules::install(query, queue, &wanted, notes);
        steered.interface.clone_from(&interface.name);
        steered.log("set a rule of the NIC");
        if let Err(error) = set
            && (queue != 0 || own != interface.address)
        {
            let Interface { name, driver, .. } = interface;
            let help = advice(interface, queue, own);
            notes.push(format!("no rule steers to queue {queue} of {name}: its driver {driver} says {error}; {help}"));
        }
        steered
    }
}

/// Remove the rules for nodes' addresses that a killed process left. The caller has attached the interface's program, so
/// no other process has nodes there, and this one has none yet.
pub(crate) fn remove_leftovers(interface: &Interface) {
    let Ok(Some(query)) = Query::new(&interface.name) else { return };
    let removed = remove_rules_for_nodes(&query, interface.address);
    if removed > 0 {
        tracing::info!(interface = interface.name, removed, "removed rules of the NIC that a killed process left");
    }
}

/// Returns how many there were. A driver without rules has none.
fn remove_rules_for_nodes(table: &impl Table, interface: Address) -> usize {
    let Ok(rules) = table.rules() else { return 0 };
    let is_ours = |rule: &&Rule| rule.destination().is_some_and(|to| is_derived(to, interface));
    let left = rules.all.iter().filter(is_ours);
    left.filter(|rule| table.delete_rule(rule.location).is_ok()).count()
}

/// The frames to steer to a node's queue. If the node has an address of its own, these are all frames to that address.
/// Otherwise they are all frames of our EtherTypes.
fn wanted(interface: &Interface, own: Address, ethertype: EtherType) -> Vec<Match> {
    if own == interface.address {
        return vec![Match::EtherType(ethertype.hidden()), Match::EtherType(ethertype.plain())];
    }
    vec![Match::To(own)]
}

impl<T: Table> InstalledRules<T> {
    /// Install rules until one is refused.
    fn install(table: T, queue: u32, wanted: &[Match], notes: &mut Vec<String>) -> (InstalledRules<T>, io::Result<()>) {
        let mut set = Vec::new();
        let done = wanted.iter().try_for_each(|what| {
            set.extend(install_rule(&table, *what, queue, notes)?);
            Ok(())
        });
        (InstalledRules { table: Some(table), interface: String::new(), installed: set }, done)
    }

    /// A line of the log for each rule.
    fn log(&self, what: &str) {
        for (rule, replaced) in &self.installed {
            let frames = rule.destination().map_or("of our EtherTypes".to_owned(), |to| format!("to {to}"));
            let (Rule { location, queue, .. }, replaced) = (rule, replaced.is_some());
            tracing::info!(interface = self.interface, location, queue, frames, replaced, "{what}");
        }
    }
}

/// Install a rule for these frames. Returns what to undo: the rule, and the one that it replaced.
fn install_rule(
    table: &impl Table,
    what: Match,
    queue: u32,
    notes: &mut Vec<String>,
) -> io::Result<Option<(Rule, Option<Rule>)>> {
    let (rules, rule) = (table.rules()?, Rule::new(what, queue));
    // Only a node installs a rule for this address. So an existing one was left by a run that was killed.
    let is_ours = matches!(what, Match::To(_));
    let Some(there) = rules.all.iter().find(|other| other.matches_same_frames(&rule)).copied() else {
        let full = || io::Error::other("its table of rules is full");
        let location = rules.free_location(is_ours).ok_or_else(full)?;
        return Ok(Some((table.insert_rule(rule.at(location))?, None)));
    };
    let before = (!is_ours).then_some(there);
    if there.queue != rule.queue {
        // Some drivers refuse a second rule for the same frames, even at the location of the first.
        table.delete_rule(there.location)?;
        let rule = table.insert_rule(rule.at(there.location)).inspect_err(|_| drop(table.insert_rule(there)))?;
        return Ok(Some((rule, before)));
    }
    if is_ours {
        return Ok(Some((there, None)));
    }
    let location = there.location;
    notes.push(format!("rule {location} of the NIC steers to queue {queue} already, and stays when this node closes"));
    Ok(None)
}

impl<T: Table> Drop for InstalledRules<T> {
    fn drop(&mut self) {
        self.log("remove a rule of the NIC");
        let Some(table) = &self.table else { return };
        for (rule, before) in self.installed.drain(..).rev() {
            // The interface may be gone, and its rules with it.
            let _ = table.delete_rule(rule.location);
            before.into_iter().for_each(|before| drop(table.insert_rule(before)));
        }
    }
}

/// Advice for a node whose queue receives nothing.
pub(crate) fn advice(interface: &Interface, queue: u32, own: Address) -> String {
    let query = Query::new(&interface.name).ok().flatten();
    let rules = query.and_then(|query| query.rules().and_then(|_| query.are_rules_enabled()).ok());
    advice_for(interface, queue, own, rules)
}

/// `rules`: whether rules are switched on; `None` if the driver has none.
fn advice_for(interface: &Interface, queue: u32, own: Address, rules: Option<bool>) -> String {
    let Interface { name, driver, address, .. } = interface;
    if driver == "veth" {
        return format!("on a veth the sender's queue counts: open its node on queue {queue}, too (queue={queue})");
    }
    let is_second = own != *address;
    let without = match queue {
        _ if is_second => "open this node on another interface".to_owned(),
        0 => format!("`ethtool -L {name} combined 1`"),
        _ => format!("open it on queue 0 (without queue=), or `ethtool -L {name} combined 1`"),
    };
    let steer = |what: &str| format!("ethtool -N {name} flow-type ether {what} action {queue}");
    let steer = match is_second {
        true => steer(&format!("dst {own}")),
        false => format!("{}; {}", steer("proto 0x88b5"), steer("proto 0x88b6")),
    };
    match rules {
        Some(true) => format!("`{steer}`"),
        Some(false) => format!("`ethtool -K {name} ntuple on; {steer}`, or where {driver} refuses: {without}"),
        None => without,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ntuple::Rules;
    use crate::tests::interface;
    use std::cell::RefCell;

    /// A NIC's table of rules.
    struct Nic {
        rules: RefCell<Vec<Rule>>,
        size: u32,
    }

    impl Table for &Nic {
        fn rules(&self) -> io::Result<Rules> {
            Ok(Rules { all: self.rules.borrow().clone(), size: Some(self.size) })
        }

        fn insert_rule(&self, rule: Rule) -> io::Result<Rule> {
            let mut rules = self.rules.borrow_mut();
            if rules.iter().any(|other| other.matches_same_frames(&rule) || other.location == rule.location) {
                return Err(io::Error::from_raw_os_error(libc::EEXIST));
            }
            rules.push(rule);
            Ok(rule)
        }

        fn delete_rule(&self, location: u32) -> io::Result<()> {
            self.rules.borrow_mut().retain(|rule| rule.location != location);
            Ok(())
        }
    }

    const OURS: [Match; 2] = [Match::EtherType(0x88b5), Match::EtherType(0x88b6)];
    const SECOND: Match = Match::To(Address([0x86, 0, 0, 0, 0, 1]));

    fn nic(rules: &[Rule]) -> Nic {
        Nic { rules: RefCell::new(rules.to_vec()), size: 4 }
    }

    fn there(nic: &Nic) -> Vec<Rule> {
        let mut rules = nic.rules.borrow().clone();
        rules.sort_by_key(|rule| rule.location);
        rules
    }

    fn set<'a>(nic: &'a Nic, queue: u32, wanted: &[Match], notes: &mut Vec<String>) -> InstalledRules<&'a Nic> {
        let (steered, done) = InstalledRules::install(nic, queue, wanted, notes);
        done.unwrap();
        steered
    }

    #[test]
    fn rules_are_there_until_the_node_closes_the_narrower_first() {
        let (nic, mut notes) = (nic(&[]), Vec::new());
        let first = set(&nic, 0, &OURS, &mut notes);
        let second = set(&nic, 1, &[SECOND], &mut notes);
        let [a, b] = OURS.map(|what| Rule::new(what, 0));
        assert_eq!(there(&nic), [Rule::new(SECOND, 1).at(0), b.at(2), a.at(3)]);
        drop(first);
        assert_eq!(there(&nic), [Rule::new(SECOND, 1).at(0)]);
        drop(second);
        assert_eq!((there(&nic), notes), (vec![], vec![]));
    }

    #[test]
    fn rules_that_were_there_stay_and_others_come_back() {
        let (nic, mut notes) = (nic(&[Rule::new(OURS[0], 3), Rule::new(OURS[1], 2).at(1)]), Vec::new());
        let before = there(&nic);
        let steered = set(&nic, 2, &OURS, &mut notes);
        assert!(there(&nic).iter().all(|rule| rule.queue == 2) && there(&nic).len() == 2);
        assert!(notes.len() == 1 && notes[0].contains("rule 1 of the NIC steers to queue 2 already"), "{notes:?}");
        drop(steered);
        assert_eq!(there(&nic), before);
    }

    /// Holds for every queue that the old rule named.
    #[test]
    fn what_a_killed_run_left_for_its_own_address_goes_with_the_next() {
        for queue in [1, 3] {
            let (nic, mut notes) = (nic(&[Rule::new(SECOND, 1).at(2)]), Vec::new());
            let steered = set(&nic, queue, &[SECOND], &mut notes);
            assert_eq!(there(&nic), [Rule::new(SECOND, queue).at(2)]);
            drop(steered);
            assert_eq!((there(&nic), notes), (vec![], vec![]));
        }
    }

    #[test]
    fn what_a_killed_run_with_more_nodes_left_goes_with_the_first_node() {
        let interface = Address([0x52, 0, 0, 0, 0, 1]);
        let others = [Rule::new(OURS[0], 1).at(1), Rule::new(Match::To(Address([2, 0, 0, 0, 0, 1])), 1).at(2)];
        let all = [others[0], others[1], Rule::new(SECOND, 1).at(0), Rule::new(SECOND, 2).at(3)];
        let nic = nic(&all);
        assert_eq!(remove_rules_for_nodes(&&nic, interface), 2);
        assert_eq!(there(&nic), others);
        assert_eq!(remove_rules_for_nodes(&&nic, interface), 0);
    }

    #[test]
    fn what_was_set_before_a_refusal_goes_too() {
        let nic = Nic { size: 1, ..nic(&[]) };
        let (steered, done) = InstalledRules::install(&nic, 1, &OURS, &mut Vec::new());
        assert!(done.unwrap_err().to_string().contains("full"));
        assert_eq!(there(&nic).len(), 1);
        drop(steered);
        assert_eq!(there(&nic), []);
    }

    #[test]
    fn the_advice_is_what_the_driver_can_do() {
        let second = Address([0x86, 0, 0, 0, 0, 1]);
        let first = interface("", 1500).address;
        for (driver, own, queue, rules, says) in [
            ("ice", first, 3, Some(true), "; ethtool -N eth1 flow-type ether proto 0x88b6 action 3`"),
            ("ice", second, 3, Some(true), "`ethtool -N eth1 flow-type ether dst 86:00:00:00:00:01 action 3`"),
            ("igb", first, 3, Some(false), "`ethtool -K eth1 ntuple on; ethtool -N eth1 flow-type"),
            ("igb", first, 0, Some(false), "where igb refuses: `ethtool -L eth1 combined 1`"),
            ("virtio_net", second, 3, None, "open this node on another interface"),
            ("virtio_net", first, 3, None, "on queue 0 (without queue=)"),
            ("virtio_net", first, 0, None, "`ethtool -L eth1 combined 1`"),
            ("veth", first, 1, None, "its node on queue 1, too"),
        ] {
            let advice = advice_for(&interface(driver, 1500), queue, own, rules);
            assert!(advice.contains(says), "{advice}");
        }
    }

    #[test]
    fn a_node_with_the_interfaces_address_wants_both_ethertypes() {
        let igb = interface("igb", 1500);
        let both = [0x88b5, 0x88b6].map(Match::EtherType);
        assert_eq!(wanted(&igb, igb.address, EtherType::DEFAULT), both);
        let second = Address([0x86, 0, 0, 0, 0, 1]);
        assert_eq!(wanted(&igb, second, EtherType::DEFAULT), [Match::To(second)]);
    }
}
