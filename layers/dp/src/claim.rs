//! The owner of each DPID on a host, among the processes that share a NID (the paper's Communication Acquirement Table).
//!
//! A claim is a name in the kernel's abstract namespace of sockets. The kernel gives a name to one socket, and frees it when the process
//! ends, however it ends. Each network namespace has its own names, as it has its own nodes.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use am_api::own::{Own, high};

use crate::{Dpid, Nid};

/// The claim of a DPID: no other process of this host has it on this node.
#[derive(Debug)]
pub(crate) struct Claim {
    _socket: Own<UnixDatagram>,
}

impl Claim {
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]: another process has it.
    pub(crate) fn new(scope: u64, nid: Nid, dpid: Dpid) -> io::Result<Claim> {
        let name = format!("am-dp/{scope:016x}/{nid}/{dpid}");
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        Ok(Claim { _socket: high(socket).into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dpid_has_one_owner() {
        let scope = u64::from(std::process::id());
        let claim = Claim::new(scope, Nid(1), Dpid(5)).unwrap();
        assert_eq!(Claim::new(scope, Nid(1), Dpid(5)).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        Claim::new(scope, Nid(2), Dpid(5)).expect("another node");
        drop(claim);
        Claim::new(scope, Nid(1), Dpid(5)).expect("free again");
    }
}
