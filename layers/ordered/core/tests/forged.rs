//! Messages of members that a stranger has changed: without a segment key it may end a group (`docs/promises.md`), and no process that is in one.

use std::collections::BTreeMap;
use std::time::Duration;

use am_ordered_core::{Core, Level, Member, MemberId, Message, Output, Place, Settings, Time};
use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const SEEDS: u64 = 1000;
const STEPS: usize = 3000;
const STEP: Time = Duration::from_micros(500);
/// No call has more to say than this.
const MOST_OUTPUTS: usize = 20_000;
/// Messages that the stranger has seen.
const SEEN: usize = 512;

struct Victims {
    now: Time,
    cores: BTreeMap<MemberId, Core>,
    sent: Vec<(MemberId, MemberId, Message)>,
    seen: Vec<Message>,
}

impl Victims {
    fn new(count: u64) -> Victims {
        let open = |id| {
            let (me, settings) = (Member { id, name: format!("m{id}"), link: 0 }, Settings::default());
            let core = match id.0 {
                0 => Core::found(me, settings, Time::ZERO),
                _ => Core::join(me, settings, Time::ZERO),
            };
            (id, core)
        };
        Victims { now: Time::ZERO, cores: (0..count).map(MemberId).map(open).collect(), sent: vec![], seen: vec![] }
    }

    fn step(&mut self, rng: &mut SmallRng) {
        self.now += STEP;
        for (from, to, message) in std::mem::take(&mut self.sent) {
            if let Some(core) = self.cores.get_mut(&to) {
                core.on_message(self.now, from, message);
            }
        }
        for (id, core) in &mut self.cores {
            if core.next_time() <= self.now {
                core.on_time(self.now);
            }
            if rng.random_ratio(1, 8) {
                let length = if rng.random_ratio(1, 4) { 2000 } else { 4 };
                let level = if rng.random() { Level::Safe } else { Level::Agreed };
                _ = core.send(self.now, level, vec![7; length].into());
            }
            let mut outputs = 0;
            while let Some(output) = core.poll() {
                outputs += 1;
                assert!(outputs < MOST_OUTPUTS, "{id} has no end");
                match output {
                    Output::Send { to, message } => self.sent.push((*id, to, message)),
                    Output::Multicast(message) => {
                        self.sent.extend(core.audience().into_iter().map(|to| (*id, to, message.clone())));
                    }
                    Output::Contact(message) => self.sent.push((*id, MemberId(0), message)),
                    Output::TakeState { joiner, place } => {
                        let next =
                            (place.next < 3 && joiner.0 % 2 == 1).then_some(Place { next: place.next + 1, end: 3 });
                        core.part_taken(joiner, &Bytes::from_static(b"state"), next);
                    }
                    _ => (),
                }
            }
        }
        for (_, _, message) in &self.sent {
            if self.seen.len() < SEEN {
                self.seen.push(message.clone());
            } else if rng.random_ratio(1, 16) {
                self.seen[rng.random_range(0..SEEN)] = message.clone();
            }
        }
    }
}

/// A message that was seen, changed in some places.
fn forged(rng: &mut SmallRng, seen: &[Message]) -> Option<Message> {
    const MOST: [u8; 10] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    const MOST_U32: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0xf];
    let mut bytes = postcard::to_allocvec(&seen[rng.random_range(0..seen.len())]).expect("it can be written");
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..6) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = rng.random_range(0..4),
            2 => _ = bytes.splice(at..=at, MOST),
            3 => _ = bytes.splice(at..=at, MOST_U32),
            4 => {
                let (mut far, mut value) = (vec![], rng.random::<u64>() >> rng.random_range(0..64));
                while value >= 0x80 {
                    far.push(value as u8 | 0x80);
                    value >>= 7;
                }
                far.push(value as u8);
                bytes.splice(at..=at, far);
            }
            _ => {
                let other = postcard::to_allocvec(&seen[rng.random_range(0..seen.len())]).expect("it can be written");
                let from = rng.random_range(0..other.len());
                bytes.splice(at.., other[from..].iter().copied());
            }
        }
        if bytes.is_empty() {
            return None;
        }
    }
    postcard::from_bytes(&bytes).ok()
}

fn attacked(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let members = rng.random_range(1..5);
    let mut victims = Victims::new(members);
    let begins = rng.random_range(1..1000);
    let every = 1 << rng.random_range(0..8);
    for step in 0..STEPS {
        victims.step(&mut rng);
        if step < begins || !rng.random_ratio(1, every) || victims.seen.is_empty() {
            continue;
        }
        // One that ends a member ends the attack on it.
        let ends = |message: &Message| matches!(message, Message::PutOut { .. });
        if let Some(message) =
            forged(&mut rng, &victims.seen).filter(|message| !ends(message) || rng.random_ratio(1, 64))
        {
            let (from, to) = (MemberId(rng.random_range(0..members + 2)), MemberId(rng.random_range(0..members)));
            if std::env::var("AM_SIM_SEED").is_ok() {
                println!("{from} to {to}: {message:?}");
            }
            let core = victims.cores.get_mut(&to).expect("one");
            match message {
                Message::Stamped(stamped) if rng.random() => core.on_stamped_frame(victims.now, stamped),
                message => core.on_message(victims.now, from, message),
            }
        }
    }
}

#[test]
fn no_forged_message_ends_a_process() {
    match std::env::var("AM_SIM_SEED") {
        Ok(seed) => attacked(seed.parse().expect("AM_SIM_SEED=N")),
        Err(_) => (0..SEEDS).for_each(|seed| {
            let result = std::panic::catch_unwind(|| attacked(seed));
            assert!(result.is_ok(), "seed {seed}");
        }),
    }
}
