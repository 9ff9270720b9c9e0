use std::os::fd::AsFd;

use aya::programs::links::FdLink;
use aya::programs::xdp::XdpLink;
use aya::programs::{Xdp, XdpMode};

use crate::{AttachError, extack};

/// Where on the receive path the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AttachMode {
    /// In the driver: the fast way, and the only one to zero-copy.
    #[default]
    Native,
    /// In the kernel's generic receive path, after it has made a buffer of the
    /// frame: for drivers that know no XDP. Never chosen silently.
    Generic,
}

impl AttachMode {
    /// Its name: `native` or `generic`.
    pub const fn name(self) -> &'static str {
        match self {
            AttachMode::Native => "native",
            AttachMode::Generic => "generic",
        }
    }
}

/// A program on an interface, until this is dropped or the process ends.
///
/// Drop it before the sockets that it steers to: frames for a closed socket
/// are dropped, while those of a detached program go to the kernel's stack.
#[derive(Debug)]
#[must_use = "the program is detached when this is dropped"]
pub struct Attachment {
    link: FdLink,
    interface: String,
    mode: AttachMode,
}

impl Attachment {
    pub(crate) fn new(program: &mut Xdp, interface: &str, mode: AttachMode) -> Result<Attachment, AttachError> {
        let index = nix::net::if_::if_nametoindex(interface)
            .map_err(|_| AttachError::NoSuchInterface { interface: interface.to_owned() })?;
        let flag = match mode {
            AttachMode::Native => XdpMode::Driver,
            AttachMode::Generic => XdpMode::Skb,
        };
        let id = match program.attach_to_if_index(index, flag) {
            Ok(id) => id,
            Err(error) => {
                let said = program.fd().ok().and_then(|fd| extack::why_not(fd.as_fd(), index, mode));
                return Err(AttachError::new(interface, &error, said));
            }
        };
        let link = program.take_link(id).map_err(|error| AttachError::new(interface, &error, None))?;
        // What is no bpf_link would outlive us: dropping it here detaches it.
        let link = FdLink::try_from(link).map_err(|error| AttachError::new(interface, &error, None))?;
        Ok(Attachment { link, interface: interface.to_owned(), mode })
    }

    /// Another program in this one's place; no frame misses both. It can fail only where the kernel has no memory
    /// left, or the interface is gone, and then none is attached.
    pub(crate) fn replaced_by(self, program: &mut Xdp) -> Result<Attachment, AttachError> {
        let Attachment { link, interface, mode } = self;
        let link = XdpLink::try_from(link).map_err(|error| AttachError::new(&interface, &error, None))?;
        let id = program.attach_to_link(link).map_err(|error| AttachError::new(&interface, &error, None))?;
        let link = program.take_link(id).map_err(|error| AttachError::new(&interface, &error, None))?;
        let link = FdLink::try_from(link).map_err(|error| AttachError::new(&interface, &error, None))?;
        Ok(Attachment { link, interface, mode })
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
