//! One copy of the objects, as simple as can be: what each write of a history returned, and where it ran.

use std::collections::{BTreeMap, VecDeque};

use am_rpc::Wire;
use am_rpc::codec::from_bytes;

use crate::command::Command;
use crate::object;

/// A register and a queue in one object. Each write has a tag of its own, by which a history knows it.
#[derive(Clone, Debug, Default, PartialEq, Wire)]
pub(super) struct Desk {
    pub(super) value: u64,
    pub(super) items: VecDeque<u64>,
}

#[object]
impl Desk {
    #[write]
    pub(super) fn swap(&mut self, tag: u64) -> u64 {
        std::mem::replace(&mut self.value, tag)
    }

    #[write]
    pub(super) fn push(&mut self, tag: u64) {
        self.items.push_back(tag);
    }

    #[write]
    #[guard(tag > 0 && !self.items.is_empty())]
    pub(super) fn pop(&mut self, tag: u64) -> u64 {
        self.items.pop_front().unwrap_or_default()
    }
}

const PUSH: u16 = 1;
const POP: u16 = 2;

/// Where a write ran in the order, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) at: u64,
    pub(super) result: u64,
}

/// A history's writes on one copy.
#[derive(Debug, Default)]
pub(super) struct OneCopy {
    pub(super) desk: Desk,
    waiting: Vec<(u64, u64, u64)>,
    pub(super) ran: BTreeMap<u64, Ran>,
    /// The register's value before each place of the order.
    pub(super) values: Vec<u64>,
}

impl OneCopy {
    /// The next command.
    pub(super) fn carry_out(&mut self, sender: u64, payload: &[u8]) -> Result<(), String> {
        let at = self.values.len() as u64;
        self.values.push(self.desk.value);
        match from_bytes(payload).map_err(|why| why.to_string())? {
            Command::Write { operation, arguments, call, .. } => {
                let (tag,) = from_bytes::<(u64,)>(arguments).map_err(|why| why.to_string())?;
                match operation {
                    POP => self.waiting.push((sender, call, tag)),
                    PUSH => {
                        self.desk.items.push_back(tag);
                        self.ran(tag, at, 0)?;
                    }
                    _ => {
                        let old = std::mem::replace(&mut self.desk.value, tag);
                        self.ran(tag, at, old)?;
                    }
                }
                while !self.waiting.is_empty()
                    && let Some(item) = self.desk.items.pop_front()
                {
                    let (_, _, tag) = self.waiting.remove(0);
                    self.ran(tag, at, item)?;
                }
            }
            Command::Cancel { call } => self.waiting.retain(|(of, other, _)| (*of, *other) != (sender, call)),
            Command::Gone { members } => self.waiting.retain(|(of, ..)| !members.contains(of)),
            Command::Create { .. } | Command::Digest { .. } => (),
        }
        Ok(())
    }

    fn ran(&mut self, tag: u64, at: u64, result: u64) -> Result<(), String> {
        match self.ran.insert(tag, Ran { at, result }) {
            None => Ok(()),
            Some(before) => Err(format!("write {tag} ran twice: {before:?}, and at {at}")),
        }
    }
}
