//! The XDP program on the interface. It decides which frames the socket gets.

use std::os::fd::AsFd;

use am_bpf::{AttachMode, Attachment, Counters, Raw, Steer};
use am_wire::Flow;
use am_wire::bounce::Back;

use crate::OpenError;
use crate::attach::{SOCKET, attach, no_socket};
use crate::busy_poll::Deferred;
use crate::interface::Interface;
use crate::options::{Options, Program};
use crate::siblings::{Lost, Place};

/// A program on the interface. Dropping it detaches it first, then unloads it.
pub(crate) enum Attached {
    Steer { place: Place, steer: Steer },
    Raw { attachment: Attachment, raw: Raw },
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

    /// Where the program runs.
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

    /// The node's entry among those on this interface; `None` for bare AF_XDP.
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

    /// From now on redirect frames to another socket.
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
            // Only a bench uses this program, and its NIC is not reset.
            Attached::Raw { .. } => Ok(None),
        }
    }

    /// The interface is gone: leave it. The program stays loaded.
    pub(crate) fn leave(&mut self) {
        if let Attached::Steer { place, .. } = self {
            place.leave();
        }
    }

    /// Attach the program to the interface that replaces one that was left, and redirect frames to its socket.
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

    /// Redirect frames of this flow to our socket, or no longer.
    pub(crate) fn steer(&self, flow: Flow, open: bool) {
        if let Some(steer) = self.steer_program() {
            steer.set_back(flow, None);
            steer.set_flow(flow, open.then_some(SOCKET));
        }
    }

    /// Set the template by which the program rejects requests of this flow.
    pub(crate) fn set_reject_template(&self, flow: Flow, template: &Back) {
        if let Some(steer) = self.steer_program() {
            steer.set_back(flow, Some(template));
        }
    }

    /// Set whether the program rejects requests, because the node has no room.
    pub(crate) fn set_rx_full(&self, is_full: bool) {
        if let Some(steer) = self.steer_program() {
            steer.set_full(is_full);
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
