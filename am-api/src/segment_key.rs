//! Where a segment's key is, and which keys are none.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use am_proto::SegmentKey;

use am_input::text_file;

/// Why a segment's key cannot be used.
#[derive(thiserror::Error)]
pub enum KeyError {
    /// The file with the key cannot be read, or is no secret.
    #[error("the segment's key, {}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The key is one byte, repeated.
    #[error("all bytes of the segment's key are the same: take 32 random bytes")]
    Guessed,
}

am_transport::debug_as_display!(KeyError);

/// Where the segment's key is.
pub(crate) enum KeySource {
    Bytes([u8; 32]),
    File(PathBuf),
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::Bytes(_) => f.write_str("Bytes"),
            KeySource::File(path) => path.fmt(f),
        }
    }
}

impl KeySource {
    /// The key.
    pub(crate) fn read(&self) -> Result<SegmentKey, KeyError> {
        match self {
            KeySource::Bytes(key) if is_guessed(key) => Err(KeyError::Guessed),
            KeySource::Bytes(key) => Ok(SegmentKey::new(*key)),
            KeySource::File(path) => {
                let key = read_key(path).map_err(|error| KeyError::File { path: path.clone(), error })?;
                Ok(SegmentKey::new(key))
            }
        }
    }
}

/// Whether anyone would try this key first: one byte, repeated.
fn is_guessed(key: &[u8; 32]) -> bool {
    key.iter().all(|byte| *byte == key[0])
}

/// The key in a file. A secret that other users can read is none, and one that they can write is theirs.
fn read_key(path: &Path) -> io::Result<[u8; 32]> {
    const OTHERS: u32 = 0o006;
    let wrong = |text| io::Error::new(io::ErrorKind::InvalidData, text);
    let file = text_file::open(path)?;
    if file.metadata()?.permissions().mode() & OTHERS != 0 {
        return Err(wrong(
            "every user of the machine can read or write it: `chmod o= FILE`, and if it was a secret, make another",
        ));
    }
    let text = text_file::text(file)?;
    let digits = text.trim();
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong("it does not have 64 hexadecimal digits"));
    }
    let mut key = [0; 32];
    for (at, place) in key.iter_mut().enumerate() {
        *place = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap_or_default();
    }
    if is_guessed(&key) {
        return Err(wrong(
            "all bytes of the key are the same: `openssl rand -hex 32` makes one that cannot be guessed",
        ));
    }
    Ok(key)
}
