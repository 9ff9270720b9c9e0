//! What a handler gets: `am_header` and `am_handler` of `pvmam.h`.

use std::ffi::{c_int, c_void};

/// `am_header` of `pvmam.h` (PVMAM, Appendix A.1, without what the protocol keeps for itself).
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// The task that sent the message. Of a returned one, the task that it was for.
    pub from_task: c_int,
    /// A request, a reply, or one of both that came back.
    pub kind: c_int,
    /// The identifier of the handler that it names.
    pub handler: c_int,
    /// The number of its bytes.
    pub total_length: usize,
}

/// `AM_REQUEST` of `pvmam.h`.
pub(crate) const REQUEST: c_int = 1;
/// `AM_REPLY` of `pvmam.h`.
pub(crate) const REPLY: c_int = 2;
/// `AM_RETURNED_REQUEST` of `pvmam.h`.
pub(crate) const RETURNED_REQUEST: c_int = 3;
/// `AM_RETURNED_REPLY` of `pvmam.h`.
pub(crate) const RETURNED_REPLY: c_int = 4;

/// `am_handler` of `pvmam.h`.
///
/// # Safety
/// Header and data are valid until the function returns. The function returns, or ends its thread.
pub type HandlerFn =
    unsafe extern "C-unwind" fn(interface: *mut c_void, header: *const Header, data: *const c_void, length: usize);
