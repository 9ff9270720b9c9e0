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
//! Read first: [`channel`], then [`loops`] (one measurement), then [`session`] (all measurements of a run).
#![forbid(unsafe_code)]

pub mod batching;
pub mod channel;
pub mod chart;
pub mod content;
pub mod cores;
pub mod deploy;
pub mod driver;
pub mod drivers;
pub mod error;
pub mod files;
pub mod hosts;
pub mod loops;
pub mod loss;
pub mod options;
pub mod origin;
pub mod out;
pub mod plan;
pub mod progress;
pub mod report;
pub mod rights;
pub mod run;
pub mod session;
pub mod size;
pub mod spread;
pub mod stats;
pub mod sweep;
pub mod topology;
pub mod values;
pub mod watch;
pub mod wire;
