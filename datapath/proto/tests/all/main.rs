//! The core against itself and against forged frames, on a simulated wire, with a clock that the tests move.

mod address_conflicts;
mod answered;
mod cable;
mod close;
mod coalesced;
mod descheduled;
mod forged;
mod forger;
mod garbage;
mod harness;
mod length;
mod many_peers;
mod members;
mod no_handler;
mod notices;
mod order;
mod path_latency;
mod random_stranger;
mod rate_limits;
mod refused;
mod returns;
mod scenarios;
mod unknown_flows;
mod unreached;
