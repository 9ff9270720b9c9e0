//! The fair share: how many credits each sender of a class may have while several send. One sender needs a window to keep
//! the path busy, and many senders together need no more. Messages beyond a window queue in the switch, in front of the
//! receiver's link, and are lost when the switch's buffers are full.
//!
//! ```text
//!   window ────────────▶ total ──────────────▶ per_sender = total ÷ senders
//!              less when frames are lost,      (above its share, a sender's used credits are withheld;
//!              more when that pays             below it, each used one returns twofold)
//! ```
//!
//! **Senders** are counted by their messages, in *rounds* of two windows of messages: a sender sends all its credits at
//! once, so a shorter round would miss some senders. If most senders have stopped, a round ends earlier: as soon as one
//! sender has used its share eight times. If `u` is what each one sent, the number of senders is (Σu)² ÷ Σu². This is
//! their real number when all send equally much, and about one when one sends much and the others little. A sender that
//! sends nothing does not count, except for a while after it connected.
//!
//! **A sender is a peer**, however many flows it has: of `n` active flows each has an nth of the share, and at least one
//! credit. The squares of their messages count `n` times, so that their sum is the square of the peer's messages. See
//! [senders](crate::senders).
//!
//! **Loss** (gaps that later messages overtook, rejected requests) lowers the total by half of the loss rate, as DCTCP
//! does with marks (Alizadeh et al., 2010). One lost frame in a hundred on a bad cable changes little. A switch that
//! drops a third of the frames stops dropping after a few rounds. The total then grows by one a round, or, with many
//! senders, by one in several rounds: one step of the total raises all senders, and overflows must be rare.
//!
//! **A total of more than one window** fills longer paths: see the [window probe](crate::window_probe).

use core::time::Duration;

use crate::senders::{PeerUsage, SenderIndex, grow_to};
use crate::time::Time;
use crate::window_probe::{Round, WindowProbe};

/// The fair share of one class.
#[derive(Debug)]
pub(crate) struct FairShare {
    /// The most that one sender may have.
    window: u16,
    /// The most that all may have together. More than a window if that pays.
    total: u16,
    /// The most that each may have.
    per_sender: u16,
    /// Senders in the last round.
    senders: u16,
    /// New senders that have not sent anything.
    new_senders: u16,
    /// Until when `new_senders` count. [`Time::NEVER`] if there are none.
    new_senders_until: Time,
    round: u8,
    rounds_since_growth: u16,
    /// The most messages of one sender that count in this round. A sender whose share has just fallen first sends all
    /// its old credits at once: this burst must not count in full.
    max_counted: u16,
    messages: u32,
    /// Σu and Σu².
    sum: u64,
    sum_of_squares: u64,
    lost: u32,
    /// What each peer sent.
    peers: Vec<PeerUsage>,
    /// The search for a total beyond one window.
    window_probe: WindowProbe,
}

/// How much one flow sent in this round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowUsage {
    round: u8,
    /// The active flows of its peer, which divide one share.
    active_flows: u8,
    messages: u16,
}

impl Default for FlowUsage {
    fn default() -> FlowUsage {
        FlowUsage { round: 0, messages: 0, active_flows: 1 }
    }
}

/// The total never falls below this because of loss: it keeps a short path busy.
const MIN_TOTAL: u16 = 16;

/// How long a new sender that sends nothing counts: several RTOs, in case its first messages are lost.
const NEW_SENDER_TIME: Duration = Duration::from_millis(10);

/// A round ends once one sender has used its share this many times: then hardly any other sender is active.
const MAX_SHARES_A_ROUND: u16 = 8;

/// One lost message in this many, or fewer losses, do not show that the window is too large.
const TOLERATED_LOSS_INTERVAL: u64 = 50;

/// The total grows by at least one in this many rounds.
const MAX_ROUNDS_PER_STEP: u16 = 64;

impl FairShare {
    pub(crate) fn new(window: u16) -> Self {
        FairShare {
            window,
            total: window,
            per_sender: window,
            senders: 0,
            new_senders: 0,
            new_senders_until: Time::NEVER,
            round: 1,
            rounds_since_growth: 0,
            max_counted: 2 * window,
            messages: 0,
            sum: 0,
            sum_of_squares: 0,
            lost: 0,
            peers: vec![],
            window_probe: WindowProbe::default(),
        }
    }

    /// The credits that this flow may have.
    #[inline]
    pub(crate) fn of_flow(&self, usage: &FlowUsage) -> u16 {
        if usage.active_flows == 1 { self.per_sender } else { (self.per_sender / u16::from(usage.active_flows)).max(1) }
    }

    /// The credits of each sender, if new senders are not counted.
    pub(crate) fn per_present_sender(&self) -> u16 {
        (self.total / self.senders.max(1)).clamp(1, self.window)
    }

    /// A peer opened its first flow: forget the messages of an earlier peer with this index.
    pub(crate) fn add_peer(&mut self, peer: SenderIndex) {
        self.peers.get_mut(usize::from(peer)).into_iter().for_each(|usage| *usage = PeerUsage::default());
    }

