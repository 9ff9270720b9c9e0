//! dp-graph with programs that write reports by hand, and wrong arguments. (bindings/dp has tests with real ones.)

mod arguments;
mod ends;
mod job;
mod jobs;
