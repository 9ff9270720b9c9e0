//! What a driver can do for XDP programs, as the kernel says it since 6.3: the generic netlink family `netdev`.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::SockProtocol;

use crate::netlink::{HEADER, ask, attribute, find, open};

/// Bytes of a `struct genlmsghdr`.
const GENERIC: usize = 4;

// `linux/genetlink.h`, `linux/netdev.h`.
const CONTROL_FAMILY: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_XDP_FEATURES: u16 = 3;
const SENDS_REDIRECTED: u64 = 1 << 2;

/// Whether the driver of the interface with this index sends frames that an XDP program redirects to it (`ndo_xdp_xmit`). `None`: the kernel
/// does not say.
pub(crate) fn sends_redirected(interface: u32) -> Option<bool> {
    let netlink = open(SockProtocol::NetlinkGeneric).ok()?;
    let get = |family, command, kind, value: &[u8], wanted| {
        let answer = request(&netlink, family, command, &attribute(kind, value)).ok()?;
        find(answer.get(HEADER + GENERIC..)?, wanted).map(<[u8]>::to_vec)
    };
    let family = get(CONTROL_FAMILY, GET_FAMILY, FAMILY_NAME, b"netdev\0", FAMILY_ID)?;
    let family = u16::from_ne_bytes(family.try_into().ok()?);
    let features = get(family, GET_DEVICE, DEVICE_INDEX, &interface.to_ne_bytes(), DEVICE_XDP_FEATURES)?;
    Some(u64::from_ne_bytes(features.try_into().ok()?) & SENDS_REDIRECTED != 0)
}

fn request(netlink: &impl AsFd, family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEADER + GENERIC + attributes.len());
    bytes.extend(((HEADER + GENERIC + attributes.len()) as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.extend([0; 8]); // number and sender
    bytes.extend([command, 1, 0, 0]); // the command, and its version
    bytes.extend(attributes);
    ask(netlink, &bytes)
}
