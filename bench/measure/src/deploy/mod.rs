//! Where the two sides run, and how they find each other.

pub mod child;
pub mod link;
pub mod machines;
pub mod open;
pub mod pipe;
pub mod processes;
pub mod sides;
pub mod threads;
pub mod veth;

use std::time::Duration;

use am_wire::control::Control;
use am_wire::frame::ETHERNET_HEADER;

/// How long to wait for an answer to a plan.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The smallest MTU that carries a node.
const MIN_MTU: u32 = (Control::MAX_FRAME - ETHERNET_HEADER) as u32;
