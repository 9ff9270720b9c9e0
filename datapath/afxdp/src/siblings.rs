//! Several nodes of one process on one interface. Each has its own queue, address and steering program.
//!
//! ```text
//!   interface ── program of the only node                 while there is one node
//!   interface ── am_bpf::Share ─┬─ program of node 0         from the second on
//!                            └─ program of node 1
//! ```
//!
//! The kernel redirects a frame only to a socket that is bound to the queue on which the frame arrived. The NIC, or the
//! sender, can choose the queue by destination address. A broadcast arrives on one queue only, and the node on that
//! queue passes copies to the others ([decision
//! 70](../../../docs/decisions/0070-one-queue-and-address-for-each-node.md)).

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use am_bpf::{AttachMode, Attachment, NodeSwitch, Program, Steer};
use am_wire::Address;

use crate::XdpOpenError;
use crate::attach;
use crate::busy_poll::SavedSettings;
use crate::extra_address::ExtraAddress;
use crate::interface::Interface;
use crate::mailbox::Mailbox;
use crate::options::XdpOptions;

/// A network namespace, and an interface's index in it.
type Key = (u64, u32);

/// The shortest time between two repairs of a program that is still attached.
const MIN_REPAIR_INTERVAL: Duration = Duration::from_secs(10);

/// The interfaces on which this process has nodes.
static INTERFACES: Mutex<BTreeMap<Key, SharedInterface>> = Mutex::new(BTreeMap::new());

struct SharedInterface {
    /// `None` if an exchange of programs failed.
    attachment: Option<Attachment>,
    /// Set from the second node on.
    share: Option<NodeSwitch>,
    nodes: Vec<NodeEntry>,
    /// Interface settings of closed nodes, restored after the last node.
    saved_settings: Vec<SavedSettings>,
    repairs: Repairs,
    siblings: Arc<Siblings>,
}

/// Why frames bypassed the XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BypassCause {
    /// The program was removed from the interface.
    Detached,
    /// The program is attached, but the driver no longer runs it.
    NotRun,
}

/// Limits how often an attached program is attached again: frames may bypass it for another reason.
#[derive(Default)]
struct Repairs {
    last: Option<Instant>,
}

struct NodeEntry {
    number: u32,
    program: Program,
    own_address: Address,
    queue: u32,
}

/// What the nodes of an interface use from their own threads.
#[derive(Default)]
struct Siblings {
    has_several: AtomicBool,
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
}

/// One node on an interface. Dropping this removes it.
pub(crate) struct InterfaceNode {
    registration: Registration,
    own: Address,
    mailbox: Arc<Mailbox>,
    /// Interface settings, restored when the last node closes.
    deferred: SavedSettings,
    /// Set if the node's address is not the interface's.
    _extra_address: Option<ExtraAddress>,
}

/// The node's entry in the list of its interface.
struct Registration {
    key: Key,
    number: u32,
    mode: AttachMode,
    hall: Arc<Siblings>,
}

impl InterfaceNode {
    /// Load the steering program of a node and attach it to the interface, alone or beside other nodes of this process.
    ///
    /// # Errors
    /// [`XdpOpenError::Load`], [`XdpOpenError::Attach`], [`XdpOpenError::AttachMtu`], [`XdpOpenError::TooManyNodes`].
    pub(crate) fn take(
        options: &XdpOptions,
        interface: &Interface,
        socket: &impl AsFd,
    ) -> Result<(InterfaceNode, Steer), XdpOpenError> {
        let key = interface_key(interface)?;
        let mut interfaces = lock_interfaces();
        let others = interfaces.get(&key).map_or(&[][..], |found| &found.nodes);
        let own = choose_address(interface, options.queue, |own| others.iter().all(|other| other.own_address != own));
        let extra_address = extra_address(own, interface)?;
        let mailbox = Mailbox::new().map_err(|error| XdpOpenError::system("opening a pipe", error))?;
        let mailbox = Arc::new(mailbox);
        let mut steer = attach::load(options, own, socket)?;
        let registration = Registration::take(&mut interfaces, (options, interface), &mut steer, own, &mailbox)?;
        Ok((
            InterfaceNode {
                registration,
                own,
                mailbox,
                deferred: SavedSettings::default(),
                _extra_address: extra_address,
            },
            steer,
        ))
    }

