//! Groups over transports of several kinds: in one process, and as programs that are stopped and killed.

mod nodes;
mod programs;
