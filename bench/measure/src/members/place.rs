//! Where members run: a host for each, on a switch; or processes of this machine.

use std::process::id;
use std::thread::available_parallelism;

use am_netns::{Bridge, BridgeOptions, Host};

use super::Seat;
use crate::cores::Cores;
use crate::deploy::{INTERFACE, LocalTransport, check_mtu};
use crate::driver::Driver;
use crate::error::Error;
use crate::options::usage;
use crate::plan::DriverOptions;
use crate::rights;
use crate::topology::Topology;

/// The port of each process's socket.
const PORT: u16 = 0x88b7;

/// The places of the members, as long as this lives.
pub struct Place {
    hosts: Vec<Host>,
    switch: Option<Bridge>,
    /// The transport of each member.
    transports: Vec<String>,
    /// The IP address of each member's host.
    pub addresses: Vec<String>,
    /// What a frame carries, if a link limits it.
    pub mtu: Option<u32>,
    /// The cores of two members.
    pub cores: Cores,
}

impl Place {
    /// For groups of at most this number of members.
    ///
    /// # Errors
    /// Rights are missing, or members cannot meet there.
    pub fn new(topology: &Topology, members: usize, cores: Cores) -> Result<Place, Error> {
        match topology {
            Topology::Veth(mtu, None) => Place::bridged(*mtu, members, cores),
            Topology::Processes(local, mtu) => Place::local(*local, *mtu, members, cores),
            _ => Err(usage("members are processes: give --hosts veth, udp, tcp or shm")),
        }
    }

    fn bridged(mtu: u32, members: usize, cores: Cores) -> Result<Place, Error> {
        rights::check(true, &[Driver::Am])?;
        check_mtu(mtu, &[Driver::Am])?;
        let hosts: Vec<Host> = (0..members).map(|nth| Host::new(&format!("m{nth}"))).collect::<Result<_, _>>()?;
        let options = BridgeOptions { mtu, ..BridgeOptions::default() };
        let switch = Bridge::new(&hosts.iter().collect::<Vec<_>>(), INTERFACE, &options)?;
        let addresses: Vec<String> = (1..=members).map(|nth| format!("10.77.0.{nth}")).collect();
        for (end, address) in switch.ends().iter().zip(&addresses) {
            end.add_ip(&format!("{address}/24"))?;
        }
        let transports = vec![format!("xdp:{INTERFACE}"); members];
        Ok(Place { hosts, switch: Some(switch), transports, addresses, mtu: Some(mtu), cores })
    }

    fn local(local: LocalTransport, mtu: Option<u32>, members: usize, cores: Cores) -> Result<Place, Error> {
        // A part of the loopback network for each run, so that concurrent runs do not meet.
        let [low, high] = (id() as u16).to_be_bytes();
        let addresses: Vec<String> = (1..=members).map(|nth| format!("127.{high}.{low}.{nth}")).collect();
        let frame = mtu.map_or(String::new(), |mtu| format!(",frame={}", mtu + 14));
        let peers: String = addresses.iter().map(|address| format!(",peer={address}:{PORT}")).collect();
        let name = local.name();
        let transports = match local {
            LocalTransport::Udp | LocalTransport::Tcp => {
                addresses.iter().map(|own| format!("{name}:{own}:{PORT}{peers}{frame}")).collect()
            }
            LocalTransport::Shm => vec![format!("shm:am-bench-{}{frame}", id()); members],
            _ => return Err(usage(format!("{name} joins two processes: give --hosts veth, udp, tcp or shm"))),
        };
        Ok(Place { hosts: vec![], switch: None, transports, addresses, mtu, cores })
    }

    /// Whether each member has a network of its own.
    pub fn has_hosts(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Connect the hosts of a group of this size, and no others: a switch sends a multicast to each port, in the sender's time.
    ///
    /// # Errors
    /// The switch has lost a port.
    pub fn connect(&self, members: usize) -> Result<(), Error> {
        for (nth, port) in self.switch.iter().flat_map(Bridge::ports).enumerate() {
            if nth < members { port.set_up() } else { port.set_down() }?;
        }
        Ok(())
    }

    /// The seat of the process with this index, among this number of processes, in the place of a group of this size.
    /// The members spin if each has a core.
    pub fn seat(&self, index: usize, processes: usize, members: usize, how: DriverOptions) -> Seat {
        let (on, core) = (self.transports[index].clone(), self.core(index, members));
        Seat { index, members: processes, on, how, core, spins: members <= usable_cores() }
    }

    /// Run `work` on a member's host.
    ///
    /// # Errors
    /// The host is gone.
    pub fn at<T: Send>(&self, index: usize, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        match self.hosts.get(index) {
            Some(host) => Ok(host.enter(work)?),
            None => Ok(work()),
        }
    }

    /// The core of a member: two of them have their own.
    fn core(&self, index: usize, members: usize) -> Option<usize> {
        if members > 2 {
            return None;
        }
        [self.cores.near, self.cores.far][index]
    }
}

/// The cores that members share.
pub fn usable_cores() -> usize {
    available_parallelism().map_or(1, Into::into)
}
