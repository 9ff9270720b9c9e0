//! Several nodes of one process on one interface. Each has its own queue, address and steering program.
//!
//! ```text
//!   interface ── program of the only node                 while there is one node
//!   interface ── NodeSwitch ─┬─ program of node 0         from the second on
//!                            └─ program of node 1
//! ```
//!
//! The kernel redirects a frame only to a socket that is bound to the queue on which the frame arrived. The NIC, or the
//! sender, can choose the queue by the destination address. A broadcast arrives on one queue only, and the node on that
//! queue passes copies to the others ([decision
//! 70](../../../docs/decisions/0070-one-queue-and-address-for-each-node.md)).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use am_bpf::{AttachMode, Attachment, NodeSwitch, Program, Steer};
use am_wire::{Address, group};

use crate::XdpOpenError;
use crate::addresses::{NodeAddresses, derived_address};
use crate::attach::{self, SOCKET};
use crate::busy_poll::SavedSettings;
use crate::interface::Interface;
use crate::loader_files::LoaderFiles;
use crate::mailbox::Mailbox;
use crate::options::XdpOptions;
use crate::rules;

/// A network namespace, and an interface's index in it.
type Key = (u64, u32);

/// The shortest time between two repairs of a program that is still attached.
const MIN_REPAIR_INTERVAL: Duration = Duration::from_secs(10);

