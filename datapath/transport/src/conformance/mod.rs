//! The conformance suite. A new backend is done when it passes.
//!
//! [`run`] gets a function that opens two ends of a link. It opens a fresh pair for each check, and reports the checks by
//! name. A promise that the transport's [`Caps`] do not make is not checked, and the report says so. All other
//! checks hold on a lossy link too: they send lost frames again.
//!
//! ```
//! use am_transport::{conformance::{self, Pair}, loopback};
//!
//! let make = || {
//!     let mut ends = loopback::wire(2).into_iter().map(|plug| plug.open().unwrap());
//!     Pair::new(ends.next().unwrap(), ends.next().unwrap())
//! };
//! // In a test target: the number of allocations that the closure makes.
//! let allocations = |run: &mut dyn FnMut()| { run(); 0 };
//! conformance::run(make, allocations).assert_passed();
//! ```
//!
//! | file | what it checks |
//! | --- | --- |
//! | `delivery.rs` | delivery: sizes, order, loss, both directions, broadcast |
//! | `steering.rs` | steering: unknown flows, other hosts, malformed frames |
//! | `limits.rs` | the description (caps, counters), full queues, budgets |
//! | `added.rs` | added addresses: their frames arrive, whatever their flow, until they are removed |
//! | `sleep.rs` | the descriptors to wait on |
//! | `memory.rs` | ownership of frames: shared, kept, returned after closing; no allocation |

mod added;
mod delivery;
mod frames;
mod limits;
mod memory;
mod pair;
mod sleep;
mod steering;

use std::fmt;

pub use pair::Pair;

use crate::{Caps, TransportExt};

/// A check that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The check passed.
    Passed,
    /// The transport's caps do not promise it.
    NotPromised,
}

/// Why a check failed: the expected and the actual behaviour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CheckFailure(pub String);

/// Return a [`CheckFailure`] unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::conformance::CheckFailure(format!($($why)+)));
        }
    };
}
use ensure;

/// Every check of the suite, with its result.
#[derive(Clone, Debug)]
#[must_use = "a report may contain failures"]
pub struct Report {
    /// Name and mode of the transport.
    pub transport: String,
    /// Name and result of each check, in the order in which they ran.
    pub checks: Vec<(&'static str, Result<CheckResult, CheckFailure>)>,
}

impl Report {
    /// Names of the checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &'static str> {
        self.checks.iter().filter(|(_, result)| result.is_err()).map(|(name, _)| *name)
    }

    /// Assert that every check passed.
    ///
    /// # Panics
    /// A check failed. The message is the whole report.
    pub fn assert_passed(&self) {
        assert!(self.failed().next().is_none(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance of {}", self.transport)?;
        for (name, result) in &self.checks {
            match result {
                Ok(CheckResult::Passed) => writeln!(f, "  ok            {name}")?,
                Ok(CheckResult::NotPromised) => writeln!(f, "  not promised  {name}")?,
                Err(why) => writeln!(f, "  FAILED        {name}: {why}")?,
            }
        }
        Ok(())
    }
}

/// The result of a check of a promise that is made.
type Checked = Result<(), CheckFailure>;

macro_rules! checks {
    ($($module:ident :: $name:ident,)*) => {
        const CHECKS: &[(&str, fn(Pair) -> Checked)] = &[$((stringify!($name), $module::$name),)*];
    };
}

checks! {
    limits::caps_are_sane,
    limits::counters_have_names_and_grow,
    delivery::frames_of_every_size_arrive_intact,
    delivery::frames_arrive_in_order,
    delivery::nothing_is_lost_or_doubled,
    delivery::both_ends_send_at_once,
    delivery::broadcast_reaches_the_other_end_only,
    steering::unknown_flows_are_dropped_and_counted,
    steering::steering_follows_the_flows,
    steering::frames_for_others_are_not_seen,
    steering::garbage_is_dropped_and_counted_by_reason,
    added::an_added_address_is_served_until_it_is_removed,
    added::added_addresses_are_bounded,
    sleep::a_frame_wakes_a_sleeper,
    limits::receive_honours_its_budget,
    limits::an_idle_link_gives_nothing,
    limits::a_full_transport_leaves_the_frame_alone,
    memory::a_shared_frame_can_be_sent_and_comes_back,
    memory::frames_that_are_kept_do_not_stop_it,
    memory::frames_outlive_their_transport,
    memory::every_frame_comes_home,
}

/// The check that needs a counting allocator.
const ALLOCATIONS: &str = "nothing_is_allocated_after_open";

/// The names of all checks, in the order in which they run.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|(name, _)| *name).chain([ALLOCATIONS])
}

/// Run the suite. `make` opens the two ends of a link. `allocations` runs a closure, and returns how many allocations it made
/// on this thread, by a counting allocator of the test target.
pub fn run(mut make: impl FnMut() -> Pair, allocations: impl Fn(&mut dyn FnMut()) -> u64) -> Report {
    let Caps { name, mode, .. } = make().near.caps().clone();
    let checks = names().map(|name| (name, check(name, make(), &allocations))).collect();
    Report { transport: format!("{name} ({mode})"), checks }
}

/// Run one check of the suite, by name.
///
/// # Errors
/// The check failed, or there is no check of this name.
pub fn check(
    name: &str,
    mut pair: Pair,
    allocations: impl Fn(&mut dyn FnMut()) -> u64,
) -> Result<CheckResult, CheckFailure> {
    if !is_promised(name, &mut pair) {
        return Ok(CheckResult::NotPromised);
    }
    let checked = match CHECKS.iter().find(|(its, _)| *its == name) {
        Some((_, check)) => check(pair),
        None if name == ALLOCATIONS => memory::nothing_is_allocated_after_open(pair, &allocations),
        None => Err(CheckFailure(format!("there is no check `{name}`"))),
    };
    checked.map(|()| CheckResult::Passed)
}

/// Whether the transport promises what a check looks at: by its caps, or by accepting an added address.
fn is_promised(name: &str, pair: &mut Pair) -> bool {
    let Caps { ordered, reliable, ref wake, .. } = *pair.near.caps();
    match name {
        "frames_arrive_in_order" => ordered,
        "nothing_is_lost_or_doubled" => reliable,
        "a_frame_wakes_a_sleeper" => wake.is_some(),
        _ if name.contains("added_address") => pair.far.add_address(added::ADDED).is_ok(),
        _ => true,
    }
}
