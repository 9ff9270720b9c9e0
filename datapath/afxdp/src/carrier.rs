//! Whether the interface can carry frames. An interface in use may be taken down, unplugged, renamed or removed, or get
//! a smaller MTU or another address, and the rings say nothing of it.
//!
//! An index, a name and an address may belong to another interface later, or to this one after it was in another network
//! namespace. So the socket is asked, too: the kernel unbinds it when its interface leaves, for good.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use am_ring::Own;
use am_wire::Address;
use am_wire::frame::ETHERNET_HEADER;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};

use crate::XdpOpenError;
use crate::ifreq::Query;
use crate::interface::Interface;

/// The interval of the checks of the socket and the address.
const SLOW_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Whether the interface carries frames, as of the last check.
pub(crate) struct Carrier {
    /// `None` for a name that no interface can have.
    query: Option<Query>,
    /// Its index: another interface may get its name later.
    index: u32,
    /// Its address: a replacement must have the same.
    pub(crate) address: Address,
    /// Whether the kernel has unbound the socket.
    is_unbound: bool,
    /// The address that it has now, if that is another.
    pub(crate) new_address: Option<Address>,
    next_slow_check: Instant,
    /// The smallest MTU that fits our longest frame.
    min_mtu: u32,
    state: LinkState,
    /// What was wrong at the last check.
    pub(crate) error: Option<String>,
}

/// What the kernel says of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Gone,
    Down,
    NoCarrier,
    /// Its MTU, which is too small for our longest frame.
    TooSmall(u32),
    Fine,
}

impl Carrier {
    /// For an interface that must carry frames of `longest` bytes.
    ///
    /// # Errors
    /// There is no descriptor for the queries.
    pub(crate) fn of(interface: &Interface, longest: usize) -> Result<Carrier, XdpOpenError> {
        let asking = |error| XdpOpenError::system(format!("asking about interface {}", interface.name), error);
        let query = Query::new(&interface.name).map_err(asking)?;
        let needed = longest.saturating_sub(ETHERNET_HEADER) as u32;
        let Interface { index, address, .. } = *interface;
        let next_slow_check = Instant::now() + SLOW_CHECK_INTERVAL;
        let (is_unbound, new_address, state) = (false, None, LinkState::Fine);
        Ok(Carrier {
            query,
            index,
            address,
            is_unbound,
            new_address,
            next_slow_check,
            min_mtu: needed,
            state,
            error: None,
        })
    }

    /// Query the interface: three system calls, and now and then a few more. Returns what is wrong.
    pub(crate) fn check(&mut self, socket: &Own) -> Option<&str> {
        let now = Instant::now();
        if now >= self.next_slow_check {
            self.next_slow_check = now + SLOW_CHECK_INTERVAL;
            self.is_unbound |= is_unbound(socket);
            self.new_address = self.query_address();
        }
        self.state = if self.is_unbound { LinkState::Gone } else { self.query_state() };
        // No allocation where all is well.
        let is_fine = self.state == LinkState::Fine;
        self.error = self.query.as_ref().filter(|_| !is_fine).and_then(|query| self.describe(&query.name()));
        self.error.as_deref()
    }

    fn query_state(&mut self) -> LinkState {
        let Some(query) = &mut self.query else { return LinkState::Fine };
        let mut found = link_state(self.index, query.index(), query.flags());
        // The interface may have been renamed, and another one may have its name.
        if found == LinkState::Gone && query.use_name_of(self.index).is_ok() {
            // While the kernel renames an interface, a query by its new name fails for a moment.
            found = match link_state(self.index, Ok(self.index), query.flags()) {
                LinkState::Gone => LinkState::Fine,
                found => found,
            };
        }
        match query.mtu() {
            Ok(mtu) if found == LinkState::Fine && mtu < self.min_mtu => LinkState::TooSmall(mtu),
            _ => found,
        }
    }

    /// The interface's address, if it is another than before.
    fn query_address(&self) -> Option<Address> {
        let query = self.query.as_ref().filter(|_| !self.is_unbound)?;
        // Another interface may have got the name a moment ago.
        let (_, address) = query.hardware().ok().filter(|_| query.index().ok() == Some(self.index))?;
        Some(Address(address)).filter(|address| *address != self.address)
    }

