//! Chooses zero-copy or copy mode, and the chunks for it. The chunks depend on the mode, but the available mode shows
//! only when a socket over chunks is bound. So plans are tried, the best first.

use crate::XdpOpenError;
use crate::bind::bind;
use crate::chunk_layout::{ChunkLayout, MAX_ZERO_COPY_MTU, Writer};
use crate::interface::Interface;
use crate::options::{Attach, Copying, MultiBuffer, XdpOptions};
use crate::ring::SocketRings;
use crate::umem::{ChunkCount, Memory};

/// A chunk layout, and whether kernel or NIC fills the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) writer: Writer,
    pub(crate) layout: ChunkLayout,
}

/// The plans to try, the best first, and notes on why better ones are missing.
///
/// # Errors
/// [`XdpOpenError::Mtu`]; [`XdpOpenError::ZeroCopyMtu`] where zero-copy is required.
fn plans(options: &XdpOptions, interface: &Interface) -> Result<(Vec<Plan>, Vec<String>), XdpOpenError> {
    ChunkLayout::check(interface)?;
    let of = |writer, several| Plan { writer, layout: ChunkLayout::new(interface, writer, several) };
    let nic = of(Writer::Nic, options.multi_buffer);
    let nic = if nic.layout.max_frame == interface.max_frame() {
        Ok(nic)
    } else {
        // Frames would be shorter than the MTU allows, and a NIC does not know that limit.
        let Interface { name, mtu, .. } = interface.clone();
        Err(XdpOpenError::ZeroCopyMtu { interface: name, mtu, most: MAX_ZERO_COPY_MTU })
    };
    if options.copy == Copying::ZeroCopy {
        return Ok((vec![nic?], Vec::new()));
    }
    let (mut plans, mut notes) = (Vec::new(), Vec::new());
    if options.copy != Copying::Copy && options.attach != Attach::Generic {
        match nic {
            Ok(nic) => plans.push(nic),
            Err(why) => notes.push(format!("no zero-copy: {why}")),
        }
    }
    plans.extend([options.multi_buffer, MultiBuffer::Never].map(|several| of(Writer::Kernel, several)));
    plans.dedup();
    Ok((plans, notes))
}

/// Try the plans in order, and return the result of the first that works. An error that the others would have as well
/// ends the search.
fn try_in_order<T>(
    (plans, mut notes): (Vec<Plan>, Vec<String>),
    mut attempt: impl FnMut(&Plan) -> Result<T, XdpOpenError>,
) -> Result<(T, Vec<String>), XdpOpenError> {
    let last = plans.len() - 1;
    for plan in &plans[..last] {
        match attempt(plan) {
            Err(error) if plan.is_refused_by(&error) => notes.extend(plan.note(&error)),
            result => return result.map(|found| (found, notes)),
        }
    }
    attempt(&plans[last]).map(|found| (found, notes))
}

impl Plan {
    /// Whether the error concerns this plan only.
    fn is_refused_by(&self, error: &XdpOpenError) -> bool {
        match (self.writer, error) {
            (Writer::Nic, XdpOpenError::NoZeroCopy { .. } | XdpOpenError::Options(_)) => true,
            // Copy mode may need smaller chunks.
            (Writer::Nic, error) => error.is_lack_of_memory(),
            (Writer::Kernel, error) => error.is_unsupported(),
        }
    }

    /// A note on why this plan failed. Shorter frames are noted elsewhere.
    fn note(&self, error: &XdpOpenError) -> Option<String> {
        let why = match (self.writer, error) {
            (Writer::Kernel, _) => return None,
            (Writer::Nic, XdpOpenError::NoZeroCopy { driver, source, .. }) => format!("{driver} says {source}"),
            (Writer::Nic, error) => error.to_string(),
        };
        if self.layout.is_single_chunk() {
            return Some(format!("no zero-copy: {why}"));
        }
        // Fewer drivers support zero-copy with frames of several chunks than with single chunks.
        Some(format!(
            "no zero-copy: {why} (asked for with frames of several chunks; up to an MTU of {MAX_ZERO_COPY_MTU} a frame is one)"
        ))
    }
}

