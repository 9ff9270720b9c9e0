//! Steering in user space, for transports without the XDP program.

use std::time::Instant;

use am_wire::frame::ETHERNET_HEADER;
use am_wire::gate::{Gate, GateError};
use am_wire::steer::{Decision, PassReason, ShortMessages, SteeringTable, is_usual, steer};
use am_wire::{Address, EtherType, Flow, Reason, frame};

use crate::{Caps, Command, JoinedGroup, Notice, PeerAddressError};

/// [`am_wire::steer::steer`] with its table, and counters of the frames that it does not admit. A transport is one socket, so a
/// flow is open or it is not.
#[derive(Debug)]
#[repr(C)]
pub struct Steering {
    /// On the heap: it has a byte for each of the 16,384 flow ids. Each frame needs it, so it comes first.
    table: Box<SteeringTable>,
    short: ShortMessages,
    passed: [u64; 2],
    dropped: [u64; Reason::ALL.len()],
    /// The flow of the last frame that was dropped because its flow is unknown.
    unknown_flow: Option<Flow>,
    /// Every frame that arrives was sent to this node's socket address. A frame for another link address is for an earlier run.
    has_socket_address: bool,
    /// The gate for control frames, and the start of its clock.
    gate: Option<(Box<Gate>, Instant)>,
    /// Control frames that the gate dropped: malformed ones, and those over the limit.
    gate_dropped: [u64; 2],
}

/// The socket's index, and the table's entry for its flows.
const SOCKET: u8 = 0;
const OPEN: u8 = SOCKET + 1;

impl Steering {
    /// Steering without a limit on control frames, for links that only authorised processes can use.
    pub fn new(ethertype: EtherType, own: Address) -> Steering {
        let table = Box::new(SteeringTable { node_socket: SOCKET, ..SteeringTable::new(ethertype, own) });
        let (passed, dropped) = ([0; 2], [0; Reason::ALL.len()]);
        Steering {
            table,
            short: ShortMessages::new(ethertype, own),
            passed,
            dropped,
            unknown_flow: None,
            has_socket_address: false,
            gate: None,
            gate_dropped: [0; 2],
        }
    }

    /// Steering with the [gate](am_wire::gate) for control frames, as the XDP program has it, for links on which
    /// unknown hosts can send.
    pub fn gated(ethertype: EtherType, own: Address) -> Steering {
        Steering { gate: Some((Box::default(), Instant::now())), ..Steering::new(ethertype, own) }
    }

    /// Steering with the gate, for a socket with an address of its own, whose link address changes with each run. A frame that is not for
    /// `own` is for an earlier run of this node. It is reported as a frame for an unknown flow, so its sender learns of this run.
    pub fn at_a_place(ethertype: EtherType, own: Address) -> Steering {
        Steering { has_socket_address: true, ..Steering::gated(ethertype, own) }
    }

    /// Whether a received frame is for this node, or for an added address. If not, it is counted.
    #[inline]
    pub fn admits(&mut self, frame: &[u8]) -> bool {
        self.admits_from(frame, |_| ())
    }

    /// As [`admits`](Steering::admits), for a transport that learns the socket addresses of its peers: `claimed` gets the source link
    /// address of an admitted control frame, if a node can have it. One peer may send from several link addresses.
    #[inline]
    pub fn admits_from(&mut self, frame: &[u8], claimed: impl FnOnce(Address)) -> bool {
        self.is_usual(frame) || self.admits_any(frame, claimed)
    }

    /// Whether a received frame is a message on an open flow. Those are [admitted](Steering::admits), and nothing is counted or learned.
    #[inline(always)]
    pub fn is_usual(&self, frame: &[u8]) -> bool {
        is_usual(frame, &self.short, &self.table)
    }

