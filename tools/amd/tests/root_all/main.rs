//! The daemon on AF_XDP, with exactly the rights that its unit gives it, and programs of other users. Needs root.
#![allow(missing_docs, reason = "tests")]

#[path = "../by_hand/mod.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod by_hand;
#[path = "../all/common.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod common;
#[path = "../all/intruder.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod intruder;
#[path = "../all/scribbler.rs"]
mod scribbler;

mod access;
mod folder;
mod hostile_user;
mod interface;
mod namespaces;
mod queues;
mod unit;
mod users;
