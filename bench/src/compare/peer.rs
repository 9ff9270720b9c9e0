//! The peers: one row each, in the order of the table. A further one is one more entry of [`PEERS`].

use std::process::{Command, Stdio, id};
use std::time::Duration;

use am_wire::frame::ETHERNET_HEADER;

use super::rows::{Settings, Turn};
use super::{foreign, offload, ours};
use am_measure::deploy::{ADDRESSES, INTERFACE, LocalTransport, Pair, TransportPair, interfaces};
use am_measure::options::kernel;
use am_measure::{Amount, Driver, Error, Watch};

const LARGE: &str = "am: a message larger than a frame is a bulk put; a round trip is one put each way";
const RUNS: &str =
    "am-udp: the kernel passes runs of frames over a veth as one (GSO), so its bandwidth is not that of a NIC";
const BARE: &str =
    "raw: only messages that fit one frame; it sends the same frames again and again; lost ones are counted";
const TOUCHED: &str =
    "raw-touched: as raw, and each payload is copied into its frame and out of it: what a call that copies can reach";
const DPDK: &str =
    "dpdk: each turn in its own process; frames of at most 1500 bytes on any wire; memif and virtio-user are no cables";
const DATAGRAMS: &str = "udp: messages up to 65,507 bytes, one datagram each; the kernel passes runs of datagrams over a veth as one (GSO), so \
     its rates are not those of a NIC; lost messages are counted, and not sent again";
const SEGMENTS: &str = "tcp: segments of up to 64 KiB cross a veth whole, so its bandwidth is not that of a NIC";
const SLEEPING: &str = "sleeping: poll(2) while idle; a round trip has two wake-ups";
const SOCKPERF: &str = "sockperf: one second a size, three sizes from 14 to 65,507 bytes; messages are those that the sender handed over, not \
                        those that arrived; no CPU, because it first calibrates its clock for two seconds";
const IPERF3: &str = "iperf3: one way only, one second a size; a message is one write, and Nagle's algorithm may join writes; CPU by its own account";
const UCX: &str = "ucx: one way by its own account; p50 and p99 are from two measurements, of their last 2048 messages; the sender counts \
                   one-way messages; CPU is that of its whole life, in which it spins";
const FI: &str = "fi: the mean of all messages, the first ones included, instead of p50; one at a time only, so no messages, bandwidth and CPU";
const MPI: &str = "openmpi, mpich: MPI_Send and MPI_Recv; one way windows of 64 (8 from 64 KiB) MPI_Isend and MPI_Irecv, four windows \
                   ahead, until the receiver has all; both sides spin; CPU of both by getrusage, from inside";
const URING: &str = "uring: the kernel's sockets by io_uring, as for MPI; from 16 KiB on a message leaves from registered memory by SEND_ZC, \
                     which a veth copies all the same";
const PVM: &str =
    "pvm: each message packed in place and unpacked; one way as for MPI; CPU of both tasks by getrusage, from inside";

const KERNEL: &str = "veth kernel";
const KERNEL_TCP: &str = "veth kernel tcp";

const XDP: Wire = Wire::Interface;
const AF_PACKET: Wire = Wire::Dpdk("net_af_packet0");
const AF_XDP: Wire = Wire::Dpdk("net_af_xdp0");
const UDP: Wire = Wire::Local(LocalTransport::Udp);
const TCP: Wire = Wire::Local(LocalTransport::Tcp);
const SHM: Wire = Wire::Local(LocalTransport::Shm);
const MEMIF: Wire = Wire::Local(LocalTransport::Memif);
const VIRTIO: Wire = Wire::Local(LocalTransport::VirtioUser);

