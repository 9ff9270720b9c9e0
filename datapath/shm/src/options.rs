//! The settings of the transport.

use std::path::PathBuf;

use am_ring::lane::LaneLayout;
use am_transport::{NameError, TransportName};
use am_wire::EtherType;

/// The settings of the transport. [`ShmOptions::new`] has good values for all but the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShmOptions {
    /// Processes that open the same name in the same directory are on the same link. 1 to 64 letters, digits, `.`, `_`
    /// and `-`.
    pub name: String,
    /// The directory of the segment's file: on tmpfs, or on hugetlbfs for huge pages.
    pub dir: PathBuf,
    /// The file's permissions, if this process makes it. A process that may open the file may join, and read and write
    /// everything in it.
    pub mode: u32,
    /// Another user whose segments are trusted. Segments of this user and of root always are.
    pub owner: Option<u32>,
    /// The longest frame, in bytes from the destination address on. `None`: the segment's value, or a default for a new
    /// one.
    pub frame: Option<usize>,
    /// The most processes at a time. `None`: the segment's value, or a default for a new one.
    pub members: Option<usize>,
    /// Messages and transfers of at least this many bytes are copied once, from the sender's memory, if the system lets this process read
    /// it. `None`: 2 MiB where all processors share a cache, otherwise 32 KiB.
    pub lend_from: Option<u64>,
    /// Frames in this process's pool.
    pub frames: usize,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
}

pub(crate) const DEFAULT_FRAME: usize = 16 * 1024;
pub(crate) const DEFAULT_MEMBERS: usize = 16;
/// The most members: each is one bit of a word.
pub(crate) const MAX_MEMBERS: usize = 64;
/// From Ethernet's usual frame to the longest IP packet.
const FRAME_RANGE: std::ops::RangeInclusive<usize> = 1514..=65_536;
const FRAMES_RANGE: std::ops::RangeInclusive<usize> = 64..=1 << 20;
const MODE_RANGE: std::ops::RangeInclusive<u32> = 0o600..=0o777;

const EXAMPLE: &str = "room1";

/// A setting is out of range.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{setting}` is out of range: {hint}")]
pub struct ShmOptionsError {
    setting: String,
    hint: String,
}

am_transport::debug_as_display!(ShmOptionsError);

impl ShmOptions {
    /// Default settings for a link of this name.
    pub fn new(name: impl Into<String>) -> Self {
        ShmOptions {
            name: name.into(),
            dir: PathBuf::from("/dev/shm"),
            mode: 0o600,
            owner: None,
            frame: None,
            members: None,
            lend_from: None,
            frames: 4096,
            ethertype: EtherType::DEFAULT,
        }
    }

    /// Read the settings from a transport's name: `shm:NAME`, `shm:room1,frame=32768,members=4`. The settings are
    /// `dir=`, `mode=` (octal), `owner=`, `frame=`, `members=`, `lend=`, `frames=`.
    ///
    /// ```
    /// let options = am_shm::ShmOptions::from_name(&"shm:room1,frame=4096,mode=660".parse()?)?;
    /// assert_eq!((&options.name[..], options.frame, options.mode), ("room1", Some(4096), 0o660));
    /// # Ok::<(), am_transport::NameError>(())
    /// ```
    ///
    /// # Errors
    /// The name is missing, or a setting is unknown or invalid.
    pub fn from_name(name: &TransportName) -> Result<ShmOptions, NameError> {
        let (which, settings) = name.settings(EXAMPLE)?;
        let mut options = ShmOptions::new(which);
        for (key, value) in settings {
            let number = value.and_then(|value| value.parse().ok()).ok_or("a number goes here, as in `frames=4096`");
            let octal = value.and_then(|value| u32::from_str_radix(value, 8).ok());
            let user = value.and_then(|value| value.parse().ok());
            let set = match key {
                "dir" => (value.filter(|path| !path.is_empty()).map(|path| options.dir = path.into()))
                    .ok_or("a directory goes here, as in `dir=/dev/hugepages`"),
                "mode" => {
                    octal.map(|octal| options.mode = octal).ok_or("permissions in octal go here, as in `mode=660`")
                }
                "owner" => (user.map(|user| options.owner = Some(user)))
                    .ok_or("the number of a user goes here, as in `owner=1000`"),
                "frame" => number.map(|number| options.frame = Some(number)),
                "members" => number.map(|number| options.members = Some(number)),
                "lend" => number.map(|number| options.lend_from = Some(number as u64)),
                "frames" => number.map(|number| options.frames = number),
                _ => Err("the settings are `dir=`, `mode=`, `owner=`, `frame=`, `members=`, `lend=` and `frames=`"),
            };
            set.map_err(|hint| name.bad_setting(key, value, hint))?;
        }
        Ok(options)
    }

