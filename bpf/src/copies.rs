//! Copies of stamped frames: the map of `copies.h`, and its program.

use std::error::Error;

use aya::maps::{DevMap, MapData};

use crate::error::root_cause;
use crate::object::Object;
use crate::{AttachMode, CopyError, Kernel, LoadError, features};

/// The program that addresses a copy.
const PROGRAM: &str = "copy";

/// The copies that the program sends of each stamped frame.
pub(crate) struct Copies {
    map: DevMap<MapData>,
    /// Whose, while there are some.
    group: u64,
    count: u32,
    is_loaded: bool,
}

impl Copies {
    pub(crate) fn of(object: &mut Object) -> Result<Copies, LoadError> {
        Ok(Copies { map: object.map("copies")?, group: 0, count: 0, is_loaded: false })
    }

    /// See [`Steer::set_copies`](crate::Steer::set_copies).
    pub(crate) fn set(
        &mut self,
        object: &mut Object,
        group: u64,
        count: usize,
        interface: u32,
        mode: AttachMode,
    ) -> Result<(), CopyError> {
        if self.count > 0 && self.group != group {
            return Err(CopyError::Taken);
        }
        self.end(group);
        check(interface, mode)?;
        if count > 0 && !self.is_loaded {
            object.load_program(PROGRAM)?;
            self.is_loaded = true;
        }
        (self.group, self.count) = (group, (count as u32).min(self.map.len()));
        self.follow(object, interface).inspect_err(|_| self.end(group))
    }

    /// Send the copies by this interface from now on.
    pub(crate) fn follow(&mut self, object: &mut Object, interface: u32) -> Result<(), CopyError> {
        let kernel = |error: &(dyn Error + 'static)| CopyError::Kernel(root_cause(error));
        for at in 0..self.count {
            let program = object.named(PROGRAM)?.fd().map_err(|error| kernel(&error))?;
            self.map.set(at, interface, Some(program), 0).map_err(|error| kernel(&error))?;
        }
        Ok(())
    }

    /// No more copies for this group.
    pub(crate) fn end(&mut self, group: u64) {
        for at in (0..self.count).filter(|_| self.group == group) {
            // An index that exists can be emptied.
            _ = self.map.set(at, 0, None, 0);
        }
        self.count = if self.group == group { 0 } else { self.count };
    }
}

/// Whether this kernel and this driver can.
fn check(interface: u32, mode: AttachMode) -> Result<(), CopyError> {
    let kernel = Kernel::running();
    if !kernel.has_sequencer() {
        return Err(CopyError::KernelTooOld { found: kernel.release });
    }
    if mode == AttachMode::Generic {
        return Err(CopyError::Generic);
    }
    match features::sends_redirected(interface) {
        Some(true) => Ok(()),
        Some(false) => Err(CopyError::Driver),
        None => Err(CopyError::Unknown { found: kernel.release }),
    }
}