pub(super) static PEERS: [Peer; 42] = [
    am("am", "active messages, one a frame", XDP, &[LARGE]),
    am("am-bundles", "active messages that may share a frame", XDP, &[LARGE]),
    am("am-udp", "active messages over kernel UDP", UDP, &[LARGE, RUNS]),
    am("am-udp-bundles", "active messages over kernel UDP, that may share a frame", UDP, &[LARGE, RUNS]),
    am("am-tcp", "active messages over kernel TCP", TCP, &[LARGE, SEGMENTS]),
    am("am-tcp-bundles", "active messages over kernel TCP, that may share a frame", TCP, &[LARGE, SEGMENTS]),
    am("am-shm", "active messages over shared memory", SHM, &[LARGE]),
    am("am-shm-bundles", "active messages over shared memory, that may share a frame", SHM, &[LARGE]),
    am("am-dpdk-af_packet", "active messages over DPDK's packet sockets on the cable", AF_PACKET, &[LARGE, DPDK]),
    am("am-dpdk-af_xdp", "active messages over DPDK's AF_XDP on the cable", AF_XDP, &[LARGE, DPDK]),
    am("am-dpdk-memif", "active messages over DPDK's memif", MEMIF, &[LARGE, DPDK]),
    am("am-dpdk-memif-bundles", "active messages over DPDK's memif, that may share a frame", MEMIF, &[LARGE, DPDK]),
    am("am-dpdk-virtio-user", "active messages over DPDK's vhost and virtio-user", VIRTIO, &[LARGE, DPDK]),
    am(
        "am-dpdk-virtio-user-bundles",
        "active messages over DPDK's vhost and virtio-user, that may share a frame",
        VIRTIO,
        &[LARGE, DPDK],
    ),
    ours("raw", "bare AF_XDP frames, nothing above them", XDP, Driver::Raw, &[BARE]),
    ours(
        "raw-touched",
        "bare AF_XDP frames whose payloads are copied in and out",
        XDP,
        Driver::Copied,
        &[BARE, TOUCHED],
    ),
    ours("raw-dpdk-memif", "bare frames by DPDK's memif", MEMIF, Driver::Raw, &[BARE, DPDK]),
    ours("raw-dpdk-virtio-user", "bare frames by DPDK's vhost and virtio-user", VIRTIO, Driver::Raw, &[BARE, DPDK]),
    ours("udp", "kernel UDP, both sides spin", UDP, Driver::Udp, &[DATAGRAMS]),
    ours("udp-sleeping", "kernel UDP, both sides sleep", UDP, Driver::UdpSleeping, &[DATAGRAMS, SLEEPING]),
    ours("tcp", "kernel TCP, both sides spin", TCP, Driver::Tcp, &[SEGMENTS]),
    ours("tcp-nagle", "kernel TCP that gathers small messages", TCP, Driver::TcpNagle, &[SEGMENTS]),
    ours("tcp-sleeping", "kernel TCP, both sides sleep", TCP, Driver::TcpSleeping, &[SEGMENTS, SLEEPING]),
    ours("tcp-no-offload", "kernel TCP, segments cut to frames before the veth", TCP, Driver::Tcp, &[]),
    script("sockperf-udp", "kernel UDP by sockperf, both sides spin", UDP, "sockperf.sh udp", KERNEL, &[SOCKPERF]),
    script("sockperf-tcp", "kernel TCP by sockperf, both sides spin", TCP, "sockperf.sh tcp", KERNEL, &[SOCKPERF]),
    script("iperf3", "kernel TCP by iperf3, both sides sleep", TCP, "iperf3.sh tcp", KERNEL, &[IPERF3]),
    script("uring-udp", "kernel UDP by io_uring, both sides spin", UDP, "uring.sh udp spin", KERNEL, &[URING]),
    script(
        "uring-udp-sleeping",
        "kernel UDP by io_uring, both sides sleep",
        UDP,
        "uring.sh udp sleep",
        KERNEL,
        &[URING],
    ),
    script("uring-tcp", "kernel TCP by io_uring, both sides spin", TCP, "uring.sh tcp spin", KERNEL, &[URING]),
    script(
        "uring-tcp-sleeping",
        "kernel TCP by io_uring, both sides sleep",
        TCP,
        "uring.sh tcp sleep",
        KERNEL,
        &[URING],
    ),
    script("ucx-tcp", "UCX active messages over its TCP transport", TCP, "ucx.sh tcp", KERNEL_TCP, &[UCX]),
    script("ucx-shm", "UCX active messages over POSIX shared memory", SHM, "ucx.sh shm", "posix", &[UCX]),
    script("fi-udp", "libfabric's udp datagrams", UDP, "fi.sh udp", "veth kernel udp", &[FI]),
    script("fi-tcp", "libfabric's reliable datagrams over tcp", TCP, "fi.sh tcp", KERNEL_TCP, &[FI]),
    script("fi-shm", "libfabric's reliable datagrams over shared memory", SHM, "fi.sh shm", "shm", &[FI]),
    script("openmpi-tcp", "Open MPI over its TCP transport (btl tcp)", TCP, "mpi.sh openmpi tcp", KERNEL_TCP, &[MPI]),
    script("openmpi-shm", "Open MPI over shared memory (btl vader)", SHM, "mpi.sh openmpi shm", "vader", &[MPI]),
    script("mpich-tcp", "MPICH over UCX's TCP transport", TCP, "mpi.sh mpich tcp", KERNEL_TCP, &[MPI]),
    script("mpich-shm", "MPICH over its shared memory", SHM, "mpi.sh mpich shm", "ch4 shm", &[MPI]),
    script(
        "pvm",
        "PVM, direct route, pvm_nrecv until something is there",
        TCP,
        "pvm.sh direct spin",
        KERNEL_TCP,
        &[PVM],
    ),
    script("pvm-sleeping", "PVM, direct route, pvm_recv", TCP, "pvm.sh direct sleep", KERNEL_TCP, &[PVM]),
];

