//! What PVM 3.4.6 has in memory: a message is a ring of fragments. `library.rs` checks at load that the installed library agrees.

use std::ffi::{c_int, c_uint, c_void};
use std::slice;

/// The bytes that PVM writes in front of a fragment when it sends one: a fragment's header, or a packet's, and a message's.
pub(crate) const HEADROOM: usize = 48;

/// PVM's `struct frag`. The ring begins and ends with a fragment that has no buffer.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Frag {
    pub(crate) next: *mut Frag,
    pub(crate) previous: *mut Frag,
    pub(crate) buffer: *mut u8,
    pub(crate) data: *mut u8,
    pub(crate) room: c_int,
    pub(crate) length: c_int,
    bits: c_uint,
    chunk: c_int,
    lead: c_int,
    number: c_int,
    source: c_int,
    in_place: c_int,
}

/// The front of PVM's `struct pmsg`. XDR's state is behind it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Pmsg {
    next: *mut Pmsg,
    previous: *mut Pmsg,
    codec: *mut c_void,
    pub(crate) frags: *mut Frag,
    cursor: *mut Frag,
    pub(crate) references: c_int,
    pub(crate) mid: c_int,
    pub(crate) length: c_int,
    pub(crate) context: c_int,
    pub(crate) tag: c_int,
    pub(crate) wait_id: c_int,
    pub(crate) source: c_int,
    pub(crate) destination: c_int,
    pub(crate) encoding: c_int,
    pub(crate) flags: c_int,
    position: c_int,
    checksum: c_int,
}

/// `PvmDataInPlace`, as the sender knows it. On the wire such a message is in the machine's own encoding.
pub(crate) const IN_PLACE: c_int = 0x2000_0000;

/// XDR.
pub(crate) const XDR: c_int = 0x1000_0000;

/// The fragments of a message, in their order.
///
/// # Safety
/// The message is one of PVM's, and nothing changes it as long as the slices live.
pub(crate) unsafe fn fragments<'a>(message: *const Pmsg) -> impl Iterator<Item = &'a [u8]> {
    // SAFETY: the caller's promise.
    let master = unsafe { (*message).frags };
    let mut at = master;
    std::iter::from_fn(move || {
        // SAFETY: a ring of valid fragments. Each but the first has a buffer with this many bytes.
        unsafe {
            at = (*at).next;
            if at == master || (*at).buffer.is_null() {
                return None;
            }
            let length = usize::try_from((*at).length).unwrap_or(0);
            Some(if length == 0 { &[][..] } else { slice::from_raw_parts((*at).data, length) })
        }
    })
}

/// The number in a message that has no more than one, in XDR.
///
/// # Safety
/// As [`fragments`].
pub(crate) unsafe fn only_number(message: *const Pmsg) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let bytes: Vec<u8> = unsafe { fragments(message).flatten().copied().take(5).collect() };
    bytes.try_into().ok().map(c_int::from_be_bytes)
}

/// Put a fragment at the end of a message, whose length grows.
///
/// # Safety
/// Both are PVM's, and the fragment is in no ring yet.
pub(crate) unsafe fn append(message: *mut Pmsg, frag: *mut Frag) {
    // SAFETY: the caller's promise.
    unsafe {
        let master = (*message).frags;
        (*frag).next = master;
        (*frag).previous = (*master).previous;
        (*(*master).previous).next = frag;
        (*master).previous = frag;
        (*message).length += (*frag).length;
    }
}

/// What a task's number says.
pub(crate) fn is_task(tid: c_int) -> bool {
    const LOCAL: c_int = 0x0003_ffff;
    const GROUP: c_int = 0x4000_0000;
    tid > 0 && tid & GROUP == 0 && tid & LOCAL != 0
}

/// Whether two tasks are on one host.
pub(crate) fn are_near(one: c_int, other: c_int) -> bool {
    const HOST: c_int = 0x3ffc_0000;
    (one ^ other) & HOST == 0
}

/// The daemon's own number for a task of its.
pub(crate) const DAEMON: c_int = c_int::MIN;

/// The context of messages between the libraries of two tasks, and their tags.
pub(crate) const CONTROL: c_int = 0x0007_ffff;
pub(crate) const CONNECT_REQUEST: c_int = 0x8003_0001_u32 as c_int;
pub(crate) const CONNECT_ANSWER: c_int = 0x8003_0002_u32 as c_int;
pub(crate) const TASK_EXIT: c_int = 0x8003_0003_u32 as c_int;
/// A task without this library drops these.
pub(crate) const NO_OPERATION: c_int = 0x8003_0004_u32 as c_int;

/// The context of messages to the daemon, and their tags.
pub(crate) const DAEMON_CONTEXT: c_int = CONTROL - 1;
pub(crate) const EXIT: c_int = 0x8001_0003_u32 as c_int;
pub(crate) const HALT: c_int = 0x8001_0008_u32 as c_int;
pub(crate) const NOTIFY: c_int = 0x8001_000f_u32 as c_int;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_tasks_are_not_those_of_daemons_or_groups() {
        assert!(is_task(0x40002) && is_task(0x80003));
        for other in [0, -1, 0x40000, 0x4004_0002, DAEMON, DAEMON | 0x40000] {
            assert!(!is_task(other), "{other:x}");
        }
        assert!(are_near(0x40002, 0x40003) && !are_near(0x40002, 0x80002));
    }
}
