//! Checks of the files that are written at the end.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::error::Error;

/// Whether both paths name one file, which need not exist yet.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let place = |file: &Path| {
        let place = || Some(directory(file).canonicalize().ok()?.join(file.file_name()?));
        file.canonicalize().ok().or_else(place).unwrap_or_else(|| file.to_owned())
    };
    place(one) == place(other)
}

/// Check before the measurements that a file can be written after them.
pub fn check_file(option: &str, file: Option<&Path>) -> Result<(), Error> {
    let Some(file) = file else { return Ok(()) };
    let unusable = |what: &str| Err(Error::Usage(format!("{option} {} cannot be written{what}", file.display())));
    if file.is_dir() || !directory(file).is_dir() {
        return unusable(": name a file in a directory that exists");
    }
    match try_to_write(file) {
        Ok(()) => Ok(()),
        Err(why) => unusable(&format!(", {why}: name a file where this user may write")),
    }
}

/// Open the file for writing. An existing file stays as it is, and a new one is removed again.
fn try_to_write(file: &Path) -> io::Result<()> {
    match File::create_new(file) {
        Ok(_) => fs::remove_file(file),
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        // Opening a pipe would wait for its reader.
        Err(_) if file.metadata().is_ok_and(|of| of.is_file()) => File::options().write(true).open(file).map(drop),
        Err(_) => Ok(()),
    }
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_file_can_be_written_or_is_refused_and_nothing_changes() {
        let place = tempfile::tempdir().unwrap();
        let check = |file: PathBuf| check_file("--save", Some(&file)).map_err(|error| error.to_string());
        let (new, old, link) = (place.path().join("new"), place.path().join("old"), place.path().join("link"));
        fs::write(&old, "what was measured before").unwrap();
        std::os::unix::fs::symlink(&new, &link).unwrap();
        assert_eq!([check(new.clone()), check(old.clone()), check(link)], [Ok(()), Ok(()), Ok(())]);
        assert!(!new.exists() && fs::read(&old).unwrap() == b"what was measured before");
        assert_eq!(check("/dev/null".into()), Ok(()));
        // Not even root may.
        let refused = check("/proc/measured.jsonl".into()).unwrap_err();
        assert!(refused.contains("--save /proc/measured.jsonl cannot be written, "), "{refused}");
        assert!(refused.ends_with(": name a file where this user may write"), "{refused}");
        assert!(check(place.path().join("none/new")).unwrap_err().contains("a directory that exists"));
    }
}
