//! Both hosts are processes of this machine, joined by a transport: sockets on
//! the loopback interface, shared memory, a DPDK device.

use std::fs;
use std::path::PathBuf;
use std::process;

use crate::cores::{Cores, pin};
use crate::error::Error;
use crate::link::Side;
use crate::named::NamedLink;
use crate::progress::Progress;
use crate::session::{Order, Session};
use crate::watch::Watch;

use super::child::Far;

/// What joins them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joint {
    Udp,
    Tcp,
    Shm,
    Memif,
    VirtioUser,
}

/// The port of our sockets; bare ones have the one before.
const PORT: u16 = 0x88b6;

impl Joint {
    /// As on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Joint::Udp => "udp",
            Joint::Tcp => "tcp",
            Joint::Shm => "shm",
            Joint::Memif => "memif",
            Joint::VirtioUser => "virtio-user",
        }
    }

    /// Payload bytes of a frame, unless chosen. Long where nothing limits it, and short enough for the caches.
    const fn mtu(self) -> u32 {
        match self {
            Joint::Udp => 9000,
            Joint::Tcp => 64_986,
            Joint::Shm => 16_370,
            Joint::Memif | Joint::VirtioUser => 1500,
        }
    }

    /// The transports of the near and the far side; `at` is a directory of our own.
    fn names(self, mtu: u32, at: &Files) -> [String; 2] {
        let frame = mtu + 14;
        // Of the loopback network, so that two that run at once do not meet.
        let [low, high] = (process::id() as u16).to_be_bytes();
        let ip = |host: u8| format!("127.{high}.{low}.{host}:{PORT}");
        let socket = |kind| format!("{kind}:{},peer={},frame={frame}", ip(1), ip(2));
        let other = |kind| format!("{kind}:{},peer={},frame={frame}", ip(2), ip(1));
        let path = at.0.join("socket").display().to_string();
        match self {
            Joint::Udp => [socket("udp"), other("udp")],
            Joint::Tcp => [socket("tcp"), other("tcp")],
            Joint::Shm => [(); 2].map(|()| format!("shm:am-bench-{},frame={frame}", process::id())),
            Joint::Memif => ["server", "client"]
                .map(|role| format!("dpdk:net_memif0,role={role},id=0,socket-abstract=no,socket={path},am.mtu={mtu}")),
            Joint::VirtioUser => [
                format!("dpdk:net_vhost0,iface={path},queues=1,am.mtu={mtu}"),
                format!("dpdk:net_virtio_user0,path={path},queues=1,am.mtu={mtu}"),
            ],
        }
    }
}

/// A directory for what the two meet at; removed with all that is in it.
struct Files(PathBuf);

impl Files {
    fn new() -> Result<Files, Error> {
        let path = std::env::temp_dir().join(format!("am-bench-{}", process::id()));
        fs::create_dir_all(&path).map_err(Error::system("making a directory for sockets"))?;
        Ok(Files(path))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Start the far side, and measure.
///
/// # Errors
/// What is missing, or whatever ended the session early.
pub(crate) fn measure(
    order: &Order,
    (joint, mtu): (Joint, Option<u32>),
    cores: Cores,
    progress: &Progress,
    watch: &Watch,
) -> Result<Session, Error> {
    let files = Files::new()?;
    let [near, far] = joint.names(mtu.unwrap_or(joint.mtu()), &files);
    let far = Far::start(&far, cores)?;
    let mut link = NamedLink::new(Side::Near, "alpha", &near, pin(cores.near)?)?;
    far.measure(order, &mut link, progress, watch)
}
