//! Everything the core counts.

use am_wire::{Class, Reason};

use crate::receive_queue::Verdict;

macro_rules! counters {
    ($($name:ident: $doc:literal,)*) => {
        /// Everything the core counts, readable at any time.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $(#[doc = $doc] pub $name: u64,)*
            /// Frames dropped, by the number of the [`Reason`].
            pub dropped: [u64; Reason::ALL.len()],
        }

        impl Counters {
            /// Name and value of each.
            pub fn each(&self, f: &mut dyn FnMut(&'static str, u64)) {
                $(f(stringify!($name), self.$name);)*
                for reason in Reason::ALL {
                    f(reason.name(), self.dropped[*reason as usize]);
                }
            }
        }
    };
}

counters! {
    requests_sent: "Requests admitted.",
    replies_sent: "Replies admitted.",
    requests_received: "Requests accepted, each once.",
    replies_received: "Replies accepted, each once.",
    duplicates: "Messages that had arrived before.",
    beyond_window: "Messages further ahead than any credit allows.",
    no_room: "Messages not accepted because all receive frames wait to be extracted, or a quarter of them for earlier messages.",
    rejects_sent: "Requests returned to their senders, for want of room.",
    rejects_dropped: "Requests not accepted and not returned, because too many were to be.",
    rejects_received: "Requests of ours that came back, to be sent again later.",
    rejects_stale: "Rejects of what was not on its way: late, twice, or never sent.",
    rejected_resent: "Requests sent again after they had come back.",
    acks_sent: "Acknowledgements in frames of their own.",
    acks_received: "The same, received.",
    piggybacks_sent: "Acknowledgements in the padding of messages.",
    bundles_sent: "Frames with several messages.",
    bundled_sent: "Messages that shared a frame with others.",
    bundles_received: "Frames with several messages, received.",
    retransmitted: "Messages sent again, for whatever reason.",
    timeouts: "Retransmission time-outs that fired.",
    fast_retransmits: "Messages sent again because later ones had arrived.",
    spurious_retransmits: "Times that the receiver said that those had only been late: it takes longer now until they count as lost.",
    returned: "Messages that came back to their sender.",
    control_sent: "Discovery and set-up frames sent.",
    control_received: "The same, received.",
    no_frame: "Times that no fresh frame was to be had for an acknowledgement or control frame.",
    peers_forgotten: "Peers forgotten for others: there were more than are remembered.",
    peers_ignored: "Beacons of more peers than can be remembered, and none to forget.",
    unknown_flows_answered: "Answers to frames on flows that are over, or of an earlier run: their senders had not heard it.",
    claims: "Beacons that contradict what is known of their node: both were asked.",
    names_contested: "Times that two nodes of one name were found to live.",
    stale_control: "Set-up frames of an earlier run of a peer, or that answer nothing we asked.",
}

impl Counters {
    pub(crate) fn drop(&mut self, reason: Reason) {
        self.dropped[reason as usize] += 1;
    }

    /// So many messages were accepted.
    #[inline]
    pub(crate) fn received(&mut self, class: Class, accepted: u64) {
        match class {
            Class::Request => self.requests_received += accepted,
            Class::Reply => self.replies_received += accepted,
        }
    }

    /// A message that came again, or that no credit allows.
    pub(crate) fn not_new(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Beyond => self.beyond_window += 1,
            _ => self.duplicates += 1,
        }
    }
}
