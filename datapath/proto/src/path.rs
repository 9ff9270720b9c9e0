//! What is known of the network between a peer and us. [`probe`](crate::probe) finds it out.

use am_wire::Framing;
use am_wire::control::Step;

use crate::output::FramingWhy;
use crate::time::Time;

/// What the network between a peer and us lets through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    /// Not asked yet.
    Unknown,
    /// Being probed.
    Probing(Probing),
    /// Decided.
    Known(Known),
}

/// What to send with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) framing: Framing,
    pub(crate) why: FramingWhy,
    /// The longest frame that arrives.
    pub(crate) max_frame: u32,
}

/// A question under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probing {
    /// Its number.
    pub(crate) id: u32,
    /// What is asked.
    pub(crate) question: Step,
    /// Since when.
    pub(crate) since: Time,
    /// Probes that every network lets through, and that were answered.
    pub(crate) answered: u8,
    /// Rounds since the last of them was.
    pub(crate) unanswered: u16,
    /// The length of a long probe,
    pub(crate) length: u32,
    /// and what is known when its length is.
    pub(crate) framing: (Framing, FramingWhy),
}

impl Probing {
    pub(crate) fn new(question: Step) -> Probing {
        let framing = (Framing::Plain, FramingWhy::ForgedDropped);
        Probing { id: 0, question, since: Time(0), answered: 0, unanswered: 0, length: 0, framing }
    }

    /// The same question, from the start.
    pub(crate) fn again(self) -> Probing {
        Probing { length: self.length, framing: self.framing, ..Probing::new(self.question) }
    }
}
