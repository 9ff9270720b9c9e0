//! The program and [`am_wire::stamp`] give the same messages the same numbers, and make the same frames of them: many at random, with
//! tables that open, fill, recycle and close. Needs root. The program of
//! an older kernel leaves them to the host.
//!
//! `STEER_SEED` repeats a run, `STEER_FRAMES=10000000` lengthens one.

use am_bpf::{Config, Kernel, Probe, ProgramStamps};
use am_wire::frame::LinkAddresses;
use am_wire::group::{self, GroupFrame, GroupHeader};
use am_wire::stamp::{self, Destination, Opening, Refusal, SenderState, Stamps, destination, stamp, stamped};
use am_wire::steer::Decision;
use am_wire::{Address, EtherType};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::differential::{FRAMES, frames_of_a_run, seed};

const OWN: Address = Address([0x02, 0xab, 0xcd, 0xef, 0, 1]);
const CONFIG: Config =
    Config { ethertype: EtherType::DEFAULT, own: OWN, node_socket: 9, counts_redirected: true, lost_per_million: 0 };
const GROUP: u64 = 0xfedc_ba98_7654_3210;
const SENDERS: u16 = 5;

struct Twins {
    random: SmallRng,
    rust: Box<Stamps>,
    c: ProgramStamps,
    probe: Probe,
    epoch: u32,
    now: u64,
    /// The epoch and number of the message that was copied last, and its copies.
    copied: (Vec<u8>, usize),
}

fn address(sender: u16) -> Address {
    Address::from_u64((2 << 40) + u64::from(sender) + 1)
}

impl Twins {
    fn new(seed: u64, probe: Probe) -> Twins {
        let random = SmallRng::seed_from_u64(seed);
        probe.steer().join_group(1, 3).unwrap();
        assert_eq!(probe.steer().join_group(GROUP, 4).unwrap(), Some(1));
        let c = probe.steer().stamps(GROUP).expect("this kernel's program stamps");
        let mut twins = Twins { random, rust: Box::default(), c, probe, epoch: 0, now: 1 << 40, copied: (vec![], 0) };
        twins.open();
        twins
    }

    /// A new epoch, on both sides.
    fn open(&mut self) {
        let Twins { random, epoch, now, .. } = self;
        *epoch += 1;
        let key = if random.random() { [0; 2] } else { random.random() };
        let next = if random.random() { random.random_range(0..1 << 45) } else { (1 << 37) - 5 };
        let share = random.random_range(0..30);
        let senders: Vec<_> = (0..SENDERS)
            .map(|place| {
                let first = if random.random() { random.random() } else { u32::MAX - 3 };
                let limit = first.wrapping_add(random.random_range(0..9));
                random.random_ratio(3, 4).then_some(SenderState { address: address(place), next: first, limit })
            })
            .collect();
        let to = *[Destination::Group, Destination::Copies, Destination::Sender].choose(random).unwrap();
        let count = if random.random_ratio(1, 20) { stamp::SENDERS } else { random.random_range(0..5) };
        let copies: Vec<_> = (0..count).map(|_| address(random.random())).collect();
        let opening = Opening {
            group: GROUP,
            key,
            epoch: *epoch,
            lease_until: *now + 1_000,
            next,
            recycled: next,
            capacity: random.random_range(100..400),
            share,
            senders: &senders,
            to,
            copies: &copies,
        };
        for side in [&*self.rust, &*self.c] {
            side.open(&opening).unwrap();
        }
    }

    fn each(&self, change: impl Fn(&Stamps)) {
        [&*self.rust, &*self.c].into_iter().for_each(change);
    }

    /// What the sequencer's process does now and then.
    fn work(&mut self) {
        let (next, ahead) = (self.rust.next(), self.random.random_range(0..50));
        if self.rust.epoch() == 0 && ahead == 0 {
            self.open();
        }
        match self.random.random_range(0..400) {
            0 => self.open(),
            1 => self.each(Stamps::close),
            51..=100 => self.each(|side| side.recycle((next + 1).saturating_sub(ahead))),
            101..=104 => self.now += 1_000,
            105..=130 => self.each(|side| side.renew(self.now + ahead)),
            _ => self.now += self.random.random_range(0..3),
        }
    }

