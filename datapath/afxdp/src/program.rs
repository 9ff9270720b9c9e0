//! The XDP program on the interface, which decides what the socket gets.

use std::os::fd::AsFd;

use bpf::{AttachError, AttachMode, Attachment, Config, Raw, Steer};
use wire::Flow;
use wire::bounce::Back;

use crate::OpenError;
use crate::interface::Interface;
use crate::options::{Attach, Options, Program};

/// The index of this transport's socket in the program's table.
const SOCKET: u8 = 0;

/// The largest MTU of a veth whose program takes no frames in several pieces:
/// a page less XDP's headroom, the kernel's own data and the Ethernet header.
const VETH_MTU: u32 = 3506;

/// The largest MTU that every driver with XDP takes.
const ANY_MTU: u32 = 1500;

/// A program, loaded.
#[derive(Debug)]
pub(crate) enum Loaded {
    Steer(Steer),
    Raw(Raw),
}

/// A program, attached. Dropping it detaches it first, then unloads it.
#[derive(Debug)]
pub(crate) struct Attached {
    attachment: Attachment,
    program: Loaded,
}

impl Loaded {
    fn new(options: &Options, interface: &Interface) -> Result<Loaded, OpenError> {
        let (ethertype, own, lost_per_million) = (options.ethertype, interface.address, options.lost_per_million);
        let config = Config { ethertype, own, node_socket: SOCKET, counts_redirected: false, lost_per_million };
        Ok(match options.program {
            Program::Steer => Loaded::Steer(Steer::load(&config)?),
            Program::Raw => Loaded::Raw(Raw::load(options.ethertype.hidden())?),
        })
    }

    fn set_socket(&mut self, queue: u32, socket: &impl AsFd) -> Result<(), OpenError> {
        let set = match self {
            Loaded::Steer(steer) => steer.set_socket(SOCKET, queue, socket),
            Loaded::Raw(raw) => raw.set_socket(queue, socket),
        };
        set.map_err(|error| OpenError::system("giving the socket to the XDP program", std::io::Error::other(error)))
    }

    fn attach_as(&mut self, interface: &Interface, mode: AttachMode) -> Result<Attachment, AttachError> {
        match self {
            Loaded::Steer(steer) => steer.attach(&interface.name, mode),
            Loaded::Raw(raw) => raw.attach(&interface.name, mode),
        }
    }
}

impl Attached {
    /// Load the program, give it the socket, attach it.
    ///
    /// # Errors
    /// [`OpenError::Load`], [`OpenError::Attach`], [`OpenError::AttachMtu`].
    pub(crate) fn new(options: &Options, interface: &Interface, socket: &impl AsFd) -> Result<Attached, OpenError> {
        let mut program = Loaded::new(options, interface)?;
        program.set_socket(options.queue, socket)?;
        let attachment = match program.attach_as(interface, options.attach.first(interface)) {
            Err(AttachError::NoNativeMode { .. }) if options.attach == Attach::NativeOrGeneric => {
                program.attach_as(interface, AttachMode::Generic)
            }
            result => result,
        };
        Ok(Attached { attachment: attachment.map_err(|error| explain(error, interface))?, program })
    }

    /// Where it runs.
    pub(crate) fn mode(&self) -> AttachMode {
        self.attachment.mode()
    }

    /// Frames of this flow are for us from now on, or no longer.
    pub(crate) fn steer(&self, flow: Flow, open: bool) {
        if let Loaded::Steer(steer) = &self.program {
            steer.set_back(flow, None);
            steer.set_flow(flow, open.then_some(SOCKET));
        }
    }

    /// How the program can return requests of this flow.
    pub(crate) fn way_back(&self, flow: Flow, back: &Back) {
        if let Loaded::Steer(steer) = &self.program {
            steer.set_back(flow, Some(back));
        }
    }

    /// Whether it has to.
    pub(crate) fn full(&self, is_full: bool) {
        if let Loaded::Steer(steer) = &self.program {
            steer.set_full(is_full);
        }
    }

    /// The last flow that a frame came for though it is not open, once.
    pub(crate) fn stray(&self) -> Option<Flow> {
        match &self.program {
            Loaded::Steer(steer) => steer.stray(),
            Loaded::Raw(_) => None,
        }
    }

    /// What happened to frames before they came to the socket.
    pub(crate) fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        if let Loaded::Steer(steer) = &self.program
            && let Ok(counters) = steer.counters()
        {
            counters.each(each);
        }
    }
}

fn explain(error: AttachError, interface: &Interface) -> OpenError {
    let Interface { name, driver, mtu, .. } = interface.clone();
    let most = if driver == "veth" { VETH_MTU } else { ANY_MTU };
    match error {
        AttachError::MtuTooLarge { .. } if mtu > most => OpenError::AttachMtu { interface: name, driver, mtu, most },
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
        let refusal = || AttachError::MtuTooLarge { interface: "eth1".to_owned() };
        let error = explain(refusal(), &interface).to_string();
        assert!(error.contains("dev eth1 mtu 3506"), "{error}");
        let other = explain(refusal(), &Interface { driver: "ixgbe".to_owned(), ..interface }).to_string();
        assert!(other.contains("dev eth1 mtu 1500"), "{other}");
    }
}
