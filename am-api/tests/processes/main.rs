//! Processes that are stopped, killed and restarted: they count on processors, so they are apart from other tests.

use am_testing::{common, doomed};

mod signals;
mod sleeps;
