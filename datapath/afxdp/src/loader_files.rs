//! The descriptors that the BPF loader opens, and closes by number. They are known by marks, as the library's own are ([`am_ring::own`]): where
//! the program has closed one of them, none of them is closed any more, since another file may have its number.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use am_bpf::Attachment;
use am_ring::own::{Own, above_low_numbers};

/// Descriptors of the loader's. Drop it before what closes them.
#[derive(Debug, Default)]
pub(crate) struct LoaderFiles(Vec<Own<BorrowedFd<'static>>>);

impl LoaderFiles {
    /// Run what makes the loader open some, one call at a time.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn of<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(LoaderFiles, T), E> {
        let before = all();
        let done = above_low_numbers(work)?;
        let mut files = LoaderFiles::default();
        all().into_iter().filter(|number| !before.contains(number)).for_each(|number| files.add(number));
        Ok((files, done))
    }

    /// As [`of`](Self::of), for an attachment.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn of_attachment<E>(
        work: impl FnOnce() -> Result<Attachment, E>,
    ) -> Result<(LoaderFiles, Attachment), E> {
        let (mut files, attachment) = LoaderFiles::of(work)?;
        attachment.socket().into_iter().for_each(|socket| files.add(socket.as_raw_fd()));
        Ok((files, attachment))
    }

    /// Add those that the loader has opened later.
    pub(crate) fn append(&mut self, mut later: LoaderFiles) {
        self.0.append(&mut later.0);
    }

    fn add(&mut self, number: RawFd) {
        // SAFETY: no more than its mark is asked of it, which harms no file.
        self.0.push(Own::new(unsafe { BorrowedFd::borrow_raw(number) }));
    }

    /// Whether the program has closed any.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.iter().any(Own::is_lost)
    }
}

/// The process's programs, maps, links and types. None where `/proc` is not mounted: then the high numbers alone protect them.
fn all() -> BTreeSet<RawFd> {
    let is_bpf = |file: &fs::DirEntry| {
        let kind = fs::read_link(file.path()).unwrap_or_default();
        kind.to_str().is_some_and(|kind| kind.starts_with("anon_inode:bpf") || kind == "anon_inode:btf")
    };
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    open.filter(is_bpf).filter_map(|file| file.file_name().to_str()?.parse().ok()).collect()
}
