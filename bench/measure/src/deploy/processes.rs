//! Both hosts are processes of this machine, joined by a transport: sockets on the loopback interface, shared memory,
//! or a DPDK device.

use std::env::temp_dir;
use std::fs;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use am_wire::frame::ETHERNET_HEADER;
use nix::unistd::geteuid;

use crate::error::Error;

use super::MIN_MTU;

/// The transport between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalTransport {
    /// UDP on the loopback interface.
    Udp,
    /// TCP on the loopback interface.
    Tcp,
    /// Shared memory.
    Shm,
    /// DPDK's memif.
    Memif,
    /// DPDK's vhost and virtio-user.
    VirtioUser,
}

/// A placeholder in names: the number of the driver that is opened, for transports that need a new name each time.
pub(crate) const STAGE: &str = "%stage";

/// The port of our sockets. A bare socket uses the one below.
const PORT: u16 = 0x88b6;
/// Each driver of each round opens memif again, and DPDK frees little of that memory. So take no more than needed.
const MEMORY: &str = "am.memory=2048,am.frames=4096";
/// How the name of a socket directory begins; the near side's process id follows.
const DIRECTORY_PREFIX: &str = "am-bench-";
/// All but the last byte of the devices' addresses. Nobody else is on their link.
const MAC: &str = "02:00:00:00:00";

impl LocalTransport {
    /// The name on the command line; the default payload of a frame, long if nothing limits it, but short enough for the
    /// caches; and the range of `--mtu`.
    const fn facts(self) -> (&'static str, u32, RangeInclusive<u32>) {
        const fn of(longest_frame: usize) -> u32 {
            (longest_frame - ETHERNET_HEADER) as u32
        }
        match self {
            // The payload of a datagram.
            LocalTransport::Udp => ("udp", 9000, MIN_MTU..=of(65_507)),
            LocalTransport::Tcp => ("tcp", 64_986, MIN_MTU..=of(1 << 20)),
            LocalTransport::Shm => ("shm", 16_370, 1500..=of(65_536)),
            // A buffer of the device. Longer frames would come in several pieces.
            LocalTransport::Memif => ("memif", 1500, MIN_MTU..=1500),
            LocalTransport::VirtioUser => ("virtio-user", 1500, MIN_MTU..=9000),
        }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    pub(crate) const fn mtu(self) -> u32 {
        self.facts().1
    }

    /// Two ends, with frames of this payload, or of the default one.
    ///
    /// # Errors
    /// [`Error::Usage`] for a payload that its frames cannot have; or the directory for its sockets cannot be made.
    pub fn ends(self, mtu: Option<u32>) -> Result<TransportPair, Error> {
        let (name, default, mtus) = self.facts();
        let mtu = mtu.unwrap_or(default);
        if !mtus.contains(&mtu) {
            let (least, most) = (mtus.start(), mtus.end());
            return Err(Error::Usage(format!(
                "--mtu {mtu} is out of range for --hosts {name}: from {least} to {most}"
            )));
        }
        let files = SocketDirectory::new()?;
        Ok(TransportPair { names: self.names(mtu, &files), _files: Some(files) })
    }

    /// The transports of the near and the far side; `at` is the directory for sockets.
    fn names(self, mtu: u32, at: &SocketDirectory) -> [String; 2] {
        let frame = mtu as usize + ETHERNET_HEADER;
        // An address of the loopback network for each process, so that concurrent runs do not meet.
        let [low, high] = (process::id() as u16).to_be_bytes();
        let ip = |host: u8| format!("127.{high}.{low}.{host}:{PORT}");
        let ends = |kind, peer| {
            [(1, 2), (2, 1)].map(|(own, other)| format!("{kind}:{},{peer}={},frame={frame}", ip(own), ip(other)))
        };
        let path = at.0.join(format!("socket{STAGE}")).display().to_string();
        match self {
            LocalTransport::Udp => ends("udp", "connect"),
            LocalTransport::Tcp => ends("tcp", "peer"),
            LocalTransport::Shm => [(); 2].map(|()| format!("shm:am-bench-{},frame={frame}", process::id())),
            // Two names, so that one process can have both.
            LocalTransport::Memif => [("server", 0), ("client", 1)].map(|(role, nth)| {
                let socket = format!("socket-abstract=no,socket={path}");
                format!("dpdk:net_memif{nth},role={role},id=0,mac={MAC}:{:02},{socket},{MEMORY},am.mtu={mtu}", nth + 1)
            }),
            LocalTransport::VirtioUser => [
                format!("dpdk:net_vhost0,iface={path},queues=1,am.mtu={mtu}"),
                format!("dpdk:net_virtio_user0,path={path},mac={MAC}:02,queues=1,am.mtu={mtu}"),
            ],
        }
    }
}

/// The two transports that two processes open.
pub struct TransportPair {
    /// Of the near and the far side.
    pub names: [String; 2],
    /// The directory of their sockets, which lives as long as this.
    _files: Option<SocketDirectory>,
}

impl TransportPair {
    /// Transports that need no files.
    pub fn of(names: [String; 2]) -> TransportPair {
        TransportPair { names, _files: None }
    }
}

/// A directory for sockets. The side that ends last removes it, because the other may be killed.
pub(super) struct SocketDirectory(PathBuf);

impl SocketDirectory {
    fn new() -> Result<SocketDirectory, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_stale();
        // Others can guess its name, and one that is there already may be theirs.
        loop {
            let path = temp_dir().join(format!("{DIRECTORY_PREFIX}{}-{}", process::id(), NEXT.fetch_add(1, Relaxed)));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(why) if why.kind() == ErrorKind::AlreadyExists => (),
                made => {
                    return made
                        .map(|()| SocketDirectory(path))
                        .map_err(Error::system("making a directory for sockets"));
                }
            }
        }
    }

    /// The near side's directory, as the far side's transport names it.
    pub(super) fn of(on: &str) -> Option<SocketDirectory> {
        let paths = on.split(',').filter_map(|setting| setting.split_once('=')).map(|(_, value)| Path::new(value));
        let mut ours = paths.filter_map(Path::parent).filter(|at| at.parent() == Some(&*temp_dir()));
        ours.find(|at| at.file_name().is_some_and(|name| name.to_string_lossy().starts_with(DIRECTORY_PREFIX)))
            .map(|at| SocketDirectory(at.to_owned()))
    }
}

