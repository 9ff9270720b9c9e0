//! What both sides call things.

use std::time::Duration;

use am_api::{HandlerId, RegionId};

/// The server's endpoint, and the one that can be full.
pub(crate) const MAIN: &str = "verify";
pub(crate) const FULL: &str = "full";

/// Requests: echo this;
pub(crate) const ECHO: HandlerId = HandlerId(0);
/// compare the region's first bytes: number, length; the answer is 1 where they are right;
pub(crate) const COMPARE: HandlerId = HandlerId(1);
/// fill them: number, length; the answer is 1;
pub(crate) const FILL: HandlerId = HandlerId(2);
/// take nothing out of the endpoint that can be full, for a while, and then [`OPEN`] or [`CLOSE`] it;
pub(crate) const SHUT: HandlerId = HandlerId(3);
/// the end.
pub(crate) const BYE: HandlerId = HandlerId(4);

/// Take messages out again; or never more.
pub(crate) const OPEN: u64 = 0;
pub(crate) const CLOSE: u64 = 1;
pub(crate) const WHILE: Duration = Duration::from_millis(1500);

/// Replies: an echo; what arrived was wrong: its number; an answer.
pub(crate) const SAME: HandlerId = HandlerId(0);
pub(crate) const SPOILT: HandlerId = HandlerId(1);
pub(crate) const ANSWER: HandlerId = HandlerId(2);

/// The server's region: the first of its node.
pub(crate) const REGION: RegionId = RegionId(1);
pub(crate) const REGION_BYTES: usize = 1 << 20;

/// The server's frames for what waits to be handled: fewer than its senders have credit for.
pub(crate) const ROOM: usize = 64;
