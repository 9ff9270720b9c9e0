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
    /// A read of this process's copy.
    Read,
    /// A write with these bytes of arguments.
    Write(Level, usize),
    /// A read by `read_latest`.
    Latest(Level),
    /// From one process's push to the result of the pop that waits for it at another.
    Pop(Level),
}

/// Arguments that are no null write's.
pub(crate) const LONG: usize = 1024;

use Level::{Agreed, Safe};

impl Row {
    /// All, in the table's order.
    pub(crate) const ALL: [Row; 14] = [
        Row::Request,
        Row::Message(Agreed, 0),
        Row::Message(Safe, 0),
        Row::Message(Agreed, LONG),
        Row::Message(Safe, LONG),
        Row::Read,
        Row::Write(Agreed, 0),
        Row::Write(Safe, 0),
        Row::Write(Agreed, LONG),
        Row::Write(Safe, LONG),
        Row::Latest(Agreed),
        Row::Latest(Safe),
        Row::Pop(Agreed),
        Row::Pop(Safe),
    ];

    /// What carries it.
    pub(crate) fn via(self) -> &'static str {
        match self {
            Row::Request => "am",
            Row::Message(..) => "group",
            _ => "objects",
        }
    }

    /// The call's name in tables and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::Request => "request",
            Row::Message(..) => "message",
            Row::Read => "read",
            Row::Write(..) => "write",
            Row::Latest(_) => "read_latest",
            Row::Pop(_) => "pop",
        }
    }

    /// A read of the copy here and a bare request have none.
    pub(crate) fn level(self) -> Option<Level> {
        match self {
            Row::Request | Row::Read => None,
            Row::Message(level, _) | Row::Write(level, _) | Row::Latest(level) | Row::Pop(level) => Some(level),
        }
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Row::Message(_, size) | Row::Write(_, size) => size,
            _ => 0,
        }
    }

    /// The bare row that it is compared with.
    pub(crate) fn bare(self) -> Option<Row> {
        match self {
            Row::Request | Row::Message(..) | Row::Read => None,
            Row::Write(level, size) => Some(Row::Message(level, size)),
            Row::Latest(_) => Some(Row::Request),
            Row::Pop(level) => Some(Row::Message(level, 0)),
        }
    }

    /// The row of the bench of groups that measures it.
    pub(crate) fn work(self, members: usize) -> Option<Work> {
        let stack = match self {
            Row::Request => Stack::Am,
            Row::Message(Agreed, _) => Stack::Agreed,
            Row::Message(Safe, _) => Stack::Safe,
            _ => return None,
        };
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
}

impl Turn {
    pub(crate) const ALL: [Turn; 5] = [
        Turn::Bare(Stack::Am),
        Turn::Bare(Stack::Agreed),
        Turn::Space(Agreed),
        Turn::Bare(Stack::Safe),
        Turn::Space(Safe),
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Turn::Bare(Stack::Am) => "am".to_owned(),
            Turn::Bare(stack) => format!("a bare group, {}", stack.name()),
            Turn::Space(level) => format!("objects, {}", level_name(level)),
        }
    }

    /// What is measured in it. A read of the copy here is the same at both levels, and measured at the default one.
    pub(crate) fn rows(self) -> impl Iterator<Item = Row> {
        Row::ALL.into_iter().filter(move |row| match self {
            Turn::Bare(stack) => row.work(0).is_some_and(|work| work.stack == stack),
            Turn::Space(level) => row.via() == "objects" && row.level().unwrap_or(Safe) == level,
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
            assert_eq!(row.bare().is_some(), row.via() == "objects" && row != Row::Read, "{row:?}");
            assert!(row.bare().is_none_or(|bare| bare.work(3).is_some() && bare.size() == row.size()), "{row:?}");
        }
    }
}
