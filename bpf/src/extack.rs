//! Gets a driver's message about an XDP program that it refused.
//!
//! `BPF_LINK_CREATE` returns only a number. The older way to attach, by netlink, also returns the driver's message
//! (`NETLINK_EXT_ACK`). So a refused attachment is tried once more by netlink, to be refused again.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::SockProtocol;

use crate::AttachMode;
use crate::netlink::{self, HEADER, ask, attribute, find};

/// `struct ifinfomsg`.
const INTERFACE: usize = 16;

// `linux/if_link.h`, `linux/netlink.h`.
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_FLAGS: u16 = 3;
const UPDATE_IF_NOEXIST: u32 = 1 << 0;
const SKB_MODE: u32 = 1 << 1;
const DRV_MODE: u32 = 1 << 2;
const NLMSGERR_ATTR_MSG: u16 = 1;

/// The message of kernel and driver about attaching this program to the interface with this index; `None` without one.
pub(crate) fn why_not(program: BorrowedFd<'_>, interface: u32, mode: AttachMode) -> Option<String> {
    let netlink = open().ok()?;
    let flags = match mode {
        AttachMode::Native => DRV_MODE,
        AttachMode::Generic => SKB_MODE,
    };
    let answer = ask(&netlink, &request(interface, program.as_raw_fd(), flags | UPDATE_IF_NOEXIST)).ok()?;
    if errno(&answer) == Some(0) {
        // It succeeded after all. Detach, because no link holds it.
        ask(&netlink, &request(interface, -1, flags)).ok()?;
    }
    message(&answer)
}

fn open() -> io::Result<OwnedFd> {
    let netlink = netlink::open(SockProtocol::NetlinkRoute)?;
    // The second option leaves our request out of the answer.
    for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
        let on: libc::c_int = 1;
        // SAFETY: the option is an int, which lives for the call.
        let set = unsafe {
            let size = size_of_val(&on) as libc::socklen_t;
            libc::setsockopt(netlink.as_raw_fd(), libc::SOL_NETLINK, option, (&raw const on).cast(), size)
        };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(netlink)
}

/// `RTM_SETLINK` of the interface, with the program, or none.
fn request(interface: u32, program: i32, flags: u32) -> Vec<u8> {
    let inner =
        [attribute(IFLA_XDP_FD, &program.to_ne_bytes()), attribute(IFLA_XDP_FLAGS, &flags.to_ne_bytes())].concat();
    let xdp = attribute(libc::IFLA_XDP | libc::NLA_F_NESTED as u16, &inner);
    let mut bytes = Vec::with_capacity(HEADER + INTERFACE + xdp.len());
    bytes.extend(((HEADER + INTERFACE + xdp.len()) as u32).to_ne_bytes());
    bytes.extend(libc::RTM_SETLINK.to_ne_bytes());
    bytes.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    bytes.extend([0; 8]); // number and sender
    bytes.extend([0; 4]); // family and kind
    bytes.extend(interface.to_ne_bytes());
    bytes.extend([0; 8]); // flags, and which of them to change
    bytes.extend(xdp);
    bytes
}

/// The kernel's answer: 0, or a negative error number.
fn errno(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    (i32::from(kind) == libc::NLMSG_ERROR).then_some(())?;
    Some(i32::from_ne_bytes(answer.get(HEADER..HEADER + 4)?.try_into().ok()?))
}

/// The message in an answer. It is an attribute after the error number and the header of the request.
fn message(answer: &[u8]) -> Option<String> {
    errno(answer)?;
    let text = String::from_utf8_lossy(find(answer.get(HEADER + 4 + HEADER..)?, NLMSGERR_ATTR_MSG)?);
    let text = text.trim_end_matches('\0').trim().replace(char::is_control, " ");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the kernel's format.
    fn answer(number: i32, text: &str) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend((libc::NLMSG_ERROR as u16).to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(number.to_ne_bytes());
        bytes.extend([0; HEADER]);
        bytes.extend(attribute(2, &7u32.to_ne_bytes()));
        bytes.extend(attribute(NLMSGERR_ATTR_MSG, &[text.as_bytes(), b"\0"].concat()));
        bytes
    }

    #[test]
    fn the_drivers_sentence_is_found_behind_other_attributes() {
        let bytes = answer(-libc::EINVAL, "igb: too small\n");
        assert_eq!((errno(&bytes), message(&bytes).as_deref()), (Some(-libc::EINVAL), Some("igb: too small")));
        for length in 0..bytes.len() - 1 {
            assert_eq!(message(&bytes[..length]), None, "{length}");
        }
        assert_eq!(message(&answer(0, "")), None);
    }
}
