//! Which ports know each other, and so learn of each other's end. A program that only comes and goes wakes no other.

use am_vnic::protocol::FromDaemon;
use am_wire::Address;

use crate::switch::Switch;

impl Switch {
    /// One of them has sent a control frame to the other.
    pub(crate) fn know_each_other(&mut self, one: usize, other: usize) {
        for (port, peer) in [(one, other), (other, one)] {
            self.members[port].as_deref_mut().into_iter().for_each(|member| member.known |= 1 << peer);
        }
    }

    /// A port has ended: tell those that know it, or will know it when their programs come back.
    pub(crate) fn tell_gone(&mut self, port: usize, address: Address, known: u128) {
        for (number, member) in self.members.iter_mut().enumerate() {
            let Some(member) = member.as_deref_mut() else { continue };
            member.known &= !(1 << port);
            match &member.port {
                _ if known & 1 << number == 0 => (),
                Some(program) => _ = program.tell(&FromDaemon::PeerGone(address)),
                None => member.missed.push(address),
            }
        }
    }

    /// Tell all programs.
    pub(crate) fn tell_all(&mut self, packet: &FromDaemon) {
        for member in self.members.iter().flatten() {
            member.port.iter().for_each(|port| _ = port.tell(packet));
        }
    }
}
