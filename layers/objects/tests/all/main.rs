//! Objects of processes on one machine.

mod common;
mod guards;
mod members;
mod programs;
mod space;
