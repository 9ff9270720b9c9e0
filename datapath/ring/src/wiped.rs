//! Memory whose first page the kernel clears in every process that is forked from this one.

use std::io;
use std::ptr::NonNull;

use crate::mapping::Mapping;

/// A page that is cleared in forked children, and memory behind it that is not. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct WipedPage {
    memory: Mapping,
    page: usize,
}

impl WipedPage {
    /// Bytes at the end of the first page that its owner may use.
    pub(crate) const ROOM: usize = 64;

    /// Map a page, and this many bytes behind it.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(behind: usize) -> io::Result<WipedPage> {
        let page = Mapping::page_size();
        let memory = Mapping::private(page + behind.next_multiple_of(page))?;
        memory.wipe_in_children(page)?;
        Ok(WipedPage { memory, page })
    }

    /// The end of the first page, and the start of the memory behind it.
    pub(crate) fn end(&self) -> NonNull<u8> {
        // SAFETY: the mapping has at least that page.
        unsafe { self.memory.base().add(self.page) }
    }
}