    /// A frame that is mostly one to be stamped.
    fn frame(&mut self) -> Vec<u8> {
        let rare = |random: &mut SmallRng| random.random_ratio(1, 50);
        let random = &mut self.random;
        let mut sender = random.random_range(0..SENDERS);
        if rare(random) {
            sender = random.random_range(SENDERS..80);
        }
        let next = self.rust.sender(sender.into()).map_or(0, |state| state.next);
        let back = match random.random_range(0..10) {
            0 => random.random_range(0..140),
            1 => random.random_range(0..4_u32).wrapping_sub(2),
            _ => 0,
        };
        let seq = if rare(random) { random.random() } else { next.wrapping_sub(back) };
        let epoch = if rare(random) { self.epoch.wrapping_sub(random.random_range(0..3)) } else { self.epoch };
        let (flags, content) = (random.random(), random.random());
        let asked = GroupHeader { flags, content, ..GroupHeader::to_stamp(GROUP, epoch, sender, seq) };
        let tag = if rare(random) { random.random() } else { asked.tag_under(self.rust.key()) };
        let from = if rare(random) { address(random.random_range(0..SENDERS)) } else { address(sender) };
        let to = if random.random() { OWN } else { group::address(GROUP) };
        let mut bytes = vec![0; 1514];
        let payload = random.random_range(0..=group::payload(&mut bytes, 1440).unwrap().len());
        random.fill(group::payload(&mut bytes, payload).unwrap());
        let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
        let length = group::emit(&mut bytes, &link, &GroupHeader { tag, ..asked }, payload).unwrap();
        bytes.truncate(length);
        bytes
    }

    /// What the host makes of a frame.
    fn by_host(&self, frame: &[u8]) -> (Result<bool, Refusal>, Vec<u8>) {
        let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *frame else { panic!("too short") };
        let (header, _) = GroupHeader::parse(frame).unwrap();
        assert_eq!(header.what, GroupFrame::ToStamp);
        let mut bytes = frame.to_vec();
        let from = Address([a, b, c, d, e, f]);
        let answer = stamp(&self.rust, &header, from, self.now);
        if let Ok(stamp) = answer {
            group::rewrite(&mut bytes, destination(&self.rust, from), OWN, &stamped(&self.rust, &header, &stamp));
        }
        (answer.map(|stamp| stamp.is_again), bytes)
    }

    /// Their common answer to the next frame.
    fn step(&mut self) -> Result<Result<bool, Refusal>, String> {
        self.work();
        let frame = self.frame();
        let rust = self.by_host(&frame);
        let c = self.probe.sequence(&frame, self.now).unwrap_or_else(|error| panic!("{error}"));
        let [one, other] =
            [&*self.rust, &*self.c].map(|side| (side.next(), side.credits(), [0, 1, 2, 3, 4].map(|n| side.sender(n))));
        if rust != c || one != other {
            return Err(format!(
                "Rust: {:?} {one:?}, C: {:?} {other:?}: {frame:x?}\n{:x?}\n{:x?}",
                rust.0, c.0, rust.1, c.1
            ));
        }
        assert_eq!(one.1.sum(), one.1.capacity);
        if c.0.is_ok() {
            self.copy(&c.1)?;
        }
        Ok(rust.0)
    }

    /// The kernel makes copies of the frame one after the other, and now and then has no memory for the rest. A message that comes again goes to
    /// the others first.
    fn copy(&mut self, stamped: &[u8]) -> Result<(), String> {
        let receivers: Vec<_> = self.rust.copies().collect();
        let has_memory = self.random.random_ratio(19, 20);
        let message = &stamped[group::GROUP_HEADER_AT..group::GROUP_HEADER_AT + 40];
        let message = [&message[8..12], &message[24..32]].concat();
        if self.copied.0 != message {
            self.copied = (message, 0);
        }
        for _ in 0..if has_memory { receivers.len().max(1) } else { receivers.len() / 2 } {
            let to = receivers.get(self.copied.1 % receivers.len().max(1));
            self.copied.1 += 1;
            let copy = self.probe.copy(stamped).unwrap_or_else(|error| panic!("{error}"));
            let wanted = to.map(|to| [&to.0, &stamped[6..]].concat());
            if copy != wanted {
                return Err(format!("{to:?} of {receivers:?}: {copy:x?}\n{wanted:x?}"));
            }
        }
        Ok(())
    }
}

