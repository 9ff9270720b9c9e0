//! The core against itself and against forged frames, on a simulated wire, with a clock that the tests move.

mod answered;
mod away;
mod blind;
mod bundles;
mod cable;
mod claims;
mod farewell;
mod forged;
mod forger;
mod garbage;
mod harness;
mod leaving;
mod length;
mod many_peers;
mod order;
mod refused;
mod returns;
mod sparing;
mod story;
mod stuck;
mod unknown_flows;
mod way;
