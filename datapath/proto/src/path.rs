//! What this node knows about the network path to a peer. [`probe`](crate::probe) finds it out.

use am_wire::Framing;
use am_wire::control::Step;

use crate::output::FramingWhy;
use crate::time::Time;

/// What the path to a peer lets through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    /// Not probed yet.
    Unknown,
    /// A probe is under way.
    Probing(Probing),
    /// The probes are finished.
    Known(KnownPath),
}

/// How to send to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownPath {
    pub(crate) framing: Framing,
    pub(crate) why: FramingWhy,
    /// The longest frame that arrives.
    pub(crate) max_frame: u32,
}

/// The state of a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probing {
    /// The probe's number.
    pub(crate) id: u32,
    /// The question that it answers.
    pub(crate) question: Step,
    /// When this question was first asked.
    pub(crate) since: Time,
    /// Answers to the probes of this question that every network lets through.
    pub(crate) answered: u8,
    /// Rounds since the last of these answers.
    pub(crate) unanswered: u16,
    /// The length of a long probe.
    pub(crate) length: u32,
    /// The framing found so far, for the time when the length is known.
    pub(crate) framing: (Framing, FramingWhy),
}

impl Probing {
    pub(crate) fn new(question: Step) -> Probing {
        let framing = (Framing::Plain, FramingWhy::ForgedDropped);
        Probing { id: 0, question, since: Time(0), answered: 0, unanswered: 0, length: 0, framing }
    }
}
