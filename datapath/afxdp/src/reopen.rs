//! Reopens a transport that is in use. There are two reasons. In zero-copy mode the NIC may truncate frames; then the
//! transport reopens in copy mode. Or the interface was gone and is back, for instance after its driver was unbound and
//! bound again, or after it was in another network namespace; then the transport reopens on it.
//!
//! ```text
//!  kept       the XDP program with its flows and counters, the wake descriptor, frames that the program holds
//!  replaced   the socket, its rings, the pool; on another interface the program's attachment
//! ```
//!
//! In copy mode the kernel fills chunks from a buffer of the driver that holds a whole frame. The switch is a blocking
//! call of some milliseconds, or of seconds where the NIC's link goes down with its queue. Senders probe with a frame
//! of full length before their first message, so no message waits for it.

use std::time::{Duration, Instant};

use am_wire::{Address, Reason};

use crate::carrier::Carrier;
use crate::interface::Interface;
use crate::open::{BoundQueue, bind_queue, install_rules, open_path};
use crate::options::Copying;
use crate::rules::InstalledRules;
use crate::siblings::BypassCause;
use crate::xdp::Xdp;
use crate::{XdpOpenError, sg};

/// The interval at which a lost interface is looked for.
const SEARCH_INTERVAL: Duration = Duration::from_millis(500);

impl Xdp {
    /// In zero-copy mode, check whether the NIC truncates frames. If so, change to copy mode.
    pub(crate) fn check_for_truncation(&mut self) {
        if !self.mode.zero_copy || !self.truncation.is_due() || !self.truncation.is_systematic(self.truncated_frames())
        {
            return;
        }
        let (interface, driver) = (&self.interface.name, &self.interface.driver);
        let note = format!(
            "left zero-copy mode: {driver} truncates frames; `xdp:{interface},copy=always` opens it in copy mode"
        );
        match self.reopen_in_copy_mode(note) {
            Ok(()) => {
                tracing::warn!(interface = self.interface.name, mode = %self.mode, notes = ?self.mode.notes, "reopened, because the NIC truncates frames")
            }
            Err(why) => {
                tracing::error!(interface = self.interface.name, %why, "cannot be reopened, though the NIC truncates frames")
            }
        }
    }

    /// Truncated frames that the program has counted.
    fn truncated_frames(&self) -> u64 {
        self.node.steer.dropped(Reason::Length).unwrap_or(0)
    }

    /// Leave zero-copy mode. Frames that the program holds stay valid; frames in flight are lost. Flows stay open, and
    /// the wake descriptor stays the same; the [pool](am_transport::Caps::pool) is a new one. `note` is for
    /// [`Mode::notes`](crate::Mode::notes).
    ///
    /// # Errors
    /// As [`open`](crate::open()). Then the transport carries nothing any more, and says why.
    pub fn reopen_in_copy_mode(&mut self, note: String) -> Result<(), XdpOpenError> {
        let interface = self.interface();
        self.options.copy = Copying::Copy;
        self.reopen(&interface, true).inspect_err(|why| {
            self.path.close(format!("interface {} does not open in copy mode: {why}", interface.name));
        })?;
        self.mode.notes.push(note);
        Ok(())
    }

    /// The interface is gone: if one of its name and address is there, continue on it.
    pub(crate) fn check_for_replacement(&mut self) {
        let now = Instant::now();
        if now < self.next_search {
            return;
        }
        self.next_search = now + SEARCH_INTERVAL;
        let before = self.interface();
        let name = before.name;
        let Ok(interface) = Interface::find(&name) else { return };
        let is_same = interface.index == before.index && !self.carrier.is_unbound();
        if is_same || interface.address != before.address {
            return;
        }
        if interface.max_frame() < self.caps.max_frame {
            let (mtu, most) = (interface.mtu, before.mtu);
            return self.path.close(format!(
                "interface {name} is back with an MTU of {mtu}, too small for this node's frames: ip link set {name} mtu {most}"
            ));
        }
        self.node.leave();
        self._rules = InstalledRules::none();
        self.lent.clear(&self.node);
        let longest = self.caps.max_frame;
        match self.reopen(&interface, false).and_then(|()| Carrier::of(&interface, longest)) {
            Ok(carrier) => {
                tracing::warn!(interface = name, mode = %self.mode, "reopened, because the interface was gone and is back");
                self.carrier = carrier;
                self.bypass.move_to(interface.index);
                self.interface = interface;
            }
            Err(why) => self.path.close(format!("interface {name} was gone; it is back and does not open: {why}")),
        }
    }