/// The interfaces on which this process has nodes.
static INTERFACES: Mutex<BTreeMap<Key, SharedInterface>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct SharedInterface {
    /// `None` if replacing the program failed.
    attachment: Option<(LoaderFiles, Attachment)>,
    /// Set from the second node on.
    switch: Option<(LoaderFiles, NodeSwitch)>,
    nodes: Vec<NodeEntry>,
    /// Interface settings that closed nodes saved. The last node restores them.
    saved_settings: SavedSettings,
    last_repair: Option<Instant>,
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

struct NodeEntry {
    number: u32,
    program: Program,
    own_address: Address,
    added: Vec<Address>,
    queue: u32,
}

impl NodeEntry {
    /// Have a switch hand this node its frames.
    fn add_to(&self, switch: &mut NodeSwitch) -> Result<(), XdpOpenError> {
        switch.add(self.number, &self.program, self.own_address, self.queue)?;
        self.added.iter().try_for_each(|added| switch.add_address(self.number, *added))?;
        Ok(())
    }
}

/// The state of an interface that its nodes share across their threads.
#[derive(Default)]
struct Siblings {
    has_several: AtomicBool,
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
}

/// One node on an interface. Dropping this removes it, and then unloads its program.
pub(crate) struct InterfaceNode {
    /// The node's program. It decides which frames the socket gets.
    pub(crate) steer: ManuallyDrop<Steer>,
    /// What the BPF loader has opened for it.
    files: LoaderFiles,
    registration: Registration,
    /// The node's own address, and those of nodes behind it.
    pub(crate) addresses: NodeAddresses,
    /// The mailbox into which siblings put frames.
    pub(crate) mailbox: Arc<Mailbox>,
    /// Interface settings, restored when the last node closes.
    pub(crate) saved_settings: SavedSettings,
}

/// The node's entry in the list of its interface.
struct Registration {
    key: Key,
    number: u32,
    mode: AttachMode,
    siblings: Arc<Siblings>,
    /// Of the program in that entry.
    files: LoaderFiles,
}

impl InterfaceNode {
    /// Load the steering program of a node, give it the socket, and attach it to the interface, alone or beside other
    /// nodes of this process.
    ///
    /// # Errors
    /// [`XdpOpenError::Load`], [`XdpOpenError::Attach`], [`XdpOpenError::AttachMtu`], [`XdpOpenError::TooManyNodes`].
    pub(crate) fn join(
        options: &XdpOptions,
        interface: &Interface,
        socket: &impl AsFd,
    ) -> Result<InterfaceNode, XdpOpenError> {
        let key = interface_key(interface)?;
        let mut interfaces = lock_interfaces();
        let others = interfaces.get(&key).map_or(&[][..], |found| &found.nodes);
        let has = |other: &NodeEntry, address| other.own_address == address || other.added.contains(&address);
        let own = choose_address(interface, options.queue, |own| !others.iter().any(|other| has(other, own)));
        let addresses = NodeAddresses::new(own, interface)?;
        let mailbox = Mailbox::new().map_err(|error| XdpOpenError::system("opening a pipe", error))?;
        let mailbox = Arc::new(mailbox);
        let (files, mut steer) = LoaderFiles::of(|| attach::load(options, own, socket))?;
        let registration = Registration::new(&mut interfaces, (options, interface), &mut steer, own, &mailbox)?;
        let steer = ManuallyDrop::new(steer);
        Ok(InterfaceNode { steer, files, registration, addresses, mailbox, saved_settings: SavedSettings::default() })
    }

    /// Redirect frames to another socket from now on.
    pub(crate) fn set_socket(&self, queue: u32, socket: &impl AsFd) -> Result<(), XdpOpenError> {
        self.steer.set_socket(SOCKET, queue, socket).map_err(attach::socket_error)
    }

    /// Register on the interface that replaces one that is gone. Call `leave` for the old one first. The node keeps its
    /// address.
    ///
    /// # Errors
    /// As [`InterfaceNode::join`].
    pub(crate) fn move_to(&mut self, options: &XdpOptions, interface: &Interface) -> Result<(), XdpOpenError> {
        self.addresses.move_to(interface)?;
        let (steer, mailbox, own) = (&mut *self.steer, &self.mailbox, self.addresses.own);
        if let Err(why) = steer.move_copies(interface.index) {
            tracing::warn!(interface = interface.name, %why, "no copies of stamped frames: members fetch them from each other");
        }
        let mut interfaces = lock_interfaces();
        self.registration = Registration::new(&mut interfaces, (options, interface), steer, own, mailbox)?;
        for added in self.addresses.with_groups() {
            self.registration.add_address(&mut interfaces, added)?;
        }
        Ok(())
    }

    /// Receive frames to one more address, which is valid.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn add_address(&mut self, address: Address) -> io::Result<()> {
        self.addresses.add(address)?;
        let added = self.steer.add_address(address);
        added
            .and_then(|()| self.registration.add_address(&mut lock_interfaces(), address).map_err(io::Error::other))
            .inspect_err(|_| self.remove_address(address))
    }

    /// No longer receive frames to an added address.
    pub(crate) fn remove_address(&mut self, address: Address) {
        if self.addresses.remove(address) {
            self.steer.remove_address(address);
            self.registration.remove_address(address);
        }
    }

    /// Receive the frames of a group, on an interface with several nodes too: the one that gets a frame passes copies to the others.
    /// False if the node has joined as many groups as it can.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn join_group(&mut self, group: u64) -> io::Result<bool> {
        let address = group::address(group);
        if self.steer.has_joined(group) {
            return Ok(true);
        }
        if self.steer.join_group(group, SOCKET)?.is_none() {
            return Ok(false);
        }
        let added = self.addresses.add_group(address);
        added
            .and_then(|()| self.registration.add_address(&mut lock_interfaces(), address).map_err(io::Error::other))
            .inspect_err(|_| self.leave_group(group))?;
        Ok(true)
    }

    /// Send copies of the frames that the program stamps for a group.
    ///
    /// # Errors
    /// Why the program does not.
    pub(crate) fn set_copies(&mut self, group: u64, copies: usize, interface: &Interface) -> Result<(), String> {
        if self.has_siblings() {
            return Err(
                "the interface has several nodes, and its transmit queue runs one program for all copies".into()
            );
        }
        let (index, mode) = (interface.index, self.mode());
        let files = LoaderFiles::of(|| self.steer.set_copies(group, copies, index, mode));
        self.files.append(files.map_err(|error| error.to_string())?.0);
        Ok(())
    }

    /// No longer receive the frames of a group.
    pub(crate) fn leave_group(&mut self, group: u64) {
        let address = group::address(group);
        if self.steer.has_joined(group) {
            self.steer.leave_group(group);
            self.steer.end_copies(group);
            if self.addresses.remove_group(address) {
                self.registration.remove_address(address);
            }
        }
    }

    /// Attach the interface's program again, if it was removed or its driver no longer runs it. It is detached
    /// first, because a driver that lost its XDP set-up sets it up again only if no program was attached before.
    /// Returns the cause, or `None` if nothing was done.
    ///
    /// # Errors
    /// As [`InterfaceNode::join`]. Then no program is attached.
    pub(crate) fn reattach(
        &mut self,
        options: &XdpOptions,
        interface: &Interface,
    ) -> Result<Option<BypassCause>, XdpOpenError> {
        let mut interfaces = lock_interfaces();
        let Some(shared) = interfaces.get_mut(&self.registration.key) else { return Ok(None) };
        let is_attached = shared.attachment.as_ref().is_some_and(|(_, attachment)| attachment.is_attached());
        let Some(cause) = next_repair(&mut shared.last_repair, is_attached, Instant::now()) else { return Ok(None) };
        shared.attachment = None;
        let steer = &mut self.steer;
        let mut attach = || attach::attach(options, interface, |mode| steer.attach(&interface.name, mode));
        shared.attachment = Some(LoaderFiles::of_attachment(|| match &mut shared.switch {
            Some((_, switch)) => Ok::<_, XdpOpenError>(switch.replace(attach()?)?),
            None => attach(),
        })?);
        Ok(Some(cause))
    }

    /// Leave the interface. The last node detaches the program and restores the settings.
    pub(crate) fn leave(&mut self) {
        let mut interfaces = lock_interfaces();
        let has_lost = |shared: &SharedInterface| self.is_lost() || shared.is_lost();
        if interfaces.get(&self.registration.key).is_some_and(has_lost) {
            // The BPF loader would close whatever has the numbers.
            std::mem::forget(interfaces.remove(&self.registration.key));
        }
        self.registration.files = LoaderFiles::default();
        let Some(shared) = interfaces.get_mut(&self.registration.key) else { return };
        shared.siblings.change(|mailboxes| mailboxes.retain(|other| !Arc::ptr_eq(other, &self.mailbox)));
        shared.saved_settings.append(std::mem::take(&mut self.saved_settings));
        // It leaves once: afterwards its number may be another node's.
        let number = std::mem::replace(&mut self.registration.number, u32::MAX);
        let Some(at) = shared.nodes.iter().position(|node| node.number == number) else { return };
        let gone = shared.nodes.swap_remove(at);
        match (&mut shared.switch, shared.nodes.first()) {
            (Some((_, switch)), Some(other)) => {
                gone.added.iter().for_each(|added| switch.remove_address(*added));
                switch.remove(gone.number, gone.own_address, gone.queue, other.number);
            }
            (None, Some(_)) => {}
            (_, None) => drop(interfaces.remove(&self.registration.key)),
        }
    }

    /// Whether the program has closed what the BPF loader has opened for this node.
    fn is_lost(&self) -> bool {
        self.files.is_lost() || self.registration.files.is_lost()
    }

    /// The mode in which the interface's program is attached.
    pub(crate) fn mode(&self) -> AttachMode {
        self.registration.mode
    }

    /// Whether the interface has other nodes.
    #[inline]
    pub(crate) fn has_siblings(&self) -> bool {
        self.registration.siblings.has_several.load(Ordering::Relaxed)
    }

    /// Pass copies of a received frame to the siblings, if it is not addressed to this node or one behind it: a broadcast,
    /// or a probe to an address that no node has.
    #[inline]
    pub(crate) fn forward_to_siblings(&self, frame: &[u8]) {
        if !frame.first_chunk().is_some_and(|to| self.addresses.contains(Address(*to))) {
            let mailboxes = self.registration.siblings.lock();
            mailboxes.iter().filter(|other| !Arc::ptr_eq(other, &self.mailbox)).for_each(|other| other.put(frame));
        }
    }
}

