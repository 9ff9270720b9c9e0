//! Files that dp-graph writes while the job runs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// An open file. Its errors contain its name.
pub(crate) struct Stream {
    path: PathBuf,
    file: File,
}

impl Stream {
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(path: &Path) -> Result<Stream, String> {
        let file = create(path).map_err(|why| named(path, &why))?;
        Ok(Stream { path: path.to_owned(), file })
    }

    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), String> {
        self.file.write_all(text.as_bytes()).map_err(|why| named(&self.path, &why))
    }
}

/// A file that shows the latest text.
pub(crate) enum Latest {
    /// A regular file. Each text is written to the second path and renamed to the first, so that no reader sees a part of it.
    Replaced(PathBuf, PathBuf),
    /// A device or a pipe gets one text after the other, because a rename would replace it by a file.
    Stream(Stream),
}

impl Latest {
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(path: &Path) -> Result<Latest, String> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Stream::open(path).map(Latest::Stream);
        }
        let mut new = path.to_owned().into_os_string();
        new.push(".new");
        let new = PathBuf::from(new);
        create_new(&new).map_err(|why| named(path, &why))?;
        Ok(Latest::Replaced(path.to_owned(), new))
    }

    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), String> {
        match self {
            Latest::Stream(stream) => stream.write(text),
            Latest::Replaced(path, new) => create_new(new)
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .and_then(|()| fs::rename(new, &path))
                .map_err(|why| named(path, &why)),
        }
    }
}

/// Create a file whose name others may guess: remove an existing file of this name, and follow no link.
fn create_new(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => File::create_new(path),
    }
}

/// Open a file for writing. Opening a FIFO would wait for a reader, so a FIFO without a reader is an error.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file = options.open(path).map_err(|why| {
        let is_fifo = fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo());
        let has_no_reader = is_fifo && why.raw_os_error() == Some(Errno::ENXIO as i32);
        if has_no_reader { io::Error::other("it is a FIFO without a reader: start the reader first") } else { why }
    })?;
    // From now on a full pipe makes this program wait, as standard output does.
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(file)
}

fn named(path: &Path, why: &io::Error) -> String {
    format!("{}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn the_latest_text_replaces_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("live.dot");
        let mut latest = Latest::open(&path).unwrap();
        assert!(!path.exists(), "half a file");
        for text in ["a longer text", "text"] {
            latest.write(text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    /// In a directory where others can write, one may have put a link in the place of the second file.
    #[test]
    fn a_link_in_the_place_of_the_second_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("live.dot"), directory.path().join("other"));
        fs::write(&other, "of another").unwrap();
        let link = || std::os::unix::fs::symlink(&other, directory.path().join("live.dot.new")).unwrap();
        link();
        let mut latest = Latest::open(&path).unwrap();
        fs::remove_file(directory.path().join("live.dot.new")).unwrap();
        link();
        latest.write("text").unwrap();
        assert_eq!([&path, &other].map(|path| fs::read_to_string(path).unwrap()), ["text", "of another"]);
    }

    #[test]
    fn a_fifo_needs_a_reader_and_gets_all_texts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        for error in [Latest::open(&path).err(), Stream::open(&path).err()] {
            assert!(error.unwrap().contains("fifo: it is a FIFO without a reader"));
        }
        let mut options = OpenOptions::new();
        let mut reader = options.read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path).unwrap();
        let mut latest = Latest::open(&path).unwrap();
        ["one", "two"].iter().for_each(|text| latest.write(text).unwrap());
        let mut text = [0; 6];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"onetwo");
        drop(reader);
        assert!(latest.write("three").unwrap_err().contains("Broken pipe"));
    }
}
