//! What is measured: what carries the messages, the members of the group, the senders among them, and how they send.

use serde::{Deserialize, Serialize};

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stack {
    /// A bare request and its reply between two members' nodes.
    Am,
    /// Our group, at `Level::Agreed`.
    Agreed,
    /// Our group, at `Level::Safe`.
    Safe,
    /// Corosync's closed process groups.
    Corosync,
    /// A replicated log of openraft: a message has arrived where it is applied.
    Openraft,
    /// Our group at `Level::Agreed`, whose sequencer's process gives the numbers where the XDP program could.
    AgreedHost,
    /// The same with a copy of each message to each member, by the XDP program.
    Copies,
    /// The same by the process.
    CopiesHost,
    /// The sender fetches its number of the XDP program.
    Fetch,
    /// Our group at `Level::Agreed`, whose members sleep until something arrives though they have cores to spin on.
    Asleep,
    /// A store of openraft: its sender has set a key when the leader answers. Only `am-bench objects` measures it.
    Store,
}

impl Stack {
    pub(crate) const ALL: [Stack; 10] = [
        Stack::Am,
        Stack::Agreed,
        Stack::Safe,
        Stack::Corosync,
        Stack::Openraft,
        Stack::AgreedHost,
        Stack::Copies,
        Stack::CopiesHost,
        Stack::Fetch,
        Stack::Asleep,
    ];

    /// Whether it is our group with one thing changed: only over `xdp:`.
    pub(crate) fn is_variant(self) -> bool {
        matches!(self, Stack::AgreedHost | Stack::Copies | Stack::CopiesHost | Stack::Fetch | Stack::Asleep)
    }

    /// Whether the sequencer's host sends each member a copy.
    pub(crate) fn copies(self) -> bool {
        matches!(self, Stack::Copies | Stack::CopiesHost)
    }

    /// The name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Stack::Am => "am",
            Stack::Agreed => "agreed",
            Stack::Safe => "safe",
            Stack::Corosync => "corosync",
            Stack::Openraft | Stack::Store => "openraft",
            Stack::AgreedHost => "agreed, host",
            Stack::Copies => "copies",
            Stack::CopiesHost => "copies, host",
            Stack::Fetch => "fetch",
            Stack::Asleep => "agreed, asleep",
        }
    }
}

/// Which members send. The first member is the sequencer, and sends only where all do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Senders {
    /// The last member.
    One,
    /// The last two.
    Two,
    /// Each member.
    All,
}

impl Senders {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Senders::One => "one",
            Senders::Two => "two",
            Senders::All => "all",
        }
    }

    pub(crate) fn count(self, members: usize) -> usize {
        match self {
            Senders::One => 1,
            Senders::Two => 2,
            Senders::All => members,
        }
    }
}

/// How the senders send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// In turn: the next message is sent when its sender has the one before it.
    InTurn,
    /// Each keeps as many as the window allows on their way.
    Stream,
}

/// One measurement: a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// What carries the messages.
    pub stack: Stack,
    /// The members of the group.
    pub members: usize,
    /// Those that send.
    pub senders: Senders,
    /// Bytes of a message.
    pub size: usize,
    /// How they send.
    pub load: Load,
}

/// The paper's message of the throughput.
pub(crate) use am_measure::members::LONG;
/// The most own bytes on their way from a sender, if that is more than one message.
const MOST_BYTES: usize = 2 << 20;
/// The most own messages on their way from a sender.
const MOST_MESSAGES: usize = 64;

impl Work {
    /// A null message, by one sender in turn.
    pub fn null(stack: Stack, members: usize) -> Work {
        Work { stack, members, senders: Senders::One, size: 0, load: Load::InTurn }
    }

    /// Messages of this size, as many as one sender can send.
    pub(crate) fn stream(stack: Stack, members: usize, size: usize) -> Work {
        Work { stack, members, senders: Senders::One, size, load: Load::Stream }
    }

    /// The most own messages on their way from a sender, 0 in turn.
    pub(crate) fn window(&self) -> usize {
        match self.load {
            Load::InTurn => 0,
            Load::Stream => (MOST_BYTES / self.size.max(1)).clamp(1, MOST_MESSAGES),
        }
    }

    /// A null message by two senders in turn, the paper's ping-pong.
    pub fn in_turn(stack: Stack, members: usize) -> Work {
        let senders = if members == 2 { Senders::All } else { Senders::Two };
        Work { senders, ..Work::null(stack, members) }
    }

    /// All that a stack is measured with in a group of this size, short messages first: a null message in turn, by one and by two
    /// senders; and streams of messages of these sizes, by one, two and all. Variants of our group are measured with a null message alone,
    /// and one that sends contents to each member with the paper's long message.
    pub(crate) fn all_of(stack: Stack, members: usize, sizes: &[usize]) -> Vec<Work> {
        if stack.is_variant() {
            let is_long = stack == Stack::CopiesHost && sizes.contains(&LONG);
            let long = is_long.then(|| Work::stream(stack, members, LONG));
            return [Work::null(stack, members)].into_iter().chain(long).collect();
        }
        let of = |senders, size, load| Work { stack, members, senders, size, load };
        let all = [Senders::One, Senders::Two, Senders::All];
        let all = all.into_iter().filter(|senders| match senders {
            Senders::One => true,
            // Between two nodes, and one of them serves.
            _ if stack == Stack::Am => false,
            Senders::Two => members > 2,
            Senders::All => true,
        });
        let senders: Vec<Senders> = all.collect();
        let in_turn = senders.iter().filter(|senders| members == 2 || **senders != Senders::All);
        let in_turn = in_turn.map(|senders| of(*senders, 0, Load::InTurn));
        let streams = [0].iter().chain(sizes).flat_map(|size| senders.iter().map(|by| of(*by, *size, Load::Stream)));
        in_turn.chain(streams).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_null_messages_in_turn_and_streams_by_each_number_of_senders() {
        let count = |stack, members| Work::all_of(stack, members, &[1024, LONG]).len();
        assert_eq!([count(Stack::Am, 4), count(Stack::Agreed, 2), count(Stack::Safe, 4)], [1 + 3, 2 + 6, 2 + 9]);
        assert_eq!(Work::all_of(Stack::Fetch, 4, &[1024, LONG]), [Work::null(Stack::Fetch, 4)]);
        let (null, long) = (Work::null(Stack::CopiesHost, 4), Work::stream(Stack::CopiesHost, 4, LONG));
        assert_eq!(Work::all_of(Stack::CopiesHost, 4, &[1024, LONG]), [null, long]);
        for members in [2, 4] {
            assert!(Work::all_of(Stack::Agreed, members, &[]).contains(&Work::null(Stack::Agreed, members)));
        }
        let windows = [0, 1024, 64 << 10, LONG].map(|size| Work::stream(Stack::Safe, 4, size).window());
        assert_eq!(windows, [64, 64, 32, 2]);
    }
}
