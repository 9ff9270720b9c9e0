//! Whether the interface can carry frames. An interface in use may be taken down, unplugged, renamed or removed, or get
//! a smaller MTU, and the rings say nothing of it.

use std::io;

use am_wire::Address;
use am_wire::frame::ETHERNET;

use crate::ifreq::Query;
use crate::interface::Interface;

/// Whether the interface carries frames, as of the last check.
pub(crate) struct Carrier {
    /// `None` if the system does not allow queries. Then the interface counts as well.
    query: Option<Query>,
    /// Its index: another interface may get its name later.
    index: u32,
    /// Its address: a replacement must have the same.
    address: Address,
    /// The smallest MTU that fits our longest frame.
    needed: u32,
    found: Found,
    trouble: Option<String>,
}

/// What the kernel says of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Gone,
    Down,
    NoCarrier,
    /// Its MTU, which is too small for our longest frame.
    TooSmall(u32),
    Fine,
}

impl Carrier {
    /// For an interface that must carry frames of `longest` bytes.
    pub(crate) fn of(interface: &Interface, longest: usize) -> Carrier {
        let query = Query::new(&interface.name).ok().flatten();
        let needed = longest.saturating_sub(ETHERNET) as u32;
        let Interface { index, address, .. } = *interface;
        Carrier { query, index, address, needed, found: Found::Fine, trouble: None }
    }

    /// Query the interface: three system calls. Returns what is wrong.
    pub(crate) fn look(&mut self) -> Option<&str> {
        self.found = self.ask();
        // No allocation where all is well.
        let is_fine = self.found == Found::Fine;
        self.trouble = self.query.as_ref().filter(|_| !is_fine).and_then(|query| self.say(&query.name()));
        self.trouble()
    }

    fn ask(&mut self) -> Found {
        let Some(query) = &mut self.query else { return Found::Fine };
        let mut found = found(self.index, query.index(), query.flags());
        // The interface may have been renamed, and another one may have its name.
        if found == Found::Gone && query.follow(self.index).is_ok() {
            found = found_by_its_number(query.flags());
        }
        match query.mtu() {
            Ok(mtu) if found == Found::Fine && mtu < self.needed => Found::TooSmall(mtu),
            _ => found,
        }
    }

    fn say(&self, name: &str) -> Option<String> {
        let Carrier { address, needed, .. } = self;
        Some(match self.found {
            Found::Gone => format!(
                "interface {name} is gone; this node goes on when one of this name and address is there again, and up: \
                 ip link set {name} address {address}"
            ),
            Found::Down => format!("interface {name} is down: ip link set {name} up"),
            Found::NoCarrier => format!("interface {name} has no carrier: its other end is down or unplugged"),
            Found::TooSmall(mtu) => format!(
                "the MTU of {name} is {mtu} now, too small for this node's frames: ip link set {name} mtu {needed}"
            ),
            Found::Fine => return None,
        })
    }

    /// What was wrong at the last check.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Whether the interface was gone at the last check.
    pub(crate) fn is_gone(&self) -> bool {
        self.found == Found::Gone
    }

    /// The interface's present name.
    pub(crate) fn name(&self) -> Option<String> {
        self.query.as_ref().map(Query::name)
    }
}

fn found(ours: u32, index: io::Result<u32>, flags: io::Result<i32>) -> Found {
    match flags {
        _ if index.is_ok_and(|index| index != ours) => Found::Gone,
        Ok(flags) if flags & libc::IFF_UP == 0 => Found::Down,
        Ok(flags) if flags & libc::IFF_RUNNING == 0 => Found::NoCarrier,
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Found::Gone,
        // Other errors say nothing about the interface.
        _ => Found::Fine,
    }
}

/// The state of an interface that was found by its index. While the kernel renames an interface, a query by its new
/// name fails for a moment: so "absent" counts as fine here.
fn found_by_its_number(flags: io::Result<i32>) -> Found {
    match found(0, Ok(0), flags) {
        Found::Gone => Found::Fine,
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::tests::interface;

    fn carrier(name: &str, index: u32, longest: usize) -> Carrier {
        let address = Address([0x52, 0x54, 0, 0, 0, 1]);
        Carrier::of(&Interface { name: name.to_owned(), index, address, ..interface(1500) }, longest)
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let up = libc::IFF_UP | libc::IFF_RUNNING;
        let of = |flags| found(3, Ok(3), flags);
        assert_eq!((of(Ok(up)), of(Ok(libc::IFF_UP)), of(Ok(0))), (Found::Fine, Found::NoCarrier, Found::Down));
        assert_eq!(of(Err(io::Error::from_raw_os_error(libc::ENODEV))), Found::Gone);
        assert_eq!(of(Err(io::Error::from_raw_os_error(libc::EPERM))), Found::Fine);
        assert_eq!(found(3, Ok(4), Ok(up)), Found::Gone, "another one of that name");
        let absent = || Err(io::Error::from_raw_os_error(libc::ENODEV));
        assert_eq!(found_by_its_number(absent()), Found::Fine, "it is being renamed");
        assert_eq!(found_by_its_number(Ok(0)), Found::Down);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        let mut gone = carrier("no-such-if0", 3_000_000, 1514);
        let said = gone.look().unwrap().to_owned();
        assert!(said.starts_with("interface no-such-if0 is gone") && gone.is_gone(), "{said}");
        assert!(said.ends_with("ip link set no-such-if0 address 52:54:00:00:00:01"), "{said}");
        assert_eq!(carrier("no-such-if0", 1, 1514).look(), None, "it is called lo now");
        let said = carrier("lo", 1, 100_014).look().unwrap().to_owned();
        assert!(
            said.starts_with("the MTU of lo is 65536 now") && said.ends_with("ip link set lo mtu 100000"),
            "{said}"
        );
    }
}
