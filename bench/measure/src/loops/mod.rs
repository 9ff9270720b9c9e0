//! One measurement, with the same loops for every driver.
//!
//! ```text
//!   near                                        far
//!    │ Hello {bench, size, times} ─────────────▶│  repeated until answered
//!    │◀────────────────────────────────── Ready │
//!    │ data ───────────────────────────────────▶│
//!    │◀──────────── data (latency) · Got (flow, losses) │  a driver with no flow control gets a window
//!    │◀────────────── Counted {messages, bytes} │  not for latency: the receiver's own interval
//!    │ HowMany {sent} ─────────────────────────▶│  until all has come, or no more does:
//!    │◀───────────────────────── Got {messages} │  only then is something lost
//!    │ Stop ───────────────────────────────────▶│
//!    │◀──────────────── Stopped {in all, wrong} │
//!    ╎ … next size …                            ╎
//!    │ End ────────────────────────────────────▶│  next driver; GiveUp: no more at all
//!    │◀────────────────────────────────── Ended │
//! ```
//!
//! Read first: [`Channel`](crate::channel::Channel), then [`OpenDriver`] in `latency`, `throughput`, `logp` and `far`.

mod far;
pub(crate) mod latency;
pub(crate) mod logp;
mod steps;
pub(crate) mod throughput;

#[cfg(test)]
pub(crate) mod fake;

pub(crate) use steps::{CONFIRM_TIME, OpenDriver};