    /// Register on a new interface after the old one disappeared. `leave` was called for the old one. The node keeps
    /// its address.
    ///
    /// # Errors
    /// As [`InterfaceNode::take`].
    pub(crate) fn move_to(
        &mut self,
        options: &XdpOptions,
        interface: &Interface,
        steer: &mut Steer,
    ) -> Result<(), XdpOpenError> {
        self._extra_address = extra_address(self.own, interface)?;
        self.registration =
            Registration::take(&mut lock_interfaces(), (options, interface), steer, self.own, &self.mailbox)?;
        Ok(())
    }

    /// Attach the interface's program again, if it was removed or its driver no longer runs it. It is detached
    /// first, because a driver that lost its XDP set-up sets it up again only if no program was attached before.
    /// Returns the cause, or `None` if nothing was done.
    ///
    /// # Errors
    /// As [`InterfaceNode::take`]. Then no program is attached.
    pub(crate) fn reattach(
        &self,
        options: &XdpOptions,
        interface: &Interface,
        steer: &mut Steer,
    ) -> Result<Option<BypassCause>, XdpOpenError> {
        let mut interfaces = lock_interfaces();
        let Some(shared) = interfaces.get_mut(&self.registration.key) else { return Ok(None) };
        let is_attached = shared.attachment.as_ref().is_some_and(Attachment::is_attached);
        let Some(cause) = shared.repairs.next(is_attached, Instant::now()) else { return Ok(None) };
        shared.attachment = None;
        let attachment = attach::attach(options, interface, |mode| steer.attach(&interface.name, mode))?;
        shared.attachment = Some(match &mut shared.share {
            Some(share) => share.replace(attachment)?,
            None => attachment,
        });
        Ok(Some(cause))
    }

    /// Leave the interface. The last node detaches the program and restores the settings.
    pub(crate) fn leave(&mut self) {
        let mut interfaces = lock_interfaces();
        let Some(shared) = interfaces.get_mut(&self.registration.key) else { return };
        shared.siblings.leave(&self.mailbox);
        shared.saved_settings.push(std::mem::take(&mut self.deferred));
        shared.leave(self.registration.number);
        if shared.nodes.is_empty() {
            interfaces.remove(&self.registration.key);
        }
    }

    /// The node's address.
    pub(crate) fn own_address(&self) -> Address {
        self.own
    }

    /// Where the interface's program runs.
    pub(crate) fn mode(&self) -> AttachMode {
        self.registration.mode
    }

    /// Settings to restore when the last node closes.
    pub(crate) fn restore_on_close(&mut self, saved_settings: SavedSettings) {
        self.deferred = saved_settings;
    }

    /// Readable when a sibling has passed a frame on.
    pub(crate) fn wake_fd(&self) -> Arc<OwnedFd> {
        self.mailbox.wake_fd()
    }

    /// Whether the interface has other nodes.
    #[inline]
    pub(crate) fn has_siblings(&self) -> bool {
        self.registration.hall.has_several.load(Ordering::Relaxed)
    }

    /// Pass copies of a received frame to the siblings, if it is not addressed to this node: a broadcast, or a probe to
    /// an address that no node has.
    #[inline]
    pub(crate) fn forward_to_siblings(&self, frame: &[u8]) {
        if !frame.starts_with(&self.own.0) {
            let mailboxes = self.registration.hall.lock();
            mailboxes.iter().filter(|other| !Arc::ptr_eq(other, &self.mailbox)).for_each(|other| other.put(frame));
        }
    }

    /// The mailbox into which siblings put frames.
    #[inline]
    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }
}

impl Drop for InterfaceNode {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Registration {
    fn take(
        interfaces: &mut BTreeMap<Key, SharedInterface>,
        (options, interface): (&XdpOptions, &Interface),
        steer: &mut Steer,
        own: Address,
        mailbox: &Arc<Mailbox>,
    ) -> Result<Registration, XdpOpenError> {
        let key = interface_key(interface)?;
        let others = interfaces.get(&key).map_or(&[][..], |found| &found.nodes);
        let number = (0..NodeSwitch::NODES).find(|number| others.iter().all(|other| other.number != *number));
        let number = number.ok_or_else(|| XdpOpenError::TooManyNodes { interface: interface.name.clone() })?;
        let node = NodeEntry { number, program: steer.program()?, own_address: own, queue: options.queue };
        let shared = match interfaces.get_mut(&key) {
            Some(shared) => {
                shared.add_node(&node)?;
                shared
            }
            None => {
                let attachment = attach::attach(options, interface, |mode| steer.attach(&interface.name, mode))?;
                interfaces.entry(key).or_insert_with(|| SharedInterface::new(attachment))
            }
        };
        shared.nodes.push(node);
        shared.siblings.add(mailbox);
        let mode = shared.attachment.as_ref().map_or(AttachMode::default(), Attachment::mode);
        Ok(Registration { key, number, mode, hall: shared.siblings.clone() })
    }
}

impl Repairs {
    /// The cause to repair now. `None` if the program is attached and the last repair was less than
    /// [`MIN_REPAIR_INTERVAL`] ago: each node of the interface reports the same bypassed frames.
    fn next(&mut self, is_attached: bool, now: Instant) -> Option<BypassCause> {
        let is_early = self.last.is_some_and(|last| now.duration_since(last) < MIN_REPAIR_INTERVAL);
        if is_attached && is_early {
            return None;
        }
        self.last = Some(now);
        Some(if is_attached { BypassCause::NotRun } else { BypassCause::Detached })
    }
}

impl SharedInterface {
    fn new(attachment: Attachment) -> SharedInterface {
        SharedInterface {
            attachment: Some(attachment),
            share: None,
            nodes: Vec::new(),
            saved_settings: Vec::new(),
            repairs: Repairs::default(),
            siblings: Arc::default(),
        }
    }