/// Remove the directories of processes that are gone: they were killed with their peers.
fn remove_stale() {
    let all = fs::read_dir(temp_dir()).into_iter().flatten().flatten();
    for found in all {
        let number = |name: &str| name.strip_prefix(DIRECTORY_PREFIX)?.split('-').next()?.parse::<u32>().ok();
        let process = found.file_name().to_str().and_then(number);
        let is_dead = process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists());
        let is_ours =
            found.path().symlink_metadata().is_ok_and(|data| data.is_dir() && data.uid() == geteuid().as_raw());
        if is_dead && is_ours {
            let _ = fs::remove_dir_all(found.path());
        }
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_killed_left_is_swept() {
        // Larger than any process id.
        let left = temp_dir().join(format!("{DIRECTORY_PREFIX}4194999-0"));
        fs::create_dir_all(left.join("socket")).unwrap();
        let files = SocketDirectory::new().unwrap();
        assert!(!left.exists() && files.0.exists());
    }
    /// The documented range is the real one.
    #[test]
    fn both_ends_of_the_range_open() {
        for local_transport in [LocalTransport::Udp, LocalTransport::Tcp, LocalTransport::Shm] {
            let (_, _, mtus) = local_transport.facts();
            for mtu in [*mtus.start(), *mtus.end()] {
                let ends = local_transport.ends(Some(mtu)).unwrap();
                let transport = am_api::transports::open(&ends.names[0]).unwrap();
                assert_eq!(transport.caps().max_frame, mtu as usize + ETHERNET_HEADER, "{}", ends.names[0]);
            }
        }
    }

    #[test]
    fn the_far_side_knows_what_the_near_side_made_and_nothing_else() {
        let files = SocketDirectory::new().unwrap();
        for local_transport in [LocalTransport::Memif, LocalTransport::VirtioUser] {
            let [_, far] = local_transport.names(1500, &files);
            assert_eq!(SocketDirectory::of(&far).map(|its| its.0.clone()), Some(files.0.clone()), "{far}");
        }
        for name in ["shm:am-bench-7,frame=1514", "dpdk:net_memif0,socket=/run/x", "dpdk:net_vhost0,iface=/run/v"] {
            assert!(SocketDirectory::of(name).is_none(), "{name}");
        }
        assert!(!files.0.exists(), "whichever is dropped last");
    }
}
