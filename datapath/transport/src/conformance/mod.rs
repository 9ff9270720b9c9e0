//! The conformance suite. A new backend is done when it passes.
//!
//! [`run`] gets a function that opens two ends of a link. It opens a fresh pair for each check, and reports the checks by
//! name. A promise that the transport's [`Caps`](crate::Caps) do not make is not checked, and the report says so. All other
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
//! | `caps.rs` | the description: caps, counters |
//! | `delivery.rs` | delivery: sizes, order, loss, both directions, broadcast |
//! | `steering.rs` | steering: unknown flows, other hosts, malformed frames |
//! | `limits.rs` | full queues and budgets |
//! | `memory.rs` | ownership of frames: shared, kept, returned after closing; no allocation |

mod caps;
mod delivery;
mod frames;
mod limits;
mod memory;
mod pair;
mod report;
mod steering;

pub use pair::Pair;
pub use report::{CheckFailure, CheckResult, Report};

/// A check of one promise, on a pair.
type Check = fn(Pair) -> Result<CheckResult, CheckFailure>;

macro_rules! checks {
    ($($module:ident :: $name:ident,)*) => {
        const CHECKS: &[(&str, Check)] = &[$((stringify!($name), $module::$name),)*];
    };
}

checks! {
    caps::caps_are_sane,
    caps::counters_have_names_and_grow,
    delivery::frames_of_every_size_arrive_intact,
    delivery::frames_arrive_in_order,
    delivery::nothing_is_lost_or_doubled,
    delivery::both_ends_send_at_once,
    delivery::broadcast_reaches_the_other_end_only,
    steering::unknown_flows_are_dropped_and_counted,
    steering::steering_follows_the_flows,
    steering::frames_for_others_are_not_seen,
    steering::garbage_is_dropped_and_counted_by_reason,
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
    let mut report = Report::of(make().near.caps());
    for name in names() {
        report.add(name, check(name, make(), &allocations));
    }
    report
}

/// Run one check of the suite, by name.
///
/// # Errors
/// The check failed, or there is no check of this name.
pub fn check(
    name: &str,
    pair: Pair,
    allocations: impl Fn(&mut dyn FnMut()) -> u64,
) -> Result<CheckResult, CheckFailure> {
    if name == ALLOCATIONS {
        return memory::nothing_is_allocated_after_open(pair, &allocations);
    }
    match CHECKS.iter().find(|(its, _)| *its == name) {
        Some((_, check)) => check(pair),
        None => Err(CheckFailure(format!("there is no check `{name}`"))),
    }
}