    /// If the driver no longer runs the program, attach it again.
    pub(crate) fn check_for_bypass(&mut self) {
        if !self.bypass.is_detected(&self.node.addresses) {
            return;
        }
        let interface = self.interface();
        let Interface { name, driver, .. } = &interface;
        let result = self.node.reattach(&self.options, &interface);
        match &result {
            Ok(None) => return,
            Ok(Some(BypassCause::Detached)) => {
                tracing::warn!(interface = name, "the XDP program was removed from the interface: attached again");
            }
            Ok(Some(BypassCause::NotRun)) => {
                tracing::warn!(interface = name, driver, "the driver no longer ran the XDP program: attached again");
            }
            Err(why) => tracing::error!(interface = name, driver, %why, "the XDP program does not run any more"),
        }
        let why = |why| format!("the driver {driver} of {name} does not run the XDP program any more, and {why}");
        self.bypass.reset(&self.node.addresses, result.map(|_| ()).map_err(why));
    }

    /// The interface, with its present name.
    fn interface(&self) -> Interface {
        let opened = self.interface.clone();
        Interface { name: self.carrier.name().unwrap_or(opened.name), ..opened }
    }

    /// The interface was given another address. A node that had the old one takes the new one: behind a NIC that filters,
    /// nothing arrives at the old one. The core tells the peers.
    pub(crate) fn check_for_new_address(&mut self) {
        let Some(new) = self.carrier.new_address.take() else { return };
        let (old, name) = (self.caps.address, self.interface().name);
        if old == self.interface.address {
            if let Err(why) = self.move_to_address(old, new) {
                tracing::error!(interface = name, %new, %why, "the interface has a new address, which the node cannot take");
                return;
            }
            tracing::warn!(interface = name, %old, %new, "the interface has a new address, and so has the node");
        }
        (self.carrier.address, self.interface.address) = (new, new);
    }

    /// Frames to the address that the XDP program was loaded with still arrive; those to the new one do as an added one's.
    fn move_to_address(&mut self, old: Address, new: Address) -> std::io::Result<()> {
        let loaded_with = self.node.addresses.own;
        if new != loaded_with {
            self.node.add_address(new)?;
        }
        if old != loaded_with {
            self.node.remove_address(old);
        }
        self.caps.address = new;
        // The old ones go first, because a NIC has room for few.
        self._rules = InstalledRules::none();
        self._rules = install_rules(&self.options, &self.interface, new, &mut self.mode);
        Ok(())
    }

    /// `is_same`: on the interface that the node is registered on.
    fn reopen(&mut self, interface: &Interface, is_same: bool) -> Result<(), XdpOpenError> {
        let (mut rx, mut tx) = self.path.counters();
        // The queue is free only after its socket is closed.
        self.path.close(String::new());
        let (options, wake) = (&self.options.clone(), self.wake.clone());
        let BoundQueue { memory, rings, mut mode, socket, settings } =
            bind_queue(options, interface, sg::chunks, Some(wake.clone()))?;
        let (mut path, pool) = open_path(rings, options, &mode, memory, socket)?;
        self.node.set_socket(options.queue, &*wake)?;
        if is_same {
            // The original settings were saved when the transport was opened. The current ones are already as wanted.
            settings.discard();
        } else {
            self.node.move_to(options, interface)?;
            self.node.saved_settings = settings;
            self._rules = install_rules(options, interface, self.caps.address, &mut mode);
        }
        mode.attach = self.node.mode();
        // The counters continue those of the path before.
        if let Some(rings) = path.rings_mut() {
            std::mem::swap(&mut rings.0.counters, &mut rx);
            std::mem::swap(&mut rings.1.counters, &mut tx);
        }
        (self.path, self.caps.mode, self.mode, self.caps.pool) = (path, mode.to_string(), mode, pool);
        self.set_rx_credit(self.max_rx_credit);
        Ok(())
    }
}
