//! The kernel's gate and [`am_wire::gate`] let the same control frames pass, at the same times. Needs root.

use am_bpf::{Config, Probe};
use am_wire::bounce::RejectTemplate;
use am_wire::frame::{self, LinkAddresses};
use am_wire::gate::{Gate, GateError, SOURCE_BURST, SOURCE_INTERVAL_NS};
use am_wire::{Address, EtherType, Flow, Framing, Header, Kind};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const OWN: Address = Address([0x02, 0, 0, 0, 0, 1]);
const CONFIG: Config =
    Config { ethertype: EtherType::DEFAULT, own: OWN, node_socket: 9, counts_redirected: true, lost_per_million: 0 };

fn source(number: u64) -> Address {
    Address::from_u64(2 << 40 | number)
}

fn control_frame(framing: Framing, from: u64, words: u8, body: &[u8]) -> Vec<u8> {
    let link = LinkAddresses { to: OWN, from: source(from), ethertype: EtherType::DEFAULT };
    let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words, seq: 0 };
    let mut bytes = vec![0; frame::length(framing, body.len())];
    frame::body(&mut bytes, framing, body.len()).unwrap().copy_from_slice(body);
    frame::emit(&mut bytes, framing, &link, &header, body.len(), None).unwrap();
    bytes
}

struct Twins {
    rust: Gate,
    c: Probe,
}

impl Twins {
    fn new(c: Probe) -> Twins {
        Twins { rust: Gate::default(), c }
    }

    fn know(&mut self, address: Address) {
        self.rust.add_known(address);
        let link = LinkAddresses { to: address, from: OWN, ethertype: EtherType::DEFAULT };
        let flow = Flow::new(7).unwrap();
        self.c.steer().set_reject_template(flow, Some(&RejectTemplate::new(Framing::Split, &link, flow, 0)));
        // What is known stays so when the flow is over.
        self.c.steer().set_reject_template(flow, None);
    }

    /// Their common answer.
    fn refused(&mut self, frame: &[u8], now: u64) -> Result<Option<GateError>, String> {
        let rust = self.rust.pass(frame, EtherType::DEFAULT, now).err();
        let c = self.c.gate_refusal(frame, now).unwrap_or_else(|error| panic!("{error}"));
        if rust == c { Ok(rust) } else { Err(format!("at {now} ns Rust: {rust:?}, C: {c:?}: {frame:x?}")) }
    }
}

/// Bodies of every kind and size, from four sources, of which one sends most and two are known; time goes on in jumps, so that
/// buckets fill and leak. What came of them: passed, senseless, over the limit.
fn compare(c: Probe, seed: u64, frames: usize) -> Result<[usize; 3], String> {
    let (mut random, mut twins) = (SmallRng::seed_from_u64(seed), Twins::new(c));
    let (mut now, mut seen) = (0, [0; 3]);
    [2, 3].into_iter().for_each(|known| twins.know(source(known)));
    for _ in 0..frames {
        let mut body = vec![0; random.random_range(1..130)];
        random.fill(&mut body[..]);
        body[0] = random.random_range(0..13);
        if random.random_ratio(9, 10) {
            // Keepalive, both sorts of closed, and close.
            let (code, size) = *[(8, 9), (9, 10), (9, 35), (5, 34)].choose(&mut random).unwrap();
            body.resize(size, 0);
            body[0] = code;
            let tag = if random.random_ratio(1, 3) { 16 } else { 0 };
            body.resize(body.len() + tag, 0);
        }
        let framing =
            [Framing::Plain, Framing::Split, Framing::Bare][random.random_range(0..20_usize).saturating_sub(17)];
        let frame = control_frame(
            framing,
            random.random_range(12_u64..28).saturating_sub(24),
            u8::from(random.random_ratio(1, 50)),
            &body,
        );
        let answer = twins.refused(&frame, now)?;
        seen[answer.map_or(0, |why| 1 + why as usize)] += 1;
        now += if random.random_ratio(1, 100_000) {
            SOURCE_INTERVAL_NS * SOURCE_BURST / 4
        } else {
            random.random_range(0..100)
        };
    }
    Ok(seen)
}

fn load() -> Probe {
    Probe::load(&CONFIG).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn they_answer_alike() {
    let seen = compare(load(), 1, 600_000).unwrap_or_else(|difference| panic!("{difference}"));
    println!("{seen:?}");
    assert!(seen.iter().all(|&n| n > 1000), "{seen:?}: of one sort there were hardly any");
}

#[test]
fn planted_differences_are_found() {
    for option in ["-DEACH_BURST=32767", "-DKNOWN_BURST=65535", "-DWORDS_MASK=6"] {
        let source = std::path::Path::new("steer.bpf.c");
        let object = crate::twins::compile(source, &[option]);
        let c = Probe::load_object(object.bytes(), &CONFIG).unwrap_or_else(|error| panic!("{error}"));
        println!("{}", compare(c, 2, 600_000).expect_err(option));
    }
}