    #[cold]
    #[inline(never)]
    fn admits_any(&mut self, frame: &[u8], claimed: impl FnOnce(Address)) -> bool {
        match steer(frame, &self.table) {
            // Without the XDP program the host rejects requests that find no room.
            Decision::Socket(_) | Decision::Bounce(_) | Decision::Sequence(_) => return true,
            Decision::Control(_) => {
                let passes = self.passes(frame);
                if passes && let Some(source) = self.claimed_address(frame) {
                    claimed(source);
                }
                return passes;
            }
            Decision::Pass(why) => self.pass(why),
            Decision::Drop(why) => self.drop(why, frame),
        }
        false
    }

    /// Whether a control frame passes the gate. Only control frames need the clock.
    #[cold]
    fn passes(&mut self, frame: &[u8]) -> bool {
        let Some((gate, start)) = &mut self.gate else { return true };
        let passed = gate.pass(frame, self.table.ethertype, start.elapsed().as_nanos() as u64);
        if let Err(why) = passed {
            self.gate_dropped[why as usize] += 1;
        }
        passed.is_ok()
    }

    /// The source address of a frame in `plain` framing. In other framings the source is part of the header, and a frame from an
    /// address of this transport has no peer.
    #[cold]
    fn claimed_address(&self, frame: &[u8]) -> Option<Address> {
        let [.., a, b, c, d, e, f, t0, t1] = *frame.first_chunk::<ETHERNET_HEADER>()?;
        let source = Address([a, b, c, d, e, f]);
        let is_plain = u16::from_be_bytes([t0, t1]) == self.table.ethertype.plain();
        let is_a_nodes = !source.is_group() && source.to_u64() != 0 && !self.is_served(source);
        (is_plain && is_a_nodes).then_some(source)
    }

    /// Whether this is an address of this transport, its own or an added one.
    pub fn is_served(&self, address: Address) -> bool {
        address == self.table.own || self.table.added.contains(address)
    }

    #[cold]
    fn pass(&mut self, why: PassReason) {
        self.passed[why as usize] += 1;
        if self.has_socket_address && matches!(why, PassReason::OtherHost) {
            self.unknown_flow = self.unknown_flow.or(Some(Flow::NODE));
        }
    }

    #[cold]
    fn drop(&mut self, why: Reason, frame: &[u8]) {
        self.dropped[why as usize] += 1;
        if why == Reason::NoFlow
            && let Ok(parsed) = frame::parse(frame, self.table.ethertype)
        {
            self.unknown_flow = Some(parsed.header.flow);
        }
    }

    /// [`Transport::control`](crate::Transport::control) of a transport without peer addresses: flows open and close, addresses are
    /// added and removed, and the gate learns the destination of each reject template.
    ///
    /// # Errors
    /// See [`Command::without_peers`].
    pub fn control(&mut self, command: Command<'_>, caps: &Caps) -> Result<(), PeerAddressError> {
        match (command, &mut self.gate) {
            (Command::Steer { flow, open }, _) => self.table.flows[flow.index()] = if open { OPEN } else { 0 },
            (Command::RejectTemplate { template, .. }, Some((gate, _))) => gate.add_known(template.to()),
            (Command::AddAddress(address), _) => {
                PeerAddressError::check_added(caps, address, &self.table.added)?;
                self.table.added.insert(address);
            }
            (Command::RemoveAddress(address), _) => _ = self.table.added.remove(address),
            (Command::JoinGroup { group, joined }, _) => {
                let no_group = || PeerAddressError::too_many_groups(caps);
                self.table.groups.join(group, SOCKET).ok_or_else(no_group)?;
                let stamps = Err("only the XDP program of `xdp:` stamps".to_owned());
                // A cell that was set before keeps its answer, which is the same.
                _ = joined.set(JoinedGroup { stamps });
            }
            (Command::LeaveGroup(group), _) => _ = self.table.groups.leave(group),
            _ => return command.without_peers(caps),
        }
        Ok(())
    }