/// How many frames had each answer: a number, the same number again, each refusal.
fn compare(seed: u64, frames: u64, probe: Probe) -> Result<[u64; 11], String> {
    stay_on_a_processor();
    let (mut twins, mut seen) = (Twins::new(seed, probe), [0; 11]);
    for _ in 0..frames {
        seen[twins.step()?.map_or_else(|why| 2 + why as usize, usize::from)] += 1;
    }
    Ok(seen)
}

/// The copies of a frame are counted by the processor that makes them.
fn stay_on_a_processor() {
    let mut own = CpuSet::new();
    own.set(sched_getcpu().unwrap()).unwrap();
    sched_setaffinity(Pid::from_raw(0), &own).unwrap();
}

/// Whether this kernel's program stamps. The loader knows.
fn has_sequencer() -> bool {
    let is_known = crate::variants::knows_frags();
    assert_eq!(Kernel::running().has_sequencer(), is_known);
    is_known
}

fn load() -> Probe {
    Probe::load(&CONFIG).unwrap_or_else(|error| panic!("{error}"))
}

/// An older kernel's program has no table for the host to open, and leaves a frame to be stamped to the host, as it came.
fn leaves_it_to_the_host(mut probe: Probe) {
    assert_eq!(probe.steer().join_group(GROUP, 4).unwrap(), Some(0));
    assert!(probe.steer().stamps(GROUP).is_none());
    let mut frame = vec![0; 1514];
    let link = LinkAddresses { to: OWN, from: address(1), ethertype: EtherType::DEFAULT };
    let length = group::emit(&mut frame, &link, &GroupHeader::to_stamp(GROUP, 1, 1, 0), 0).unwrap();
    frame.truncate(length);
    assert_eq!(probe.decide(&frame).unwrap(), Decision::Sequence(0));
    assert_eq!(probe.sequence(&frame, 0).unwrap(), (Err(Refusal::NoGroup), frame));
}

#[test]
fn they_stamp_alike() {
    let (seed, frames) = (seed(), frames_of_a_run());
    println!("STEER_SEED={seed}");
    if !has_sequencer() {
        return leaves_it_to_the_host(load());
    }
    let seen = compare(seed, frames, load()).unwrap_or_else(|difference| panic!("STEER_SEED={seed}: {difference}"));
    println!("{seen:?}");
    assert!(seen[0] > frames / 10, "{seen:?}");
    if frames < FRAMES {
        // Sorts come with the settings of an epoch, and the run has few of them.
        return;
    }
    let hardly = |&(why, &count): &(usize, &u64)| why != 2 + Refusal::NoGroup as usize && count < frames / 2_000;
    assert_eq!(seen.iter().enumerate().find(hardly), None, "{seen:?}: of one sort there were hardly any");
}

#[test]
fn planted_differences_are_found() {
    for option in
        ["-DCREDITS_AT_LEAST=0", "-DREMEMBERED_MESSAGES=127", "-DNUMBER_STEP=2", "-DBACK_TO_SENDER=3", "-DFIRST_COPY=1"]
    {
        let object = crate::twins::compile(std::path::Path::new("steer.bpf.c"), &[option]);
        let c = Probe::load_object(object.bytes(), &CONFIG).unwrap_or_else(|error| panic!("{error}"));
        if has_sequencer() {
            // It ends with the first difference. Of some there are a few in 100,000 frames.
            println!("{}", compare(seed(), 2_000_000, c).expect_err(option));
        }
    }
}

/// Nothing but noise in the header changes nothing, and no frame of another group is stamped.
#[test]
fn a_table_of_another_group_is_left_alone() {
    if !has_sequencer() {
        return leaves_it_to_the_host(load());
    }
    let mut twins = Twins::new(1, load());
    twins.probe.steer().leave_group(GROUP);
    assert_eq!(twins.c.epoch(), 0);
    assert_eq!(twins.probe.steer().join_group(GROUP ^ 1, 4).unwrap(), Some(1));
    twins.each(|side| assert_eq!(side.next(), twins.rust.next()));
    let frame = twins.frame();
    assert_eq!(twins.probe.decide(&frame).unwrap(), Decision::Drop(am_wire::Reason::NoGroup));
    let mut other = frame;
    other[group::GROUP_HEADER_AT + 7] ^= 1;
    let (answer, bytes) = twins.probe.sequence(&other, 0).unwrap();
    assert_eq!((answer, bytes), (Err(Refusal::NoGroup), other));
}