impl Drop for InterfaceNode {
    fn drop(&mut self) {
        let is_lost = self.is_lost();
        self.leave();
        self.files = LoaderFiles::default();
        if !is_lost {
            // SAFETY: nothing uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.steer) };
        }
    }
}

impl Registration {
    fn new(
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
        let (files, program) = LoaderFiles::of(|| steer.program())?;
        let (queue, added) = (options.queue, Vec::new());
        let node = NodeEntry { number, program, own_address: own, added, queue };
        let shared = match interfaces.get_mut(&key) {
            Some(shared) => {
                shared.add_node(&node)?;
                shared
            }
            None => {
                let attach = || attach::attach(options, interface, |mode| steer.attach(&interface.name, mode));
                let attachment = Some(LoaderFiles::of_attachment(attach)?);
                if options.steer {
                    rules::remove_leftovers(interface);
                }
                interfaces.entry(key).or_insert(SharedInterface { attachment, ..SharedInterface::default() })
            }
        };
        shared.nodes.push(node);
        shared.siblings.change(|mailboxes| mailboxes.push(mailbox.clone()));
        let mode = shared.attachment.as_ref().map_or(AttachMode::default(), |(_, attachment)| attachment.mode());
        Ok(Registration { key, number, mode, siblings: shared.siblings.clone(), files })
    }

