//! What is measured: the rows, and the bare message that each call is compared with.

use am_bench_ordered::{Load, Senders, Stack, Work};
use am_objects::Level;

/// One measurement: a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// A bare request and its reply between two members' nodes.
    Request,
    /// A message of a bare group, with these bytes.
    Message(Level, usize),
    /// A null message of a bare group, by two members in turn.
    Messages(Level),
    /// A read of this process's copy.
    Read,
    /// A write with these bytes of arguments.
    Write(Level, usize),
    /// A null write, by two processes in turn.
    Writes(Level),
    /// A bare remote procedure call, with these bytes of arguments, between two of the processes.
    Call(usize),
    /// A write of an object that another process keeps, with these bytes of arguments.
    Kept(usize),
    /// A read of it.
    KeptRead,
    /// A read by `read_latest`.
    Latest(Level),
    /// From one process's push to the result of the pop that waits for it at another.
    Pop(Level),
    /// A key that is set by openraft's leader.
    Openraft,
    /// A key that is set, and replicated, by Redis.
    Redis,
}

/// Arguments that are no null write's.
pub(crate) const LONG: usize = 1024;
/// The argument of the paper's throughput.
pub(crate) const PAPER: usize = 1 << 20;

use Level::{Agreed, Safe};

impl Row {
    /// All, in the table's order.
    pub(crate) const ALL: [Row; 27] = [
        Row::Request,
        Row::Message(Agreed, 0),
        Row::Message(Safe, 0),
        Row::Message(Agreed, LONG),
        Row::Message(Safe, LONG),
        Row::Message(Agreed, PAPER),
        Row::Messages(Agreed),
        Row::Messages(Safe),
        Row::Call(0),
        Row::Call(LONG),
        Row::Read,
        Row::Write(Agreed, 0),
        Row::Write(Safe, 0),
        Row::Write(Agreed, LONG),
        Row::Write(Safe, LONG),
        Row::Write(Agreed, PAPER),
        Row::Writes(Agreed),
        Row::Writes(Safe),
        Row::Latest(Agreed),
        Row::Latest(Safe),
        Row::Pop(Agreed),
        Row::Pop(Safe),
        Row::KeptRead,
        Row::Kept(0),
        Row::Kept(LONG),
        Row::Openraft,
        Row::Redis,
    ];

    /// What carries it.
    pub(crate) fn via(self) -> &'static str {
        match self {
            Row::Request => "am",
            Row::Message(..) | Row::Messages(_) => "group",
            Row::Call(_) => "rpc",
            Row::Openraft => Stack::Store.name(),
            Row::Redis => "redis",
            _ => "objects",
        }
    }

    /// The call's name in tables and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::Request => "request",
            Row::Message(..) => "message",
            Row::Read => "read",
            Row::Messages(_) => "messages in turn",
            Row::Write(..) => "write",
            Row::Writes(_) => "writes in turn",
            Row::Openraft | Row::Redis => "set",
            Row::Call(_) => "call",
            Row::Kept(_) => "write, kept",
            Row::KeptRead => "read, kept",
            Row::Latest(_) => "read_latest",
            Row::Pop(_) => "pop",
        }
    }

    /// A peer.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Row::Openraft | Row::Redis)
    }

    /// What is no message of a group has none.
    pub(crate) fn level(self) -> Option<Level> {
        match self {
            Row::Request | Row::Read | Row::Openraft | Row::Redis => None,
            Row::Call(_) | Row::Kept(_) | Row::KeptRead => None,
            Row::Message(level, _) | Row::Write(level, _) => Some(level),
            Row::Messages(level) | Row::Writes(level) | Row::Latest(level) | Row::Pop(level) => Some(level),
        }
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Row::Message(_, size) | Row::Write(_, size) | Row::Call(size) | Row::Kept(size) => size,
            _ => 0,
        }
    }

    /// The row that it is compared with: a bare one, or of peers our null write.
    pub(crate) fn under(self) -> Option<Row> {
        match self {
            Row::Request | Row::Message(..) | Row::Messages(_) | Row::Call(_) | Row::Read => None,
            Row::Kept(size) => Some(Row::Call(size)),
            Row::KeptRead => Some(Row::Call(0)),
            Row::Write(level, size) => Some(Row::Message(level, size)),
            Row::Latest(_) => Some(Row::Request),
            Row::Writes(level) => Some(Row::Messages(level)),
            Row::Pop(level) => Some(Row::Message(level, 0)),
            Row::Openraft | Row::Redis => Some(Row::Write(Safe, 0)),
        }
    }

    /// The row of the bench of groups that measures it.
    pub(crate) fn work(self, members: usize) -> Option<Work> {
        let stack = match self {
            Row::Request => Stack::Am,
            Row::Message(Agreed, _) | Row::Messages(Agreed) => Stack::Agreed,
            Row::Message(Safe, _) | Row::Messages(Safe) => Stack::Safe,
            Row::Openraft => Stack::Store,
            _ => return None,
        };
        if matches!(self, Row::Messages(_)) {
            return Some(Work::in_turn(stack, members));
        }
        Some(Work { stack, members, senders: Senders::One, size: self.size(), load: Load::InTurn })
    }
}

