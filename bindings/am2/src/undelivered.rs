//! Returned messages, for the endpoint's error handler.

use std::ffi::c_int;

use am_api::ReturnReason;

use crate::am;
use crate::code::Status;
use crate::context::IN_ERROR;
use crate::endpoint::Ep;
use crate::header::{Header, Kind, MAX_ARGUMENTS};
use crate::invoke;
use crate::tables::Handle;

/// `am_argblock_t` of `am.h`.
#[repr(C)]
struct Block {
    endpoint: Handle,
    index: c_int,
    handler: u8,
    bytes: c_int,
    offset: usize,
    count: c_int,
    arguments: [i32; MAX_ARGUMENTS],
}

/// A message of this endpoint returned: run its error handler.
pub(crate) fn on_error(ep: &Ep, status: Status, header: &Header, bytes: usize, index: usize, is_reply: bool) {
    let Some(operation) = header.operation(is_reply) else { return };
    if header.kind == Kind::Get
        && let Some(extent) = header.extent
    {
        ep.gets.borrow_mut().remove(&extent.id.into());
    }
    let Some(handler) = ep.handlers.borrow().first().copied().flatten() else {
        return say(status);
    };
    let number = |number: usize| c_int::try_from(number).unwrap_or(c_int::MAX);
    let mut block = Block {
        endpoint: ep.handle,
        index: number(index),
        handler: header.handler,
        bytes: number(header.extent.map_or(bytes, |extent| extent.bytes as usize)),
        offset: header.extent.map_or(0, |extent| extent.base as usize),
        count: number(header.arguments().len()),
        arguments: [0; MAX_ARGUMENTS],
    };
    block.arguments[..header.arguments().len()].copy_from_slice(header.arguments());
    let before = IN_ERROR.replace(true);
    // SAFETY: `am.h` asks for an error handler of this type; the block lives on.
    unsafe { invoke::error(handler, status as c_int, operation, (&raw mut block).cast()) };
    IN_ERROR.set(before);
}

/// Print that a message returned, because the program has no error handler for it.
#[cold]
fn say(status: Status) {
    let text = format!("a message came back, and the endpoint has no error handler (handler 0): {status:?}");
    // This node itself may be the cause.
    let explained = am::with(|am| Ok(am.node.explain(&text)));
    eprintln!("libam2: {}", if status == Status::Unreachable { explained.unwrap_or(text) } else { text });
}

/// The status of this number. An unknown number means an unreachable peer.
pub(crate) fn status_of(number: u32) -> Status {
    use Status::{
        BadArgs, BadEndpoint, BadEntry, BadHandler, BadLength, BadSegmentOffset, BadTag, Congestion, NoConnection,
    };
    let all =
        [BadArgs, BadEntry, BadTag, BadHandler, BadSegmentOffset, BadLength, BadEndpoint, Congestion, NoConnection];
    all.into_iter().find(|status| *status as u32 == number).unwrap_or(Status::Unreachable)
}

/// The status for a returned message or an ended connection.
pub(crate) fn status_of_reason(reason: ReturnReason) -> Status {
    match reason {
        ReturnReason::Closed => Status::BadEndpoint,
        ReturnReason::Tag => Status::BadTag,
        _ => Status::Unreachable,
    }
}
