//! Where the two sides run, and how they find each other.

pub(crate) mod child;
pub(crate) mod link;
pub(crate) mod machines;
pub(crate) mod open;
pub(crate) mod pipe;
pub(crate) mod processes;
pub(crate) mod sides;
pub(crate) mod threads;
pub(crate) mod veth;

use std::time::Duration;

use am_wire::control::Control;
use am_wire::frame::ETHERNET_HEADER;

/// How long to wait for an answer to a plan.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The smallest MTU that carries a node.
const MIN_MTU: u32 = (Control::MAX_FRAME - ETHERNET_HEADER) as u32;
