//! Nodes on simulated networks, each run from its seed.

mod conformance;
mod coverage;
mod crowd;
mod damage;
mod incast;
mod members;
mod mutants;
mod nodes;
mod reordering;
mod seeds;
mod strangers;
