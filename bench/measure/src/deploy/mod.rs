//! Where the two sides run, and how they find each other.

pub mod child;
pub(crate) mod link;
pub mod machines;
mod processes;
mod sides;
pub(crate) mod threads;
pub(crate) mod veth;

use std::time::Duration;

use am_wire::control::Control;
use am_wire::frame::ETHERNET_HEADER;

pub use child::{Far, Group, Lines, write_line};
pub use link::{is_interface, open};
pub use processes::{LocalTransport, TransportPair};
pub use sides::Sides;
pub use veth::{ADDRESSES, INTERFACE, Pair, WireRate, check_mtu, interfaces};

/// How long to wait for an answer to a plan.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The smallest MTU that carries a node.
const MIN_MTU: u32 = (Control::MAX_FRAME - ETHERNET_HEADER) as u32;
