//! Chooses zero-copy or copy mode, and the chunks for it. The chunks depend on the mode, but the available mode shows
//! only when a socket over chunks is bound. So plans are tried, the best first.

use crate::OpenError;
use crate::bind::Bound;
use crate::cut::{Cut, Writer, ZERO_COPY_MTU};
use crate::interface::Interface;
use crate::options::{Attach, Copying, MultiBuffer, Options};
use crate::umem::{Count, Memory};

/// A chunk layout, and whether kernel or NIC fills the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) writer: Writer,
    pub(crate) cut: Cut,
}

/// The plans to try.
#[derive(Debug, PartialEq, Eq)]
struct Plans {
    /// Tried first, the best at the front.
    before: Vec<Plan>,
    last: Plan,
    /// Why better plans are missing.
    notes: Vec<String>,
}

impl Plans {
    /// # Errors
    /// [`OpenError::Mtu`]; [`OpenError::ZeroCopyMtu`] where zero-copy is required.
    fn new(options: &Options, interface: &Interface) -> Result<Plans, OpenError> {
        Cut::check(interface)?;
        let asked = options.copy != Copying::Copy && options.attach != Attach::Generic;
        let (zero_copy, notes) = match zero_copy(options, interface) {
            Ok(plan) if options.copy == Copying::ZeroCopy => {
                return Ok(Plans { before: Vec::new(), last: plan, notes: Vec::new() });
            }
            Ok(plan) => (asked.then_some(plan), None),
            Err(why) if options.copy == Copying::ZeroCopy => return Err(why),
            Err(why) => (None, asked.then(|| format!("no zero-copy: {why}"))),
        };
        let copy = |several| Plan { writer: Writer::Kernel, cut: Cut::new(interface, Writer::Kernel, several) };
        let (best, last) = (copy(options.multi_buffer), copy(MultiBuffer::Never));
        let before = zero_copy.into_iter().chain((best != last).then_some(best)).collect();
        Ok(Plans { before, last, notes: notes.into_iter().collect() })
    }

    /// Try the plans in order, and return the result of the first that works. An error that the others would have as
    /// well ends the search.
    fn first<T>(
        mut self,
        mut attempt: impl FnMut(&Plan) -> Result<T, OpenError>,
    ) -> Result<(T, Vec<String>), OpenError> {
        for plan in &self.before {
            match attempt(plan) {
                Err(error) if plan.is_refused(&error) => self.notes.extend(plan.note(&error)),
                result => return result.map(|found| (found, self.notes)),
            }
        }
        attempt(&self.last).map(|found| (found, self.notes))
    }
}

/// The plan for zero-copy. It fails if frames would be shorter than the MTU allows: a NIC does not know that limit.
fn zero_copy(options: &Options, interface: &Interface) -> Result<Plan, OpenError> {
    let cut = Cut::new(interface, Writer::Nic, options.multi_buffer);
    if cut.longest == interface.max_frame() {
        return Ok(Plan { writer: Writer::Nic, cut });
    }
    let Interface { name, mtu, .. } = interface.clone();
    Err(OpenError::ZeroCopyMtu { interface: name, mtu, most: ZERO_COPY_MTU })
}

impl Plan {
    /// Whether the error concerns this plan only.
    fn is_refused(&self, error: &OpenError) -> bool {
        match (self.writer, error) {
            (Writer::Nic, OpenError::NoZeroCopy { .. } | OpenError::Options(_)) => true,
            // Copy mode may need smaller chunks.
            (Writer::Nic, error) => error.is_about_memory(),
            (Writer::Kernel, error) => error.is_refusal(),
        }
    }

    /// A note on why this plan failed. Shorter frames are noted elsewhere.
    fn note(&self, error: &OpenError) -> Option<String> {
        let why = match (self.writer, error) {
            (Writer::Kernel, _) => return None,
            (Writer::Nic, OpenError::NoZeroCopy { driver, source, .. }) => format!("{driver} says {source}"),
            (Writer::Nic, error) => error.to_string(),
        };
        let several = if self.cut.is_one_each() { String::new() } else { several() };
        Some(format!("no zero-copy: {why}{several}"))
    }
}

/// Fewer drivers support zero-copy with frames of several chunks than with single chunks.
fn several() -> String {
    format!(" (asked for with frames of several chunks; up to an MTU of {ZERO_COPY_MTU} a frame is one)")
}

