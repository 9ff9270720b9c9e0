//! Turns of the loop.

mod host;
mod time;
mod turn;
