//! Queries to the kernel about an interface, by `ioctl`. They work in any network namespace, while `/sys` shows the
//! namespace in which it was mounted.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsRawFd;

use am_ring::own::{Own, high};
use libc::{c_char, c_int, c_ulong, ifreq};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// A socket for the queries, and the name of the interface.
pub(crate) struct Query {
    socket: Own,
    name: [c_char; libc::IFNAMSIZ],
}

impl Query {
    /// `None` for a name that no interface can have.
    pub(crate) fn new(interface: &str) -> io::Result<Option<Query>> {
        // Any socket of this namespace will do. It is not bound: in a new namespace the loopback interface is down, and
        // there is no address to bind to.
        let open = |family| socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
        let socket = match open(AddressFamily::Inet) {
            Err(Errno::EAFNOSUPPORT) => open(AddressFamily::Inet6),
            opened => opened,
        }?;
        let mut name = [0; libc::IFNAMSIZ];
        if interface.len() >= name.len() || interface.bytes().any(|byte| byte == 0) {
            return Ok(None);
        }
        name.iter_mut().zip(interface.bytes()).for_each(|(to, byte)| *to = byte as c_char);
        Ok(Some(Query { socket: high(socket).into(), name }))
    }

    /// The number of the interface.
    pub(crate) fn index(&self) -> io::Result<u32> {
        let answer = self.get(libc::SIOCGIFINDEX as c_ulong)?;
        // SAFETY: the kernel answers SIOCGIFINDEX in this field.
        Ok(unsafe { answer.ifr_ifru.ifru_ifindex } as u32)
    }

    /// From now on query the interface with this index, by the name that it has now.
    pub(crate) fn use_name_of(&mut self, index: u32) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_ifindex = index as c_int;
        self.ioctl(libc::SIOCGIFNAME as c_ulong, &mut request)?;
        self.name = request.ifr_name;
        Ok(())
    }

    /// The name of the interface.
    pub(crate) fn name(&self) -> String {
        let bytes = self.name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8);
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    }

    /// `IFF_*`.
    pub(crate) fn flags(&self) -> io::Result<i32> {
        let answer = self.get(libc::SIOCGIFFLAGS as c_ulong)?;
        // SAFETY: the kernel answers SIOCGIFFLAGS in this field.
        Ok(unsafe { answer.ifr_ifru.ifru_flags }.into())
    }

    /// Bytes after the Ethernet header.
    pub(crate) fn mtu(&self) -> io::Result<u32> {
        let answer = self.get(libc::SIOCGIFMTU as c_ulong)?;
        // SAFETY: the kernel answers SIOCGIFMTU in this field.
        Ok(unsafe { answer.ifr_ifru.ifru_mtu } as u32)
    }

    /// `ARPHRD_*` and the first six bytes of the address.
    pub(crate) fn hardware(&self) -> io::Result<(u16, [u8; 6])> {
        let answer = self.get(libc::SIOCGIFHWADDR as c_ulong)?;
        // SAFETY: the kernel answers SIOCGIFHWADDR in this field.
        let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
        let mut bytes = [0; 6];
        bytes.iter_mut().zip(address.sa_data).for_each(|(to, byte)| *to = byte as u8);
        Ok((address.sa_family, bytes))
    }

    /// The driver's name.
    pub(crate) fn driver(&self) -> io::Result<String> {
        let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        self.ethtool((&raw mut info).cast())?;
        info.driver[31] = 0;
        let name = CStr::from_bytes_until_nul(&info.driver).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    /// Receive queues in use.
    pub(crate) fn queues(&self) -> io::Result<u32> {
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        self.ethtool((&raw mut channels).cast())?;
        Ok(channels.rx + channels.combined)
    }

    /// Whether the NIC removes 802.1Q tags from frames and passes them beside (`ethtool -k`: rx-vlan-offload).
    pub(crate) fn strips_vlan_tags(&self) -> io::Result<bool> {
        Ok(self.ethtool_flags()? & ETH_FLAG_RXVLAN != 0)
    }

    /// `ETH_FLAG_*`.
    pub(crate) fn ethtool_flags(&self) -> io::Result<u32> {
        let mut flags = [ETHTOOL_GFLAGS, 0];
        self.ethtool(flags.as_mut_ptr().cast())?;
        Ok(flags[1])
    }

    fn request(&self) -> ifreq {
        // SAFETY: zeros are a value of every member of this C structure.
        let mut request: ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request
    }

    fn get(&self, what: c_ulong) -> io::Result<ifreq> {
        let mut request = self.request();
        self.ioctl(what, &mut request)?;
        Ok(request)
    }

    /// `command` points to the structure that the kernel defines for the command in its first word.
    pub(crate) fn ethtool(&self, command: *mut c_char) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = command;
        self.ioctl(libc::SIOCETHTOOL as c_ulong, &mut request)
    }

    fn ioctl(&self, what: c_ulong, request: &mut ifreq) -> io::Result<()> {
        // SAFETY: all of our requests take an `ifreq`, which lives across the
        // call; `ifru_data`, where it is used, points to a structure of the
        // size that the kernel knows for the command in its first word.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), what as _, &raw mut *request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_drvinfo` of `linux/ethtool.h`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_channels` of `linux/ethtool.h`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    _most: [u32; 4],
    rx: u32,
    _tx: u32,
    _other: u32,
    combined: u32,
}

const _: () = assert!(size_of::<DriverInfo>() == 196 && size_of::<Channels>() == 36);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_answers() {
        let mut query = Query::new("lo").unwrap().unwrap();
        let index = query.index().unwrap();
        assert!(index > 0);
        query.use_name_of(index).unwrap();
        assert_eq!(query.name(), "lo");
        assert_eq!(query.use_name_of(u32::MAX).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert!(query.mtu().unwrap() >= 1500);
        assert_eq!(query.hardware().unwrap(), (libc::ARPHRD_LOOPBACK, [0; 6]));
        assert_eq!(query.queues().unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        assert!(Query::new("a-name-of-16-byt").unwrap().is_none());
        assert!(Query::new("nul\0").unwrap().is_none());
        let error = Query::new("am-none").unwrap().unwrap().mtu().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