/// Shared memory and a bound socket over it, in the best mode that works, with notes on failed attempts.
///
/// # Errors
/// Those of [`Memory::new`] and [`Bound::new`], and [`OpenError::ZeroCopyMtu`].
pub(crate) fn memory_and_socket(
    options: &Options,
    interface: &Interface,
    count: Count,
) -> Result<((Memory, Bound), Vec<String>), OpenError> {
    let mut freed = None;
    Plans::new(options, interface)?.first(|plan| {
        let memory = Memory::new(options, plan.cut, count, freed)?;
        freed = Some(memory.huge == Ok(true));
        Bound::new(options, interface, &memory, plan.writer).map(|bound| (memory, bound))
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::cut::tests::{cut, interface};

    fn plans(options: &Options, mtu: u32) -> Vec<Plan> {
        let Plans { before, last, .. } = Plans::new(options, &interface(mtu)).unwrap();
        before.into_iter().chain([last]).collect()
    }

    fn nic(mtu: u32) -> Plan {
        Plan { writer: Writer::Nic, cut: cut(mtu, Writer::Nic) }
    }

    fn kernel(mtu: u32) -> Plan {
        Plan { writer: Writer::Kernel, cut: cut(mtu, Writer::Kernel) }
    }

    #[test]
    fn zero_copy_comes_first_with_chunks_of_its_own() {
        let auto = Options::new("eth1");
        for mtu in [1000, 1500, 1800, 3030, 3031, 3826] {
            assert_eq!(plans(&auto, mtu), [nic(mtu), kernel(mtu)], "{mtu}");
        }
        assert_eq!([nic(1500).cut.chunk, kernel(1500).cut.chunk], [4096, 2048]);
        assert_eq!(plans(&auto, 9000), [nic(9000), kernel(9000), kernel(3826)]);
        let only = |copy| Options { copy, ..Options::new("eth1") };
        assert_eq!(plans(&only(Copying::ZeroCopy), 9000), [nic(9000)]);
        assert_eq!(plans(&only(Copying::Copy), 1500), [kernel(1500)]);
        let generic = Options { attach: Attach::Generic, ..only(Copying::Auto) };
        assert_eq!(plans(&generic, 1500), [kernel(1500)]);
    }

    #[test]
    fn an_mtu_that_no_chunk_holds_has_no_zero_copy_unless_frames_may_be_several() {
        let never = Options { multi_buffer: MultiBuffer::Never, ..Options::new("eth1") };
        let found = Plans::new(&never, &interface(3031)).unwrap();
        assert_eq!((found.before, found.last), (vec![], kernel(3031)));
        assert!(
            found.notes[0].starts_with("no zero-copy: ") && found.notes[0].contains("mtu 3030"),
            "{:?}",
            found.notes
        );
        let required = Options { copy: Copying::ZeroCopy, ..never };
        let error = Plans::new(&required, &interface(3031)).unwrap_err();
        assert!(matches!(error, OpenError::ZeroCopyMtu { mtu: 3031, most: 3030, .. }), "{error}");
    }

    fn no_zero_copy(number: i32) -> OpenError {
        let source = io::Error::from_raw_os_error(number);
        OpenError::NoZeroCopy { interface: "eth1".to_owned(), queue: 0, driver: "igb".to_owned(), source }
    }

    fn first(options: &Options, mtu: u32, attempt: impl FnMut(&Plan) -> Result<Plan, OpenError>) -> Found {
        Plans::new(options, &interface(mtu)).unwrap().first(attempt)
    }

    type Found = Result<(Plan, Vec<String>), OpenError>;

    #[test]
    fn what_is_refused_is_noted_and_the_next_is_tried() {
        let copies =
            |plan: &Plan| if plan.writer == Writer::Nic { Err(no_zero_copy(libc::EOPNOTSUPP)) } else { Ok(*plan) };
        let (plan, notes) = first(&Options::new("eth1"), 1500, copies).unwrap();
        assert_eq!((plan, notes.len()), (kernel(1500), 1));
        assert_eq!(notes[0], "no zero-copy: igb says Operation not supported (os error 95)");
        let (_, notes) = first(&Options::new("eth1"), 9000, copies).unwrap();
        assert!(notes[0].ends_with("up to an MTU of 3030 a frame is one)"), "{notes:?}");
        let one_each = |plan: &Plan| {
            let refusal = OpenError::system("binding", io::Error::from_raw_os_error(libc::EINVAL));
            if plan.cut.is_one_each() { Ok(*plan) } else { Err(refusal) }
        };
        let copy = Options { copy: Copying::Copy, ..Options::new("eth1") };
        assert_eq!(first(&copy, 9000, one_each).unwrap(), (kernel(3826), vec![]));
    }

    #[test]
    fn memory_that_only_zero_copy_lacks_is_no_error() {
        let small = |plan: &Plan| match plan.cut.chunk {
            4096 => Err(OpenError::LockedMemory { bytes: 4096 }),
            _ => Ok(*plan),
        };
        let (plan, notes) = first(&Options::new("eth1"), 1500, small).unwrap();
        assert_eq!(plan, kernel(1500));
        assert!(notes[0].contains("--memlock=unlimited"), "{notes:?}");
    }

    #[test]
    fn what_another_plan_would_meet_too_is_an_error_at_once() {
        let mut tried = 0;
        let gone = |_: &Plan| {
            tried += 1;
            Err(OpenError::Down { interface: "eth1".to_owned() })
        };
        assert!(matches!(first(&Options::new("eth1"), 1500, gone), Err(OpenError::Down { .. })));
        assert_eq!(tried, 1);
        let required = Options { copy: Copying::ZeroCopy, ..Options::new("eth1") };
        let error = first(&required, 1500, |_| Err(no_zero_copy(libc::EINVAL))).unwrap_err();
        assert!(matches!(error, OpenError::NoZeroCopy { .. }), "and the last plan's is one, too: {error}");
    }
}
