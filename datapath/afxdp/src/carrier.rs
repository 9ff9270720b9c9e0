//! Whether the interface carries anything now: it may be taken down, unplugged
//! or removed while it is in use, and the rings say nothing of it.

use std::io;

use crate::ifreq::Query;

/// What was found when it was last looked at.
pub(crate) struct Carrier {
    interface: String,
    /// `None` where the system would not let us ask: then nothing is known.
    query: Option<Query>,
    /// Another interface may get the name.
    index: u32,
    trouble: Option<String>,
}

/// What the kernel says of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Gone,
    Down,
    NoCarrier,
    Fine,
}

impl Carrier {
    pub(crate) fn of(interface: &str, index: u32) -> Carrier {
        let query = Query::new(interface).ok().flatten();
        Carrier { interface: interface.to_owned(), query, index, trouble: None }
    }

    /// Ask; two system calls.
    pub(crate) fn look(&mut self) -> Option<&str> {
        let found = self.query.as_ref().map_or(Found::Fine, |query| found(self.index, query.index(), query.flags()));
        let name = &self.interface;
        self.trouble = match found {
            Found::Fine => None,
            Found::Gone => Some(format!("interface {name} is gone")),
            Found::Down => Some(format!("interface {name} is down: ip link set {name} up")),
            Found::NoCarrier => Some(format!("interface {name} has no carrier: its other end is down or unplugged")),
        };
        self.trouble()
    }

    /// What was found when it was last looked at.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

fn found(ours: u32, index: io::Result<u32>, flags: io::Result<i32>) -> Found {
    match flags {
        _ if index.is_ok_and(|index| index != ours) => Found::Gone,
        Ok(flags) if flags & libc::IFF_UP == 0 => Found::Down,
        Ok(flags) if flags & libc::IFF_RUNNING == 0 => Found::NoCarrier,
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Found::Gone,
        // Of other errors nothing is known of the interface.
        _ => Found::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let up = libc::IFF_UP | libc::IFF_RUNNING;
        let of = |flags| found(3, Ok(3), flags);
        assert_eq!((of(Ok(up)), of(Ok(libc::IFF_UP)), of(Ok(0))), (Found::Fine, Found::NoCarrier, Found::Down));
        assert_eq!(of(Err(io::Error::from_raw_os_error(libc::ENODEV))), Found::Gone);
        assert_eq!(of(Err(io::Error::from_raw_os_error(libc::EPERM))), Found::Fine);
        assert_eq!(found(3, Ok(4), Ok(up)), Found::Gone, "another one of that name");
        assert_eq!(Carrier::of("no-such-if0", 3).look(), Some("interface no-such-if0 is gone"));
    }
}
