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
mod returns;
mod sparing;
mod story;
mod strays;
mod stuck;
mod way;
