//! **The papers' tables**, measured again: each module states a table or a figure of a paper, and fills it.
//!
//! | module | paper |
//! | --- | --- |
//! | [`ablation`] | Fast Messages 1.0, table 4: the cost of each layer |
//! | [`bounce`] | Fast Messages 1.0, return to sender: the round trip of a rejected request |
//! | [`logp`] | AM-II, figure 5: the LogP parameters |
//! | [`contention`] | AM-II, figures 7 to 11: many clients and one server |
//! | [`permute`] | AM-II, table 1: permutations |
//! | [`scale`] | a group with more and more members |
//! | [`phases`] | Directed Point, section 6.3: the phases of a message |
//! | [`table2`] | Directed Point, table 2: round trip and bandwidth |
#![forbid(unsafe_code)]

pub mod ablation;
pub mod bounce;
pub mod contention;
pub mod logp;
mod many;
pub mod permute;
pub mod phases;
pub mod scale;
pub mod table2;
