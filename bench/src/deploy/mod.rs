//! Where the two sides run, and how they find each other.

mod anchor;
pub(crate) mod child;
pub(crate) mod far;
pub(crate) mod joined;
pub(crate) mod loopback;
mod message;
pub(crate) mod pipe;
pub(crate) mod sides;
pub(crate) mod simulated;
mod threads;
pub(crate) mod veth;
pub(crate) mod wire;

use std::time::Duration;

use am_wire::control::Control;
use am_wire::frame::ETHERNET;

/// How long to wait for an answer to a plan.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// The smallest MTU that carries a node.
const LEAST_MTU: u32 = (Control::LONGEST_FRAME - ETHERNET) as u32;
