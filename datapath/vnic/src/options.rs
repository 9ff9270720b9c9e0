//! The settings of the transport.

use std::path::PathBuf;

use am_transport::{NameError, TransportName};
use am_wire::EtherType;
use am_wire::control::Name;

use crate::VnicOpenError;
use crate::region::{MAX_FRAME, MIN_FRAME};

/// The settings of the transport. [`VnicOptions::new`] has good values for all but the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VnicOptions {
    /// The daemon's socket.
    pub path: PathBuf,
    /// The longest frame, in bytes from the destination address on. `None`: the wire's.
    pub max_frame: Option<usize>,
    /// Frames in this program's pool.
    pub frames: usize,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// Whether to ask the daemon for a queue of the NIC. [`open_with_queue`](crate::open_with_queue) sets this; [`open`](crate::open)
    /// cannot use a queue.
    pub can_use_queue: bool,
    /// The name that the program's node will have. The daemon refuses the program if the name is forbidden or taken. Without it, it finds out
    /// with the node's first beacon.
    pub node: Option<Name>,
}

const EXAMPLE: &str = "/run/amd/amd.sock";
const FRAMES_RANGE: std::ops::RangeInclusive<usize> = 64..=1 << 20;

impl VnicOptions {
    /// Default settings for the daemon at this socket.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (max_frame, ethertype) = (None, EtherType::DEFAULT);
        VnicOptions { path: path.into(), max_frame, frames: 4096, ethertype, can_use_queue: false, node: None }
    }

    /// Read the settings from a transport's name: `amd:PATH`, `amd:/run/amd/amd.sock,frame=1514`. The settings are `frame=` and
    /// `frames=`.
    ///
    /// ```
    /// let options = am_vnic::VnicOptions::from_name(&"amd:/run/amd/amd.sock,frame=1514".parse()?)?;
    /// assert_eq!((options.path.to_str(), options.max_frame), (Some("/run/amd/amd.sock"), Some(1514)));
    /// # Ok::<(), am_transport::NameError>(())
    /// ```
    ///
    /// # Errors
    /// The path is missing, or a setting is unknown or invalid.
    pub fn from_name(name: &TransportName) -> Result<VnicOptions, NameError> {
        let (path, settings) = name.settings(EXAMPLE)?;
        let mut options = VnicOptions::new(path);
        for (key, value) in settings {
            let number = value.and_then(|value| value.parse().ok()).ok_or("a number goes here, as in `frames=4096`");
            let set = match key {
                "frame" => number.map(|number| options.max_frame = Some(number)),
                "frames" => number.map(|number| options.frames = number),
                _ => Err("the settings are `frame=` and `frames=`"),
            };
            set.map_err(|hint| name.bad_setting(key, value, hint))?;
        }
        Ok(options)
    }

    /// # Errors
    /// The first setting that is out of range.
    pub(crate) fn check(&self) -> Result<(), VnicOpenError> {
        if let Some(frame) = self.max_frame.filter(|frame| !(MIN_FRAME..=MAX_FRAME).contains(frame)) {
            return Err(VnicOpenError::Setting { setting: format!("frame={frame}"), hint: "162 to 65536 bytes" });
        }
        if !FRAMES_RANGE.contains(&self.frames) {
            let setting = format!("frames={}", self.frames);
            return Err(VnicOpenError::Setting { setting, hint: "64 to 1048576" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_with_a_hint() {
        for (name, hint) in [("amd", EXAMPLE), ("amd:a,frames", "number"), ("amd:a,mode=660", "frame=")] {
            let error = VnicOptions::from_name(&name.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(hint), "{name}: {error}");
        }
        assert_eq!(VnicOptions::from_name(&"amd:a".parse().unwrap()), Ok(VnicOptions::new("a")));
    }

    #[test]
    fn numbers_have_limits() {
        let good = VnicOptions::new("a");
        assert!(good.check().is_ok());
        for wrong in [
            VnicOptions { max_frame: Some(MIN_FRAME - 1), ..good.clone() },
            VnicOptions { max_frame: Some(MAX_FRAME + 1), ..good.clone() },
            VnicOptions { frames: 1, ..good.clone() },
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains(&MIN_FRAME.to_string()) || error.contains("64 to"), "{error}");
        }
    }
}
