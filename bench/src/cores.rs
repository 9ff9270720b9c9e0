//! Which core each side runs on.

use core_affinity::CoreId;

use crate::cli::CoresArg;
use crate::error::Error;

/// The cores of the two sides; `None` is not pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    /// Of the side that asks.
    pub(crate) near: Option<usize>,
    /// Of the side that answers.
    pub(crate) far: Option<usize>,
}

/// The cores that this process may use, lowest first.
fn usable() -> Vec<usize> {
    let mut cores: Vec<usize> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    cores.sort_unstable();
    cores
}

impl Cores {
    /// The cores for both sides on one machine.
    ///
    /// # Errors
    /// [`Error::NoCore`].
    pub(crate) fn both(asked: CoresArg) -> Result<Cores, Error> {
        Cores::choose(asked, &usable())
    }

    /// The core for this side alone.
    ///
    /// # Errors
    /// [`Error::NoCore`].
    pub(crate) fn own(asked: CoresArg) -> Result<Option<usize>, Error> {
        let usable = usable();
        match asked {
            CoresArg::None => Ok(None),
            CoresArg::Default => Ok(usable.last().copied()),
            CoresArg::One(core) | CoresArg::Two(core, _) => check(core, &usable).map(Some),
        }
    }

    fn choose(asked: CoresArg, usable: &[usize]) -> Result<Cores, Error> {
        Ok(match (asked, usable) {
            (CoresArg::None, _) => Cores { near: None, far: None },
            (CoresArg::Two(near, far), _) => Cores { near: Some(check(near, usable)?), far: Some(check(far, usable)?) },
            (CoresArg::One(near), _) => Cores { near: Some(check(near, usable)?), far: None },
            // The last: the first are where interrupts and the rest of the system tend to be.
            (CoresArg::Default, [.., near, far]) => Cores { near: Some(*near), far: Some(*far) },
            // On a single core, two that spin must be able to make room for each other.
            (CoresArg::Default, _) => Cores { near: None, far: None },
        })
    }

    /// In words.
    pub(crate) fn spoken(&self) -> String {
        match (self.near, self.far) {
            (Some(near), Some(far)) => format!("both sides pinned: near on core {near}, far on core {far}"),
            (Some(near), None) => format!("near side pinned to core {near}, far side not pinned"),
            (None, Some(far)) => format!("near side not pinned, far side pinned to core {far}"),
            (None, None) => "neither side pinned to a core".to_owned(),
        }
    }
}

fn check(wanted: usize, usable: &[usize]) -> Result<usize, Error> {
    if usable.contains(&wanted) { Ok(wanted) } else { Err(Error::NoCore { wanted, usable: usable.to_vec() }) }
}

/// Pin the calling thread; returns the core that it runs on from now on.
///
/// # Errors
/// [`Error::NoCore`] where the system refuses.
pub(crate) fn pin(core: Option<usize>) -> Result<Option<usize>, Error> {
    match core {
        Some(id) if !core_affinity::set_for_current(CoreId { id }) => {
            Err(Error::NoCore { wanted: id, usable: usable() })
        }
        core => Ok(core),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_unless_said() {
        let choose = |asked| Cores::choose(asked, &[0, 1, 4, 5]).unwrap();
        assert_eq!(choose(CoresArg::Default), Cores { near: Some(4), far: Some(5) });
        assert_eq!(choose(CoresArg::Two(1, 0)), Cores { near: Some(1), far: Some(0) });
        assert_eq!(choose(CoresArg::None), Cores { near: None, far: None });
    }

    #[test]
    fn one_core_is_left_to_the_scheduler() {
        let cores = Cores::choose(CoresArg::Default, &[3]).unwrap();
        assert_eq!(cores.spoken(), "neither side pinned to a core");
    }

    #[test]
    fn a_core_that_is_not_there_is_refused() {
        let error = Cores::choose(CoresArg::Two(0, 7), &[0, 1]).unwrap_err();
        assert_eq!(error.to_string(), "no core 7 for this process: it may use 0, 1");
    }
}
