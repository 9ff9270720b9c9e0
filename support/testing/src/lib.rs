//! What the tests of several crates share. A test program names the modules that it uses:
//!
//! ```ignore
//! use am_testing::{common, doomed};
//! ```

pub mod busy_server;
pub mod common;
pub mod control_frame;
pub mod cut;
pub mod doomed;
pub mod example;
pub mod idling;
pub mod least;
pub mod mortal;
pub mod own_loop;
pub mod page;
pub mod wires;