    /// A new sender connected. It counts, for at most [`NEW_SENDER_TIME`], before it has sent anything: the others may
    /// have left it no credit to send with.
    pub(crate) fn add_sender(&mut self, now: Time) {
        self.new_senders = self.new_senders.saturating_add(1);
        self.new_senders_until = now + NEW_SENDER_TIME;
        self.divide(1, self.senders as u64);
    }

    /// Count messages of one flow of this peer, and lost messages of any peer.
    #[inline]
    pub(crate) fn count_messages(
        &mut self,
        now: Time,
        (flow, peer): (&mut FlowUsage, SenderIndex),
        messages: u16,
        lost: u32,
    ) {
        if now >= self.new_senders_until {
            self.forget_new_senders();
        }
        if flow.round != self.round {
            self.begin_round_of(flow, peer);
        }
        let before = u64::from(flow.messages.min(self.max_counted));
        flow.messages = flow.messages.saturating_add(messages);
        let after = u64::from(flow.messages.min(self.max_counted));
        self.sum_of_squares += (after - before) * (after + before) * u64::from(flow.active_flows);
        self.sum += after - before;
        self.messages += u32::from(messages);
        self.lost += lost;
        let round_messages = 2 * u32::from(self.total.max(self.window));
        if self.messages >= round_messages || flow.messages >= MAX_SHARES_A_ROUND.saturating_mul(self.per_sender) {
            self.next_round(now);
        }
    }

    #[cold]
    fn forget_new_senders(&mut self) {
        (self.new_senders, self.new_senders_until) = (0, Time::NEVER);
        self.divide(1, u64::from(self.senders));
    }

    /// The first messages of a flow in this round.
    #[cold]
    fn begin_round_of(&mut self, flow: &mut FlowUsage, peer: SenderIndex) {
        grow_to(&mut self.peers, peer);
        let peer = &mut self.peers[usize::from(peer)];
        if peer.round != self.round {
            self.new_senders = self.new_senders.saturating_sub(u16::from(peer.round == 0));
            peer.begin_round(self.round);
        }
        *flow = FlowUsage { round: self.round, messages: 0, active_flows: peer.add_flow(flow.messages) };
    }

    /// The messages that counted as lost were only late: undo the reduction.
    pub(crate) fn forget_losses(&mut self) {
        self.lost = 0;
        self.total = self.total.max(self.window);
    }

    #[cold]
    fn next_round(&mut self, now: Time) {
        let (square_of_sum, sum_of_squares) = (self.sum.pow(2).max(1), self.sum_of_squares.max(1));
        self.senders = ((square_of_sum + sum_of_squares / 2) / sum_of_squares) as u16;
        self.adapt_total(now);
        self.divide(sum_of_squares, square_of_sum);
        self.round = self.round.wrapping_add(1).max(1);
        self.max_counted = 2 * self.per_sender;
        (self.messages, self.sum, self.sum_of_squares, self.lost) = (0, 0, 0, 0);
    }

    /// Divide the total by the senders, whose number is the fraction `numerator / denominator`, and the new senders.
    fn divide(&mut self, denominator: u64, numerator: u64) {
        let senders = (numerator + self.new_senders as u64 * denominator).max(denominator);
        self.per_sender = (self.total as u64 * denominator / senders).clamp(1, self.window as u64) as u16;
    }

