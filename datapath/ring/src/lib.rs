//! **The only shared memory.** (page to come)

mod frame;
mod heap;
mod layout;
mod owner;
mod pool;
mod raw;
mod region;
mod remote;
mod slot;
mod sync;

pub use frame::Frame;
pub use layout::{Layout, LayoutError};
pub use pool::Pool;
pub use raw::RawFrame;
