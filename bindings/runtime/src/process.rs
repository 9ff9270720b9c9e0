//! The process: the node that it has, its place in its job, its exit. A child that is forked from it has copies of all, and uses none:
//! what both sent would break the parent's connections.

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
    /// The node is open. `owner` was made before, since a child may be forked while it opens.
    pub fn new(owner: Owner) -> NodeOwner {
        NodeOwner { losses: own::losses(), _owner: owner }
    }

    /// Whether the program has closed descriptors of the library since, by their numbers.
    #[cold]
    pub fn is_lost(&self) -> bool {
        own::losses() != self.losses
    }
}

/// The process's place among those of its job. A launcher gives it once, so it is kept for the next node: where one cannot be opened, or
/// after its end.
#[derive(Debug)]
pub struct KeptPlace {
    place: Option<Place>,
    /// The process that it was given to.
    process: u32,
}

impl KeptPlace {
    /// None is known yet.
    pub const fn empty() -> KeptPlace {
        KeptPlace { place: None, process: 0 }
    }

    /// The one that a launcher gave, or found now.
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

    /// The one that was found last, if it was not taken.
    pub fn get(&mut self) -> Option<&mut Place> {
        self.place.as_mut()
    }

    /// The place, which is the caller's from now on.
    pub fn take(&mut self) -> Option<Place> {
        let place = self.place.take()?;
        if self.process == process::id() {
            return Some(place);
        }
        // The parent's connection with the launcher is not this process's to end.
        mem::forget(place);
        None
    }
}

/// What the library does at the exit.
static FINISH: OnceLock<fn()> = OnceLock::new();

/// Run this when the process exits. A library has one such function, and may call this again with it.
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
