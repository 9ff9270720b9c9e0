//! The XDP program on the interface. It decides which frames the socket gets.

use std::os::fd::AsFd;

use am_bpf::{AttachMode, Attachment, Counters, Raw, Steer};
use am_wire::Flow;
use am_wire::bounce::RejectTemplate;

use crate::XdpOpenError;
use crate::attach::{SOCKET, attach, socket_error};
use crate::busy_poll::SavedSettings;
use crate::interface::Interface;
use crate::options::{Program, XdpOptions};
use crate::siblings::{BypassCause, InterfaceNode};

/// A program on the interface. Dropping it detaches it first, then unloads it.
pub(crate) enum Attached {
    Steer { node: InterfaceNode, steer: Steer },
    Raw { attachment: Attachment, raw: Raw },
}

impl Attached {
    /// Load the program, give it the socket, attach it.
    ///
    /// # Errors
    /// [`XdpOpenError::Load`], [`XdpOpenError::Attach`], [`XdpOpenError::AttachMtu`].
    pub(crate) fn new(
        options: &XdpOptions,
        interface: &Interface,
        socket: &impl AsFd,
    ) -> Result<Attached, XdpOpenError> {
        match options.program {
            Program::Steer => {
                let (place, steer) = InterfaceNode::take(options, interface, socket)?;
                Ok(Attached::Steer { node: place, steer })
            }
            Program::Raw => {
                let mut raw = Raw::load(options.ethertype.hidden())?;
                raw.set_socket(options.queue, socket).map_err(socket_error)?;
                let attachment = attach(options, interface, |mode| raw.attach(&interface.name, mode))?;
                Ok(Attached::Raw { attachment, raw })
            }
        }
    }

    /// Where the program runs.
    pub(crate) fn mode(&self) -> AttachMode {
        match self {
            Attached::Steer { node: place, .. } => place.mode(),
            Attached::Raw { attachment, .. } => attachment.mode(),
        }
    }

    fn steer_program(&self) -> Option<&Steer> {
        match self {
            Attached::Steer { steer, .. } => Some(steer),
            Attached::Raw { .. } => None,
        }
    }

    /// The node's entry among those on this interface; `None` for bare AF_XDP.
    pub(crate) fn node(&self) -> Option<&InterfaceNode> {
        match self {
            Attached::Steer { node: place, .. } => Some(place),
            Attached::Raw { .. } => None,
        }
    }

    /// As [`InterfaceNode::restore_on_close`].
    pub(crate) fn restore_on_close(&mut self, deferred: SavedSettings) -> SavedSettings {
        match self {
            Attached::Steer { node: place, .. } => {
                place.restore_on_close(deferred);
                SavedSettings::default()
            }
            Attached::Raw { .. } => deferred,
        }
    }

    /// From now on redirect frames to another socket.
    pub(crate) fn set_socket(&mut self, queue: u32, socket: &impl AsFd) -> Result<(), XdpOpenError> {
        match self {
            Attached::Steer { steer, .. } => steer.set_socket(SOCKET, queue, socket).map_err(socket_error),
            Attached::Raw { raw, .. } => raw.set_socket(queue, socket).map_err(socket_error),
        }
    }

    /// As [`InterfaceNode::reattach`].
    pub(crate) fn attach_again(
        &mut self,
        options: &XdpOptions,
        interface: &Interface,
    ) -> Result<Option<BypassCause>, XdpOpenError> {
        match self {
            Attached::Steer { node: place, steer } => place.reattach(options, interface, steer),
            // Only a bench uses this program, and its NIC is not reset.
            Attached::Raw { .. } => Ok(None),
        }
    }

    /// The interface is gone: leave it. The program stays loaded.
    pub(crate) fn leave(&mut self) {
        if let Attached::Steer { node: place, .. } = self {
            place.leave();
        }
    }

    /// Attach the program to the interface that replaces one that was left, and redirect frames to its socket.
    ///
    /// # Errors
    /// As [`Attached::new`].
    pub(crate) fn move_to(
        &mut self,
        options: &XdpOptions,
        interface: &Interface,
        socket: &impl AsFd,
    ) -> Result<(), XdpOpenError> {
        self.set_socket(options.queue, socket)?;
        match self {
            Attached::Steer { node: place, steer } => place.move_to(options, interface, steer)?,
            Attached::Raw { attachment, raw } => {
                *attachment = attach(options, interface, |mode| raw.attach(&interface.name, mode))?;
            }
        }
        Ok(())
    }

    /// Redirect frames of this flow to our socket, or no longer.
    pub(crate) fn steer(&self, flow: Flow, open: bool) {
        if let Some(steer) = self.steer_program() {
            steer.set_reject_template(flow, None);
            steer.set_flow(flow, open.then_some(SOCKET));
        }
    }

    /// Set the template by which the program rejects requests of this flow.
    pub(crate) fn set_reject_template(&self, flow: Flow, template: &RejectTemplate) {
        if let Some(steer) = self.steer_program() {
            steer.set_reject_template(flow, Some(template));
        }
    }

    /// Set whether the program rejects requests, because the node has no room.
    pub(crate) fn set_rx_full(&self, is_full: bool) {
        if let Some(steer) = self.steer_program() {
            steer.set_rx_full(is_full);
        }
    }

    /// The last unknown flow that a frame named; each is returned once.
    pub(crate) fn unknown_flow(&self) -> Option<Flow> {
        self.steer_program()?.unknown_flow()
    }

    /// The program's counters.
    pub(crate) fn counters(&self) -> Option<Counters> {
        self.steer_program()?.counters().ok()
    }
}
