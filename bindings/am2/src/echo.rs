//! Processes of a job in one process, which ask and answer each other by the calls of `am.h`: `scripts/cost` counts both sides of a message
//! on one thread (feature `echo`).
//!
//! ```text
//!   Echo of alpha    Echo of beta         each has the node of a process
//!        └────── switch ──────▶ PROCESS   on one of them the calls act
//! ```

use std::cell::Cell;
use std::error::Error;
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::time::Duration;
use std::{mem, ptr};

use am_api::{Clock, Framing, Incarnation, Node, OpenError, Owner, Transport};
use am_c_runtime::NodeOwner;

use crate::am::{self, Am};
use crate::calls::{AM_AllocateBundle, AM_AllocateEndpoint, AM_Map, AM_SetTag};
use crate::code::Code;
use crate::events::{AM_Poll, AM2_SetHandler};
use crate::invoke::HandlerFn;
use crate::messages::{AM2_ReplyI, AM2_RequestI, AM2_RequestXfer};
use crate::name::Name;
use crate::process;
use crate::tables::Handle;

const ASK: u8 = 1;
const ANSWER: u8 = 2;
const TAG: u64 = 7;

thread_local! {
    static HANDLED: Cell<u64> = const { Cell::new(0) };
}

/// Why there is no such process.
#[derive(Debug, thiserror::Error)]
pub enum EchoError {
    /// Its node could not be opened.
    #[error(transparent)]
    Node(#[from] OpenError),
    /// Its transport could not be opened.
    #[error(transparent)]
    Transport(Box<dyn Error>),
    /// A call failed.
    #[error("a call of am.h returned {0}")]
    Call(c_int),
    /// The process cannot keep its descriptors.
    #[error(transparent)]
    Owner(#[from] std::io::Error),
    /// Another thread sleeps in a call, or a handler runs.
    #[error("a call is under way")]
    InUse,
}

/// A process with an endpoint that answers requests.
#[derive(Debug)]
pub struct Echo {
    /// What its calls act on. While the calls act on it, what they acted on before.
    am: Option<Rc<Am>>,
    bundle: Handle,
    ep: Handle,
    name: Name,
}

impl Echo {
    /// A process with a node of this name, whose clock [`advance`](Self::advance) moves.
    ///
    /// `open` makes the node's transport and keeps no part of it: any thread may use the node once the calls act on it.
    ///
    /// # Errors
    /// See [`EchoError`].
    pub fn open(
        name: &str,
        open: impl FnOnce() -> Result<Box<dyn Transport>, Box<dyn Error>> + Send,
    ) -> Result<Echo, EchoError> {
        let owner = Owner::new()?;
        let (clock, hand) = Clock::manual();
        let builder = Node::builder(name).framing(Framing::Split).clock(clock, Incarnation(1));
        let node = process::with_settings(builder).open_on(open().map_err(EchoError::Transport)?)?;
        let mut am = process::new_am(node, 0, 1, NodeOwner::new(owner));
        am.hand = Some(hand);
        let name = Name::new("", "", "").ok_or(EchoError::Call(Code::Resource as c_int))?;
        let mut echo = Echo { am: Some(Rc::new(am)), bundle: ptr::null_mut(), ep: ptr::null_mut(), name };
        echo.switch()?;
        let made = echo.allocate();
        echo.switch()?;
        made.map(|()| echo)
    }

    fn allocate(&mut self) -> Result<(), EchoError> {
        let done = |result: c_int| if result == Code::Ok as c_int { Ok(()) } else { Err(EchoError::Call(result)) };
        // SAFETY: each has the type for messages with bytes and without arguments, and no others name it.
        let handlers: [(u8, HandlerFn); 2] = unsafe {
            [
                (ASK, mem::transmute::<Handler, HandlerFn>(on_ask)),
                (ANSWER, mem::transmute::<Handler, HandlerFn>(on_answer)),
            ]
        };
        // SAFETY: there is room for what the calls return.
        unsafe {
            done(AM_AllocateBundle(0, &raw mut self.bundle))?;
            done(AM_AllocateEndpoint(self.bundle, &raw mut self.ep, &raw mut self.name))?;
        }
        done(AM_SetTag(self.ep, TAG))?;
        handlers.into_iter().try_for_each(|(handler, run)| done(AM2_SetHandler(self.ep, handler, Some(run))))
    }

    /// From now on the calls act on this process; after another `switch`, on what they acted on before.
    ///
    /// # Errors
    /// [`EchoError::InUse`]
    pub fn switch(&mut self) -> Result<(), EchoError> {
        am::switch(&mut self.am).map_err(|_| EchoError::InUse)
    }

    /// Map the other process's endpoint.
    pub fn map(&self, other: &Echo) -> bool {
        AM_Map(self.ep, 0, other.name, TAG) == Code::Ok as c_int
    }

    /// `AM_RequestI0`.
    #[inline]
    pub fn request(&self, payload: &[u8]) -> bool {
        let Ok(length) = c_int::try_from(payload.len()) else { return false };
        // SAFETY: the payload has as many bytes, and there are no arguments.
        unsafe { AM2_RequestI(self.ep, 0, ASK, payload.as_ptr().cast(), length, 0, ptr::null()) == Code::Ok as c_int }
    }

    /// The same with a transfer of no bytes, which does not wait. False while there is no connection.
    pub fn knock(&self) -> bool {
        // SAFETY: there are neither bytes nor arguments.
        unsafe { AM2_RequestXfer(self.ep, 0, 0, ASK, ptr::null(), 0, 1, 0, ptr::null()) == Code::Ok as c_int }
    }

    /// `AM_Poll`.
    #[inline]
    pub fn poll(&self) -> bool {
        AM_Poll(self.bundle) == Code::Ok as c_int
    }

    /// Move the clock of the process on which the calls act.
    pub fn advance(by: Duration) {
        let move_hand = |am: &Rc<Am>| {
            am.hand.iter().for_each(|hand| hand.advance(by));
            Ok(())
        };
        // Without a process no clock has to move.
        _ = am::with(move_hand);
    }

    /// The messages that handlers of this thread have had.
    #[inline]
    pub fn handled() -> u64 {
        HANDLED.get()
    }
}

/// A handler of a message with bytes.
type Handler = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, c_int);

unsafe extern "C-unwind" fn on_ask(token: *mut c_void, bytes: *mut c_void, count: c_int) {
    HANDLED.set(HANDLED.get() + 1);
    // SAFETY: the message's bytes, valid until this returns.
    unsafe { AM2_ReplyI(token, ANSWER, bytes, count, 0, ptr::null()) };
}

unsafe extern "C-unwind" fn on_answer(_: *mut c_void, _: *mut c_void, _: c_int) {
    HANDLED.set(HANDLED.get() + 1);
}