    /// Share the frames of the interface with one more node.
    fn add_node(&mut self, node: &NodeEntry) -> Result<(), XdpOpenError> {
        if self.share.is_none() {
            let mut share = NodeSwitch::load()?;
            self.nodes
                .iter()
                .try_for_each(|node| share.add(node.number, &node.program, node.own_address, node.queue))?;
            self.attachment = self.attachment.take().map(|attachment| share.replace(attachment)).transpose()?;
            self.share = Some(share);
        }
        let share = self.share.as_mut();
        share.map_or(Ok(()), |share| share.add(node.number, &node.program, node.own_address, node.queue))?;
        Ok(())
    }

    fn leave(&mut self, number: u32) {
        let Some(at) = self.nodes.iter().position(|node| node.number == number) else { return };
        let gone = self.nodes.swap_remove(at);
        match (&mut self.share, self.nodes.first()) {
            (Some(share), Some(other)) => share.remove(gone.number, gone.own_address, gone.queue, other.number),
            (_, Some(_)) => {}
            (_, None) => self.attachment = None,
        }
    }
}

impl Drop for SharedInterface {
    fn drop(&mut self) {
        // The first node saved the original settings, so it restores last.
        while let Some(last) = self.saved_settings.pop() {
            drop(last);
        }
    }
}

impl Siblings {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Mailbox>>> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, mailbox: &Arc<Mailbox>) {
        let mut mailboxes = self.lock();
        mailboxes.push(mailbox.clone());
        self.has_several.store(mailboxes.len() > 1, Ordering::Relaxed);
    }

    fn leave(&self, mailbox: &Arc<Mailbox>) {
        let mut mailboxes = self.lock();
        mailboxes.retain(|other| !Arc::ptr_eq(other, mailbox));
        self.has_several.store(mailboxes.len() > 1, Ordering::Relaxed);
    }
}

fn lock_interfaces() -> MutexGuard<'static, BTreeMap<Key, SharedInterface>> {
    INTERFACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The key of an interface in the calling thread's network namespace.
fn interface_key(interface: &Interface) -> Result<Key, XdpOpenError> {
    let found = fs::metadata("/proc/thread-self/ns/net");
    let failed = |error| XdpOpenError::system("asking for the network namespace in /proc", error);
    Ok((found.map_err(failed)?.ino(), interface.index))
}

fn extra_address(own: Address, interface: &Interface) -> Result<Option<ExtraAddress>, XdpOpenError> {
    let added = (own != interface.address).then(|| ExtraAddress::add(own, interface.index)).transpose();
    added.map_err(|error| XdpOpenError::system(format!("adding the address {own} to the interface"), error))
}

/// The address of a new node: the interface's for the first node. For others it is derived from that and the queue
/// number.
fn choose_address(interface: &Interface, queue: u32, is_free: impl Fn(Address) -> bool) -> Address {
    let derived = (queue..).map(|number| derived_address(interface.address, number));
    let mut all = std::iter::once(interface.address).chain(derived.filter(|address| *address != interface.address));
    all.find(|address| is_free(*address)).unwrap_or(interface.address)
}

/// A locally administered address that no frame header uses: the two highest bits are an unassigned version.
fn derived_address(Address([_, b, rest @ ..]): Address, number: u32) -> Address {
    let [c, d, e, f] = rest;
    Address([0x82 | (number as u8 & 0xf) << 2, b ^ (number >> 4) as u8, c, d, e, f])
}

#[cfg(test)]
mod tests;
