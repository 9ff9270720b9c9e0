//! Objects of processes on one machine.

mod common;
mod endings;
mod guards;
mod helper;
mod joins;
mod members;
mod misuse;
mod placement;
mod programs;
mod space;
