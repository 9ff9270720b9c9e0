//! The memory of other members' processes: long messages and transfers are copied once, from the sender's memory to the
//! receiver's. The kernel copies, if it lets this process trace the other one.
//!
//! A member says which process it is, and that may be wrong: the id may be of another container, or of a process that has
//! ended. So each process has a secret at an address that it publishes, and each copy reads the secret first.
//!
//! A link that other users may join has no secrets. One of them could name a process of this user, and would get its memory.

use std::fs;
use std::io::IoSliceMut;
use std::path::Path;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::locks::random_nonzero;

/// Where two processors share a cache, the lanes stay in it, and two copies cost less than one with two system calls until the data no
/// longer fits.
const LEND_FROM: u64 = 2 << 20;
const LEND_FROM_WITHOUT_CACHE: u64 = 32 << 10;

/// From how many bytes on reading is cheaper than the lanes on this machine.
pub(crate) fn lend_from() -> u64 {
    let processors = Path::new("/sys/devices/system/cpu");
    let caches = fs::read_dir(processors.join("cpu0/cache")).into_iter().flatten().flatten();
    let shared = |cache: fs::DirEntry| {
        let read = |name: &str| fs::read_to_string(cache.path().join(name)).ok();
        Some((read("level")?, read("shared_cpu_list")?))
    };
    // Those that share the largest cache of the first processor.
    let sharing = caches.filter_map(shared).max().map(|(_, sharing)| sharing);
    let are_all = sharing.is_some() && sharing == fs::read_to_string(processors.join("online")).ok();
    if are_all { LEND_FROM } else { LEND_FROM_WITHOUT_CACHE }
}

/// A process, and how to recognize its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Process {
    /// 0 if its memory may not be read.
    pub(crate) id: u32,
    pub(crate) secret_at: u64,
    pub(crate) secret: u64,
}

/// The secret of this process. Its address is fixed while the process is a member.
#[derive(Debug)]
pub(crate) struct Secret(Box<u64>);

impl Secret {
    pub(crate) fn new() -> Secret {
        Secret(Box::new(u64::from(random_nonzero()) << 32 | u64::from(random_nonzero())))
    }

    pub(crate) fn process(&self) -> Process {
        Process { id: std::process::id(), secret_at: (&raw const *self.0).addr() as u64, secret: *self.0 }
    }
}

impl Process {
    /// Copy its bytes from this address on. Returns whether it is that process, and all of them were copied.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let (Ok(id), Ok(secret_at), Ok(base)) =
            (i32::try_from(self.id), usize::try_from(self.secret_at), usize::try_from(at))
        else {
            return false;
        };
        let (mut secret, len) = ([0; size_of::<u64>()], into.len());
        let remote = [RemoteIoVec { base: secret_at, len: secret.len() }, RemoteIoVec { base, len }];
        let mut local = [IoSliceMut::new(&mut secret), IoSliceMut::new(into)];
        let copied = id != 0 && process_vm_readv(Pid::from_raw(id), &mut local, &remote) == Ok(secret.len() + len);
        copied && u64::from_ne_bytes(secret) == self.secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_was_named_is_read() {
        let (secret, bytes) = (Secret::new(), [1, 2, 3, 4, 5]);
        let (process, at) = (secret.process(), (&raw const bytes).addr() as u64);
        let mut into = [0; 5];
        assert!(process.read(at, &mut into) && into == bytes && process.read(at, &mut []));
        assert!(!process.read(8, &mut into), "there is no memory");
        let others = [
            Process { id: 0, ..process },
            Process { id: u32::MAX, ..process },
            Process { secret: process.secret ^ 1, ..process },
            Process { secret_at: 8, ..process },
            // Another process of this user, or the same one.
            Process { id: std::os::unix::process::parent_id(), ..process },
        ];
        for other in others {
            assert!(!other.read(at, &mut into), "{other:?}");
        }
    }
}
