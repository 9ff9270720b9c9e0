//! Objects of processes on one machine.

mod common;
mod guards;
mod members;
mod placement;
mod programs;
mod space;