/// The name of a level in tables and in JSON.
pub(crate) fn level_name(level: Level) -> &'static str {
    match level {
        Agreed => "agreed",
        Safe => "safe",
    }
}

/// What has the wire and the cores alone for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A stack without objects.
    Bare(Stack),
    /// A space at this level.
    Space(Level),
    /// Remote procedure calls between two processes.
    Rpc,
    /// A space whose object one process keeps.
    Kept,
    Redis,
}

impl Turn {
    pub(crate) const ALL: [Turn; 9] = [
        Turn::Bare(Stack::Am),
        Turn::Bare(Stack::Agreed),
        Turn::Space(Agreed),
        Turn::Bare(Stack::Safe),
        Turn::Space(Safe),
        Turn::Rpc,
        Turn::Kept,
        Turn::Bare(Stack::Store),
        Turn::Redis,
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Turn::Bare(stack @ (Stack::Am | Stack::Store)) => stack.name().to_owned(),
            Turn::Redis => Row::Redis.via().to_owned(),
            Turn::Rpc => Row::Call(0).via().to_owned(),
            Turn::Kept => "objects, kept".to_owned(),
            Turn::Bare(stack) => format!("a bare group, {}", stack.name()),
            Turn::Space(level) => format!("objects, {}", level_name(level)),
        }
    }

    /// What is measured in it. A read of the copy here is the same at both levels, and measured at the default one.
    pub(crate) fn rows(self) -> impl Iterator<Item = Row> {
        Row::ALL.into_iter().filter(move |row| match self {
            Turn::Bare(stack) => row.work(0).is_some_and(|work| work.stack == stack),
            Turn::Redis => *row == Row::Redis,
            Turn::Rpc => matches!(row, Row::Call(_)),
            Turn::Kept => matches!(row, Row::Kept(_) | Row::KeptRead),
            Turn::Space(level) => {
                *row == Row::Read && level == Safe || row.via() == "objects" && row.level() == Some(level)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_one_turn_and_is_compared_with_a_bare_one() {
        for row in Row::ALL {
            let turns = Turn::ALL.into_iter().filter(|turn| turn.rows().any(|of| of == row)).count();
            assert_eq!(turns, 1, "{row:?}");
            let is_compared = row.is_peer() || row.via() == "objects" && row != Row::Read;
            assert_eq!(row.under().is_some(), is_compared, "{row:?}");
            let is_bare = |under: Row| under.work(3).is_some() || matches!(under, Row::Call(_));
            let fits = |under: Row| is_bare(under) != row.is_peer() && under.size() == row.size();
            assert!(row.under().is_none_or(fits), "{row:?}");
        }
    }
}
