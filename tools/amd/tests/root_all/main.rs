//! The daemon on AF_XDP, with exactly the rights that its unit gives it, and programs of other users. Needs root.
#![allow(missing_docs, reason = "tests")]

use am_testing::amd::{common, intruder, scribbler};

mod access;
mod folder;
mod hostile_user;
mod interface;
mod namespaces;
mod queues;
mod unit;
mod users;
