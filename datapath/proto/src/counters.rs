//! Everything the core counts.

use am_wire::{Class, Reason};

use crate::receive_queue::Verdict;

macro_rules! counters {
    ($($name:ident: $doc:literal,)*) => {
        /// Everything the core counts, readable at any time. What is counted for each message comes first, on one cache line.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[repr(C, align(64))]
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
    requests_received: "Requests accepted; each counts once.",
    replies_received: "Replies accepted; each counts once.",
    piggybacks_sent: "Acknowledgements sent in the padding of messages.",
    retransmitted: "Messages sent again, for any reason.",
    bundles_sent: "Coalesced frames sent.",
    bundled_sent: "Messages sent in coalesced frames.",
    duplicates: "Messages that arrived before.",
    beyond_window: "Messages beyond the window.",
    no_room: "Messages not accepted because all receive frames hold messages that wait to be extracted, or a quarter of them hold messages that wait for an earlier one.",
    endpoint_faults: "Messages of those in `no_room` whose endpoint had as many frames as it may have, while there were some for other endpoints.",
    rejects_sent: "Requests rejected because there was no room.",
    rejects_dropped: "Requests not accepted and not rejected either, because the queue of rejects was full.",
    rejects_received: "Requests of this node that were rejected, and are sent again later.",
    rejects_stale: "Rejects of messages that were not in flight: late, duplicate, or never sent.",
    no_handler: "Messages refused because their endpoint does not have the handler that they name. They come back to their senders.",
    rejected_resent: "Requests sent again after a reject.",
    acks_sent: "Acknowledgements sent in frames of their own.",
    acks_received: "Acknowledgements received in frames of their own.",
    bundles_received: "Coalesced frames received.",
    timeouts: "Retransmission time-outs that fired.",
    fast_retransmits: "Messages sent again because later ones had arrived before them.",
    spurious_retransmits: "Messages sent again in vain: the receiver reported that the first copy had only been late. Each report lengthens the wait until a message counts as lost.",
    returned: "Messages returned to their senders undelivered.",
    control_sent: "Discovery and set-up frames sent.",
    control_received: "Discovery and set-up frames received.",
    no_frame: "Times that no frame was free for an acknowledgement or control frame.",
    peers_forgotten: "Peers forgotten to make room for others.",
    peers_ignored: "Beacons ignored because there was no room for another peer.",
    unknown_flows_answered: "Answers to frames on flows that had ended or were of an earlier run: their senders are notified.",
    claims: "Address conflicts: beacons that contradict what is known of their node. Both sides are asked.",
    names_contested: "Name conflicts: times that two live nodes with one name were found.",
    control_unauthenticated: "Control frames and rejects without an authentication code of this segment's key, or with one where this node has no key.",
    redirected: "Connections that were given to another member of the peer's group.",
    members_given_up: "Times that a member of a peer's group was silent, and another one was asked for the connection.",
    late: "Times that this node did not poll for half a second or longer. Its peers waited meanwhile.",
    group_frames: "Frames of groups that arrived.",
    group_frames_forged: "Frames of groups whose tag is not that of the segment's key.",
    group_frames_dropped: "Frames of groups for which there was no room, because the endpoint that joined the group was not polled.",
    stale_control: "Set-up frames of a peer's earlier run, or that answer no question of this node.",
}

impl Counters {
    #[inline]
    pub(crate) fn count_received(&mut self, class: Class, accepted: u64) {
        match class {
            Class::Request => self.requests_received += accepted,
            Class::Reply => self.replies_received += accepted,
        }
    }

    /// Count a coalesced frame, and the messages of it that were accepted.
    pub(crate) fn count_coalesced(&mut self, class: Class, accepted: u64) {
        self.bundles_received += 1;
        self.count_received(class, accepted);
    }

    /// Count a message that is a duplicate, or beyond the window.
    pub(crate) fn count_not_new(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Beyond => self.beyond_window += 1,
            _ => self.duplicates += 1,
        }
    }
}
