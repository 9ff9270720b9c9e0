//! Open MPI and MPICH: our small program (`bench/peers/mpi.c`), compiled by each one's own compiler.
//!
//! Their launchers reach the other host by a remote shell; here that is a script, which enters the other
//! network namespace.

use std::time::Duration;

use super::lines::{MEASURE, turn};
use super::peer::{Asked, Peer, Turn, Wire};
use super::room::places::at;
use super::room::{Exchange, Job, Run};
use super::tool;
use crate::deploy::veth::{INTERFACE, Pair};
use crate::error::Error;
use crate::side::Side;
use crate::watch::Watch;

const SOURCE: &str = include_str!("../../peers/mpi.c");
const PROGRAM: &str = "mpi";

/// What is called as `ssh` would be: options, host, command. The other host is always the same.
pub(super) const AGENT: (&str, &str) = ("agent", include_str!("../../peers/agent.sh"));

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    OpenMpi,
    Mpich,
}

/// An MPI over one kind of wire.
pub(super) struct Mpi {
    name: &'static str,
    what: &'static str,
    maker: Maker,
    wire: Wire,
    mode: &'static str,
}

/// All of them.
pub(super) const MPIS: [Mpi; 4] = [
    Mpi {
        name: "openmpi-tcp",
        what: "Open MPI over its TCP transport (btl tcp)",
        maker: Maker::OpenMpi,
        wire: Wire::Veth,
        mode: "veth kernel tcp",
    },
    Mpi {
        name: "openmpi-shm",
        what: "Open MPI over shared memory (btl vader)",
        maker: Maker::OpenMpi,
        wire: Wire::Memory,
        mode: "vader",
    },
    Mpi {
        name: "mpich-tcp",
        what: "MPICH over UCX's TCP transport",
        maker: Maker::Mpich,
        wire: Wire::Veth,
        mode: "veth kernel tcp",
    },
    Mpi {
        name: "mpich-shm",
        what: "MPICH over its shared memory",
        maker: Maker::Mpich,
        wire: Wire::Memory,
        mode: "ch4 shm",
    },
];

const NOTE: &str = "openmpi, mpich: MPI_Send and MPI_Recv; one way windows of 64 (8 from 64 KiB) MPI_Isend and MPI_Irecv, four \
                    of them ahead, until the receiver has all; both sides spin; CPU by getrusage of both, from inside";

/// It does not like to be root, and is told that it may.
const OPENMPI_AS_ROOT: [(&str, &str); 2] = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

impl Maker {
    fn launcher(self) -> &'static str {
        match self {
            Maker::OpenMpi => "mpirun.openmpi",
            Maker::Mpich => "mpiexec.mpich",
        }
    }

    fn compiler(self) -> &'static str {
        match self {
            Maker::OpenMpi => "mpicc.openmpi",
            Maker::Mpich => "mpicc.mpich",
        }
    }
}

impl Mpi {
    /// Launcher and options, and variables.
    fn launcher(&self) -> (String, &'static [(&'static str, &'static str)]) {
        let (agent, on) = (at(AGENT.0), INTERFACE);
        let (words, variables): (String, &[(&str, &str)]) = match (self.maker, self.wire) {
            (Maker::OpenMpi, Wire::Veth) => (
                format!(
                    "-np 2 --host alpha,beta --bind-to none -x AM_BENCH_CORES --mca plm_rsh_agent {agent} \
                     --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include {on} --mca oob_tcp_if_include {on}"
                ),
                &OPENMPI_AS_ROOT,
            ),
            (Maker::OpenMpi, Wire::Memory) => {
                ("-np 2 --host alpha:2 --bind-to none --mca pml ob1 --mca btl vader,self".to_owned(), &OPENMPI_AS_ROOT)
            }
            (Maker::Mpich, Wire::Veth) => (
                format!("-launcher ssh -launcher-exec {agent} -hosts alpha,beta -iface {on} -n 2"),
                &[("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "am0")],
            ),
            (Maker::Mpich, Wire::Memory) => ("-launcher fork -n 2".to_owned(), &[("UCX_TLS", "posix,self")]),
        };
        (format!("{} {words} {}", self.maker.launcher(), at(PROGRAM)), variables)
    }
}

/// What our small programs are told: how long, and sizes.
pub(super) fn arguments(asked: &Asked) -> Vec<String> {
    let times = [asked.amount.time, asked.amount.warm_up].map(|time| time.as_nanos().to_string());
    times.into_iter().chain(asked.sizes.iter().map(usize::to_string)).collect()
}

/// How long all of it takes, without what starts it.
pub(super) fn measures(asked: &Asked) -> Duration {
    (asked.amount.time + asked.amount.warm_up) * 2 * asked.sizes.len() as u32
}

impl Peer for &'static Mpi {
    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }

    fn wire(&self) -> &'static str {
        self.wire.name()
    }

    fn notes(&self) -> &'static [&'static str] {
        &[NOTE]
    }

    fn find(&self, watch: &Watch) -> Result<String, String> {
        tool::version(self.maker.compiler(), &["--version"], watch)?;
        tool::version(self.maker.launcher(), &["--version"], watch)
    }

    fn takes(&self, asked: &Asked) -> Duration {
        measures(asked) + Duration::from_millis(1500)
    }

    fn turn(&self, pair: &Pair, asked: &Asked, watch: &Watch) -> Result<Turn, Error> {
        let (words, variables) = self.launcher();
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).chain(arguments(asked)).collect();
        let client = Run { words, ..Run::on(Side::Near, &[]) }.anywhere().with(variables);
        let source = format!("{PROGRAM}.c");
        let build = Run::on(Side::Near, &[self.maker.compiler(), "-O2", "-o", PROGRAM, &source]).anywhere();
        let files = [MEASURE, AGENT, (&source, SOURCE)].map(|(name, text)| (name.to_owned(), text.to_owned()));
        let exchanges = vec![Exchange { server: None, client }];
        let said = tool::run(Job { files: files.into(), build: vec![build], exchanges }, pair, asked, watch)?;
        turn(self.name, &said.first().cloned().unwrap_or_default(), self.mode)
    }
}