/// The source of one row's figures.
#[derive(Debug)]
pub(super) struct Peer {
    /// The name in the table and on the command line.
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// What is between its two sides.
    pub(super) wire: Wire,
    pub(super) source: Source,
    /// How its figures differ from those of other rows.
    pub(super) notes: &'static [&'static str],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// Ours: a session with this driver. Several messages of a `-bundles` row may share a frame.
    Session(Driver),
    /// A script with its arguments, and its mode in the table. The last argument is `version` to ask for the version.
    Script(&'static str, &'static str),
}

type Text = &'static str;

const fn ours(name: Text, what: Text, wire: Wire, driver: Driver, notes: &'static [Text]) -> Peer {
    Peer { name, what, wire, source: Source::Session(driver), notes }
}

const fn am(name: Text, what: Text, wire: Wire, notes: &'static [Text]) -> Peer {
    ours(name, what, wire, Driver::Am, notes)
}

const fn script(name: Text, what: Text, wire: Wire, script: Text, mode: Text, notes: &'static [Text]) -> Peer {
    Peer { name, what, wire, source: Source::Script(script, mode), notes }
}

impl Peer {
    /// Whether the cable's segmentation offload is off during its turns.
    pub(super) fn is_without_offload(&self) -> bool {
        self.name.ends_with("-no-offload")
    }

    /// Its version, if it can run here; else what is missing, and what installs it.
    pub(super) fn find(&self, watch: &Watch) -> Result<String, String> {
        let driver = match self.source {
            Source::Script(script, _) => return foreign::version(self.name, script, watch),
            Source::Session(driver) => driver,
        };
        if self.wire.is_dpdk() {
            am_dpdk::find().map_err(|why| why.to_string())?;
        }
        if self.is_without_offload() {
            offload::find()?;
        }
        Ok(match driver {
            Driver::Am | Driver::Raw | Driver::Copied => format!("am-bench {}", env!("CARGO_PKG_VERSION")),
            _ => format!("Linux {}", kernel()),
        })
    }

    /// About how long one turn takes.
    pub(super) fn takes(&self, settings: &Settings) -> Duration {
        let Amount { time, warm_up, .. } = settings.amount;
        let (sizes, millis) = (settings.sizes.len() as u32, Duration::from_millis);
        match self.source {
            Source::Session(_) => (time + warm_up) * 2 * sizes + millis(700),
            Source::Script(script, _) => match script.split('.').next() {
                Some("sockperf") => millis(3000) * sizes,
                Some("iperf3") => millis(1200) * sizes,
                Some("ucx") => (time * 6 + millis(100)) * sizes,
                _ => (time * 3 + millis(300)) * sizes,
            },
        }
    }

