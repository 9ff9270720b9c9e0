//! Copies of stamped frames: the map of `copies.h`, and its program.

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
        check(interface, mode)?;
        let before = std::mem::replace(&mut self.count, (count as u32).min(self.map.len()));
        self.group = group;
        if self.count > 0 && !self.is_loaded {
            object.load_program(PROGRAM)?;
            self.is_loaded = true;
        }
        for at in 0..before.max(self.count) {
            self.set_one(object, at, interface).map_err(|error| CopyError::Kernel(root_cause(&*error)))?;
        }
        Ok(())
    }

    fn set_one(&mut self, object: &mut Object, at: u32, interface: u32) -> Result<(), Box<dyn std::error::Error>> {
        if at >= self.count {
            return Ok(self.map.set(at, 0, None, 0)?);
        }
        Ok(self.map.set(at, interface, Some(object.named(PROGRAM)?.fd()?), 0)?)
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
