//! The process: its node, its place in its job, its exit. A forked child has copies of these, and must not use them: frames of both would
//! break the parent's connections.

use std::sync::OnceLock;
use std::{mem, process};

use am_api::{Owner, is_forked_child, own};
use am_spmd::{FindError, Place};
use nix::libc::atexit;

/// This process has a node. It is dropped after the node.
#[derive(Debug)]
pub struct NodeOwner {
    /// How many descriptors of the library the program had closed when the node was opened.
    losses: u32,
    _owner: Owner,
}

impl NodeOwner {
    /// The owner of a node that was just opened. `owner` was made before that, because a child may be forked meanwhile.
    pub fn new(owner: Owner) -> NodeOwner {
        NodeOwner { losses: own::losses(), _owner: owner }
    }

    /// Whether the program has closed descriptors of the library since, by their numbers.
    #[cold]
    pub fn is_lost(&self) -> bool {
        own::losses() != self.losses
    }
}

/// The process's place among those of its job. A launcher assigns it once, so it is kept for the next node, if one cannot be opened or has
/// been closed.
#[derive(Debug)]
pub struct KeptPlace {
    place: Option<Place>,
    /// The process to which it was assigned.
    process: u32,
}

impl KeptPlace {
    /// No place is known yet.
    pub const fn empty() -> KeptPlace {
        KeptPlace { place: None, process: 0 }
    }

    /// The kept place. If there is none, ask the launcher.
    ///
    /// # Errors
    /// See [`FindError`].
    pub fn find(&mut self) -> Result<&mut Place, FindError> {
        let place = match self.take().filter(Place::is_launched) {
            Some(place) => place,
            None => Place::find()?,
        };
        self.process = process::id();
        Ok(self.place.insert(place))
    }

    /// The kept place, if there is one.
    pub fn get(&mut self) -> Option<&mut Place> {
        self.place.as_mut()
    }

    /// Take the kept place: it is the caller's from now on.
    pub fn take(&mut self) -> Option<Place> {
        let place = self.place.take()?;
        if self.process == process::id() {
            return Some(place);
        }
        // In a child, forget the place without ending the parent's connection with the launcher.
        mem::forget(place);
        None
    }
}

/// The function that the library runs at the exit.
static FINISH: OnceLock<fn()> = OnceLock::new();

/// Run this function when the process exits. A library has only one; registering it again changes nothing.
pub fn at_exit(finish: fn()) {
    FINISH.get_or_init(|| {
        // SAFETY: the function belongs to this library, which a program does not unload before it exits.
        unsafe { atexit(run) };
        finish
    });
}

extern "C" fn run() {
    if !is_forked_child() {
        FINISH.get().into_iter().for_each(|finish| finish());
    }
}
