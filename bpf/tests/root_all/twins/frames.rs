//! Frames: valid ones, and what can become of them.

use am_wire::frame::{self, LinkAddresses};
use am_wire::group::{self, GroupFrame, GroupHeader};
use am_wire::steer::SteeringTable;
use am_wire::{Address, Class, EtherType, Flow, Framing, Header, Kind};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngCore, SeedableRng};

/// The longest frame at Ethernet's MTU.
pub(crate) const LONGEST: usize = 1514;
/// The shortest that the kernel runs a program on.
pub(crate) const SHORTEST: usize = 14;

/// Everything about a frame that steering looks at, and some more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) framing: Framing,
    pub(crate) kind: Kind,
    pub(crate) flow: Flow,
    pub(crate) link: LinkAddresses,
    pub(crate) body: usize,
}

impl Spec {
    /// A request on a flow.
    pub(crate) fn request(framing: Framing, flow: u16, table: &SteeringTable) -> Spec {
        let link = LinkAddresses { to: table.own, from: Address([0x02, 1, 2, 3, 4, 5]), ethertype: table.ethertype };
        Spec { framing, kind: Kind::Request, flow: Flow::new(flow).unwrap(), link, body: 16 }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut space = [0xa5; LONGEST];
        let header = Header { kind: self.kind, flow: self.flow, nonce: 0xbeef, handler: 7, words: 1, seq: 0x1234_5678 };
        let length = frame::emit(&mut space, self.framing, &self.link, &header, self.body, None).unwrap();
        space[..length].to_vec()
    }
}

/// A stream of frames, the same for the same seed.
pub(crate) struct Frames {
    pub(crate) random: SmallRng,
}

impl Frames {
    pub(crate) fn new(seed: u64) -> Frames {
        Frames { random: SmallRng::seed_from_u64(seed) }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *from.choose(&mut self.random).unwrap()
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.random.random_ratio(1, n)
    }

    fn address(&mut self) -> Address {
        let mut bytes = [0; 6];
        self.random.fill_bytes(&mut bytes);
        Address(bytes)
    }

    /// An EtherType at random, sometimes at an edge of its range.
    pub(crate) fn ethertype(&mut self) -> EtherType {
        let hidden = [0x88b5, 0x88b5, 0x0600, 0xfffe, self.random.random_range(0x0600..0xffff)];
        EtherType::new(self.pick(&hidden)).unwrap()
    }

    /// An address for a node: mostly a true one, sometimes one that looks like a header.
    pub(crate) fn own(&mut self) -> Address {
        let random = self.address();
        let probe = frame::split_source(Flow::NODE, random);
        let unicast = Address([random.0[0] & !1, random.0[1], random.0[2], random.0[3], random.0[4], random.0[5]]);
        self.pick(&[unicast, unicast, Address([2, 0, 0, 0, 0, 1]), probe])
    }

    /// A flow id: one that is open, next to one, or any.
    pub(crate) fn flow(&mut self, open: &[Flow]) -> Flow {
        let any = Flow::new(self.random.random_range(0..Flow::COUNT as u16)).unwrap();
        let known = open.choose(&mut self.random).copied().unwrap_or(any);
        let near = Flow::new(known.id() ^ 1 << self.random.random_range(0..Flow::BITS)).unwrap();
        self.pick(&[known, known, known, near, Flow::NODE, any])
    }

    /// A frame of a group, mostly one that was joined.
    fn group_frame(&mut self, table: &SteeringTable) -> Vec<u8> {
        let group = self.random.random_range(0..10);
        let what = self.pick(&GroupFrame::ALL);
        let (any, from) = (self.address(), self.address());
        let to = self.pick(&[table.own, table.own, group::address(group), Address::BROADCAST, any]);
        let link = LinkAddresses { to, from, ethertype: table.ethertype };
        let header = GroupHeader { what, ..GroupHeader::to_stamp(group, 1, 2, 3) };
        let mut space = [0xa5; LONGEST];
        let payload = self.random.random_range(0..=LONGEST - group::GROUP_PAYLOAD_AT);
        let length = group::emit(&mut space, &link, &header, payload).unwrap();
        let mut bytes = space[..length].to_vec();
        match self.random.random_range(0..20) {
            0 => bytes[15] |= 1 << 3,
            1 => bytes[38] = self.random.random(),
            _ => (),
        }
        bytes
    }

