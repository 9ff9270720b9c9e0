//! What a program does with the messages of a group.

use std::fmt;

use am_ordered_core::{Ended, Level, MemberId, Number, Place, View};

/// A member's state: what the messages of the group do to it. All replicas get the same messages in one order, so they have the same state, if
/// [`deliver`](Replica::deliver) depends on nothing else.
///
/// All of this is called while the [group is polled](crate::Group::poll), on the thread that polls it: a replica that takes long is a member that takes
/// long, and a panic is the program's.
pub trait Replica {
    /// The next message of the group, from this member or another one.
    fn deliver(&mut self, message: &Delivered<'_>);

    /// The state, for a member that joins: it begins with the effect of all messages that were delivered here. It travels in pieces while messages go on.
    /// The group waits while it is made, and while it is restored: if saving takes longer than
    /// [`Settings::silence`](crate::Settings::silence) (some 50 MB), the others choose another sequencer, which is asked for the state next. A replica
    /// with a larger state has [`save_part`](Replica::save_part) and [`restore_part`](Replica::restore_part).
    fn save(&self) -> Vec<u8> {
        vec![]
    }

    /// Begin with the state of another member. Messages that it has delivered since follow. A process that joins may begin more than once, if the
    /// member that gives the state crashes.
    fn restore(&mut self, _state: &[u8]) {}

    /// The part of the state that begins at this place, with the effect of all messages that were delivered when it was asked for first, and of no
    /// others. Messages are delivered between two parts. The first part has the default place. A part of some MiB is best; the parts of one state are
    /// asked for one after the other.
    fn save_part(&mut self, _place: Place) -> Saved {
        Saved::Part { bytes: self.save(), next: None }
    }

    /// What [`save_part`](Replica::save_part) gave at another member arrives, with the messages that it has delivered meanwhile: those have their
    /// effect on the parts that are here, and the others have it already when they come. Until [`Step::Ends`] the replica goes on with the state
    /// that it has. Returns `false` if the replica has [`restore`](Replica::restore) instead.
    fn restore_part(&mut self, _step: Step<'_>) -> bool {
        false
    }

    /// Something has happened to the group, or to an own message.
    fn event(&mut self, _event: &Event) {}
}

/// A part of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It is this.
    Part {
        /// The replica's own.
        bytes: Vec<u8>,
        /// Where the next part begins. `None`: this was the last one.
        next: Option<Place>,
    },
    /// Another thread still makes it. It is asked for again each time the group is polled.
    NotYet,
}

/// What a replica gets of another member's state.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// It begins to arrive. Parts of an earlier one are void.
    Begins,
    /// The next part.
    Part(&'a [u8]),
    /// A message that the other member has delivered since it gave the last part.
    Message(&'a Delivered<'a>),
    /// All of it is here: the replica goes on with it.
    Ends,
    /// The rest will not come: the replica goes on with the state that it has.
    IsVoid,
}

/// A message of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered<'a> {
    /// Its place in the order. The first message of the group has 0, and none is left out.
    pub number: Number,
    /// The member that sent it.
    pub sender: MemberId,
    /// The name of that member's node. Empty if it is no member any more.
    pub from: &'a str,
    /// Its level.
    pub level: Level,
    /// If this member has sent it: what [`Group::send`](crate::Group::send) returned.
    pub own: Option<MessageId>,
    /// Its content.
    pub payload: &'a [u8],
}

/// An own message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub(crate) u64);

impl MessageId {
    /// Which of this member's messages it is. The first one has 0.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What happens to a group, besides messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The members are these from now on.
    View(View),
    /// This member is in no majority: it delivers nothing until it is again (`NotPrimary`), or was put out.
    NotPrimary,
    /// It is again.
    Primary,
    /// The messages from this number on, which were delivered here, are void: the group's majority did not know them when the
    /// sequencer crashed. [`restore`](Replica::restore) follows. No `Safe` message is among them.
    Diverged {
        /// The first one that is void.
        from: Number,
    },
    /// An own message was not delivered here, because this process is no member any more, or goes on with the state of another one.
    Returned {
        /// The message.
        message: MessageId,
        /// Other members may have delivered it.
        may_be_delivered: bool,
    },
    /// What [`Group::catch_up`](crate::Group::catch_up) has begun with this number is done.
    CaughtUp(u64),
    /// This process is not a member any more.
    Ended(Ended),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::View(view) => write!(f, "members: {}", view.names().collect::<Vec<_>>().join(", ")),
            Event::NotPrimary => f.write_str("no majority of the members answers"),
            Event::Primary => f.write_str("a majority of the members answers again"),
            Event::Diverged { from } => {
                write!(f, "messages from {from} on are void: the group's majority does not have them")
            }
            Event::Returned { may_be_delivered: true, .. } => f.write_str("an own message may be delivered by others"),
            Event::Returned { may_be_delivered: false, .. } => f.write_str("an own message is not delivered"),
            Event::CaughtUp(_) => f.write_str("all that others had is here"),
            Event::Ended(why) => match why {
                Ended::Left => f.write_str("left"),
                Ended::Silent => f.write_str("put out: silent for longer than the group's patience"),
                Ended::TooSlow => f.write_str("put out: too slow for the group"),
                Ended::NotInView => f.write_str("put out while it could not be reached"),
                Ended::Full => f.write_str("the group has as many members as it can"),
            },
        }
    }
}
