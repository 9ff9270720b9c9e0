//! **What am-bench measures with**: hosts and wires, drivers, the loops of a measurement, sessions of both sides, statistics and
//! reports.
//!
//! ```text
//!   run ─▶ topology ─▶ deploy ─▶ session ─▶ loops::{latency, throughput, logp} ─▶ channel ◀─ drivers::{am, raw, udp, ..}
//!                                                        ▲                          │
//!                                    loops::far ─────────┘ control messages ────────┘
//!   stats, sweep ─▶ report: table, JSON;  chart: SVG
//! ```
//!
//! Read first: `channel`, then `loops` (one measurement), then `session` (all measurements of a run).
#![forbid(unsafe_code)]

mod channel;
pub mod chart;
mod check;
mod content;
mod cores;
pub mod deploy;
mod driver;
pub mod drivers;
mod error;
pub mod hosts;
mod loops;
mod loss;
pub mod members;
pub mod options;
pub mod out;
pub mod paper;
mod plan;
pub mod report;
pub mod rights;
mod run;
pub mod sandbox;
mod session;
mod size;
mod spread;
mod stats;
pub mod sweep;
mod topology;
mod watch;

pub use channel::SpinWait;
pub use check::{Check, changed};
pub use cores::{Cores, CoresArg, pin};
pub use driver::Driver;
pub use error::Error;
pub use loops::latency::{Latency, RoundTrips, round_trips, together};
pub use loops::logp::LogP;
pub use loops::throughput::Throughput;
pub use loss::Loss;
pub use out::Progress;
pub use plan::{Amount, Batching, Bench, DriverOptions, FramingArg, Side, XdpArg};
pub use run::{Common, Run, own_link};
pub use session::{Order, Session, Setup};
pub use size::{MessageLayout, Size, swept, with_unit};
pub use spread::{Spread, grouped, median, median_of, quantile, shares};
pub use stats::{Measured, Outcome, Rates, measured};
pub use topology::{End, Here, HostsArg, Place, Topology, own_core};
pub use watch::Watch;
