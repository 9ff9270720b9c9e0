//! Rules by which a NIC chooses the receive queue of a frame (`ethtool -N`). No crate has them, so they are set by
//! `ioctl`.

use std::io;

use am_wire::Address;

use crate::ifreq::Query;

const ETH_FLAG_NTUPLE: u32 = 1 << 27;
const ETHTOOL_GRXCLSRLCNT: u32 = 0x2e;
const ETHTOOL_GRXCLSRULE: u32 = 0x2f;
const ETHTOOL_GRXCLSRLALL: u32 = 0x30;
const ETHTOOL_SRXCLSRLDEL: u32 = 0x31;
const ETHTOOL_SRXCLSRLINS: u32 = 0x32;

const ETHER_FLOW: u32 = 0x12;
/// In `data`: the driver chooses the rule's location, on request by `RX_CLS_LOC_ANY`.
const RX_CLS_LOC_SPECIAL: u32 = 0x8000_0000;
const RX_CLS_LOC_ANY: u32 = 0xffff_ffff;

/// The most rules that are read.
const MAX_RULES: usize = 1024;

/// `struct ethhdr` at the start of `union ethtool_flow_union`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fields {
    to: [u8; 6],
    from: [u8; 6],
    ethertype: [u8; 2],
    rest: [u8; 32],
    more: [u8; 6],
}

/// `struct ethtool_rx_flow_spec` of `linux/ethtool.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    flow_type: u32,
    fields: Fields,
    more: [u8; 20],
    mask: Fields,
    more_mask: [u8; 20],
    _gap: u32,
    /// The receive queue.
    pub(crate) queue: u64,
    /// Its position in the NIC's table.
    pub(crate) location: u32,
    _end: u32,
}

/// `struct ethtool_rxnfc`.
#[repr(C)]
struct Command {
    command: u32,
    flow_type: u32,
    data: u64,
    rule: Rule,
    count: u32,
    locations: [u32; MAX_RULES],
}

const _: () = assert!(size_of::<Rule>() == 168 && std::mem::offset_of!(Rule, queue) == 152);
const _: () = assert!(std::mem::offset_of!(Command, rule) == 16 && std::mem::offset_of!(Command, locations) == 188);

/// Which frames a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// Frames of this EtherType.
    EtherType(u16),
    /// Frames to this address.
    To(Address),
}

impl Rule {
    pub(crate) fn new(what: Match, queue: u32) -> Rule {
        let mut rule = Rule { flow_type: ETHER_FLOW, queue: queue.into(), ..Rule::default() };
        match what {
            Match::EtherType(number) => {
                (rule.fields.ethertype, rule.mask.ethertype) = (number.to_be_bytes(), [0xff; 2]);
            }
            Match::To(address) => (rule.fields.to, rule.mask.to) = (address.0, [0xff; 6]),
        }
        rule
    }

    pub(crate) fn at(self, location: u32) -> Rule {
        Rule { location, ..self }
    }

    /// The address, if the rule is for all frames to one address, and for no others.
    pub(crate) fn destination(&self) -> Option<Address> {
        let to = Address(self.fields.to);
        self.matches_same_frames(&Rule::new(Match::To(to), 0)).then_some(to)
    }

    /// Whether both rules match the same frames.
    pub(crate) fn matches_same_frames(&self, other: &Rule) -> bool {
        let fields = |rule: &Rule| (rule.flow_type, rule.fields, rule.mask, rule.more_mask);
        fields(self) == fields(other)
    }
}

/// The NIC's table of rules.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The installed rules.
    pub(crate) all: Vec<Rule>,
    /// The size of the table. `None`: the driver chooses locations.
    pub(crate) size: Option<u32>,
}

impl Rules {
    /// A free location: the first or the last one. Many NICs apply the first rule that matches a frame.
    pub(crate) fn free_location(&self, first: bool) -> Option<u32> {
        let Some(size) = self.size else { return Some(RX_CLS_LOC_ANY) };
        let mut free = (0..size).filter(|at| self.all.iter().all(|rule| rule.location != *at));
        if first { free.next() } else { free.next_back() }
    }
}

/// A table of rules. Tests have their own.
pub(crate) trait Table {
    /// The installed rules.
    fn rules(&self) -> io::Result<Rules>;

    /// Add a rule; it is returned with its location.
    fn insert_rule(&self, rule: Rule) -> io::Result<Rule>;

