//! Programs of a daemon beside the two whose messages are counted.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use am_daemon::Daemon;
use am_ring::Frame;
use am_transport::{Caps, Command, Transport};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

use crate::Error;
use crate::over::{Over, attach};

/// Programs that send and receive nothing: with the two that do, as many as a daemon may have.
const IDLE_PORTS: usize = 126;

/// Frames that the hostile program puts into its lane before each trip: more than a daemon takes of it.
const FLOOD: usize = 128;

/// Random words that the scribbling program writes before each trip.
const SCRIBBLES: usize = 256;

/// The programs beside the two.
pub(crate) struct Others {
    ports: Vec<am_vnic::Vnic>,
    /// What they send before each trip.
    flood: Option<Frame>,
    scribbler: Option<Scribbler>,
}

impl Others {
    pub(crate) fn attach(over: Over, daemons: &mut [Daemon], victim: Address) -> Result<Others, Error> {
        let count = match over {
            Over::Amd128 => IDLE_PORTS,
            Over::Hostile | Over::Scribbling => 1,
            _ => 0,
        };
        let before = regions()?;
        let ports = (0..count).map(|_| attach(daemons, 0, 64)).collect::<Result<Vec<_>, _>>()?;
        let is_hostile = matches!(over, Over::Hostile | Over::Scribbling);
        let flood = ports.first().filter(|_| is_hostile).map(|port| unwanted(port.caps(), victim));
        let own = regions()?.into_iter().find(|region| over == Over::Scribbling && !before.contains(region));
        if over == Over::Scribbling && own.is_none() {
            return Err("the memory of the scribbling program is not in /proc/self/maps".into());
        }
        Ok(Others { flood: flood.transpose()?, ports, scribbler: own.map(Scribbler::new).transpose()? })
    }

    pub(crate) fn send(&mut self) {
        for (port, frame) in self.ports.iter_mut().zip(&self.flood) {
            if self.scribbler.is_some() {
                // It opens its lane again, or the daemon would read nothing of it. This command cannot fail.
                _ = port.control(Command::BeforeSleep);
            }
            (0..FLOOD).for_each(|_| _ = port.send(Address::BROADCAST, frame));
            port.flush();
        }
        self.scribbler.iter_mut().for_each(Scribbler::write);
    }
}

/// The regions that this process shares with its daemon, as addresses. Each is mapped twice, because both ends are here.
fn regions() -> Result<Vec<(u64, u64)>, Error> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let range = |line: &str| {
        let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
        Some((u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    Ok(maps.lines().filter(|line| line.contains("memfd:amd-port")).filter_map(range).collect())
}

/// Writes random words anywhere into the region of its program, and half of them into the heads of the two lanes.
struct Scribbler {
    memory: File,
    region: (u64, u64),
    state: u64,
}

impl Scribbler {
    fn new(region: (u64, u64)) -> Result<Scribbler, Error> {
        Ok(Scribbler { memory: File::options().write(true).open("/proc/self/mem")?, region, state: 0x5eed })
    }

    fn number(&mut self) -> u64 {
        for shift in [13, -7, 17_i32] {
            let moved = if shift > 0 { self.state << shift } else { self.state >> -shift };
            self.state ^= moved;
        }
        self.state
    }

    fn write(&mut self) {
        let (begin, end) = self.region;
        for nth in 0..SCRIBBLES {
            let lane = (end - begin) / 2 * (self.number() % 2);
            let place = if nth % 2 == 0 { self.number() % (end - begin - 8) } else { lane + self.number() % 1024 };
            let word = self.number() >> (self.number() % 64);
            // Its memory is there as long as its port.
            _ = self.memory.write_at(&word.to_le_bytes(), begin + place / 4 * 4);
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
