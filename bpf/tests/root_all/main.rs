//! The programs in the kernel. Needs root.
#![allow(unsafe_code)]

mod attach;
mod bounce;
mod cable;
mod copies;
mod differential;
mod gate;
mod process;
mod sequence;
mod share;
mod twins;
mod variants;