    fn delete_rule(&self, location: u32) -> io::Result<()>;
}

impl Table for Query {
    fn rules(&self) -> io::Result<Rules> {
        let counted = self.command(ETHTOOL_GRXCLSRLCNT, Rule::default(), 0)?;
        let found = self.command(ETHTOOL_GRXCLSRLALL, Rule::default(), counted.count.min(MAX_RULES as u32))?;
        let read = |&location: &u32| Ok(self.command(ETHTOOL_GRXCLSRULE, Rule::default().at(location), 0)?.rule);
        let there = &found.locations[..MAX_RULES.min(found.count as usize)];
        let all = there.iter().map(read).collect::<io::Result<_>>()?;
        let chooses = counted.data as u32 & RX_CLS_LOC_SPECIAL != 0;
        Ok(Rules { all, size: (!chooses).then_some(found.data as u32) })
    }

    fn insert_rule(&self, rule: Rule) -> io::Result<Rule> {
        Ok(self.command(ETHTOOL_SRXCLSRLINS, rule, 0)?.rule)
    }

    fn delete_rule(&self, location: u32) -> io::Result<()> {
        self.command(ETHTOOL_SRXCLSRLDEL, Rule::default().at(location), 0).map(drop)
    }
}

impl Query {
    /// Whether rules are switched on (`ethtool -k`: ntuple-filters).
    pub(crate) fn are_rules_enabled(&self) -> io::Result<bool> {
        Ok(self.ethtool_flags()? & ETH_FLAG_NTUPLE != 0)
    }

    fn command(&self, command: u32, rule: Rule, count: u32) -> io::Result<Box<Command>> {
        let locations = [0; MAX_RULES];
        let mut command = Box::new(Command { command, flow_type: 0, data: 0, rule, count, locations });
        self.ethtool((&raw mut *command).cast())?;
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule's bytes, as the kernel reads them.
    fn bytes(rule: &Rule) -> [u8; 168] {
        // SAFETY: a structure without gaps, of this size; any bytes are bytes.
        unsafe { std::mem::transmute(*rule) }
    }

    /// The bytes that ethtool 6.1 passes for `-N eth1 flow-type ether proto 0x88b5 action 3 loc 7`.
    #[test]
    fn a_rule_for_an_ethertype_byte_by_byte() {
        let mut expected = [0; 168];
        expected[0] = 0x12;
        expected[4 + 12..][..2].copy_from_slice(&[0x88, 0xb5]);
        expected[76 + 12..][..2].copy_from_slice(&[0xff, 0xff]);
        (expected[152], expected[160]) = (3, 7);
        let rule = Rule { location: 7, ..Rule::new(Match::EtherType(0x88b5), 3) };
        assert_eq!(bytes(&rule), expected);
    }

    /// The bytes for `-N eth1 flow-type ether dst 06:01:02:03:04:05 action 1`.
    #[test]
    fn a_rule_for_an_address_byte_by_byte() {
        let mut expected = [0; 168];
        expected[0] = 0x12;
        expected[4..10].copy_from_slice(&[6, 1, 2, 3, 4, 5]);
        expected[76..82].copy_from_slice(&[0xff; 6]);
        expected[152] = 1;
        assert_eq!(bytes(&Rule::new(Match::To(Address([6, 1, 2, 3, 4, 5])), 1)), expected);
    }

    #[test]
    fn a_place_is_free_where_no_rule_is() {
        let at = |location| Rule { location, ..Rule::new(Match::EtherType(1), 0) };
        let rules = Rules { all: vec![at(0), at(3)], size: Some(4) };
        assert_eq!((rules.free_location(true), rules.free_location(false)), (Some(1), Some(2)));
        let full = Rules { all: vec![at(0)], size: Some(1) };
        assert_eq!(full.free_location(true), None);
        assert_eq!(Rules { size: None, ..full }.free_location(true), Some(RX_CLS_LOC_ANY));
    }

    #[test]
    fn an_interface_without_rules_says_so() {
        let query = Query::new("lo").unwrap().unwrap();
        assert_eq!(query.rules().unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert!(query.insert_rule(Rule::new(Match::EtherType(0x88b5), 0)).is_err());
        assert!(query.delete_rule(0).is_err());
        assert!(!query.are_rules_enabled().unwrap());
    }
}
