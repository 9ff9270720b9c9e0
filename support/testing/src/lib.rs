//! What the tests of several crates share. A test program names the modules that it uses:
//!
//! ```ignore
//! use am_testing::{common, doomed};
//! ```

#[allow(missing_docs, clippy::new_without_default, reason = "tests")]
pub mod amd;
pub mod busy_server;
pub mod c_program;
pub mod common;
pub mod control_frame;
pub mod cut;
pub mod directed_point;
pub mod doomed;
pub mod example;
pub mod idling;
pub mod installed;
pub mod lab;
pub mod least;
pub mod mortal;
pub mod own_loop;
pub mod page;
pub mod wires;
