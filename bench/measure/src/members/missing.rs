//! What was not measured.

use serde_json::{Value, json};

use crate::error::Error;

/// A peer that is not there, or a turn, or a part of it, that failed.
#[derive(Debug)]
pub struct Missing {
    /// The first one is 0. A peer that is not there has none.
    round: Option<usize>,
    what: String,
    why: String,
}

impl Missing {
    /// A peer that cannot run here.
    pub fn peer(what: &str, why: &str) -> Missing {
        Missing { round: None, what: what.to_owned(), why: why.to_owned() }
    }

    /// A part of a round that failed.
    pub fn part(round: usize, what: String, why: String) -> Missing {
        Missing { round: Some(round), what, why }
    }

    /// A turn has ended like this. One that fails is noted, because it must not stop the others.
    ///
    /// # Errors
    /// No turn can be measured.
    pub fn note(all: &mut Vec<Missing>, round: usize, what: String, end: Result<(), Error>) -> Result<(), Error> {
        match end {
            Err(why @ (Error::Lost(_) | Error::Refused(_) | Error::PeerGone(_))) => {
                all.push(Missing::part(round, what, why.to_string()));
                Ok(())
            }
            end => end,
        }
    }

    /// For the table.
    pub fn sentence(&self) -> String {
        let round = self.round.map_or(String::new(), |round| format!(" in round {}", round + 1));
        format!("  not measured{round}: {}: {}", self.what, self.why)
    }

    /// For the summary.
    pub fn json(&self) -> Value {
        json!({ "what": self.what, "round": self.round.map(|round| round + 1), "why": self.why })
    }
}