    fn adapt_total(&mut self, now: Time) {
        let lost = self.lost.min(self.messages) as u64;
        let less = self.total as u64 * lost / (2 * self.messages.max(1) as u64);
        self.rounds_since_growth = self.rounds_since_growth.saturating_add(1);
        let more =
            (self.total < self.window && self.rounds_since_growth >= self.senders.min(MAX_ROUNDS_PER_STEP)) as u16;
        if more > 0 {
            self.rounds_since_growth = 0;
        }
        self.total = (self.total + more - less as u16).max(MIN_TOTAL.min(self.window));
        if self.total >= self.window {
            let clean = lost * TOLERATED_LOSS_INTERVAL < self.messages as u64;
            let round = Round { messages: self.messages, senders: self.senders, has_little_loss: clean };
            self.total = self.window_probe.next_total(now, &round, self.total, self.window);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1);

    /// A peer with one flow.
    #[derive(Clone, Copy)]
    struct Sender(FlowUsage, SenderIndex);

    impl Sender {
        fn sends(&mut self, share: &mut FairShare, now: Time, messages: u16, lost: u32) {
            share.count_messages(now, (&mut self.0, self.1), messages, lost);
        }
    }

    /// A share, and a number of peers.
    fn share_of<const N: usize>(window: u16) -> (FairShare, [Sender; N]) {
        let mut share = FairShare::new(window);
        let senders = core::array::from_fn(|at| {
            share.add_peer(at as SenderIndex);
            Sender(FlowUsage::default(), at as SenderIndex)
        });
        (share, senders)
    }

    /// Rounds in which the senders send `each` messages in turn, one a microsecond. Returns the smallest share in the
    /// second half, since the window probe raises it at times.
    fn send(share: &mut FairShare, senders: &mut [Sender], each: &[u16], rounds: usize) -> u16 {
        let (mut now, mut least) = (Time(1), u16::MAX);
        for round in 0..rounds {
            for (sender, &messages) in senders.iter_mut().zip(each) {
                now = now.later(u64::from(messages) * 1000);
                sender.sends(share, now, messages, 0);
            }
            least = if round < rounds / 2 { u16::MAX } else { least.min(share.per_sender) };
        }
        least
    }

    #[test]
    fn a_single_sender_has_the_window() {
        let (mut share, mut senders) = share_of::<1>(128);
        send(&mut share, &mut senders, &[7], 1000);
        assert_eq!(share.per_sender, 128);
    }

    /// Rounds are counted only while the total is below the window.
    #[test]
    fn a_single_sender_overflows_no_counter() {
        let (mut share, [mut sender]) = share_of(1);
        (0..100_000).for_each(|_| sender.sends(&mut share, NOW, 8, 0));
        assert_eq!(share.per_sender, 1);
    }

    #[test]
    fn the_window_is_divided_among_active_senders() {
        let (mut share, mut senders) = share_of::<64>(128);
        assert_eq!(send(&mut share, &mut senders, &[1; 64], 100), 2);
        assert_eq!(send(&mut share, &mut senders[..32], &[2; 32], 16), 4, "after two windows of messages");
        send(&mut share, &mut senders[..1], &[4], 128);
        assert_eq!(share.per_sender, 128);
    }

    #[test]
    fn a_sender_of_few_messages_counts_little() {
        let (mut share, mut senders) = share_of::<9>(128);
        send(&mut share, &mut senders, &[60, 1, 1, 1, 1, 1, 1, 1, 1], 50);
        assert!(share.per_sender > 90, "{}", share.per_sender);
    }

    #[test]
    fn a_new_sender_has_a_share_for_a_while() {
        let (mut share, [mut first, mut second]) = share_of(128);
        share.add_sender(NOW);
        assert_eq!(share.per_sender, 128, "there is no other sender");
        first.sends(&mut share, NOW, 256, 0);
        share.add_sender(NOW);
        first.sends(&mut share, NOW, 256, 0);
        assert_eq!(share.per_sender, 64);
        first.sends(&mut share, NOW + NEW_SENDER_TIME, 1, 0);
        assert_eq!(share.per_sender, 128, "it does not send");
        (0..7).for_each(|_| share.add_sender(NOW));
        second.sends(&mut share, NOW, 1, 0);
        assert_eq!(share.new_senders, 6, "one has sent something");
    }

    #[test]
    fn very_many_senders_have_one_credit_each() {
        let (mut share, mut senders) = share_of::<2000>(128);
        assert_eq!(send(&mut share, &mut senders, &[1; 2000], 20), 1);
    }

    #[test]
    fn little_loss_changes_little_and_much_loss_much() {
        let total = |lost_in: u32| {
            let (mut share, [mut sender]) = share_of(128);
            for n in 0..100_000 {
                sender.sends(&mut share, NOW, 1, (n % lost_in == 0) as u32);
            }
            share.total
        };
        assert!(total(100) > 100, "{}", total(100));
        assert!(total(3) < 32, "{}", total(3));
    }

    #[test]
    fn the_total_recovers_after_loss() {
        let (mut share, [mut sender]) = share_of(128);
        (0..10_000).for_each(|_| sender.sends(&mut share, NOW, 1, 1));
        assert_eq!(share.total, MIN_TOTAL);
        (0..40_000).for_each(|_| sender.sends(&mut share, NOW, 1, 0));
        assert_eq!(share.total, 128);
    }

    /// A peer with eight flows beside fifteen with one: all peers have the same share. When seven of the eight stop, the
    /// eighth has all of it.
    #[test]
    fn the_flows_of_a_peer_divide_its_share() {
        let (mut share, mut senders) = share_of::<16>(128);
        let mut flows = [senders[0]; 8];
        let mut now = Time(1);
        let mut rounds = |active: usize| {
            let mut least = [u16::MAX; 3];
            for round in 0..400 {
                now = now.later(128_000);
                senders[1..].iter_mut().for_each(|sender| sender.sends(&mut share, now, 8, 0));
                flows[..active].iter_mut().for_each(|flow| flow.sends(&mut share, now, 8 / active as u16, 0));
                let shares = [share.per_sender, share.of_flow(&senders[1].0), share.of_flow(&flows[0].0)];
                least = if round < 200 { least } else { [0, 1, 2].map(|n| least[n].min(shares[n])) };
            }
            least
        };
        assert_eq!(rounds(8), [8, 8, 1]);
        assert_eq!(rounds(1), [8, 8, 8]);
    }
}
