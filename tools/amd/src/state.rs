//! The state file: it survives a killed daemon and holds the ports with their secrets, and the flows on which the ports may send.
//!
//! The file is beside the socket, and only the daemon's user can read it. Its records have a fixed size. The daemon writes a record with
//! one `pwrite` when a port or a flow is set up or ends, and never for a message. `kill -9` leaves each record whole. A daemon that ends
//! regularly removes the file, unless programs continue with the next daemon. An exclusive lock on the file shows that a daemon runs.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use am_wire::Address;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::DaemonError;
use crate::address::MAX_PORTS;
use crate::folder::{FileId, Folder};
use crate::grants::FlowGrant;
use crate::listener::address_of;
use crate::record::{GRANT_BYTES, PORT_BYTES, SavedGrant, SavedPort, records};

const MAGIC: &[u8; 8] = b"amd-st\x01\n";

/// The first bytes of the file, in every version.
const KIND: &[u8; 6] = b"amd-st";
const HEADER_BYTES: usize = 64;
const GRANTS_AT: usize = HEADER_BYTES + MAX_PORTS * PORT_BYTES;

/// The most grants in the file. Connections above it work, but do not survive a restart of the daemon.
const MAX_GRANTS: u32 = 1 << 18;

/// The state that an earlier daemon has left.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    /// The address from which the ports' addresses are derived.
    pub(crate) base: Option<Address>,
    pub(crate) ports: Vec<SavedPort>,
    pub(crate) grants: Vec<SavedGrant>,
}

/// The open and locked state file.
#[derive(Debug)]
pub(crate) struct StateFile {
    file: Flock<File>,
    folder: Arc<Folder>,
    name: PathBuf,
    /// The path, for log messages.
    path: PathBuf,
    /// The free records among those used before, and the first record that was never used.
    free: BTreeSet<u32>,
    next: u32,
    /// Whether the last write failed, so that a full disk is logged once.
    has_failed: Cell<bool>,
}