    fn describe(&self, name: &str) -> Option<String> {
        let Carrier { address, min_mtu: needed, .. } = self;
        Some(match self.state {
            LinkState::Gone => format!(
                "interface {name} is gone; this node goes on when one of this name and address is there again, and up: \
                 ip link set {name} address {address}"
            ),
            LinkState::Down => format!("interface {name} is down: ip link set {name} up"),
            LinkState::NoCarrier => format!("interface {name} has no carrier: its other end is down or unplugged"),
            LinkState::TooSmall(mtu) => format!(
                "the MTU of {name} is {mtu} now, too small for this node's frames: ip link set {name} mtu {needed}"
            ),
            LinkState::Fine => return None,
        })
    }

    /// Whether the kernel has unbound the socket. Then even an interface with the same index is a replacement.
    pub(crate) fn is_unbound(&self) -> bool {
        self.is_unbound
    }

    /// Whether the interface was gone at the last check.
    pub(crate) fn is_gone(&self) -> bool {
        self.state == LinkState::Gone
    }

    /// The interface's present name.
    pub(crate) fn name(&self) -> Option<String> {
        self.query.as_ref().map(Query::name)
    }
}

/// Ask the socket. An empty doorbell does nothing on a bound one. A closed transport has another file in its place. Through a lost one it
/// would be a datagram of the program's.
fn is_unbound(socket: &Own) -> bool {
    let ring = |socket: &OwnedFd| send(socket.as_raw_fd(), &[], MsgFlags::MSG_DONTWAIT);
    socket.get().is_some_and(|socket| ring(socket) == Err(Errno::ENXIO))
}

fn link_state(ours: u32, index: io::Result<u32>, flags: io::Result<i32>) -> LinkState {
    match flags {
        _ if index.is_ok_and(|index| index != ours) => LinkState::Gone,
        Ok(flags) if flags & libc::IFF_UP == 0 => LinkState::Down,
        Ok(flags) if flags & libc::IFF_RUNNING == 0 => LinkState::NoCarrier,
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => LinkState::Gone,
        // Other errors say nothing about the interface.
        _ => LinkState::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::interface;

    fn socket() -> Own {
        Own::new(std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into())
    }

    fn carrier(name: &str, index: u32, longest: usize) -> Carrier {
        let address = Address([0x52, 0x54, 0, 0, 0, 1]);
        Carrier::of(&Interface { name: name.to_owned(), index, address, ..interface("igb", 1500) }, longest).unwrap()
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let up = libc::IFF_UP | libc::IFF_RUNNING;
        let of = |flags| link_state(3, Ok(3), flags);
        assert_eq!(
            (of(Ok(up)), of(Ok(libc::IFF_UP)), of(Ok(0))),
            (LinkState::Fine, LinkState::NoCarrier, LinkState::Down)
        );
        assert_eq!(of(Err(io::Error::from_raw_os_error(libc::ENODEV))), LinkState::Gone);
        assert_eq!(of(Err(io::Error::from_raw_os_error(libc::EPERM))), LinkState::Fine);
        assert_eq!(link_state(3, Ok(4), Ok(up)), LinkState::Gone, "another one of that name");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        let mut gone = carrier("no-such-if0", 3_000_000, 1514);
        let said = gone.check(&socket()).unwrap().to_owned();
        assert!(said.starts_with("interface no-such-if0 is gone") && gone.is_gone(), "{said}");
        assert!(said.ends_with("ip link set no-such-if0 address 52:54:00:00:00:01"), "{said}");
        assert_eq!(carrier("no-such-if0", 1, 1514).check(&socket()), None, "it is called lo now");
        let said = carrier("lo", 1, 100_014).check(&socket()).unwrap().to_owned();
        assert!(
            said.starts_with("the MTU of lo is 65536 now") && said.ends_with("ip link set lo mtu 100000"),
            "{said}"
        );
    }
}
