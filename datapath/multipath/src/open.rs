//! Several transports become one.

use am_transport::{Caps, Transport};
use am_wire::EtherType;

use crate::Multipath;
use crate::path::TransportPath;
use crate::peers::MAX_PATHS;
use crate::wake::JointWaker;

/// Why transports cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultipathOpenError {
    /// No transport was given.
    #[error("no transport was given: give at least one, as in `udp:127.0.0.1:7000`")]
    None,
    /// Too many transports were given.
    #[error("{0} transports are too many for one node: give at most {MAX_PATHS}")]
    TooMany(usize),
    /// Their descriptors could not be joined.
    #[error("cannot wait for several transports at once: epoll: {0}; raise the limit of open files with `ulimit -n`")]
    Wake(String),
}

impl Multipath {
    /// Join these transports, the best first, on a network with these EtherTypes.
    ///
    /// # Errors
    /// See [`MultipathOpenError`].
    pub fn new(ways: Vec<Box<dyn Transport>>, ethertype: EtherType) -> Result<Multipath, MultipathOpenError> {
        if ways.len() > MAX_PATHS {
            return Err(MultipathOpenError::TooMany(ways.len()));
        }
        let first = ways.first().ok_or(MultipathOpenError::None)?.caps().clone();
        let all = || ways.iter().map(|way| way.caps());
        let names = |of: fn(&Caps) -> &str| all().map(of).collect::<Vec<_>>().join("+");
        let joint = JointWaker::of_all(all().map(|caps| caps.wake.as_deref()))
            .map_err(|e| MultipathOpenError::Wake(e.to_string()))?;
        let wake = joint
            .as_ref()
            .map(JointWaker::descriptors)
            .transpose()
            .map_err(|e| MultipathOpenError::Wake(e.to_string()))?;
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
        Ok(Multipath::over(caps, joint, ethertype, ways.into_iter().map(TransportPath::new).collect()))
    }
}