    /// Measure everything once.
    pub(super) fn turn(&self, pair: &Pair, settings: &Settings, watch: &Watch) -> Result<Turn, Error> {
        match self.source {
            Source::Script(script, mode) => foreign::turn((self.name, script, mode), pair, settings, watch),
            Source::Session(_) if self.wire.is_dpdk() => {
                let turn = ours::turn_in_a_process(self.name, pair, settings, watch);
                if turn.is_err() && self.wire == AF_XDP {
                    detach(pair);
                }
                turn
            }
            // A failure of this far side must not stop another row.
            Source::Session(driver) => ours::turn(self, driver, pair, settings, &watch.of_another_peer()),
        }
    }
}

/// Remove the XDP program that DPDK leaves on the interfaces when it is killed.
fn detach(pair: &Pair) {
    let mut off = Command::new("ip");
    off.args(["link", "set", "dev", INTERFACE, "xdp", "off"]).stdin(Stdio::null()).stderr(Stdio::null());
    for host in &pair.hosts {
        // There may be none, and any other error would have no reader.
        let _ = host.enter(|| off.status());
    }
}

/// The peers that run over `over` and are named by `wanted`, each by its name or by its family (`tcp` selects
/// `tcp-nagle` too); an empty `wanted` selects all.
pub(super) fn chosen(wanted: &[String], over: Option<LocalTransport>) -> Result<Vec<&'static Peer>, Error> {
    let is_over = |peer: &&Peer| over.is_none_or(|over| peer.wire == Wire::Local(over));
    let mut peers: Vec<&Peer> = PEERS.iter().filter(is_over).collect();
    let means = |word: &String, peer: &Peer| {
        peer.name.strip_prefix(word.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    if let Some(word) = wanted.iter().find(|word| !peers.iter().any(|peer| means(word, peer))) {
        let there = over.map_or_else(String::new, |over| format!(" over {}", over.name()));
        let names: Vec<&str> = peers.iter().map(|peer| peer.name).collect();
        return Err(Error::Usage(format!("no peer `{word}`{there}: there are {}", names.join(", "))));
    }
    peers.retain(|peer| wanted.is_empty() || wanted.iter().any(|word| means(word, peer)));
    Ok(peers)
}

/// The port of both sides.
const PORT: u16 = 0x88b5;
/// The headers of IPv4 and UDP.
const IP_UDP_HEADERS: usize = 20 + 8;
/// The default length of a frame without its Ethernet header, in a stream and in shared memory.
const DEFAULT_STREAM_PAYLOAD: usize = 65_000 - ETHERNET_HEADER;
const DEFAULT_SHM_PAYLOAD: usize = 16 * 1024 - ETHERNET_HEADER;
/// The payload of a frame of these DPDK devices.
const DPDK_PAYLOAD: usize = 1500;

/// What is between the two sides of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// The cable, by AF_XDP on its interfaces.
    Interface,
    /// The cable, by this DPDK device on its interfaces.
    Dpdk(&'static str),
    /// A transport between two processes. Sockets are on the cable.
    Local(LocalTransport),
}

impl Wire {
    /// The name in the table and in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            SHM => "shared memory",
            Wire::Local(dpdk @ (LocalTransport::Memif | LocalTransport::VirtioUser)) => dpdk.name(),
            Wire::Interface | Wire::Dpdk(_) | Wire::Local(_) => "veth",
        }
    }

    /// The name of the transport that carries messages over it.
    pub(super) fn transport(self) -> &'static str {
        match self {
            Wire::Interface => "xdp",
            Wire::Dpdk(_) => "dpdk",
            Wire::Local(local_transport) => local_transport.name(),
        }
    }

    /// The transports of the near and the far side, over interfaces with this MTU.
    pub(super) fn ends(self, mtu: usize) -> Result<TransportPair, Error> {
        Ok(TransportPair::of(match self {
            Wire::Interface => interfaces(),
            // A frame fits one datagram of the cable. The default would be a jumbo frame.
            UDP => sockets("udp", "connect", &format!(",frame={}", mtu.saturating_sub(IP_UDP_HEADERS))),
            TCP => sockets("tcp", "peer", ""),
            SHM => [(); 2].map(|()| format!("shm:am-bench-compare-{}", id())),
            Wire::Dpdk(device) => {
                [(); 2].map(|()| format!("dpdk:{device},iface={INTERFACE},am.mtu={}", self.most(mtu)))
            }
            Wire::Local(local_transport) => return local_transport.ends(None),
        }))
    }

    /// The bytes behind the Ethernet header of our longest frame, over interfaces with this MTU.
    pub(super) fn most(self, mtu: usize) -> usize {
        match self {
            Wire::Interface => mtu,
            UDP => mtu.saturating_sub(IP_UDP_HEADERS + ETHERNET_HEADER),
            TCP => DEFAULT_STREAM_PAYLOAD,
            SHM => DEFAULT_SHM_PAYLOAD,
            Wire::Dpdk(_) => mtu.min(DPDK_PAYLOAD),
            Wire::Local(_) => DPDK_PAYLOAD,
        }
    }

    /// The payload of a frame on the wire, over interfaces with this MTU; `None` if only memory limits it.
    pub(super) fn mtu(self, mtu: usize) -> Option<usize> {
        match self {
            Wire::Interface | UDP | TCP => Some(mtu),
            SHM => None,
            Wire::Dpdk(_) | Wire::Local(_) => Some(self.most(mtu)),
        }
    }

    /// Whether DPDK carries it. A process starts DPDK only once.
    pub(super) fn is_dpdk(self) -> bool {
        matches!(self, Wire::Dpdk(_) | MEMIF | VIRTIO)
    }
}

