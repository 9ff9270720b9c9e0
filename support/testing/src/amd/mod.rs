//! What the tests of the daemon and the fuzz targets share: programs that obey the daemon's protocol, or do not.

pub mod by_hand;
pub mod checks;
pub mod common;
pub mod intruder;
pub mod lanes;
pub mod scribbler;
