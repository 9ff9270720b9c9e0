//! The link addresses of a node, and the interface's filter, which has to accept those that are not the interface's own.

use std::io;
use std::os::fd::AsFd;

use am_ring::own::{Own, high};
use am_wire::{Address, AddressSet};
use libc::{c_int, packet_mreq};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::interface::Interface;
use crate::{XdpOpenError, sockopt};

/// A node's own address and its added ones.
pub(crate) struct NodeAddresses {
    pub(crate) own: Address,
    pub(crate) added: AddressSet,
    /// Addresses of the groups that the node has joined.
    groups: Vec<Address>,
    filter: Filter,
}

/// A packet socket. Until it is closed, the interface accepts its addresses as well. Where the driver cannot filter by
/// several addresses, the kernel makes it accept all frames.
struct Filter {
    /// `None` while there is no address but the interface's own.
    socket: Option<Own>,
    interface: u32,
}

impl NodeAddresses {
    /// # Errors
    /// The interface cannot accept the address.
    pub(crate) fn new(own: Address, interface: &Interface) -> Result<NodeAddresses, XdpOpenError> {
        let filter = filter(interface, own, &AddressSet::new(), &[])?;
        Ok(NodeAddresses { own, added: AddressSet::new(), groups: Vec::new(), filter })
    }

    /// Have the interface accept them that replaces one that is gone.
    ///
    /// # Errors
    /// It cannot accept them.
    pub(crate) fn move_to(&mut self, interface: &Interface) -> Result<(), XdpOpenError> {
        self.filter = filter(interface, self.own, &self.added, &self.groups)?;
        Ok(())
    }

    /// Whether frames to this address are the node's.
    pub(crate) fn contains(&self, address: Address) -> bool {
        address == self.own || self.added.contains(address)
    }

    /// Add an address. The set has room for it.
    ///
    /// # Errors
    /// The interface cannot accept it.
    pub(crate) fn add(&mut self, address: Address) -> io::Result<()> {
        if !self.added.contains(address) {
            self.filter.accept(address)?;
            self.added.insert(address);
        }
        Ok(())
    }

    /// The added ones, and those of groups.
    pub(crate) fn with_groups(&self) -> impl Iterator<Item = Address> {
        self.added.iter().chain(self.groups.iter().copied())
    }

    /// Add the address of a group. Several groups may have the same one.
    ///
    /// # Errors
    /// The interface cannot accept it.
    pub(crate) fn add_group(&mut self, address: Address) -> io::Result<()> {
        self.filter.accept(address)?;
        self.groups.push(address);
        Ok(())
    }

    /// Remove the address of one group. Returns whether no other group has it.
    pub(crate) fn remove_group(&mut self, address: Address) -> bool {
        if let Some(at) = self.groups.iter().position(|group| *group == address) {
            self.groups.swap_remove(at);
            self.filter.refuse(address);
        }
        !self.groups.contains(&address)
    }

    /// Remove an added address. False if there is no such address.
    pub(crate) fn remove(&mut self, address: Address) -> bool {
        let is_removed = self.added.remove(address);
        if is_removed {
            self.filter.refuse(address);
        }
        is_removed
    }
}

fn filter(interface: &Interface, own: Address, added: &AddressSet, groups: &[Address]) -> Result<Filter, XdpOpenError> {
    let mut filter = Filter { socket: None, interface: interface.index };
    for address in added.iter().chain(groups.iter().copied()).chain((own != interface.address).then_some(own)) {
        let doing = || format!("adding the address {address} to the interface");
        filter.accept(address).map_err(|error| XdpOpenError::system(doing(), error))?;
    }
    Ok(filter)
}

impl Filter {
    fn accept(&mut self, address: Address) -> io::Result<()> {
        let socket = match &self.socket {
            Some(socket) => socket,
            // Without a protocol the socket receives no frames.
            None => {
                let made = socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
                self.socket.insert(high(made).into())
            }
        };
        let wanted = membership(self.interface, address);
        sockopt::set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, wanted)
    }

    fn refuse(&self, address: Address) {
        let wanted = membership(self.interface, address);
        // If the interface is gone, so is its filter.
        let drop = |socket: &Own| sockopt::set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_DROP_MEMBERSHIP, wanted);
        let _ = self.socket.as_ref().map(drop);
    }
}

fn membership(interface: u32, Address([a, b, c, d, e, f]): Address) -> packet_mreq {
    packet_mreq {
        mr_ifindex: interface as c_int,
        mr_type: if a & 1 == 1 { libc::PACKET_MR_MULTICAST } else { libc::PACKET_MR_UNICAST } as u16,
        mr_alen: 6,
        mr_address: [a, b, c, d, e, f, 0, 0],
    }
}

/// A locally administered address that no frame header uses: the two highest bits are an unassigned version.
pub(crate) fn derived_address(Address([_, b, rest @ ..]): Address, number: u32) -> Address {
    let [c, d, e, f] = rest;
    Address([0x82 | (number as u8 & 0xf) << 2, b ^ (number >> 4) as u8, c, d, e, f])
}

/// Whether an address was derived from this one.
pub(crate) fn is_derived(Address(address): Address, Address(from): Address) -> bool {
    address[0] & 0b1100_0011 == 0x82 && address[2..] == from[2..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_address_is_recognised() {
        let from = Address([0x52, 0x54, 0, 1, 2, 3]);
        assert!((0..2000).all(|number| is_derived(derived_address(from, number), from)));
        let other = Address([0x52, 0x54, 0, 1, 2, 4]);
        assert!(!is_derived(from, from) && !is_derived(derived_address(from, 1), other));
    }
}
