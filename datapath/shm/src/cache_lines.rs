//! Cache lines that two processes share, with nothing above them: the baseline for frames through shared memory. This
//! is not a transport, and not for applications.

use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU32;

use crate::map::MappedFile;

/// Two cache lines, because processors fetch them in pairs.
const STRIDE: usize = 128;

/// Shared cache lines, far enough apart, with words in each.
///
/// ```
/// use std::sync::atomic::Ordering::Relaxed;
///
/// let path = std::env::temp_dir().join(format!("am-lines-{}", std::process::id()));
/// let mine = am_shm::CacheLines::make(&path, 2)?;
/// let theirs = am_shm::CacheLines::take(&path, 2)?;
/// mine.word(1, 0).store(7, Relaxed);
/// assert_eq!(theirs.word(1, 0).load(Relaxed), 7);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct CacheLines(MappedFile);

impl CacheLines {
    /// Words of a line.
    pub const WORDS: usize = 16;

    /// Make lines, all zero, in a new file of this path that only this user may open.
    ///
    /// # Errors
    /// The system's; the file exists.
    pub fn make(path: &Path, lines: usize) -> io::Result<CacheLines> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let made = file.set_len((lines * STRIDE) as u64).and_then(|()| CacheLines::over(&file, lines));
        made.inspect_err(|_| _ = remove_file(path))
    }

    /// Map the lines of another process, and remove their file: no third process has to find it.
    ///
    /// # Errors
    /// The system's; the file does not exist, or is too short.
    pub fn take(path: &Path, lines: usize) -> io::Result<CacheLines> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < (lines * STRIDE) as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let lines = CacheLines::over(&file, lines)?;
        remove_file(path)?;
        Ok(lines)
    }

    fn over(file: &File, lines: usize) -> io::Result<CacheLines> {
        let memory = MappedFile::new(file, lines * STRIDE, false)?;
        memory.populate(0, lines * STRIDE)?;
        Ok(CacheLines(memory))
    }

    /// A word of a line.
    ///
    /// # Panics
    /// The line or the word does not exist.
    #[inline]
    pub fn word(&self, line: usize, word: usize) -> &AtomicU32 {
        assert!(word < CacheLines::WORDS, "no word {word} in a line");
        self.0.memory.word(line * STRIDE + word * size_of::<u32>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_lines_removes_the_file_and_a_short_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        let _mine = CacheLines::make(&path, 2).unwrap();
        assert_eq!(CacheLines::make(&path, 2).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(CacheLines::take(&path, 3).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        CacheLines::take(&path, 2).unwrap();
        assert!(!path.exists());
        assert_eq!(CacheLines::take(&path, 2).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
