//! What a program may not send, one by one: each is refused for its own reason, and reaches nobody.

use am_daemon::judge::Refusal;
use am_transport::Transport;
use am_wire::control::{
    Accept, Close, Connect, ConnectFlags, Control, FinalAcks, FlowParameters, Incarnation, NodeId, Probe, Step,
};
use am_wire::{Address, Flow, Framing, Kind, Seq};

use crate::common::{Place, Running, list, until};
use crate::intruder::{Intruder, header, name};

/// All ports of a daemon have the same source addresses in `split` framing: they are on one NIC.
const OTHER_HOST: Address = Address([2, 9, 9, 9, 9, 9]);

pub(crate) fn flow(id: u16) -> Flow {
    Flow::new(id).unwrap()
}

pub(crate) fn offer(id: u16) -> FlowParameters {
    FlowParameters { flow: flow(id), nonce: 5, first: [Seq(0); 2], credits: [8; 2], max_frame: 1514, max_message: 0 }
}

fn connect(node: NodeId, id: u16) -> Control {
    let (from, to) = (name("main"), name("main"));
    let incarnation = Incarnation(9);
    Control::Connect(Connect {
        id: 1,
        node,
        incarnation,
        from,
        to,
        tag: 0,
        flags: ConnectFlags::ORDERED,
        offer: offer(id),
    })
}

/// Two programs that have said their names: one that forges, and its victim.
struct Bench {
    place: Place,
    _daemon: Running,
    mallory: Intruder,
    bob: Intruder,
}

impl Bench {
    fn new() -> Bench {
        let place = Place::new();
        let daemon = Running::local(&place.socket());
        let [mut mallory, mut bob] = [0, 1].map(|_| Intruder::attach(&place.socket()));
        mallory.introduce("mallory");
        bob.introduce("bob");
        let bench = Bench { place, _daemon: daemon, mallory, bob };
        until("both names are known", || bench.port("bob").is_some() && bench.port("mallory").is_some());
        bench
    }

    fn port(&self, name: &str) -> Option<am_daemon::admin::PortListing> {
        crate::common::port(&self.place.socket(), name)
    }

    fn refused(&self, why: Refusal) -> u64 {
        self.port("mallory").unwrap().refused.get(why.name()).copied().unwrap_or(0)
    }

    /// The forger sends this. It is refused for this reason, and nothing arrives.
    #[track_caller]
    fn refuses(&mut self, frame: &am_ring::Frame, why: Refusal) {
        let (refused, delivered) = (self.refused(why), self.port("bob").unwrap().delivered);
        self.mallory.send(frame);
        until("it is refused", || self.refused(why) > refused);
        assert_eq!(self.port("bob").unwrap().delivered, delivered, "it arrived");
    }

    /// The forger sends this, and it arrives.
    #[track_caller]
    fn passes(&mut self, frame: &am_ring::Frame) {
        let delivered = self.port("bob").unwrap().delivered;
        self.mallory.send(frame);
        until("it arrives", || self.port("bob").unwrap().delivered > delivered);
    }
}

#[test]
fn names_and_addresses_of_others() {
    let mut bench = Bench::new();
    let (own, bob) = (bench.mallory.address(), bench.bob.address());
    let id = |text: &str| NodeId::of(&name(text));
    let forged = [
        // Another's source address, in each framing that has one.
        (bench.mallory.control(bob, bob, &connect(id("mallory"), 7)), Refusal::BadSource),
        (
            bench.mallory.frame(bob, OTHER_HOST, Framing::Split, &header(Kind::Request, flow(7)), b"hello"),
            Refusal::BadSource,
        ),
        // Another's name, with its id and with its own; another's address.
        (
            bench.mallory.control(Address::BROADCAST, own, &bench.mallory.beacon(id("bob"), name("bob"), own)),
            Refusal::BadName,
        ),
        (
            bench.mallory.control(Address::BROADCAST, own, &bench.mallory.beacon(id("mallory"), name("bob"), own)),
            Refusal::BadName,
        ),
        (
            bench.mallory.control(Address::BROADCAST, own, &bench.mallory.beacon(id("mallory"), name("mallory"), bob)),
            Refusal::BadName,
        ),
        // Another name, although it is free.
        (
            bench.mallory.control(Address::BROADCAST, own, &bench.mallory.beacon(id("eve"), name("eve"), own)),
            Refusal::BadName,
        ),
        // Another's id in a set-up, and in a probe.
        (bench.mallory.control(bob, own, &connect(id("bob"), 7)), Refusal::BadName),
        (
            bench.mallory.control(bob, own, &Control::Probe(Probe { id: 1, node: id("bob"), step: Step::True })),
            Refusal::BadName,
        ),
        // A set-up for everyone, and one for itself.
        (bench.mallory.control(Address::BROADCAST, own, &connect(id("mallory"), 7)), Refusal::BadDestination),
        (bench.mallory.control(own, own, &connect(id("mallory"), 7)), Refusal::BadDestination),
    ];
    for (frame, why) in &forged {
        bench.refuses(frame, *why);
    }
    let honest = bench.mallory.control(bob, own, &connect(id("mallory"), 7));
    bench.passes(&honest);
}

