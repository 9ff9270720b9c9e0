//! The programs in the kernel. Needs root.

mod attach;
mod bounce;
mod cable;
mod differential;
mod gate;
mod process;
mod share;
mod twins;
mod variants;
