//! Fan-out, over simulated networks, and its example.

mod examples;
mod fan_out;
