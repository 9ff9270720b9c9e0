//! The properties of an interface.

use am_wire::Address;
use am_wire::frame::ETHERNET_HEADER;
use nix::net::if_::if_nameindex;

use crate::XdpOpenError;
use crate::ifreq::Query;

/// The properties of an interface at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index in its network namespace.
    pub index: u32,
    /// Bytes after the Ethernet header.
    pub mtu: u32,
    /// Its true address.
    pub address: Address,
    /// The driver's name, as the kernel has it: `veth`, `mlx5_core`.
    pub driver: String,
    /// Receive queues in use, if the driver says.
    pub queues: Option<u32>,
}

impl Interface {
    /// Ask the kernel, in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`XdpOpenError::NoSuchInterface`], [`XdpOpenError::NotEthernet`], [`XdpOpenError::Down`].
    pub fn find(name: &str) -> Result<Interface, XdpOpenError> {
        let asking = |source| XdpOpenError::system(format!("asking about interface {name}"), source);
        let absent = || {
            let all = if_nameindex();
            let have = all.iter().flatten().map(|one| one.name().to_string_lossy().into_owned()).collect();
            XdpOpenError::NoSuchInterface { interface: name.to_owned(), have }
        };
        let query = Query::new(name).map_err(asking)?.ok_or_else(absent)?;
        let index = query.index().map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => absent(),
            _ => asking(error),
        })?;
        let (kind, address) = query.hardware().map_err(asking)?;
        if kind != libc::ARPHRD_ETHER {
            return Err(XdpOpenError::NotEthernet { interface: name.to_owned() });
        }
        if query.flags().map_err(asking)? & libc::IFF_UP == 0 {
            return Err(XdpOpenError::Down { interface: name.to_owned() });
        }
        Ok(Interface {
            name: name.to_owned(),
            index,
            mtu: query.mtu().map_err(asking)?,
            address: Address(address),
            driver: query.driver().unwrap_or_else(|_| "unknown driver".to_owned()),
            queues: query.queues().ok().filter(|&count| count > 0),
        })
    }

    /// # Errors
    /// [`XdpOpenError::NoSuchQueue`], if the driver says how many there are.
    pub(crate) fn check_queue(&self, queue: u32) -> Result<(), XdpOpenError> {
        match self.queues {
            Some(have) if queue >= have => Err(XdpOpenError::NoSuchQueue { interface: self.name.clone(), queue, have }),
            _ => Ok(()),
        }
    }

    /// The longest frame, from the destination address on.
    pub fn max_frame(&self) -> usize {
        self.mtu as usize + ETHERNET_HEADER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_interface_is_named_with_those_there_are() {
        let error = Interface::find("am-none").unwrap_err();
        assert!(matches!(&error, XdpOpenError::NoSuchInterface { have, .. } if have.iter().any(|name| name == "lo")));
        assert!(error.to_string().contains("am-none"), "{error}");
    }

    #[test]
    fn the_loopback_interface_carries_no_ethernet() {
        assert!(matches!(Interface::find("lo").unwrap_err(), XdpOpenError::NotEthernet { .. }));
    }

    #[test]
    fn queues_are_counted_from_zero() {
        let mut interface = Interface { queues: Some(2), ..crate::tests::interface("veth", 1500) };
        assert!(interface.check_queue(1).is_ok());
        let error = interface.check_queue(2).unwrap_err().to_string();
        assert!(error.contains("queue 2") && error.contains("0 to 1"), "{error}");
        interface.queues = None;
        assert!(interface.check_queue(2).is_ok());
    }
}
