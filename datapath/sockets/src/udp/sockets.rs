//! The sockets of a transport: one for everybody, and one for the peer most talked with.

use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;

use rustix::net::{SendFlags, SocketAddrAny};

use super::connected::Connected;
use super::favour::{Change, Favour, Look};
use super::receive::Stage;

#[derive(Debug)]
pub(super) struct Sockets {
    /// Bound, and connected to nobody.
    pub(super) shared: UdpSocket,
    /// `None` where the process had no descriptor for it.
    connected: Option<Connected>,
    favour: Favour,
    pub(super) count: Count,
}

#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) connects: u64,
    pub(super) failed: u64,
}

impl Sockets {
    pub(super) fn new(shared: UdpSocket, connected: Option<Connected>) -> Sockets {
        Sockets { shared, connected, favour: Favour::new(), count: Count::default() }
    }

    /// To whom the second socket is connected.
    pub(super) fn favourite(&self) -> Option<SocketAddr> {
        self.connected.as_ref().and_then(Connected::peer)
    }

    /// Look at one of them; the stage must be empty.
    ///
    /// # Errors
    /// The socket is none any more.
    #[inline]
    pub(super) fn look(&mut self, stage: &mut Stage) -> io::Result<()> {
        let Some(connected) = &mut self.connected else { return stage.look(&self.shared) };
        let change = match self.favour.next() {
            Look::Shared => {
                stage.look(&self.shared)?;
                let (datagrams, first) = stage.arrived();
                self.favour.saw_shared(datagrams, first)
            }
            Look::Connected => {
                let may_settle = connected.may_settle();
                connected.look(stage)?;
                let had_one = stage.arrived().0 > 0;
                if may_settle && !had_one && connected.settle() {
                    self.favour.settled();
                }
                self.favour.saw_connected(had_one)
            }
        };
        if let Some(change) = change {
            self.change(change);
        }
        Ok(())
    }

    #[cold]
    pub(super) fn change(&mut self, change: Change) {
        let Some(connected) = &mut self.connected else { return };
        match change {
            Change::Connect(peer) if connected.connect(peer, &self.shared).is_ok() => {
                self.count.connects += 1;
                self.favour.given();
                return;
            }
            Change::Connect(_) => self.count.failed += 1,
            Change::Part => connected.part(),
        }
        self.favour.taken(connected.is_bound());
    }

    /// Send by the second socket, where this is its peer. Whether it was sent: if not, the shared one is to send it.
    #[inline]
    pub(super) fn send_connected(&self, to: &SocketAddrAny, bytes: &[u8], flags: SendFlags) -> bool {
        self.connected.as_ref().is_some_and(|connected| connected.send(to, bytes, flags))
    }

    /// Datagrams that the kernel had no room for, as it says itself.
    pub(super) fn dropped_by_kernel(&self, is_ipv4: bool) -> u64 {
        let table = if is_ipv4 { "udp" } else { "udp6" };
        let Ok(table) = fs::read_to_string(format!("/proc/thread-self/net/{table}")) else { return 0 };
        let second = self.connected.as_ref().map(|connected| connected.descriptor().as_fd());
        [Some(self.shared.as_fd()), second].into_iter().flatten().filter_map(|socket| dropped(&table, &socket)).sum()
    }
}

/// What a line of the kernel's table says of a socket.
fn dropped(table: &str, socket: &impl AsRawFd) -> Option<u64> {
    let inode = fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).ok()?.ino().to_string();
    let line = table.lines().find(|line| line.split_whitespace().nth(9) == Some(&inode))?;
    line.split_whitespace().last()?.parse().ok()
}
