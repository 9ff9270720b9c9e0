//! Loads the XDP program, and attaches it in the mode that was asked for.

use std::os::fd::AsFd;

use am_bpf::{AttachError, AttachMode, Attachment, Config, SocketError, Steer};
use am_wire::Address;

use crate::OpenError;
use crate::holders::Holders;
use crate::interface::Interface;
use crate::options::{Attach, Options};

/// The index of this transport's socket in the program's table.
pub(crate) const SOCKET: u8 = 0;

/// The largest MTU of drivers that do not report it and take no multi-buffer frames: a page, less XDP's headroom, the
/// kernel's own data, the Ethernet header, and what each driver leaves for tags (`docs/nics.md`).
const MTUS: [(&str, u32); 6] =
    [("veth", 3506), ("virtio_net", 3506), ("igb", 3046), ("ixgbe", 3046), ("i40e", 3046), ("ice", 3046)];

/// The largest MTU that every driver with XDP takes.
const ANY_MTU: u32 = 1500;

/// Load the steering program of a node with this address, and give it the node's socket.
///
/// # Errors
/// [`OpenError::Load`].
pub(crate) fn load(options: &Options, own: Address, socket: &impl AsFd) -> Result<Steer, OpenError> {
    let Options { ethertype, lost_per_million, queue, .. } = *options;
    let config = Config { ethertype, own, node_socket: SOCKET, counts_redirected: false, lost_per_million };
    let steer = Steer::load(&config)?;
    steer.set_socket(SOCKET, queue, socket).map_err(no_socket)?;
    Ok(steer)
}

pub(crate) fn no_socket(error: SocketError) -> OpenError {
    OpenError::system("giving the socket to the XDP program", std::io::Error::other(error))
}

/// Attach a program to the interface, in the mode that was asked for.
///
/// # Errors
/// [`OpenError::Attach`], [`OpenError::AttachMtu`], [`OpenError::Occupied`].
pub(crate) fn attach(
    options: &Options,
    interface: &Interface,
    mut attach_as: impl FnMut(AttachMode) -> Result<Attachment, AttachError>,
) -> Result<Attachment, OpenError> {
    let attachment = match attach_as(options.attach.first(interface)) {
        Err(AttachError::NoNativeMode { .. }) if options.attach == Attach::NativeOrGeneric => {
            attach_as(AttachMode::Generic)
        }
        result => result,
    };
    attachment.map_err(|error| explain(error, interface))
}

fn explain(error: AttachError, interface: &Interface) -> OpenError {
    let Interface { name, driver, mtu, .. } = interface.clone();
    let usual = MTUS.iter().find(|(known, _)| *known == driver).map_or(ANY_MTU, |&(_, most)| most);
    match error {
        AttachError::Occupied { interface: name } => match Holders::of_program(interface.index) {
            none if none.is_empty() => AttachError::Occupied { interface: name }.into(),
            holders => OpenError::Occupied { interface: name, holders },
        },
        AttachError::MtuTooLarge { said, most, .. } if mtu > most.unwrap_or(usual) => {
            OpenError::AttachMtu { interface: name, driver, mtu, most: most.unwrap_or(usual), said }
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_that_the_driver_refuses_is_named_with_one_that_works() {
        let interface = Interface {
            name: "eth1".to_owned(),
            index: 2,
            mtu: 3600,
            address: Address::default(),
            driver: "veth".to_owned(),
            queues: None,
        };
        let said = |driver: &str, most| {
            let refusal = AttachError::MtuTooLarge { interface: "eth1".into(), said: "too large".into(), most };
            explain(refusal, &Interface { driver: driver.to_owned(), ..interface.clone() }).to_string()
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
