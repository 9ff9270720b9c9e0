//! Whether the interface carries anything now: it may be taken down, unplugged,
//! renamed or removed while it is in use, and the rings say nothing of it.

use std::io;

use crate::ifreq::Query;

/// What was found when it was last looked at.
pub(crate) struct Carrier {
    /// `None` where the system would not let us ask: then nothing is known.
    query: Option<Query>,
    /// Another interface may get the name.
    index: u32,
    found: Found,
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
        Carrier { query, index, found: Found::Fine, trouble: None }
    }

    /// Ask; two system calls.
    pub(crate) fn look(&mut self) -> Option<&str> {
        let Some(query) = &mut self.query else { return None };
        self.found = found(self.index, query.index(), query.flags());
        // It may have another name by now, and another interface its name.
        if self.found == Found::Gone && query.follow(self.index).is_ok() {
            self.found = found(self.index, Ok(self.index), query.flags());
        }
        if self.found == Found::Fine {
            self.trouble = None;
            return None;
        }
        let name = query.name();
        self.trouble = Some(match self.found {
            Found::Gone => format!(
                "interface {name} is gone; this node goes on when one of this name and address is there again, and up"
            ),
            Found::Down => format!("interface {name} is down: ip link set {name} up"),
            _ => format!("interface {name} has no carrier: its other end is down or unplugged"),
        });
        self.trouble()
    }

    /// What was found when it was last looked at.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Whether there was no such interface any more when it was last looked at.
    pub(crate) fn is_gone(&self) -> bool {
        self.found == Found::Gone
    }

    /// What the interface is called now.
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
        let mut gone = Carrier::of("no-such-if0", 3_000_000);
        assert!(gone.look().unwrap().starts_with("interface no-such-if0 is gone") && gone.is_gone());
        assert_eq!(Carrier::of("no-such-if0", 1).look(), None, "it is called lo now");
    }
}
