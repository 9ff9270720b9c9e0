//! The XDP program on the interface, which decides what the socket gets.

use std::os::fd::AsFd;

use bpf::{AttachError, AttachMode, Attachment, Config, Counters, Raw, SocketError, Steer};
use wire::bounce::Back;
use wire::{Address, Flow};

use crate::OpenError;
use crate::busy_poll::Deferred;
use crate::holders::Holders;
use crate::interface::Interface;
use crate::options::{Attach, Options, Program};
use crate::siblings::{Lost, Place};

/// The index of this transport's socket in the program's table.
const SOCKET: u8 = 0;

/// The largest MTU of drivers that do not say it, and take no frames in several pieces: a page less XDP's
/// headroom, the kernel's own data, the Ethernet header, and what each leaves for tags (`docs/nics.md`).
const MTUS: [(&str, u32); 6] =
    [("veth", 3506), ("virtio_net", 3506), ("igb", 3046), ("ixgbe", 3046), ("i40e", 3046), ("ice", 3046)];

/// The largest MTU that every driver with XDP takes.
const ANY_MTU: u32 = 1500;

/// A program on the interface. Dropping it detaches it first, then unloads it.
pub(crate) enum Attached {
    Steer { place: Place, steer: Steer },
    Raw { attachment: Attachment, raw: Raw },
}

/// The steering program of a node with this address, and its socket.
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

fn no_socket(error: SocketError) -> OpenError {
    OpenError::system("giving the socket to the XDP program", std::io::Error::other(error))
}

/// A program on the interface, in the mode that was asked for.
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

impl Attached {
    /// Load the program, give it the socket, attach it.
    ///
    /// # Errors
    /// [`OpenError::Load`], [`OpenError::Attach`], [`OpenError::AttachMtu`].
    pub(crate) fn new(options: &Options, interface: &Interface, socket: &impl AsFd) -> Result<Attached, OpenError> {
        match options.program {
            Program::Steer => {
                let (place, steer) = Place::take(options, interface, socket)?;
                Ok(Attached::Steer { place, steer })
            }
            Program::Raw => {
                let mut raw = Raw::load(options.ethertype.hidden())?;
                raw.set_socket(options.queue, socket).map_err(no_socket)?;
                let attachment = attach(options, interface, |mode| raw.attach(&interface.name, mode))?;
                Ok(Attached::Raw { attachment, raw })
            }
        }
    }

    /// Where it runs.
    pub(crate) fn mode(&self) -> AttachMode {
        match self {
            Attached::Steer { place, .. } => place.mode(),
            Attached::Raw { attachment, .. } => attachment.mode(),
        }
    }

    fn steer_program(&self) -> Option<&Steer> {
        match self {
            Attached::Steer { steer, .. } => Some(steer),
            Attached::Raw { .. } => None,
        }
    }

    /// The node's place among those on this interface.
    pub(crate) fn place(&self) -> Option<&Place> {
        match self {
            Attached::Steer { place, .. } => Some(place),
            Attached::Raw { .. } => None,
        }
    }

    /// As [`Place::defer`].
    pub(crate) fn defer(&mut self, deferred: Deferred) -> Deferred {
        match self {
            Attached::Steer { place, .. } => {
                place.defer(deferred);
                Deferred::default()
            }
            Attached::Raw { .. } => deferred,
        }
    }

    /// Frames are for another socket from now on.
    pub(crate) fn set_socket(&mut self, queue: u32, socket: &impl AsFd) -> Result<(), OpenError> {
        match self {
            Attached::Steer { steer, .. } => steer.set_socket(SOCKET, queue, socket).map_err(no_socket),
            Attached::Raw { raw, .. } => raw.set_socket(queue, socket).map_err(no_socket),
        }
    }

    /// As [`Place::attach_again`].
    pub(crate) fn attach_again(&mut self, options: &Options, interface: &Interface) -> Result<Option<Lost>, OpenError> {
        match self {
            Attached::Steer { place, steer } => place.attach_again(options, interface, steer),
            // Only a bench uses this program, and its NIC stays as it is.
            Attached::Raw { .. } => Ok(None),
        }
    }

    /// The interface is gone: its place is left, and the program stays loaded.
    pub(crate) fn leave(&mut self) {
        if let Attached::Steer { place, .. } = self {
            place.leave();
        }
    }

    /// On the interface that has come for one that was left, and for its socket.
    ///
    /// # Errors
    /// As [`Attached::new`].
    pub(crate) fn follow(
        &mut self,
        options: &Options,
        interface: &Interface,
        socket: &impl AsFd,
    ) -> Result<(), OpenError> {
        self.set_socket(options.queue, socket)?;
        match self {
            Attached::Steer { place, steer } => place.follow(options, interface, steer)?,
            Attached::Raw { attachment, raw } => {
                *attachment = attach(options, interface, |mode| raw.attach(&interface.name, mode))?;
            }
        }
        Ok(())
    }

    /// Frames of this flow are for us from now on, or no longer.
    pub(crate) fn steer(&self, flow: Flow, open: bool) {
        if let Some(steer) = self.steer_program() {
            steer.set_back(flow, None);
            steer.set_flow(flow, open.then_some(SOCKET));
        }
    }

    /// How the program can return requests of this flow.
    pub(crate) fn way_back(&self, flow: Flow, back: &Back) {
        if let Some(steer) = self.steer_program() {
            steer.set_back(flow, Some(back));
        }
    }

    /// Whether it has to.
    pub(crate) fn full(&self, is_full: bool) {
        if let Some(steer) = self.steer_program() {
            steer.set_full(is_full);
        }
    }

    /// The last flow that a frame came for though it is not open, once.
    pub(crate) fn stray(&self) -> Option<Flow> {
        self.steer_program()?.stray()
    }

    /// What happened to frames before they came to the socket.
    pub(crate) fn counters(&self) -> Option<Counters> {
        self.steer_program()?.counters().ok()
    }
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
    use wire::Address;

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
