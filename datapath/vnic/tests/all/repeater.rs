//! The simplest daemon: every frame of one port goes to all others, unjudged.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use am_ring::lane::Peeked;
use am_vnic::protocol::{Hello, Secret, Welcome};
use am_vnic::{Port, Sent, Visitor};
use am_wire::Address;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};

/// A running daemon; ends when dropped.
pub(crate) struct Repeater {
    pub(crate) path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Repeater {
    pub(crate) fn start(max_frame: u32) -> Repeater {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("amd.sock");
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        listen(&socket, 8).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut ports = vec![];
            while !stopped.load(Relaxed) {
                accept(&socket, &mut ports, max_frame);
                if !repeat(&mut ports) {
                    std::thread::yield_now();
                }
            }
        });
        Repeater { path, stop, thread: Some(thread), _directory: directory }
    }
}

impl Drop for Repeater {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn accept(socket: &OwnedFd, ports: &mut Vec<Port>, max_frame: u32) {
    let Ok(connection) = accept_with(socket, SocketFlags::CLOEXEC) else { return };
    let visitor = Visitor::new(connection).unwrap();
    let hello = loop {
        match visitor.receive() {
            Sent::Packet(packet) => break Hello::from_bytes(&packet).unwrap(),
            Sent::Nothing => std::thread::yield_now(),
            Sent::Closed => return,
        }
    };
    let number = ports.len() as u8 + 1;
    let welcome = Welcome {
        address: Address([2, 0, 0, 0, 0, number]),
        max_frame: hello.max_frame.unwrap_or(max_frame).min(max_frame),
        session: number.into(),
        secret: Secret([number; 16]),
        queue: None,
        hears_all: true,
        wire: "repeater".into(),
    };
    ports.push(visitor.welcome(welcome, None).unwrap());
}

/// Move what there is; wakes nobody for nothing.
fn repeat(ports: &mut [Port]) -> bool {
    let mut moved = false;
    for from in 0..ports.len() {
        // A lane without room makes the sender wait.
        while ports.iter_mut().enumerate().all(|(to, port)| to == from || port.lanes.to.has_room_for(1 << 16)) {
            let Peeked::Frame(length) = ports[from].lanes.look() else { break };
            let mut frame = vec![0; length];
            if !ports[from].lanes.from.take(&mut frame) {
                break;
            }
            moved = true;
            for to in (0..ports.len()).filter(|to| *to != from) {
                ports[to].lanes.to.push(&frame).expect("there was room");
            }
        }
    }
    ports.iter_mut().for_each(Port::publish);
    for port in ports {
        port.before_sleep();
        port.read_packets(&mut |_| ());
    }
    moved
}