/// Sockets on the cable's addresses. Each side knows the other's address.
fn sockets(scheme: &str, peer: &str, settings: &str) -> [String; 2] {
    let address = |with_prefix: &'static str| with_prefix.split('/').next().unwrap_or_default();
    let [near, far] = [ADDRESSES.0, ADDRESSES.1].map(address);
    [(near, far), (far, near)].map(|(own, other)| format!("{scheme}:{own}:{PORT},{peer}={other}:{PORT}{settings}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_meant_by_its_name() {
        let of = |wanted: &str| names(&[wanted.to_owned()], None);
        assert_eq!(of("am-udp"), ["am-udp", "am-udp-bundles"]);
        assert_eq!(of("tcp-nagle"), ["tcp-nagle"]);
        let error = chosen(&["tc".to_owned()], None).err().unwrap().to_string();
        assert!(error.starts_with("no peer `tc`: there are am, am-bundles, "), "{error}");
    }

    fn names(wanted: &[String], over: Option<LocalTransport>) -> Vec<&'static str> {
        chosen(wanted, over).unwrap().iter().map(|peer| peer.name).collect()
    }

    #[test]
    fn those_that_go_over_something_are_ours_and_others() {
        assert_eq!(
            names(&[], Some(LocalTransport::Shm)),
            ["am-shm", "am-shm-bundles", "ucx-shm", "fi-shm", "openmpi-shm", "mpich-shm"]
        );
        assert_eq!(
            names(&[], Some(LocalTransport::VirtioUser)),
            ["am-dpdk-virtio-user", "am-dpdk-virtio-user-bundles", "raw-dpdk-virtio-user"]
        );
        let tcp = names(&[], Some(LocalTransport::Tcp));
        assert!(["am-tcp", "tcp-no-offload", "iperf3", "ucx-tcp", "pvm"].iter().all(|name| tcp.contains(name)));
        assert!(!tcp.iter().any(|name| name.contains("udp") || name.contains("shm")), "{tcp:?}");
        let error = chosen(&["iperf3".to_owned()], Some(LocalTransport::Udp)).err().unwrap().to_string();
        assert!(error.starts_with("no peer `iperf3` over udp: there are am-udp, "), "{error}");
    }
}
