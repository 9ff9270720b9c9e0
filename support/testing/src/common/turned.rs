//! A daemon that the test's own thread turns: what one end has flushed, the other end's next turn finds.

use std::cell::RefCell;
use std::rc::Rc;

use am_api::Transport;
use am_daemon::{Daemon, DaemonOptions};
use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError};
use am_vnic::{Vnic, VnicOptions};
use am_wire::Address;

/// As long as the frames of other transports: the tests know what fits into one.
const MAX_FRAME: usize = 1514;

/// A daemon and its socket's directory. Its ends share it.
struct Shared {
    daemon: RefCell<Daemon>,
    _place: tempfile::TempDir,
}

/// The end of a program.
struct Turned {
    inner: Vnic,
    daemon: Noticing,
}

/// Dropped after the program's end: the daemon notices that it has gone.
struct Noticing(Rc<Shared>);

impl Drop for Noticing {
    fn drop(&mut self) {
        self.0.daemon.borrow_mut().attend();
    }
}

/// Two programs of one daemon.
pub(super) fn pair() -> (Box<dyn Transport>, Box<dyn Transport>) {
    let place = tempfile::tempdir().expect("a directory");
    let options = DaemonOptions::new(place.path().join("amd.sock"));
    let vnic = VnicOptions { max_frame: Some(MAX_FRAME), ..VnicOptions::new(&options.socket) };
    let daemon = Daemon::open(options).unwrap_or_else(|error| panic!("{error}"));
    let shared = Rc::new(Shared { daemon: RefCell::new(daemon), _place: place });
    let attach = || {
        let attaching = am_vnic::begin(&vnic).expect("it listens");
        // It accepts the connection, and then reads from it.
        (0..2).for_each(|_| shared.daemon.borrow_mut().attend());
        Box::new(Turned { inner: attaching.finish().expect("it has a port"), daemon: Noticing(Rc::clone(&shared)) })
    };
    (attach(), attach())
}

impl Turned {
    fn turn(&self) {
        let mut daemon = self.daemon.0.daemon.borrow_mut();
        while daemon.turn() > 0 {}
    }
}

impl Transport for Turned {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.turn();
        self.inner.receive(budget, each)
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.inner.send(to, frame)
    }

    fn flush(&mut self) {
        self.inner.flush();
        self.turn();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.inner.control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.inner.poll_notices(each);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
    }
}