#[test]
fn flows_of_others() {
    let mut bench = Bench::new();
    let (own, bob) = (bench.mallory.address(), bench.bob.address());
    let message =
        |bench: &Bench, id, framing| bench.mallory.frame(bob, own, framing, &header(Kind::Request, flow(id)), b"hello");
    for framing in [Framing::Bare, Framing::Split, Framing::Plain] {
        for kind in [Kind::Request, Kind::Reply, Kind::Ack, Kind::Reject, Kind::Put, Kind::Get] {
            let frame = bench.mallory.frame(bob, own, framing, &header(kind, flow(7)), &[]);
            bench.refuses(&frame, Refusal::NotGranted);
        }
    }
    // Bob grants a flow, and that one only.
    let accept = bench.bob.control(own, bob, &Control::Accept(Accept { id: 1, offer: offer(7) }));
    bench.bob.send(&accept);
    until("the flow is known", || bench.port("mallory").unwrap().flows == 1);
    for framing in [Framing::Bare, Framing::Split, Framing::Plain] {
        let (granted, other) = (message(&bench, 7, framing), message(&bench, 8, framing));
        bench.passes(&granted);
        bench.refuses(&other, Refusal::NotGranted);
    }
    // Bob ends an earlier use of it, and then this one.
    let close = |nonce| Close { flow: flow(1), nonce: 0, own: flow(7), own_nonce: nonce, acks: FinalAcks::default() };
    let [earlier, this] = [4, 5].map(|nonce| bench.bob.control(own, bob, &Control::Close(close(nonce))));
    bench.bob.send(&earlier);
    let granted = message(&bench, 7, Framing::Plain);
    bench.passes(&granted);
    bench.bob.send(&this);
    until("the flow has ended", || bench.port("mallory").unwrap().flows == 0);
    bench.refuses(&granted, Refusal::NotGranted);
}

#[test]
fn frames_that_are_none() {
    let mut bench = Bench::new();
    let (own, bob) = (bench.mallory.address(), bench.bob.address());
    let good = bench.mallory.frame(bob, own, Framing::Plain, &header(Kind::Request, flow(7)), &[7; 100]);
    let bytes = am_wire::Buffer::bytes(&good).to_vec();
    let copy = |bench: &Bench, bytes: &[u8]| bench.mallory.port.caps().pool.copy(bytes).unwrap();
    for length in [1, 13, 59] {
        let short = copy(&bench, &bytes[..length]);
        bench.refuses(&short, if length < 14 { Refusal::ForeignEthertype } else { Refusal::Malformed });
    }
    let mut foreign = bytes.clone();
    foreign[12..14].copy_from_slice(&[8, 0]);
    let foreign = copy(&bench, &foreign);
    bench.refuses(&foreign, Refusal::ForeignEthertype);
    let nonsense = bench.mallory.frame(bob, own, Framing::Plain, &header(Kind::Control, Flow::NODE), &[99; 30]);
    bench.refuses(&nonsense, Refusal::Malformed);
}

#[test]
fn a_name_is_free_when_its_program_ends() {
    let mut bench = Bench::new();
    let mut second = Intruder::attach(&bench.place.socket());
    let beacon = second.beacon(NodeId::of(&name("bob")), name("bob"), second.address());
    let frame = second.control(Address::BROADCAST, second.address(), &beacon);
    second.send(&frame);
    let mut trouble = None;
    until("the reason is reported", || {
        second.port.poll_notices(&mut |notice| {
            if let am_transport::Notice::LinkError(why) = notice {
                trouble = Some(why.to_owned());
            }
        });
        trouble.is_some()
    });
    assert!(trouble.unwrap().contains("`bob`"));
    let gone = bench.bob.address();
    bench.bob = Intruder::attach(&bench.place.socket());
    let mut heard = vec![];
    until("the others hear that it has gone", || {
        second.port.poll_notices(&mut |notice| {
            if let am_transport::Notice::PeerGone(address) = notice {
                heard.push(address);
            }
        });
        !heard.is_empty()
    });
    assert_eq!(heard, [gone]);
    second.send(&frame);
    until("the name is its", || bench.port("bob").is_some_and(|port| port.address == second.address().to_string()));
    let mut is_well = false;
    until("it has no trouble any more", || {
        is_well = true;
        second.port.poll_notices(&mut |notice| is_well &= !matches!(notice, am_transport::Notice::LinkError(_)));
        is_well
    });
}

#[test]
fn a_program_that_forges_for_long_is_detached() {
    let mut bench = Bench::new();
    let (own, bob) = (bench.mallory.address(), bench.bob.address());
    let frame = bench.mallory.frame(bob, own, Framing::Plain, &header(Kind::Request, flow(7)), b"hello");
    let mut told = String::new();
    until("it is detached", || {
        // Without waiting for room: what is left in the lane of a detached port is never taken.
        _ = bench.mallory.port.send(Address::BROADCAST, &frame);
        bench.mallory.port.flush();
        bench.mallory.port.poll_notices(&mut |notice| {
            if let am_transport::Notice::LinkError(why) = notice {
                told = why.to_owned();
            }
        });
        !told.is_empty()
    });
    assert!(told.contains("not_granted"), "{told}");
    until("its port is free", || list(&bench.place.socket()).ports.len() == 1);
}
