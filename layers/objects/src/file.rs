//! The file of saved objects: a digest of the rest, then the objects.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Write the file, which is there whole, or as it was.
pub(crate) fn write(path: &Path, state: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let prefix = path.file_name().unwrap_or_default().to_owned();
    // The file gets the mode that the process's `umask` leaves, as other files do.
    let may = Permissions::from_mode(0o666);
    let mut new = tempfile::Builder::new().prefix(&prefix).suffix(".new").permissions(may).tempfile_in(directory)?;
    new.write_all(blake3::hash(state).as_bytes())?;
    new.write_all(state)?;
    new.as_file().sync_all()?;
    new.persist(path)?;
    // The name is on the disk with the directory.
    File::open(directory)?.sync_all()
}

/// What was saved. `None`: the file is another one, or damaged.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = fs::read(path)?;
    let Some((digest, state)) = file.split_first_chunk::<{ blake3::OUT_LEN }>() else { return Ok(None) };
    let is_whole = blake3::hash(state) == *digest;
    Ok(is_whole.then(|| file.split_off(blake3::OUT_LEN)))
}
