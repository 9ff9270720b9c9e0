//! Opened anew while it is in use: in copy mode, where the NIC cuts frames in zero-copy mode; on another interface,
//! where that has come for one that is gone, as after a driver was unbound from its NIC and bound again.
//!
//! ```text
//!  stays      the XDP program with its flows and counters, the wake descriptor, frames that are held
//!  is new     the socket, its rings, the pool; on another interface what attaches the program to it
//! ```
//!
//! In copy mode it is the kernel that fills chunks, from a buffer of the driver's that holds a whole frame. It takes
//! a blocking call of some milliseconds, or of seconds where the NIC's link goes down with its queue; whoever sends
//! finds out with a frame of full length before the first message, so that no message waits for it.

use std::time::{Duration, Instant};

use am_wire::Reason;

use crate::anew::Anew;
use crate::busy_poll::Deferred;
use crate::carrier::Carrier;
use crate::close::CloseOnDrop;
use crate::interface::Interface;
use crate::mode::Mode;
use crate::open::{busy_polling, path, steered};
use crate::options::Copying;
use crate::plan::memory_and_socket;
use crate::program::Attached;
use crate::rules::Steered;
use crate::siblings::{Lost, Place};
use crate::xdp::Xdp;
use crate::{OpenError, send_room, sg};

/// An interface that is gone is looked for so often.
const PAUSE: Duration = Duration::from_millis(500);

impl Xdp {
    /// In zero-copy mode, see whether frames arrive cut; then leave it.
    pub(crate) fn look_for_cuts(&mut self) {
        if !self.mode.zero_copy || !self.anew.cuts.is_time() || !self.anew.cuts.is_habit(cut(&self.program)) {
            return;
        }
        let (interface, driver) = (&self.anew.interface.name, &self.anew.interface.driver);
        let note =
            format!("no zero-copy any more: frames arrive cut by {driver}; `xdp:{interface},copy=always` opens it so");
        match self.reopen_in_copy_mode(note) {
            Ok(()) => {
                tracing::warn!(interface = self.anew.interface.name, mode = %self.mode, notes = ?self.mode.notes, "opened anew, as frames arrived cut")
            }
            Err(why) => {
                tracing::error!(interface = self.anew.interface.name, %why, "cannot be opened anew, though frames arrive cut")
            }
        }
    }

    /// Leave zero-copy mode. Frames that are held stay valid; what was on its way is lost. Flows stay open, the descriptor
    /// to wait on stays the same, the [pool](am_transport::Caps::pool) is another. `note` is for [`Mode::notes`].
    ///
    /// # Errors
    /// As [`open`](crate::open). Then it carries nothing any more, and a [`LinkError`](am_transport::Notice::LinkError) says why.
    pub fn reopen_in_copy_mode(&mut self, note: String) -> Result<(), OpenError> {
        let interface = self.interface();
        self.anew.options.copy = Copying::Copy;
        self.reopen(&interface).inspect_err(|why| {
            self.path.close(format!("interface {} does not open in copy mode: {why}", interface.name));
        })?;
        self.mode.notes.push(note);
        Ok(())
    }

    /// The interface is gone: see whether one of its name and address is there, and go on with that.
    pub(crate) fn look_for_another(&mut self) {
        let now = Instant::now();
        if now < self.anew.next {
            return;
        }
        self.anew.next = now + PAUSE;
        let before = self.interface();
        let name = before.name;
        let Ok(interface) = Interface::find(&name) else { return };
        if interface.index == before.index || interface.address != before.address {
            return;
        }
        if interface.max_frame() < self.caps.max_frame {
            let (mtu, most) = (interface.mtu, before.mtu);
            return self.path.close(format!(
                "interface {name} is back with an MTU of {mtu}, too small for this node's frames: ip link set {name} mtu {most}"
            ));
        }
        self.program.leave();
        (self._steered, self._deferred) = (Steered::not(), Deferred::default());
        match self.reopen(&interface) {
            Ok(()) => {
                tracing::warn!(interface = name, mode = %self.mode, "opened anew, as the interface was gone and is back");
                self.carrier = Carrier::of(&interface, self.caps.max_frame);
                self.bypass.follow(interface.index);
                self.anew.interface = interface;
            }
            Err(why) => self.path.close(format!("interface {name} was gone; it is back and does not open: {why}")),
        }
    }

    /// Where the driver does not run the program any more, attach it again.
    pub(crate) fn look_for_bypass(&mut self) {
        if !self.bypass.is_used() {
            return;
        }
        let interface = self.interface();
        let Interface { name, driver, .. } = &interface;
        let result = self.program.attach_again(&self.anew.options, &interface);
        match &result {
            Ok(None) => return,
            Ok(Some(Lost::Detached)) => {
                tracing::warn!(interface = name, "the XDP program was taken off the interface: attached again");
            }
            Ok(Some(Lost::Forgotten)) => {
                tracing::warn!(interface = name, driver, "the driver has forgotten the XDP program: attached again");
            }
            Err(why) => tracing::error!(interface = name, driver, %why, "the XDP program does not run any more"),
        }
        let why = |why| format!("the driver {driver} of {name} does not run the XDP program any more, and {why}");
        self.bypass.restart(result.map(|_| ()).map_err(why));
    }

    /// The interface, by the name that it has now.
    fn interface(&self) -> Interface {
        let opened = self.anew.interface.clone();
        Interface { name: self.carrier.name().unwrap_or(opened.name), ..opened }
    }

    fn reopen(&mut self, interface: &Interface) -> Result<(), OpenError> {
        // The queue is free only when its socket is closed.
        self.path.close(String::new());
        let Anew { options, wake, promised, .. } = &self.anew;
        let ((memory, bound), tried) = memory_and_socket(options, interface, sg::chunks)?;
        let mut mode = Mode::of(&bound, interface, &memory, tried)?;
        let writer = mode.zero_copy.then(|| (interface.name.clone(), options.queue));
        let socket = CloseOnDrop::again(&bound, memory.umem.clone(), writer, wake.clone())?;
        send_room::enlarge(bound.fd(), options.rings.tx, &mut mode.notes);
        let deferred = busy_polling(options, bound.fd(), interface, &mut mode)?;
        let (mut path, pool) = path(bound, options, &mode, memory, socket)?;
        if interface.index == self.anew.interface.index {
            // What is set back when this closes was noted when it was opened: now it is as wanted.
            deferred.forget();
            self.program.set_socket(options.queue, &**wake)?;
        } else {
            self.program.follow(options, interface, &**wake)?;
            self._deferred = self.program.defer(deferred);
            let own = self.program.place().map_or(interface.address, Place::own);
            self._steered = steered(options, interface, own, &mut mode);
        }
        mode.attach = self.program.mode();
        path.count_on(&self.path);
        let promised = *promised;
        (self.path, self.mode, self.caps.mode) = (path, mode.clone(), mode.to_string());
        self.caps.pool = pool;
        self.set_rx_credit(promised);
        Ok(())
    }
}

/// Frames that the program found cut.
fn cut(program: &Attached) -> u64 {
    program.counters().map_or(0, |counters| counters.dropped(Reason::Length))
}
