//! The process's place among those of its job.
//!
//! A launcher gives a process its place once. So it is kept for the next node: where one cannot be opened, or after its end.

use std::mem;
use std::process;

use am_spmd::{FindError, Place};

/// See the module's page.
#[derive(Debug)]
pub struct KeptPlace {
    place: Option<Place>,
    /// The process that it was given to: a child that is forked has a copy.
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