impl StateFile {
    /// Open the file beside a socket, or create it.
    pub(crate) fn open(socket: &Path, folder: &Arc<Folder>) -> Result<StateFile, DaemonError> {
        // Check the length of the socket's path before a file is created.
        address_of(socket)?;
        let mut path = socket.as_os_str().to_owned();
        path.push(".state");
        let path = PathBuf::from(path);
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        let failed = |source| DaemonError::State { path: path.clone(), source };
        loop {
            let file = folder.open_own(&name).map_err(failed)?;
            check(&file).map_err(failed)?.then_some(()).ok_or(DaemonError::ForeignState { path: path.clone() })?;
            let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, why)| match why {
                Errno::EWOULDBLOCK => DaemonError::Running { socket: socket.to_owned() },
                why => failed(why.into()),
            })?;
            // A daemon that ended between the open and the lock has removed the file; then try again.
            if folder.id_of(&name) == id(&file) {
                let (folder, free, has_failed) = (folder.clone(), BTreeSet::new(), Cell::new(false));
                return Ok(StateFile { file, folder, name, path, free, next: 0, has_failed });
            }
        }
    }

    /// Read the state of an earlier daemon. Damaged records are ignored and logged.
    pub(crate) fn load(&mut self) -> Saved {
        let length = self.file.metadata().map_or(0, |data| data.len()) as usize;
        let mut bytes = vec![0; length.min(GRANTS_AT + MAX_GRANTS as usize * GRANT_BYTES)];
        let is_read = self.file.read_exact_at(&mut bytes, 0).is_ok();
        let Some(header) = bytes.get(..HEADER_BYTES).filter(|header| is_read && header.starts_with(MAGIC)) else {
            if length > 0 {
                tracing::warn!(
                    "{} is no state of this version, and is ignored: its connections end",
                    self.path.display()
                );
            }
            return Saved::default();
        };
        let base = header[8..14].try_into().ok().map(Address);
        let (ports, grants) = bytes[HEADER_BYTES..].split_at(bytes.len().min(GRANTS_AT) - HEADER_BYTES);
        let (ports, bad_ports) = records(ports, PORT_BYTES, SavedPort::from_bytes);
        let (mut grants, bad_grants) = records(grants, GRANT_BYTES, SavedGrant::from_bytes);
        if bad_ports + bad_grants > 0 {
            let path = self.path.display();
            tracing::warn!(
                "{path}: {bad_ports} ports and {bad_grants} flows are damaged, and ignored: their connections end"
            );
        }
        // A killed daemon may have left grants of a port that had ended.
        grants.retain(|grant| ports.iter().any(|port| port.number == grant.port));
        self.next = grants.iter().map(|grant| grant.record + 1).max().unwrap_or(0);
        self.free = (0..self.next).collect();
        grants.iter().for_each(|grant| _ = self.free.remove(&grant.record));
        Saved { base, ports, grants }
    }

    /// Start a file with ports of this base address. The loaded records stay until they are written again, because the daemon may be
    /// killed at any time.
    pub(crate) fn begin(&mut self, base: Address, saved: &Saved) -> Result<(), DaemonError> {
        if saved.ports.is_empty() {
            self.file.set_len(0).map_err(|source| self.failed(source))?;
        }
        (self.free, self.next) = (BTreeSet::new(), 0);
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..14].copy_from_slice(&base.0);
        self.file.write_all_at(&header, 0).map_err(|source| self.failed(source))
    }

    /// Clear all records that were not written again. Otherwise an old grant would be valid for the next program of its port.
    pub(crate) fn end_restore(&self) -> Result<(), DaemonError> {
        let length = GRANTS_AT + self.next as usize * GRANT_BYTES;
        let present = self.file.metadata().map_or(0, |data| data.len());
        self.file.set_len(present.min(length as u64)).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> DaemonError {
        DaemonError::State { path: self.path.clone(), source }
    }

    fn write(&self, at: usize, record: &[u8]) {
        let (path, written) = (self.path.display(), self.file.write_all_at(record, at as u64));
        let had_failed = self.has_failed.replace(written.is_err());
        match (written, had_failed) {
            (Err(why), false) => tracing::warn!(
                "{path} cannot be written: {why}; a restart of the daemon would end connections: make room for it"
            ),
            (Ok(()), true) => tracing::info!("{path} is written again; unsaved grants are lost on restart"),
            _ => (),
        }
    }

    /// Write a port.
    pub(crate) fn put_port(&self, port: &SavedPort) {
        self.write(HEADER_BYTES + port.number * PORT_BYTES, &port.to_bytes());
    }

    /// Clear the record of a port that has ended.
    pub(crate) fn forget_port(&self, number: usize) {
        self.write(HEADER_BYTES + number * PORT_BYTES, &[0; PORT_BYTES]);
    }

    /// The record for the next grant. If the file is full, this is past its last record, and the grant is not written.
    pub(crate) fn free_grant(&self) -> u32 {
        self.free.first().copied().unwrap_or(self.next)
    }

    /// Write a grant.
    pub(crate) fn put_grant(&mut self, record: u32, port: usize, granter: Option<u16>, grant: FlowGrant) {
        if record >= MAX_GRANTS {
            return;
        }
        if !self.free.remove(&record) && record == self.next {
            self.next += 1;
        }
        let saved = SavedGrant { record, port, granter, grant };
        self.write(GRANTS_AT + record as usize * GRANT_BYTES, &saved.to_bytes());
    }

    /// Clear the record of a grant that has ended.
    pub(crate) fn forget_grant(&mut self, record: u32) {
        if record < self.next {
            self.write(GRANTS_AT + record as usize * GRANT_BYTES, &[0; GRANT_BYTES]);
            self.free.insert(record);
        }
    }

    /// Remove the file when the daemon ends regularly. If another daemon has replaced it, that daemon's file stays.
    pub(crate) fn remove(&self) {
        // If this fails, the next daemon reads outdated state, and waits a while for programs that do not attach.
        id(&self.file).into_iter().for_each(|file| self.folder.remove(&self.name, file));
    }
}

fn id(file: &File) -> Option<FileId> {
    file.metadata().ok().map(|file| (file.dev(), file.ino()))
}

/// Whether a daemon of this user has created the file, and no other user can read or write it. The owner of the folder may have moved any
/// file of this user there, so a file with other contents, or with several names, is not touched.
fn check(file: &File) -> io::Result<bool> {
    let opened = file.metadata()?;
    if !opened.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let is_own = opened.uid() == nix::unistd::geteuid().as_raw() && opened.mode() & 0o077 == 0 && opened.nlink() == 1;
    let mut start = [0; KIND.len()];
    let is_ours =
        opened.len() == 0 || (file.read_exact_at(&mut start, 0).is_ok() && (start == *KIND || start == [0; 6]));
    Ok(is_own && is_ours)
}

