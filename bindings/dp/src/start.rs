//! The first call opens the process's node.

use std::sync::Arc;

use am_api::Owner;
use am_c_runtime::{KeptPlace, NodeOwner, Waker, at_exit};
use am_dp::Dp;
use nix::errno::Errno;
use parking_lot::Mutex;

use crate::environment;
use crate::failure::Failure;
use crate::mapping::Mapping;
use crate::process::{self, PROCESS, Process};
use crate::progress;

/// What the launcher gave, while no node could be opened.
static PLACE: Mutex<KeptPlace> = Mutex::new(KeptPlace::empty());

/// Run `work` with the process's node. The first call opens it.
pub(crate) fn open<T>(work: impl FnOnce(&mut Process) -> Result<T, Failure>) -> Result<T, Failure> {
    process::not_in_child()?;
    let mut slot = PROCESS.lock();
    if let Some(process) = slot.as_mut() {
        return work(process);
    }
    // Before the node opens: a child that is forked while it opens inherits `PROCESS` locked, and no thread of the child unlocks it.
    let owner = Owner::new().map_err(|error| Failure::io(&error, "no memory"))?;
    let mut place = PLACE.lock();
    let (dp, waker) = match start(&mut place) {
        Err(failure) if failure.errno == Errno::EMFILE && process::raise_limit() => start(&mut place)?,
        started => started?,
    };
    work(slot.insert(Process::new(dp, place.take(), waker, NodeOwner::new(owner))))
}

fn start(place: &mut KeptPlace) -> Result<(Dp<Mapping>, Arc<Waker>), Failure> {
    let (node, nodes) = environment::open(place)?;
    let dp = Dp::new(node, nodes)?;
    let waker = Arc::new(Waker::new().map_err(|error| Failure::io(&error, "no descriptor"))?);
    progress::start(&dp, waker.clone())?;
    at_exit(progress::finish);
    Ok((dp, waker))
}