/// Shared memory and a bound socket over it, in the best mode that works, with notes on failed attempts.
///
/// # Errors
/// Those of [`Memory::new`] and [`bind`], and [`XdpOpenError::ZeroCopyMtu`].
pub(crate) fn memory_and_socket(
    options: &XdpOptions,
    interface: &Interface,
    count: ChunkCount,
) -> Result<((Memory, SocketRings), Vec<String>), XdpOpenError> {
    let mut freed = None;
    try_in_order(plans(options, interface)?, |plan| {
        let memory = Memory::new(options, plan.layout, count, freed)?;
        freed = Some(memory.huge == Ok(true));
        bind(options, interface, &memory, plan.writer).map(|rings| (memory, rings))
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::tests::{cut, interface};

    fn found(options: &XdpOptions, mtu: u32) -> Vec<Plan> {
        plans(options, &interface("igb", mtu)).unwrap().0
    }

    fn nic(mtu: u32) -> Plan {
        Plan { writer: Writer::Nic, layout: cut(mtu, Writer::Nic) }
    }

    fn kernel(mtu: u32) -> Plan {
        Plan { writer: Writer::Kernel, layout: cut(mtu, Writer::Kernel) }
    }

    #[test]
    fn zero_copy_comes_first_with_chunks_of_its_own() {
        let auto = XdpOptions::new("eth1");
        for mtu in [1000, 1500, 1800, 3030, 3031, 3826] {
            assert_eq!(found(&auto, mtu), [nic(mtu), kernel(mtu)], "{mtu}");
        }
        assert_eq!([nic(1500).layout.chunk, kernel(1500).layout.chunk], [4096, 2048]);
        assert_eq!(found(&auto, 9000), [nic(9000), kernel(9000), kernel(3826)]);
        let only = |copy| XdpOptions { copy, ..XdpOptions::new("eth1") };
        assert_eq!(found(&only(Copying::ZeroCopy), 9000), [nic(9000)]);
        assert_eq!(found(&only(Copying::Copy), 1500), [kernel(1500)]);
        let generic = XdpOptions { attach: Attach::Generic, ..only(Copying::Auto) };
        assert_eq!(found(&generic, 1500), [kernel(1500)]);
    }

    #[test]
    fn an_mtu_that_no_chunk_holds_has_no_zero_copy_unless_frames_may_be_several() {
        let never = XdpOptions { multi_buffer: MultiBuffer::Never, ..XdpOptions::new("eth1") };
        let (found, notes) = plans(&never, &interface("igb", 3031)).unwrap();
        assert_eq!(found, [kernel(3031)]);
        assert!(notes[0].starts_with("no zero-copy: ") && notes[0].contains("mtu 3030"), "{notes:?}");
        let required = XdpOptions { copy: Copying::ZeroCopy, ..never };
        let error = plans(&required, &interface("igb", 3031)).unwrap_err();
        assert!(matches!(error, XdpOpenError::ZeroCopyMtu { mtu: 3031, most: 3030, .. }), "{error}");
    }

    fn no_zero_copy(number: i32) -> XdpOpenError {
        let source = io::Error::from_raw_os_error(number);
        XdpOpenError::NoZeroCopy { interface: "eth1".to_owned(), queue: 0, driver: "igb".to_owned(), source }
    }

    fn first(options: &XdpOptions, mtu: u32, attempt: impl FnMut(&Plan) -> Result<Plan, XdpOpenError>) -> Found {
        try_in_order(plans(options, &interface("igb", mtu)).unwrap(), attempt)
    }

    type Found = Result<(Plan, Vec<String>), XdpOpenError>;

    #[test]
    fn what_is_refused_is_noted_and_the_next_is_tried() {
        let copies =
            |plan: &Plan| if plan.writer == Writer::Nic { Err(no_zero_copy(libc::EOPNOTSUPP)) } else { Ok(*plan) };
        let (plan, notes) = first(&XdpOptions::new("eth1"), 1500, copies).unwrap();
        assert_eq!((plan, notes.len()), (kernel(1500), 1));
        assert_eq!(notes[0], "no zero-copy: igb says Operation not supported (os error 95)");
        let (_, notes) = first(&XdpOptions::new("eth1"), 9000, copies).unwrap();
        assert!(notes[0].ends_with("up to an MTU of 3030 a frame is one)"), "{notes:?}");
        let one_each = |plan: &Plan| {
            let refusal = XdpOpenError::system("binding", io::Error::from_raw_os_error(libc::EINVAL));
            if plan.layout.is_single_chunk() { Ok(*plan) } else { Err(refusal) }
        };
        let copy = XdpOptions { copy: Copying::Copy, ..XdpOptions::new("eth1") };
        assert_eq!(first(&copy, 9000, one_each).unwrap(), (kernel(3826), vec![]));
    }

    #[test]
    fn memory_that_only_zero_copy_lacks_is_no_error() {
        let small = |plan: &Plan| match plan.layout.chunk {
            4096 => Err(XdpOpenError::LockedMemory { bytes: 4096 }),
            _ => Ok(*plan),
        };
        let (plan, notes) = first(&XdpOptions::new("eth1"), 1500, small).unwrap();
        assert_eq!(plan, kernel(1500));
        assert!(notes[0].contains("--memlock=unlimited"), "{notes:?}");
    }

    #[test]
    fn what_another_plan_would_meet_too_is_an_error_at_once() {
        let mut tried = 0;
        let gone = |_: &Plan| {
            tried += 1;
            Err(XdpOpenError::Down { interface: "eth1".to_owned() })
        };
        assert!(matches!(first(&XdpOptions::new("eth1"), 1500, gone), Err(XdpOpenError::Down { .. })));
        assert_eq!(tried, 1);
        let required = XdpOptions { copy: Copying::ZeroCopy, ..XdpOptions::new("eth1") };
        let error = first(&required, 1500, |_| Err(no_zero_copy(libc::EINVAL))).unwrap_err();
        assert!(matches!(error, XdpOpenError::NoZeroCopy { .. }), "and the last plan's is one, too: {error}");
    }
}
