//! The two sides of a measurement.

use serde::{Deserialize, Serialize};

/// Which of the two sides this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Side {
    /// The side that asks.
    Near,
    /// The side that answers.
    Far,
}
