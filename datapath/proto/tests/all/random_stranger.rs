//! A stranger that sees no frames and sends requests at random. In `split` and `plain` it must also guess a nonce. What
//! gets through in `bare` is why `auto` uses that framing on a cable only.

use std::time::Duration;

use crate::harness::{Buf, Net};
use am_proto::FramingChoice;
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Class, EtherType, Flow, Framing, Header, Kind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ALPHA: usize = 0;
const BETA: usize = 1;
/// In `bare` with one open flow, one in 131,072 gets through: one of 16,384 flow ids, and the 512 numbers of a window
/// out of 4,096 sequence numbers.
const FORGED: u64 = 4_000_000;

/// How many of the forged requests an endpoint with one flow delivers.
fn delivered(framing: Framing, flow: fn(&mut SmallRng, Flow) -> Flow) -> u64 {
    let seed = 1;
    let (mut net, mut random) = (Net::new(seed), SmallRng::seed_from_u64(seed));
    let [mut alpha, mut beta] = ["alpha", "beta"].map(|named| {
        let at = usize::from(named == "beta");
        net.config(at, named)
    });
    (alpha.framing, beta.framing) = (FramingChoice::Fixed(framing), FramingChoice::Fixed(framing));
    let ((_, here), (_, there)) = (net.start(alpha), net.start(beta));
    let to = net.connect(ALPHA, here, "beta");
    net.send(ALPHA, to, Class::Request, 1, b"true").unwrap();
    let mut taken = Flow::NODE;
    net.run(Duration::from_secs(1), |net| {
        let delivery = net.extract(BETA, there);
        taken = delivery.map_or(taken, |delivery| delivery.flow.flow());
        taken != Flow::NODE
    });

    let own = net.core(BETA).config().address;
    let from = Address([0x02, 0, 0, 0, 9, 9]);
    let link = LinkAddresses { to: own, from, ethertype: EtherType::DEFAULT };
    let mut space = [0; 60];
    for _ in 0..FORGED {
        let flow = flow(&mut random, taken);
        let header =
            Header { kind: Kind::Request, flow, nonce: random.random(), handler: 1, words: 0, seq: random.random() };
        let length = frame::emit(&mut space, framing, &link, &header, 8, None).unwrap();
        net.core(BETA).on_frame(Buf::of(&space[..length]));
    }
    net.core(BETA).counters().requests_received - 1
}

/// The stranger knows the flow id already. Its nonce is right once in 65,536 times, and then the number must be right,
/// too.
#[test]
fn with_a_nonce_hardly_any_forged_request_gets_through() {
    let known = |_: &mut SmallRng, taken| taken;
    assert_eq!([Framing::Split, Framing::Plain].map(|framing| delivered(framing, known)), [0, 0]);
}

#[test]
fn in_bare_a_few_forged_requests_get_through() {
    let any = |random: &mut SmallRng, _| Flow::new(random.random_range(1..Flow::COUNT as u16)).unwrap();
    let delivered = delivered(Framing::Bare, any);
    println!("{delivered} of {FORGED}");
    assert!((1..60).contains(&delivered), "{delivered} of {FORGED}");
}
