//! Text files that a user names. Other programs include this file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The longest file.
const MAX_FILE: u64 = 1 << 20;

/// A device may have no end. A FIFO may have no writer, and opening it would wait; standard input and `<(command)` are open already.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let is_open = ["/dev/stdin", "/dev/fd", "/proc"].iter().any(|open| path.starts_with(open));
    if !is_open && fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("it is a FIFO: write `<(cat FIFO)`, or a file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE { Err(io::Error::other("it has more than 1 MiB")) } else { Ok(text) }
}