    /// [`Transport::poll_notices`](crate::Transport::poll_notices): reports an unknown flow.
    pub fn notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.unknown_flow.take().into_iter().for_each(|flow| each(Notice::UnknownFlow(flow)));
    }

    /// The name and value of each counter.
    pub fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("steer_pass_foreign", self.passed[PassReason::Foreign as usize]);
        each("steer_pass_other_host", self.passed[PassReason::OtherHost as usize]);
        for (reason, name) in DROPS {
            each(name, self.dropped[reason as usize]);
        }
        if self.gate.is_some() {
            each("steer_drop_senseless_control", self.gate_dropped[GateError::Malformed as usize]);
            each("steer_drop_control_over_limit", self.gate_dropped[GateError::OverLimit as usize]);
        }
    }
}

/// The reasons that steering counts. The protocol counts the others.
const DROPS: [(Reason, &str); 10] = [
    (Reason::Short, "steer_drop_short"),
    (Reason::Source, "steer_drop_bad_source"),
    (Reason::Version, "steer_drop_unknown_version"),
    (Reason::Kind, "steer_drop_unknown_kind"),
    (Reason::NoFlow, "steer_drop_unknown_flow"),
    (Reason::NodeFlow, "steer_drop_misused_flow_zero"),
    (Reason::Length, "steer_drop_bad_length"),
    (Reason::Words, "steer_drop_bad_words"),
    (Reason::Body, "steer_drop_bad_body"),
    (Reason::NoGroup, "steer_drop_unknown_group"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use am_wire::gate::{SOURCE_BURST, SOURCE_INTERVAL_NS};
    use am_wire::{Framing, Header, Kind};

    const OWN: Address = Address([2, 0, 0, 0, 0, 1]);

    /// A control frame with this body.
    fn control_frame(body: &[u8]) -> Vec<u8> {
        let link = frame::LinkAddresses { to: OWN, from: Address([2, 0, 0, 0, 0, 2]), ethertype: EtherType::DEFAULT };
        let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
        let mut bytes = vec![0; frame::length(Framing::Plain, body.len())];
        frame::body(&mut bytes, Framing::Plain, body.len()).expect("there is space").copy_from_slice(body);
        frame::emit(&mut bytes, Framing::Plain, &link, &header, body.len(), None).expect("there is space");
        bytes
    }

    fn admitted(steering: &mut Steering, frame: &[u8], count: u64) -> u64 {
        (0..count).filter(|_| steering.admits(frame)).count() as u64
    }

    #[test]
    fn a_flood_of_control_frames_is_limited_where_strangers_send() {
        const FLOOD: u64 = 4 * SOURCE_BURST;
        let (keepalive, malformed) = (control_frame(&[8, 0, 1, 0, 7, 0, 2, 0, 9]), control_frame(&[99; 9]));
        let mut open = Steering::new(EtherType::DEFAULT, OWN);
        assert_eq!([&keepalive, &malformed].map(|frame| admitted(&mut open, frame, FLOOD)), [FLOOD; 2]);

        let mut gated = Steering::gated(EtherType::DEFAULT, OWN);
        assert_eq!(admitted(&mut gated, &malformed, FLOOD), 0);
        let start = Instant::now();
        let admitted = admitted(&mut gated, &keepalive, FLOOD);
        let most = SOURCE_BURST + start.elapsed().as_nanos() as u64 / SOURCE_INTERVAL_NS + 1;
        assert!((SOURCE_BURST..=most).contains(&admitted), "{admitted}, not {most}");
        let mut counted = [0; 2];
        gated.counters(&mut |name, count| match name {
            "steer_drop_senseless_control" => counted[0] = count,
            "steer_drop_control_over_limit" => counted[1] = count,
            _ => {}
        });
        assert_eq!(counted, [FLOOD, FLOOD - admitted]);
    }

    #[test]
    fn names_are_those_of_the_reasons() {
        for (reason, name) in DROPS {
            assert_eq!(name.strip_prefix("steer_drop_"), Some(reason.name()));
        }
    }
}
