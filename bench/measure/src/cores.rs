//! The core of each side.

use std::time::Duration;

use core_affinity::CoreId;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::plan::Side;

/// The value of `--cores`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CoresArg {
    /// The last two.
    #[default]
    Default,
    /// No core: the kernel chooses.
    None,
    /// One core, for this side.
    One(usize),
    /// The near side's and the far side's.
    Two(usize, usize),
}

/// The cores of the two sides; `None` is not pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// The core of the near side, if it is pinned.
    pub near: Option<usize>,
    /// The core of the far side, if it is pinned.
    pub far: Option<usize>,
}

/// The cores that this process may use, lowest first.
fn usable() -> Vec<usize> {
    let mut cores: Vec<usize> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    cores.sort_unstable();
    cores
}

/// The hardware threads of this core, itself included.
fn siblings(core: usize) -> Vec<usize> {
    let file = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    parse_list(&std::fs::read_to_string(file).unwrap_or_default())
}

/// Numbers and ranges: `2,34` or `2-3`.
fn parse_list(text: &str) -> Vec<usize> {
    let parts = text.trim().split(',');
    let ranges = parts.filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

impl Cores {
    pub(crate) fn both(asked: CoresArg) -> Result<Cores, Error> {
        Cores::choose(asked, &usable(), siblings)
    }

    /// The core of this side alone. The default is the core that it has with both sides on one machine: the other side
    /// may be there, in another namespace.
    pub fn own(asked: CoresArg, side: Side) -> Result<Option<usize>, Error> {
        Cores::both(asked).map(|cores| cores.of(asked, side))
    }

    fn of(self, asked: CoresArg, side: Side) -> Option<usize> {
        let is_asked = matches!(asked, CoresArg::One(_) | CoresArg::Two(..));
        if is_asked || side == Side::Near { self.near } else { self.far }
    }

    fn choose(asked: CoresArg, usable: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Result<Cores, Error> {
        Ok(match (asked, usable) {
            (CoresArg::None, _) => Cores { near: None, far: None },
            (CoresArg::Two(near, far), _) => Cores { near: Some(check(near, usable)?), far: Some(check(far, usable)?) },
            (CoresArg::One(near), _) => Cores { near: Some(check(near, usable)?), far: None },
            // The last ones: interrupts and the rest of the system tend to use the first.
            (CoresArg::Default, [others @ .., next, far]) => {
                let siblings = siblings(*far);
                let alone = others.iter().chain([next]).rev().find(|core| !siblings.contains(core));
                Cores { near: Some(*alone.unwrap_or(next)), far: Some(*far) }
            }
            // On a single core, the two sides have to yield to each other.
            (CoresArg::Default, _) => Cores { near: None, far: None },
        })
    }

    /// For a thread that is on neither side's core: another one, or the far side's if there are only these. `None` if the sides are not
    /// pinned.
    pub fn third(&self) -> Option<usize> {
        self.near.and(self.far)?;
        let free = usable().into_iter().rev().find(|core| ![self.near, self.far].contains(&Some(*core)));
        free.or(self.far)
    }

    /// The cores in words, for a footer.
    pub fn words(&self) -> String {
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

/// Pin the calling thread, and return its core.
pub fn pin(core: Option<usize>) -> Result<Option<usize>, Error> {
    match core {
        Some(id) if !core_affinity::set_for_current(CoreId { id }) => {
            Err(Error::NoCore { wanted: id, usable: usable() })
        }
        core => Ok(core),
    }
}

/// Leave this core to others, if there are more.
pub(crate) fn pin_elsewhere(core: Option<usize>) {
    let mut elsewhere = CpuSet::new();
    let others = usable().into_iter().filter(|other| Some(*other) != core);
    let others = others.filter(|other| elsewhere.set(*other).is_ok()).count();
    if others > 0 {
        // Without it, the thread runs on all cores.
        let _ = sched_setaffinity(Pid::from_raw(0), &elsewhere);
    }
}

/// The processor time of all living threads of a process; `None` if the kernel does not tell.
pub(crate) fn processor_time(process: u32) -> Option<Duration> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let times = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    });
    times.reduce(|all, more| all + more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(core: usize) -> Vec<usize> {
        vec![core]
    }
    #[test]
    fn the_two_halves_of_a_core_are_no_two_cores() {
        let pairs = |core: usize| vec![core & !1, core | 1];
        let cores = Cores::choose(CoresArg::Default, &[0, 1, 2, 3], pairs).unwrap();
        assert_eq!(cores, Cores { near: Some(1), far: Some(3) });
        let cores = Cores::choose(CoresArg::Default, &[2, 3], pairs).unwrap();
        assert_eq!(cores, Cores { near: Some(2), far: Some(3) }, "where there are no others");
        assert_eq!(parse_list("2,34\n"), [2, 34]);
        assert_eq!(parse_list("2-3\n"), [2, 3]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn two_that_do_not_know_of_each_other_take_different_cores() {
        let own = |asked, side| Cores::choose(asked, &[0, 1, 4, 5], single).unwrap().of(asked, side);
        assert_eq!([Side::Near, Side::Far].map(|side| own(CoresArg::Default, side)), [Some(4), Some(5)]);
        assert_eq!([Side::Near, Side::Far].map(|side| own(CoresArg::One(1), side)), [Some(1), Some(1)]);
        assert_eq!(own(CoresArg::None, Side::Far), None);
        let alone = Cores::choose(CoresArg::Default, &[3], single).unwrap();
        assert_eq!(alone, Cores { near: None, far: None }, "one core is left to the scheduler");
    }
}
