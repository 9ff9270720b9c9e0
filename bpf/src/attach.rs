use std::os::fd::{AsFd, BorrowedFd};

use aya::programs::links::FdLink;
use aya::programs::xdp::XdpLink;
use aya::programs::{Xdp, XdpMode};

use crate::descriptors::interface_index;
use crate::mark::{Mark, has_descriptor, sibling};
use crate::{AttachError, AttachMode, extack};

/// A program on an interface. It stays until this is dropped or the process ends.
///
/// Drop it before the sockets that it steers to: frames for a closed socket are dropped, while those of a detached
/// program go to the kernel's stack.
#[derive(Debug)]
#[must_use = "the program is detached when this is dropped"]
pub struct Attachment {
    link: FdLink,
    interface: String,
    mode: AttachMode,
    mark: Mark,
}

impl Attachment {
    pub(crate) fn new(program: &mut Xdp, interface: &str, mode: AttachMode) -> Result<Attachment, AttachError> {
        let index = interface_index(interface).map_err(|error| AttachError::new(interface, &error, None))?;
        let flag = match mode {
            AttachMode::Native => XdpMode::Driver,
            AttachMode::Generic => XdpMode::Skb,
        };
        let id = match program.attach_to_if_index(index, flag) {
            Ok(id) => id,
            Err(error) => {
                let said = program.fd().ok().and_then(|fd| extack::why_not(fd.as_fd(), index, mode));
                return Err(match (AttachError::new(interface, &error, said), sibling(index)) {
                    (AttachError::Occupied { interface }, Some(process)) => AttachError::Sibling { interface, process },
                    (error, _) => error,
                });
            }
        };
        let link = program.take_link(id).map_err(|error| AttachError::new(interface, &error, None))?;
        // An attachment without a bpf_link would outlive this process. Dropping it here detaches it.
        let link = FdLink::try_from(link).map_err(|error| AttachError::new(interface, &error, None))?;
        Ok(Attachment { link, interface: interface.to_owned(), mode, mark: Mark::new(index) })
    }

    /// Replace the program by another one; no frame misses both. If this fails, because the kernel has no memory or the
    /// interface is gone, none is attached.
    pub(crate) fn replaced_by(self, program: &mut Xdp) -> Result<Attachment, AttachError> {
        let Attachment { link, interface, mode, mark } = self;
        let link = XdpLink::try_from(link).map_err(|error| AttachError::new(&interface, &error, None))?;
        let id = program.attach_to_link(link).map_err(|error| AttachError::new(&interface, &error, None))?;
        let link = program.take_link(id).map_err(|error| AttachError::new(&interface, &error, None))?;
        let link = FdLink::try_from(link).map_err(|error| AttachError::new(&interface, &error, None))?;
        Ok(Attachment { link, interface, mode, mark })
    }

    /// Whether the kernel still has it attached. It can be detached from outside, for example with `bpftool link
    /// detach`. This does not tell whether the driver still runs it.
    pub fn is_attached(&self) -> bool {
        let Ok(info) = self.link.info() else { return true };
        !has_descriptor("self", &[("link_id", &info.id().to_string()), ("ifindex", "0")])
    }

    /// A descriptor that this closes, and that is no BPF object.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.mark.socket.as_ref().map(AsFd::as_fd)
    }

    /// The interface it is on.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Where it runs.
    pub fn mode(&self) -> AttachMode {
        self.mode
    }
}