impl Drop for StateFile {
    /// A daemon that could not start removes the file, unless it holds an earlier daemon's state.
    fn drop(&mut self) {
        if self.file.metadata().is_ok_and(|data| data.len() == 0 && data.nlink() > 0) {
            self.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use am_vnic::protocol::Secret;
    use am_wire::Flow;
    use am_wire::control::Name;

    use super::*;
    use crate::member::Owner;
    use crate::process::Process;

    const BASE: Address = Address([2, 0xa7, 1, 2, 3, 4]);

    fn port(number: usize) -> SavedPort {
        let owner = Owner { uid: 7, gid: 8, pid: 0 };
        let process = Process { pid: 9, namespace: 8, inode: 7, started: 6 };
        SavedPort { number, owner, weight: 3, secret: Secret([9; 16]), name: Name::new("alpha"), process }
    }

    fn grant(flow: u16) -> FlowGrant {
        FlowGrant { to: BASE, flow: Flow::new(flow).unwrap(), nonce: 5 }
    }

    fn open(socket: &Path) -> StateFile {
        StateFile::open(socket, &Folder::of(socket).unwrap()).unwrap()
    }

    /// As `kill -9`: the file stays.
    fn end(state: StateFile) {
        drop(state);
    }

    /// A daemon is killed before it has restored what it read: the next one reads the same.
    #[test]
    fn a_kill_during_a_restart_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("amd.sock");
        let mut state = open(&socket);
        state.begin(BASE, &Saved::default()).unwrap();
        state.put_port(&port(2));
        (0..3).for_each(|record| state.put_grant(record, 2, None, grant(record as u16 + 1)));
        // Of a port that is not there: it must not be the next one's.
        state.put_grant(3, 5, None, grant(40));
        end(state);
        for _ in 0..2 {
            let mut state = open(&socket);
            let saved = state.load();
            assert_eq!((saved.ports.len(), saved.grants.len(), saved.base), (1, 3, Some(BASE)));
            state.begin(BASE, &saved).unwrap();
            end(state);
        }
        let mut state = open(&socket);
        let saved = state.load();
        state.begin(BASE, &saved).unwrap();
        saved.ports.iter().for_each(|port| state.put_port(port));
        saved.grants.iter().take(2).for_each(|saved| state.put_grant(saved.record, 2, None, saved.grant));
        state.end_restore().unwrap();
        state.put_port(&port(5));
        end(state);
        let saved = open(&socket).load();
        assert_eq!((saved.ports.len(), saved.grants.len()), (2, 2));
    }

    /// The log of what this does; the file is at this path.
    fn logged(log: &Path, work: impl FnOnce()) -> String {
        let writer = std::sync::Mutex::new(File::create(log).unwrap());
        tracing::subscriber::with_default(tracing_subscriber::fmt().with_writer(writer).finish(), work);
        std::fs::read_to_string(log).unwrap()
    }

    #[test]
    fn what_is_damaged_is_logged_and_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, log) = (directory.path().join("amd.sock"), directory.path().join("log"));
        let mut state = open(&socket);
        state.begin(BASE, &Saved::default()).unwrap();
        (0..3).for_each(|number| state.put_port(&port(number)));
        assert_eq!(state.load().ports, [0, 1, 2].map(port));
        (0..3).for_each(|record| state.put_grant(record, 2, None, grant(record as u16 + 1)));
        let sound = logged(&log, || assert_eq!(state.load().grants.len(), 3));
        assert_eq!(sound, "");
        // The state byte of a port, and the end of the last flow.
        state.write(HEADER_BYTES + PORT_BYTES, &[7]);
        state.file.set_len((GRANTS_AT + 3 * GRANT_BYTES - 1) as u64).unwrap();
        let load = |state: &mut StateFile| (state.load().ports.len(), state.load().grants.len());
        let damaged = logged(&log, || assert_eq!(load(&mut state), (2, 2)));
        assert!(damaged.contains("1 ports and 1 flows are damaged"), "{damaged}");
        state.write(0, b"amd-st\x07");
        let foreign = logged(&log, || assert!(state.load().base.is_none()));
        assert!(foreign.lines().count() == 1 && foreign.contains("is ignored"), "{foreign}");
    }

    /// A full disk is said once, and so is its end.
    #[test]
    fn a_failure_to_write_is_logged_once_until_it_works_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = open(&directory.path().join("amd.sock"));
        let path = state.path.clone();
        let log = directory.path().join("log");
        let lock = |file| Flock::lock(file, FlockArg::LockSharedNonblock).unwrap();
        let log = logged(&log, || {
            drop(std::mem::replace(&mut state.file, lock(File::open(&log).unwrap())));
            (0..3).for_each(|number| state.put_port(&port(number)));
            state.file = lock(File::options().write(true).open(&path).unwrap());
            (0..3).for_each(|number| state.put_port(&port(number)));
        });
        assert_eq!(
            [log.matches("cannot be written").count(), log.matches("is written again").count()],
            [1, 1],
            "{log}"
        );
    }
}