    /// A frame that a sender of ours could have sent, to us or past us.
    fn valid(&mut self, table: &SteeringTable, open: &[Flow]) -> Vec<u8> {
        if self.one_in(8) {
            return self.group_frame(table);
        }
        let flow = self.flow(open);
        let bundle = Kind::Coalesced(self.pick(&Class::ALL));
        let kind = self.pick(&[
            Kind::Request,
            Kind::Reply,
            Kind::Ack,
            Kind::Control,
            Kind::Reject,
            Kind::Put,
            Kind::Get,
            bundle,
        ]);
        // Mostly on the flow where its kind belongs.
        let flow = if kind == Kind::Control && !self.one_in(8) { Flow::NODE } else { flow };
        let (random, probe) = (self.address(), frame::split_source(Flow::NODE, self.address()));
        let added: Vec<Address> = table.added.iter().collect();
        let added = added.choose(&mut self.random).copied().unwrap_or(random);
        let to = self.pick(&[table.own, table.own, table.own, table.own, Address::BROADCAST, probe, random, added]);
        let link = LinkAddresses { to, from: random, ethertype: table.ethertype };
        let framing = self.pick(&Framing::ALL);
        let body = self.random.random_range(0..=LONGEST - framing.body_at());
        let body = self.pick(&[0, 8, 46, 47, body]);
        Spec { framing, kind, flow, link, body }.bytes()
    }

    /// Nothing but noise; half the time with our EtherType, and half of that to us.
    fn noise(&mut self, table: &SteeringTable) -> Vec<u8> {
        let mut bytes = vec![0; self.random.random_range(SHORTEST..=LONGEST)];
        self.random.fill_bytes(&mut bytes);
        if self.random.random() {
            let ethertype = self.pick(&[table.ethertype.hidden(), table.ethertype.plain()]);
            bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            let added = table.added.iter().next().unwrap_or(table.own);
            match self.random.random_range(0..4) {
                0 => (),
                1 => bytes[..6].copy_from_slice(&added.0),
                _ => bytes[..6].copy_from_slice(&table.own.0),
            }
        }
        bytes
    }

    /// One change of the kind that networks and attackers make.
    fn mutate(&mut self, bytes: &mut Vec<u8>, table: &SteeringTable) {
        let near = bytes.len().min(32);
        match self.random.random_range(0..8) {
            0..=2 => bytes[self.random.random_range(0..near)] ^= 1 << self.random.random_range(0..8),
            3 => {
                bytes[self.random.random_range(0..near)] = self.pick(&[0x00, 0x01, 0x3f, 0x40, 0x7f, 0x80, 0xc0, 0xff])
            }
            4 => bytes[self.random.random_range(6..near)] = self.random.random(),
            5 => bytes.truncate(self.random.random_range(SHORTEST..=bytes.len())),
            6 => bytes.truncate(self.pick(&[14, 15, 59, 60, 61, 64, 128, 512, 1008, 1024]).min(bytes.len())),
            _ => {
                let (hidden, plain) = (table.ethertype.hidden(), table.ethertype.plain());
                let ethertype = self.pick(&[hidden, plain, hidden - 1, plain.wrapping_add(1), hidden.swap_bytes()]);
                bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            }
        }
    }

    /// The next frame.
    pub(crate) fn next(&mut self, table: &SteeringTable, open: &[Flow]) -> Vec<u8> {
        if self.one_in(8) {
            return self.noise(table);
        }
        let mut bytes = self.valid(table, open);
        for _ in 0..self.pick(&[0, 0, 1, 1, 1, 2, 3]) {
            self.mutate(&mut bytes, table);
        }
        bytes
    }
}
