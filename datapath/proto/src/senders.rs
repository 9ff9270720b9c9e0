//! The peers that have flows with this node, and how much each of them sends. A [fair share](crate::fair_share) is a
//! share of a peer: the flows of one peer divide it, because a peer could otherwise take more by opening more flows.
//!
//! How many flows of a peer are active is derived from what they sent in their last rounds, as the number of senders is:
//! (Σu)² ÷ Σu². So a flow that sends nothing leaves the share to the others. The sums are kept once a round for each
//! flow, and not for each message.
//!
//! Pushed by: the first flow of a peer. Popped by: the end of its last one. Bounded by: the flow ids.

/// The index of a peer in [`Senders`].
pub(crate) type SenderIndex = u16;

/// How much the flows of one peer sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerUsage {
    /// The round in which one of its flows was last active. 0: no flow was.
    pub(crate) round: u8,
    /// The active flows, by what they sent in earlier rounds.
    active_flows: u8,
    /// Σu and Σu² of the flows that became active in this round, where u is what each sent in its last round.
    sum: u16,
    sum_of_squares: u32,
}

/// The most messages of a flow that count in a round.
const MAX_COUNTED: u16 = 255;

impl PeerUsage {
    /// Begin another round.
    pub(crate) fn begin_round(&mut self, round: u8) {
        let squares = self.sum_of_squares.max(1);
        let active = (u32::from(self.sum).pow(2) / squares).clamp(1, u32::from(u8::MAX));
        *self = PeerUsage { round, active_flows: active as u8, ..PeerUsage::default() };
    }

    /// A flow is active in this round, and sent this many messages in its last one. Returns how many flows of its peer are
    /// active.
    pub(crate) fn add_flow(&mut self, messages: u16) -> u8 {
        let messages = messages.min(MAX_COUNTED);
        self.sum = self.sum.saturating_add(messages);
        self.sum_of_squares = self.sum_of_squares.saturating_add(u32::from(messages).pow(2));
        self.active_flows
    }
}

/// Make room for one more entry. `Vec` would double, and leave up to half of a table unused.
pub(crate) fn reserve_one<T>(table: &mut Vec<T>) {
    const GROWTH: usize = 64;
    if table.len() == table.capacity() {
        table.reserve_exact(GROWTH);
    }
}

/// Make room for this peer.
pub(crate) fn grow_to<T: Default>(table: &mut Vec<T>, peer: SenderIndex) {
    while table.len() <= usize::from(peer) {
        reserve_one(table);
        table.push(T::default());
    }
}

/// All peers that have flows with this node.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    /// The number of flows of each peer.
    flows: Vec<u16>,
    vacant: Vec<SenderIndex>,
    /// Sorted by the keyed hash of a name. Two peers whose hashes are equal would have one share.
    by_name_hash: Vec<(u32, SenderIndex)>,
}

impl Senders {
    /// The number of peers.
    pub(crate) fn count(&self) -> usize {
        self.by_name_hash.len()
    }

    /// A flow with the peer of this name begins. Returns the peer's index.
    pub(crate) fn add_flow(&mut self, name_hash: u32) -> SenderIndex {
        let place = match self.find(name_hash) {
            Ok(found) => {
                let at = self.by_name_hash[found].1;
                self.flows[usize::from(at)] += 1;
                return at;
            }
            Err(place) => place,
        };
        let at = self.vacant.pop().unwrap_or(self.flows.len() as SenderIndex);
        grow_to(&mut self.flows, at);
        self.flows[usize::from(at)] = 1;
        reserve_one(&mut self.by_name_hash);
        self.by_name_hash.insert(place, (name_hash, at));
        at
    }

    fn find(&self, name_hash: u32) -> Result<usize, usize> {
        self.by_name_hash.binary_search_by_key(&name_hash, |&(hash, _)| hash)
    }

    /// A flow with this peer ended.
    pub(crate) fn remove_flow(&mut self, at: SenderIndex, name_hash: u32) {
        self.flows[usize::from(at)] -= 1;
        if self.flows[usize::from(at)] == 0 {
            _ = self.find(name_hash).map(|at| self.by_name_hash.remove(at));
            self.vacant.push(at);
        }
    }

    /// Whether this peer has no other flow.
    pub(crate) fn has_one_flow(&self, at: SenderIndex) -> bool {
        self.flows[usize::from(at)] == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_there_as_long_as_one_of_its_flows() {
        let mut senders = Senders::default();
        let [alpha, beta] = [3, 5].map(|peer| senders.add_flow(peer));
        assert_eq!(senders.add_flow(3), alpha);
        assert!(!senders.has_one_flow(alpha) && senders.has_one_flow(beta));
        senders.remove_flow(alpha, 3);
        assert_eq!(senders.count(), 2);
        senders.remove_flow(alpha, 3);
        assert_eq!((senders.count(), senders.add_flow(7)), (1, alpha), "its place is free");
    }

    #[test]
    fn flows_count_by_what_they_send() {
        let active = |messages: &[u16]| {
            let mut usage = PeerUsage::default();
            messages.iter().for_each(|&messages| _ = usage.add_flow(messages));
            usage.begin_round(1);
            usage.active_flows
        };
        assert_eq!([active(&[]), active(&[9]), active(&[5; 8]), active(&[100, 1, 1, 1])], [1, 1, 8, 1]);
    }
}
