//! One direction of a cable.

use crate::clock::Nanos;
use crate::fault::FaultRng;
use crate::options::{NetOptions, Netem};
use crate::wire_frame::{Buffers, WireFrame};

/// Bytes of the preamble, the check sequence and the gap between frames.
pub(crate) const FRAME_OVERHEAD: u64 = 24;

/// One direction of a cable, with one sender. It carries one frame after the other, each for the time that its bits
/// take; then faults may strike the frame.
#[derive(Debug)]
pub struct SimLink {
    /// When the sender is free again.
    free_at: Nanos,
    /// The delay that this cable has beyond that of the others.
    extra_delay: Nanos,
    netem: Netem,
    dice: FaultRng,
    /// The link's counters.
    pub count: SimLinkCount,
}

/// A link's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimLinkCount {
    /// Frames put onto the cable.
    pub carried: u64,
    /// Frames lost.
    pub lost: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that were delayed, so that others may have overtaken them.
    pub late: u64,
    /// Frames that skipped netem's queue.
    pub early: u64,
    /// Copies with a flipped bit.
    pub damaged: u64,
}

impl SimLink {
    pub(crate) fn new(dice: FaultRng, extra_delay: Nanos, netem: Netem) -> SimLink {
        SimLink { free_at: 0, extra_delay, netem, dice, count: SimLinkCount::default() }
    }

    /// Put a frame onto the cable. `arrives` gets each copy and the time when it reaches the other end. Returns the
    /// time when the next frame can be sent.
    pub(crate) fn carry(
        &mut self,
        now: Nanos,
        options: &NetOptions,
        signal: WireFrame,
        buffers: &mut Buffers,
        arrives: &mut dyn FnMut(Nanos, WireFrame),
    ) -> Nanos {
        let bits = (signal.bytes().len() as u64 + FRAME_OVERHEAD) * 8;
        self.free_at = now.max(self.free_at) + (bits * 1_000_000_000).div_ceil(options.rate);
        let at = self.free_at + options.delay + self.extra_delay;
        self.count.carried += 1;
        if self.dice.strikes(now, options.loss) {
            self.count.lost += 1;
            return self.free_at;
        }
        if self.dice.strikes(now, options.duplicate) {
            self.count.duplicated += 1;
            let copy = self.corrupt_some(now, options, signal.clone(), buffers);
            let late = at + self.dice.draw_up_to(options.reorder_by);
            arrives(late, copy);
        }
        let is_late = self.dice.strikes(now, options.reorder);
        self.count.late += is_late as u64;
        let late = if is_late { self.dice.draw_up_to(options.reorder_by) } else { 0 };
        let signal = self.corrupt_some(now, options, signal, buffers);
        arrives(at + late + self.draw_netem_delay(now), signal);
        self.free_at
    }

    /// How long a frame waits in netem's queue.
    fn draw_netem_delay(&mut self, now: Nanos) -> Nanos {
        let Netem { delay, jitter, reorder } = self.netem;
        if !self.dice.is_active(now) || delay == 0 {
            return 0;
        }
        if self.dice.strikes(now, reorder) {
            self.count.early += 1;
            return 0;
        }
        (delay + self.dice.draw_up_to(2 * jitter)).saturating_sub(jitter)
    }

    fn corrupt_some(
        &mut self,
        now: Nanos,
        options: &NetOptions,
        signal: WireFrame,
        buffers: &mut Buffers,
    ) -> WireFrame {
        if !self.dice.strikes(now, options.corrupt) {
            return signal;
        }
        self.count.damaged += 1;
        let at = self.dice.draw_up_to(signal.bytes().len() as u64) as usize;
        buffers.damage(&signal, at, 1 << self.dice.draw_up_to(7))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::US;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    fn carried(frames: usize, options: &NetOptions) -> Vec<(Nanos, WireFrame)> {
        let netem = options.netem.first().copied().unwrap_or_default();
        let mut link = SimLink::new(FaultRng::new(SmallRng::seed_from_u64(3), 1_000_000_000), 0, netem);
        let (mut arrived, mut buffers) = (vec![], Buffers::default());
        for number in 0..frames {
            let signal = buffers.wire_frame(&[number as u8; 226]);
            link.carry(0, options, signal, &mut buffers, &mut |at, signal| arrived.push((at, signal)));
        }
        arrived
    }

    #[test]
    fn bits_take_their_time() {
        let options = NetOptions { rate: 1_000_000_000, delay: 500, ..NetOptions::calm(2) };
        let times: Vec<Nanos> = carried(3, &options).into_iter().map(|(at, _)| at).collect();
        assert_eq!(times, [2500, 4500, 6500]);
    }

    #[test]
    fn each_fault_strikes_as_often_as_it_should() {
        let calm = NetOptions::calm(2);
        let lost = 1000 - carried(1000, &NetOptions { loss: 0.3, ..calm.clone() }).len();
        assert!((250..350).contains(&lost), "{lost}");
        let twice = carried(1000, &NetOptions { duplicate: 0.3, ..calm.clone() }).len() - 1000;
        assert!((250..350).contains(&twice), "{twice}");
        let damaged = carried(1000, &NetOptions { corrupt: 0.3, ..calm.clone() });
        let damaged = damaged.iter().filter(|(_, signal)| signal.is_damaged()).count();
        assert!((250..350).contains(&damaged), "{damaged}");
        let late = carried(1000, &NetOptions { reorder: 0.3, ..calm });
        let overtaken = late.windows(2).filter(|pair| pair[0].0 > pair[1].0).count();
        assert!((200..350).contains(&overtaken), "{overtaken}");
    }

    #[test]
    fn a_queue_delays_more_or_less_and_lets_some_go_at_once() {
        let netem = Netem { delay: 2000 * US, jitter: 1000 * US, reorder: 0.1 };
        let options = NetOptions { rate: 100_000_000_000_000, delay: 0, netem: vec![netem], ..NetOptions::calm(2) };
        let times: Vec<Nanos> = carried(2000, &options).into_iter().map(|(at, _)| at).collect();
        let early = times.iter().filter(|&&at| at < 100 * US).count();
        assert!((150..250).contains(&early), "{early}");
        let waited = || times.iter().filter(|&&at| at >= 100 * US);
        let mean = waited().sum::<Nanos>() / waited().count() as Nanos;
        assert!((1950 * US..2050 * US).contains(&mean), "{mean}");
        assert!(waited().all(|at| (1000 * US..3010 * US).contains(at)));
    }

    #[test]
    fn damage_is_damage() {
        let arrived = carried(200, &NetOptions { corrupt: 1.0, ..NetOptions::calm(2) });
        assert!(arrived.iter().enumerate().all(|(n, (_, signal))| signal.bytes() != [n as u8; 226]));
    }
}
