//! What tests of several modules use.

use am_wire::Address;

use crate::chunk_layout::{ChunkLayout, Writer};
use crate::interface::Interface;
use crate::options::MultiBuffer;

/// The interface `eth1`.
pub(crate) fn interface(driver: &str, mtu: u32) -> Interface {
    let (name, driver) = ("eth1".to_owned(), driver.to_owned());
    Interface { name, index: 2, mtu, address: Address([2, 0, 0, 0, 0, 1]), driver, queues: None }
}

pub(crate) fn cut(mtu: u32, writer: Writer) -> ChunkLayout {
    ChunkLayout::new(&interface("igb", mtu), writer, MultiBuffer::IfNeeded)
}
