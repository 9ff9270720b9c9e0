//! Text files that a user names: tables of peers and nodes, keys, rules, lists of hosts, graphs.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The longest file, in MiB: a line each for as many nodes as a network can have.
const MAX_MIB: u64 = 16;

/// The text of a file.
///
/// # Errors
/// It cannot be read, is too long, or is no text.
pub fn read(path: &Path) -> io::Result<String> {
    text(open(path)?)
}

/// A FIFO may have no writer, and opening it would wait; standard input and `<(command)` are open already.
pub fn open(path: &Path) -> io::Result<File> {
    let is_open = ["/dev/stdin", "/dev/fd", "/proc"].iter().any(|open| path.starts_with(open));
    if !is_open && fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("it is a FIFO: write `<(cat FIFO)`, or a file"));
    }
    File::open(path)
}

/// A device may have no end.
pub fn text(file: File) -> io::Result<String> {
    let mut bytes = vec![];
    file.take((MAX_MIB << 20) + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_MIB << 20 {
        return Err(io::Error::other(format!("it has more than {MAX_MIB} MiB")));
    }
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text: a byte of it is not UTF-8"))
}
