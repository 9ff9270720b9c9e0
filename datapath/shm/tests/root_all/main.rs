//! What needs two users, or a file system of its own. Needs root.

#[path = "../link/mod.rs"]
mod link;

mod denied;
mod space;
