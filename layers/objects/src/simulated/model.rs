//! One copy of the objects, as simple as can be: what each write of a history returned, and where it ran.

use std::collections::{BTreeMap, VecDeque};

use am_rpc::Wire;
use am_rpc::codec::from_bytes;

use crate::command::Command;
use crate::object;
use crate::placement::{Home, Usage, Wanted};

/// A register and a queue in one object. Each write has a tag of its own, by which a history knows it.
#[derive(Clone, Debug, Default, PartialEq, Wire)]
pub(super) struct Desk {
    pub(super) value: u64,
    pub(super) items: VecDeque<u64>,
}

#[object]
impl Desk {
    #[read]
    pub(super) fn value(&self) -> u64 {
        self.value
    }

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

/// A history's writes on one copy. Its places are those of the order and, between them, the writes at the process that keeps the object.
#[derive(Debug, Default)]
pub(super) struct OneCopy {
    pub(super) desk: Desk,
    /// The number of the desk. One that is lost is created again.
    object: u64,
    desks: u64,
    /// `None`: lost, or not created yet.
    pub(super) home: Option<Home>,
    wanted: Option<Wanted>,
    usage: Option<Usage>,
    waiting: Vec<(u64, u64, u64)>,
    pub(super) ran: BTreeMap<u64, Ran>,
    /// The register's value before each place.
    pub(super) values: Vec<u64>,
}

impl OneCopy {
    /// The next command.
    pub(super) fn carry_out(&mut self, number: u64, sender: u64, payload: &[u8]) -> Result<(), String> {
        let at = self.values.len() as u64;
        self.values.push(self.desk.value);
        let home_of = |to| match to {
            Wanted::At(process) => Home::At { process, epoch: sender.rotate_left(32) ^ (number + 1) },
            Wanted::Everywhere | Wanted::AsUsed => Home::Everywhere,
        };
        match from_bytes(payload).map_err(|why| why.to_string())? {
            Command::Write { object, operation, arguments, call } if object == self.object => {
                let (tag,) = from_bytes::<(u64,)>(arguments).map_err(|why| why.to_string())?;
                match self.home {
                    Some(Home::Everywhere) if operation == POP => self.waiting.push((sender, call, tag)),
                    Some(Home::Everywhere) => self.run(at, operation, tag)?,
                    _ => (),
                }
                while !self.waiting.is_empty() && !self.desk.items.is_empty() {
                    let (_, _, tag) = self.waiting.remove(0);
                    self.run(at, POP, tag)?;
                }
            }
            Command::Cancel { call } => self.waiting.retain(|(of, other, _)| (*of, *other) != (sender, call)),
            Command::Gone { members } => {
                self.waiting.retain(|(of, ..)| !members.contains(of));
                self.home = self.home.filter(|home| !members.iter().any(|member| home.is_at(*member)));
            }
            Command::Create { new, .. } if self.home.is_none() => {
                (self.object, self.desk, self.home) = (self.desks, Desk::default(), Some(home_of(new.to)));
                (self.wanted, self.usage) = (None, (new.to == Wanted::AsUsed).then(Usage::default));
                self.desks += 1;
            }
            Command::Place { object, to, .. } if object == self.object => match to {
                Wanted::AsUsed => _ = self.usage.get_or_insert_default(),
                to => {
                    self.usage = None;
                    self.place(to, home_of(to));
                }
            },
            Command::Used { object, reads, writes } if object == self.object && self.wanted.is_none() => {
                let home = self.home.unwrap_or(Home::Lost);
                let to = self.usage.as_mut().and_then(|usage| usage.report(sender, reads, writes, home));
                to.into_iter().for_each(|to| self.place(to, home_of(to)));
            }
            Command::Moved { object, given } if object == self.object => {
                let Some(Home::At { process, epoch }) = self.home else { return Ok(()) };
                if (process, epoch) != (sender, given.epoch) {
                    return Ok(());
                }
                let value = from_bytes::<Desk>(given.state.expect("it fits")).map_err(|why| why.to_string())?;
                if value != self.desk {
                    return Err(format!("{sender} gives {value:?} away, and one copy is {:?}", self.desk));
                }
                self.home = Some(home_of(given.to));
                let wanted = self.wanted.take().filter(|wanted| *wanted != given.to);
                wanted.into_iter().for_each(|to| self.place(to, home_of(to)));
            }
            _ => (),
        }
        Ok(())
    }

    fn place(&mut self, to: Wanted, home: Home) {
        match self.home {
            Some(Home::Everywhere) => {
                self.home = Some(home);
                if home != Home::Everywhere {
                    self.waiting.clear();
                }
            }
            Some(Home::At { process, .. }) if self.wanted.is_some() || to != Wanted::At(process) => {
                self.wanted = Some(to);
            }
            _ => (),
        }
    }

    /// A write ran at the process that keeps the object.
    pub(super) fn run_kept(
        &mut self,
        process: u64,
        object: u64,
        operation: u16,
        arguments: &[u8],
    ) -> Result<(), String> {
        let at = self.values.len() as u64;
        self.values.push(self.desk.value);
        if object != self.object || !self.home.is_some_and(|home| home.is_at(process)) {
            return Err(format!("{process} runs a write of an object that is at {:?}", self.home));
        }
        let (tag,) = from_bytes::<(u64,)>(arguments).map_err(|why| why.to_string())?;
        self.run(at, operation, tag)
    }

    fn run(&mut self, at: u64, operation: u16, tag: u64) -> Result<(), String> {
        let result = match operation {
            POP => self.desk.items.pop_front().ok_or("a guard does not hold")?,
            PUSH => {
                self.desk.items.push_back(tag);
                0
            }
            _ => std::mem::replace(&mut self.desk.value, tag),
        };
        match self.ran.insert(tag, Ran { at, result }) {
            None => Ok(()),
            Some(before) => Err(format!("write {tag} ran twice: {before:?}, and at {at}")),
        }
    }
}
