//! Turns of the loop.

mod address;
mod host;
mod time;
mod turn;