    /// # Errors
    /// The first setting that is out of range.
    pub(crate) fn check(&self) -> Result<(), ShmOptionsError> {
        let (frame, members) = (self.frame.unwrap_or(DEFAULT_FRAME), self.members.unwrap_or(DEFAULT_MEMBERS));
        let wrong = |setting: String, hint: String| Err(ShmOptionsError { setting, hint });
        if !FRAME_RANGE.contains(&frame) {
            return wrong(format!("frame={frame}"), format!("{FRAME_RANGE:?} bytes"));
        }
        if !(2..=MAX_MEMBERS).contains(&members) {
            return wrong(format!("members={members}"), format!("2 to {MAX_MEMBERS}"));
        }
        if !FRAMES_RANGE.contains(&self.frames) {
            return wrong(format!("frames={}", self.frames), format!("{FRAMES_RANGE:?}"));
        }
        if !MODE_RANGE.contains(&self.mode) || self.mode & 0o600 != 0o600 {
            return wrong(format!("mode={:o}", self.mode), "0600 to 0777, of which the owner has at least 6".into());
        }
        Ok(())
    }
}

/// The layout of a lane for frames of this length. Each member computes it from the segment's `frame`.
pub(crate) fn shape(frame: usize) -> Option<LaneLayout> {
    FRAME_RANGE.contains(&frame).then(|| LaneLayout::for_frames(frame))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Result<ShmOptions, NameError> {
        ShmOptions::from_name(&name.parse().unwrap())
    }

    #[test]
    fn names_say_what_there_is() {
        let options = named("shm:a,dir=/x/y,mode=0660,frame=9000,members=3,frames=128").unwrap();
        assert_eq!((options.dir.to_str(), options.mode), (Some("/x/y"), 0o660));
        assert_eq!((options.frame, options.members, options.frames), (Some(9000), Some(3), 128));
        assert_eq!(named("shm:a").unwrap(), ShmOptions::new("a"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_hint() {
        for (name, hint) in [
            ("shm", "shm:room1"),
            ("shm:a,mode=9", "octal"),
            ("shm:a,frames", "number"),
            ("shm:a,frames=many", "number"),
            ("shm:a,dir", "directory"),
            ("shm:a,speed=fast", "members="),
        ] {
            let error = named(name).unwrap_err().to_string();
            assert!(error.contains(hint), "{name}: {error}");
        }
    }

    #[test]
    fn numbers_have_limits() {
        let good = ShmOptions::new("a");
        assert_eq!(good.check(), Ok(()));
        for wrong in [
            ShmOptions { frame: Some(100), ..good.clone() },
            ShmOptions { frame: Some(1 << 20), ..good.clone() },
            ShmOptions { members: Some(1), ..good.clone() },
            ShmOptions { members: Some(65), ..good.clone() },
            ShmOptions { frames: 1, ..good.clone() },
            ShmOptions { mode: 0o400, ..good.clone() },
            ShmOptions { mode: 0o4600, ..good.clone() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        assert!(FRAME_RANGE.clone().step_by(997).all(|frame| shape(frame).is_some()));
        assert!(shape(1 << 30).is_none());
    }
}
