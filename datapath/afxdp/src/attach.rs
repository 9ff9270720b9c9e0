//! Loads the XDP program, and attaches it in the mode that was asked for.

use std::os::fd::AsFd;

use am_bpf::{AttachError, AttachMode, Attachment, Config, SocketError, Steer};
use am_wire::Address;

use crate::XdpOpenError;
use crate::holders::Holders;
use crate::interface::Interface;
use crate::options::XdpOptions;

/// The index of this transport's socket in the program's table.
pub(crate) const SOCKET: u8 = 0;

/// The largest MTU of drivers that do not report it and take no multi-buffer frames: a page, less XDP's headroom, the
/// kernel's own data, the Ethernet header, and what each driver leaves for tags (`docs/nics.md`).
const DRIVER_MAX_MTU: [(&str, u32); 6] =
    [("veth", 3506), ("virtio_net", 3506), ("igb", 3046), ("ixgbe", 3046), ("i40e", 3046), ("ice", 3046)];

/// The largest MTU that every driver with XDP takes.
const DEFAULT_MAX_MTU: u32 = 1500;

/// Load the steering program of a node with this address, and give it the node's socket.
///
/// # Errors
/// [`XdpOpenError::Load`].
pub(crate) fn load(options: &XdpOptions, own: Address, socket: &impl AsFd) -> Result<Steer, XdpOpenError> {
    let XdpOptions { ethertype, lost_per_million, queue, .. } = *options;
    let config = Config { ethertype, own, node_socket: SOCKET, counts_redirected: false, lost_per_million };
    let steer = Steer::load(&config)?;
    steer.set_socket(SOCKET, queue, socket).map_err(socket_error)?;
    Ok(steer)
}

pub(crate) fn socket_error(error: SocketError) -> XdpOpenError {
    let source = match error {
        SocketError::Refused(source) => source,
        other => std::io::Error::other(other),
    };
    XdpOpenError::system("giving the socket to the XDP program", source)
}

/// Attach a program to the interface, in the mode that was asked for.
///
/// # Errors
/// [`XdpOpenError::Attach`], [`XdpOpenError::AttachMtu`], [`XdpOpenError::Occupied`].
pub(crate) fn attach(
    options: &XdpOptions,
    interface: &Interface,
    attach_as: impl FnOnce(AttachMode) -> Result<Attachment, AttachError>,
) -> Result<Attachment, XdpOpenError> {
    attach_as(options.attach.mode(interface)).map_err(|error| attach_error(error, interface))
}

fn attach_error(error: AttachError, interface: &Interface) -> XdpOpenError {
    let Interface { name, driver, mtu, .. } = interface.clone();
    let usual = DRIVER_MAX_MTU.iter().find(|(known, _)| *known == driver).map_or(DEFAULT_MAX_MTU, |&(_, most)| most);
    match error {
        AttachError::Occupied { interface: name } => match Holders::of_program(interface.index) {
            none if none.is_empty() => AttachError::Occupied { interface: name }.into(),
            holders => XdpOpenError::Occupied { interface: name, holders },
        },
        AttachError::MtuTooLarge { said, most, .. } if mtu > most.unwrap_or(usual) => {
            XdpOpenError::AttachMtu { interface: name, driver, mtu, most: most.unwrap_or(usual), said }
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::interface;

    #[test]
    fn an_mtu_that_the_driver_refuses_is_named_with_one_that_works() {
        let said = |driver: &str, most| {
            let refusal = AttachError::MtuTooLarge { interface: "eth1".into(), said: "too large".into(), most };
            attach_error(refusal, &interface(driver, 3600)).to_string()
        };
        for (driver, most, advice) in [
            ("veth", None, "dev eth1 mtu 3506"),
            ("ixgbe", None, "dev eth1 mtu 3046"),
            ("vmxnet3", None, "dev eth1 mtu 1500"),
            ("ena", Some(3498), "dev eth1 mtu 3498"),
        ] {
            let error = said(driver, most);
            assert!(error.contains(advice) && error.contains("(too large)"), "{error}");
        }
    }
}
