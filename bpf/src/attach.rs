use std::fs;
use std::os::fd::AsFd;

use aya::programs::links::FdLink;
use aya::programs::xdp::XdpLink;
use aya::programs::{Xdp, XdpMode};

use crate::mark::{Mark, sibling};
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
        let (Ok(info), Ok(open)) = (self.link.info(), fs::read_dir("/proc/self/fdinfo")) else { return true };
        let mut files = open.flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
        !files.any(|text| is_detached(&text, info.id()))
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

/// The contents of `/proc/.../fdinfo` if this link is on no interface any more.
fn is_detached(info: &str, link: u32) -> bool {
    let has = |key: &str, value: u32| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.any(|(its, text)| its == key && text.trim() == value.to_string())
    };
    has("link_id", link) && has("ifindex", 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_without_an_interface_is_detached() {
        let info = "pos:\t0\nflags:\t02000000\nlink_type:\txdp\nlink_id:\t7\nprog_id:\t12\nifindex:\t0\n";
        assert!(is_detached(info, 7) && !is_detached(info, 12) && !is_detached(info, 0));
        assert!(!is_detached(&info.replace("ifindex:\t0", "ifindex:\t10"), 7));
    }
}
