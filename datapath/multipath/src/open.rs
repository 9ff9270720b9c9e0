//! Several transports become one.

use am_transport::{Caps, Transport};
use am_wire::EtherType;

use crate::Paths;
use crate::peers::MOST_WAYS;
use crate::wake::Joint;
use crate::way::Way;

/// Why transports cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No transport was given.
    #[error("no transport was given: give at least one, as in `udp:127.0.0.1:7000`")]
    None,
    /// Too many transports were given.
    #[error("{0} transports are too many for one node: give at most {MOST_WAYS}")]
    TooMany(usize),
    /// Their descriptors could not be joined.
    #[error("cannot wait for several transports at once: epoll: {0}; raise the limit of open files with `ulimit -n`")]
    Wake(String),
}

impl Paths {
    /// Join these transports, the best first, on a network with these EtherTypes.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn new(ways: Vec<Box<dyn Transport>>, ethertype: EtherType) -> Result<Paths, OpenError> {
        if ways.len() > MOST_WAYS {
            return Err(OpenError::TooMany(ways.len()));
        }
        let first = ways.first().ok_or(OpenError::None)?.caps().clone();
        let all = || ways.iter().map(|way| way.caps());
        let names = |of: fn(&Caps) -> &str| all().map(of).collect::<Vec<_>>().join("+");
        let joint =
            Joint::of_all(all().map(|caps| caps.wake.as_deref())).map_err(|e| OpenError::Wake(e.to_string()))?;
        let wake = joint.as_ref().map(Joint::wake).transpose().map_err(|e| OpenError::Wake(e.to_string()))?;
        let caps = Caps {
            name: names(|caps| &caps.name),
            mode: names(|caps| &caps.mode),
            max_frame: all().map(|caps| caps.max_frame).min().unwrap_or(first.max_frame),
            // Even if each path is reliable: a frame under way on a path that dies is lost.
            reliable: false,
            ordered: false,
            hears_all: all().all(|caps| caps.hears_all),
            wake,
            ..first
        };
        Ok(Paths::over(caps, joint, ethertype, ways.into_iter().map(Way::new).collect()))
    }
}
