//! Programs of a daemon beside the two whose messages are counted.

use am_daemon::Daemon;
use am_ring::Frame;
use am_transport::{Caps, Transport};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

use crate::Error;
use crate::over::{Over, attach};

/// Programs that send and receive nothing: with the two that do, as many as a daemon may have.
const IDLE_PORTS: usize = 126;

/// Frames that the hostile program puts into its lane before each trip: more than a daemon takes of it.
const FLOOD: usize = 128;

/// The programs beside the two.
pub(crate) struct Others {
    ports: Vec<am_vnic::Vnic>,
    /// What they send before each trip.
    flood: Option<Frame>,
}

impl Others {
    pub(crate) fn attach(over: Over, daemons: &mut [Daemon], victim: Address) -> Result<Others, Error> {
        let count = match over {
            Over::Amd128 => IDLE_PORTS,
            Over::Hostile => 1,
            _ => 0,
        };
        let ports = (0..count).map(|_| attach(daemons, 0, 64)).collect::<Result<Vec<_>, _>>()?;
        let flood = ports.first().filter(|_| over == Over::Hostile).map(|port| unwanted(port.caps(), victim));
        Ok(Others { flood: flood.transpose()?, ports })
    }

    pub(crate) fn send(&mut self) {
        for (port, frame) in self.ports.iter_mut().zip(&self.flood) {
            (0..FLOOD).for_each(|_| _ = port.send(Address::BROADCAST, frame));
            port.flush();
        }
    }
}

/// A message from this program, on a flow that the victim has not granted it.
fn unwanted(caps: &Caps, victim: Address) -> Result<Frame, Error> {
    let mut frame = caps.pool.take().ok_or("no frame")?;
    let space = frame.space().ok_or("a frame that nobody else has")?;
    let link = LinkAddresses { to: victim, from: caps.address, ethertype: EtherType::DEFAULT };
    let flow = Flow::new(99).ok_or("a flow")?;
    let header = Header { kind: Kind::Request, flow, nonce: 0, handler: 0, words: 0, seq: 0 };
    frame::body(space, Framing::Split, 16)?.fill(7);
    let length = frame::emit(space, Framing::Split, &link, &header, 16, None)?;
    frame.set_len(length);
    Ok(frame)
}
