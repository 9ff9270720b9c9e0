//! The process's part of a graph.

use std::ffi::{CString, c_int};

use am_dp::Dpid;

/// What `dp_graph` leaves in the process.
#[derive(Debug)]
pub(crate) struct Vertex {
    /// How many the graph has.
    pub(crate) vertices: c_int,
    /// This one's name.
    pub(crate) name: CString,
    /// Where its edges leave, in the order of the graph.
    pub(crate) out: Vec<Dpid>,
    /// Where edges arrive.
    pub(crate) into: Vec<Dpid>,
}
