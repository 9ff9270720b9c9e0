//! Pinning: a thread stays on its core, where its caches are.

/// Why a thread was not pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// There is no such core, or the process may not use it.
    #[error(
        "core {asked} is not one of the cores that this process may run on, {have:?}: choose one of them, or widen the set with `taskset` or the container's cpuset"
    )]
    NoSuchCore {
        /// The requested core.
        asked: usize,
        /// The cores that the process may run on.
        have: Vec<usize>,
    },
    /// The system refused.
    #[error("the system refused to pin this thread to core {0}: choose another core, or run without pinning")]
    Refused(usize),
}

/// Pin the calling thread to a core.
///
/// # Errors
/// See [`PinError`]. The thread then stays unpinned.
pub fn pin(core: usize) -> Result<(), PinError> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let Some(&id) = cores.iter().find(|id| id.id == core) else {
        return Err(PinError::NoSuchCore { asked: core, have: cores.iter().map(|id| id.id).collect() });
    };
    if core_affinity::set_for_current(id) { Ok(()) } else { Err(PinError::Refused(core)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_its_core_alone() {
        let last = core_affinity::get_core_ids().unwrap().pop().unwrap().id;
        let left = std::thread::spawn(move || {
            pin(last).unwrap();
            core_affinity::get_core_ids().unwrap()
        });
        let left: Vec<usize> = left.join().unwrap().iter().map(|id| id.id).collect();
        assert_eq!(left, [last]);
    }

    #[test]
    fn a_core_that_is_not_there_is_named() {
        let error = pin(9999).unwrap_err();
        assert!(error.to_string().starts_with("core 9999 is not one of the cores"), "{error}");
    }
}
