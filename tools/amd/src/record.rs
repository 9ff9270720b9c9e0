//! The records of the state file: a port, or a grant, in a fixed number of bytes.

use am_vnic::protocol::Secret;
use am_wire::control::Name;
use am_wire::{Address, Flow};

use crate::grants::FlowGrant;
use crate::member::Owner;
use crate::process::Process;

pub(crate) const PORT_BYTES: usize = 128;
pub(crate) const GRANT_BYTES: usize = 32;

/// Where a port has its process: zeros if it is not known, as in the files of earlier daemons.
const PROCESS_AT: usize = 96;

/// A port as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedPort {
    pub(crate) number: usize,
    pub(crate) owner: Owner,
    pub(crate) weight: u32,
    pub(crate) secret: Secret,
    pub(crate) name: Option<Name>,
    pub(crate) process: Process,
}

/// A grant as the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedGrant {
    pub(crate) record: u32,
    pub(crate) port: usize,
    pub(crate) granter: Option<u16>,
    pub(crate) grant: FlowGrant,
}

impl SavedPort {
    /// Its bytes.
    pub(crate) fn to_bytes(&self) -> [u8; PORT_BYTES] {
        let mut record = [0; PORT_BYTES];
        record[0] = 1;
        record[4..8].copy_from_slice(&self.owner.uid.to_le_bytes());
        record[8..12].copy_from_slice(&self.owner.gid.to_le_bytes());
        record[12..16].copy_from_slice(&self.weight.to_le_bytes());
        record[16..32].copy_from_slice(&self.secret.0);
        let name = self.name.map(|name| name.as_str().as_bytes().to_vec()).unwrap_or_default();
        record[32] = name.len() as u8;
        record[33..33 + name.len()].copy_from_slice(&name);
        let Process { pid, namespace, inode, started } = self.process;
        record[PROCESS_AT..PROCESS_AT + 4].copy_from_slice(&pid.to_le_bytes());
        for (at, number) in [namespace, inode, started].into_iter().enumerate() {
            record[PROCESS_AT + 8 * (at + 1)..][..8].copy_from_slice(&number.to_le_bytes());
        }
        record
    }

    /// Read it. `None` if it is damaged.
    pub(crate) fn from_bytes(index: usize, bytes: &[u8]) -> Option<SavedPort> {
        if bytes[0] != 1 {
            return None;
        }
        let word = |at| number(bytes, at).map(u32::from_le_bytes);
        let owner = Owner { uid: word(4)?, gid: word(8)?, pid: 0 };
        let name = std::str::from_utf8(bytes.get(33..33 + usize::from(bytes[32]))?).ok()?;
        let long = |nth: usize| number(bytes, PROCESS_AT + 8 * nth).map(u64::from_le_bytes);
        let pid = number(bytes, PROCESS_AT).map(i32::from_le_bytes)?;
        let process = Process { pid, namespace: long(1)?, inode: long(2)?, started: long(3)? };
        Some(SavedPort {
            number: index,
            owner,
            weight: word(12)?,
            secret: Secret(number(bytes, 16)?),
            name: if name.is_empty() { None } else { Some(Name::new(name)?) },
            process,
        })
    }
}

impl SavedGrant {
    /// Its bytes.
    pub(crate) fn to_bytes(self) -> [u8; GRANT_BYTES] {
        let mut bytes = [0; GRANT_BYTES];
        bytes[0] = 1;
        bytes[1] = self.granter.is_some().into();
        bytes[2..4].copy_from_slice(&self.granter.unwrap_or(0).to_le_bytes());
        bytes[4..6].copy_from_slice(&(self.port as u16).to_le_bytes());
        bytes[6..8].copy_from_slice(&self.grant.flow.id().to_le_bytes());
        bytes[8..10].copy_from_slice(&self.grant.nonce.to_le_bytes());
        bytes[10..16].copy_from_slice(&self.grant.to.0);
        bytes
    }

    /// Read it. `None` if it is damaged.
    pub(crate) fn from_bytes(index: usize, bytes: &[u8]) -> Option<SavedGrant> {
        let half = |at| number(bytes, at).map(u16::from_le_bytes);
        let granter = match bytes {
            [1, 0, ..] => None,
            [1, 1, ..] => Some(half(2)?),
            _ => return None,
        };
        let grant = FlowGrant { to: Address(number(bytes, 10)?), flow: Flow::new(half(6)?)?, nonce: half(8)? };
        Some(SavedGrant { record: index as u32, port: half(4)?.into(), granter, grant })
    }
}

/// The records in use, and the number of damaged ones.
pub(crate) fn records<T>(bytes: &[u8], size: usize, read: impl Fn(usize, &[u8]) -> Option<T>) -> (Vec<T>, usize) {
    let used = bytes.chunks(size).enumerate().filter(|(_, record)| record[0] != 0);
    let read: Vec<Option<T>> = used
        .map(|(at, record)| Some(record).filter(|record| record.len() == size).and_then(|record| read(at, record)))
        .collect();
    let damaged = read.iter().filter(|record| record.is_none()).count();
    (read.into_iter().flatten().collect(), damaged)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
