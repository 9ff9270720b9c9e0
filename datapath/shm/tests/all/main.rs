//! Members of a segment in this process, and in others.

#[path = "../link/mod.rs"]
mod link;

mod conformance;
mod errors;
mod leave;
mod liar;
mod members;
mod processes;
