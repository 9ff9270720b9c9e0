//! Members of a segment in this process, and in others.

#[path = "../link/mod.rs"]
mod link;

mod conformance;
mod errors;
mod liar;
mod members;
mod processes;
