//! The switch's side towards the wire.

use am_ring::Frame;
use am_transport::{Command, Notice};
use am_vnic::protocol::FromDaemon;
use am_wire::control::Control;
use am_wire::{Address, Buffer, EtherType, frame};

use crate::judge::{destination, flow_news};
use crate::switch::{Step, Switch, WIRE_SENDER};

/// The most frames of the wire in a turn.
const WIRE_BURST: usize = 64;

impl Switch {
    /// Send a frame of a port to the wire. If the wire has no room, the port keeps the frame. A frame that the wire does not keep stays in `space`.
    #[inline]
    pub(crate) fn send_to_wire(&mut self, from: usize, space: &mut Option<Frame>) -> Step {
        // Without a wire there is no other host.
        let (Some(wire), Some(frame)) = (&mut self.wire, &*space) else { return Step::Moved };
        if !wire.send(destination(frame.bytes()), frame) {
            if let Some(member) = self.members[from].as_deref_mut() {
                member.blocked = space.take();
            }
            return Step::Blocked;
        }
        self.counts.to_wire += 1;
        if !frame.is_unique() {
            *space = None;
        }
        Step::Moved
    }

    #[cold]
    pub(crate) fn send_blocked(&mut self, number: usize) -> Step {
        let mut blocked = self.members[number].as_deref_mut().and_then(|member| member.blocked.take());
        self.send_to_wire(number, &mut blocked)
    }

    pub(crate) fn receive_from_wire(&mut self) -> usize {
        let Some(mut wire) = self.wire.take() else { return 0 };
        let taken = wire.receive(WIRE_BURST, &mut |frame| self.on_wire_frame(&frame));
        self.wire = Some(wire);
        self.counts.from_wire += taken as u64;
        taken
    }

    /// A frame from the wire.
    #[inline]
    fn on_wire_frame(&mut self, frame: &Frame) {
        let bytes = frame.bytes();
        let to = destination(bytes);
        let news = flow_news(bytes, self.ethertype);
        if news.is_some_and(|(from, _)| self.port_at(from).is_some()) {
            self.counts.spoofed += 1;
            return;
        }
        match self.port_at(to) {
            Some(port) => {
                if let Some((from, news)) = news {
                    self.note_flow(port, from, Some(news), None);
                }
                let unasked = frame::is_plain_control(bytes, self.ethertype).then_some(WIRE_SENDER);
                self.deliver(port, bytes, unasked);
            }
            // A group, or the address of a probe: whoever sees it takes it.
            None if to.is_group() || is_probe(bytes, self.ethertype) => self.deliver_to_all(bytes, None),
            None => self.counts.for_no_port += 1,
        }
    }

    /// Serve the address of a port on the wire, or no longer.
    pub(crate) fn serve_address(&mut self, address: Address, is_served: bool) -> Result<(), String> {
        let command = if is_served { Command::AddAddress(address) } else { Command::RemoveAddress(address) };
        self.wire.as_mut().map_or(Ok(()), |wire| wire.control(command)).map_err(|why| why.to_string())
    }

    /// Ask the wire what it has noticed. Returns why no frames leave or arrive there.
    pub(crate) fn poll_wire(&mut self) -> Option<String> {
        let mut wire = self.wire.take()?;
        let (mut trouble, mut gone) = (None, vec![]);
        wire.poll_notices(&mut |notice| match notice {
            Notice::LinkError(why) => trouble = Some(why.to_owned()),
            Notice::PeerGone(address) => gone.push(address),
            _ => (),
        });
        self.wire = Some(wire);
        gone.into_iter().for_each(|address| self.send_to_all(&FromDaemon::PeerGone(address)));
        trouble
    }
}

/// Whether this is a probe to an address at which no node is.
#[cold]
fn is_probe(frame: &[u8], ethertype: EtherType) -> bool {
    let Ok(parsed) = frame::parse(frame, ethertype) else { return false };
    matches!(Control::parse(parsed.payload), Ok(Control::Probe(_))) && parsed.header.kind == am_wire::Kind::Control
}