    /// Note an added address of the node, and have the switch hand the node its frames, if there is a switch.
    fn add_address(
        &self,
        interfaces: &mut BTreeMap<Key, SharedInterface>,
        address: Address,
    ) -> Result<(), XdpOpenError> {
        let Some(shared) = interfaces.get_mut(&self.key) else { return Ok(()) };
        let Some(node) = shared.nodes.iter_mut().find(|node| node.number == self.number) else { return Ok(()) };
        if let Some((_, switch)) = &mut shared.switch {
            switch.add_address(self.number, address)?;
        }
        node.added.push(address);
        Ok(())
    }

    fn remove_address(&self, address: Address) {
        let mut interfaces = lock_interfaces();
        let Some(shared) = interfaces.get_mut(&self.key) else { return };
        let nodes = shared.nodes.iter_mut().filter(|node| node.number == self.number);
        nodes.for_each(|node| node.added.retain(|added| *added != address));
        if let Some((_, switch)) = &mut shared.switch {
            switch.remove_address(address);
        }
    }
}

/// The cause of a repair that is due now. `None` if the program is attached and the last repair was less than
/// [`MIN_REPAIR_INTERVAL`] ago: each node of the interface asks for a repair after the same bypassed frames, and frames
/// may bypass an attached program for another reason.
fn next_repair(last: &mut Option<Instant>, is_attached: bool, now: Instant) -> Option<BypassCause> {
    let is_early = last.is_some_and(|last| now.duration_since(last) < MIN_REPAIR_INTERVAL);
    if is_attached && is_early {
        return None;
    }
    *last = Some(now);
    Some(if is_attached { BypassCause::NotRun } else { BypassCause::Detached })
}

impl SharedInterface {
    /// Give one more node its frames of the interface, through a [`NodeSwitch`].
    fn add_node(&mut self, node: &NodeEntry) -> Result<(), XdpOpenError> {
        if self.switch.is_none() {
            let (files, mut switch) = LoaderFiles::of(NodeSwitch::load)?;
            self.nodes.iter().try_for_each(|node| node.add_to(&mut switch))?;
            if let Some((link, attachment)) = self.attachment.take() {
                self.attachment = Some((link, switch.replace(attachment)?));
            }
            self.switch = Some((files, switch));
        }
        self.switch.as_mut().map_or(Ok(()), |(_, switch)| node.add_to(switch))
    }

    /// Whether the program has closed what the BPF loader has opened.
    fn is_lost(&self) -> bool {
        let files = self.attachment.iter().map(|(files, _)| files).chain(self.switch.iter().map(|(files, _)| files));
        files.into_iter().any(LoaderFiles::is_lost)
    }
}

impl Siblings {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Mailbox>>> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Mailbox>>)) {
        let mut mailboxes = self.lock();
        change(&mut mailboxes);
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

/// The address of a new node: the interface's, if it is free; otherwise one derived from it and the queue number.
fn choose_address(interface: &Interface, queue: u32, is_free: impl Fn(Address) -> bool) -> Address {
    let derived = (queue..).map(|number| derived_address(interface.address, number));
    let mut all = std::iter::once(interface.address).chain(derived.filter(|address| *address != interface.address));
    all.find(|address| is_free(*address)).unwrap_or(interface.address)
}

#[cfg(test)]
mod tests;
