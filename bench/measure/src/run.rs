//! What the commands that measure in sessions share.

use std::fs::File;

use clap::Args;

use crate::cores::{Cores, CoresArg, pin};
use crate::deploy::link::NamedLink;
use crate::deploy::{machines, threads};
use crate::driver::Driver;
use crate::drivers;
use crate::error::Error;
use crate::loss::Loss;
use crate::options::Origin;
use crate::options::{AmountOptions, CoalesceOption, OpenOptions, Print};
use crate::out::Progress;
use crate::plan::{Amount, Bench, DriverOptions, Side};
use crate::report::report;
use crate::rights;
use crate::session::{Order, Session, Setup};
use crate::size::Size;
use crate::topology::Topology;
use crate::watch::Watch;

/// What every command that measures takes.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// How drivers are opened.
    #[command(flatten)]
    pub open: OpenOptions,
    /// How much is measured.
    #[command(flatten)]
    pub amount: AmountOptions,
    /// How it is printed.
    #[command(flatten)]
    pub print: Print,
}

impl Common {
    /// Measure there, with the drivers that the user named.
    pub fn run<'a>(
        &'a self,
        topology: &'a Topology,
        drivers: &'a [Driver],
        cores: CoresArg,
        watch: &'a Watch,
    ) -> Run<'a> {
        let (how, amount) = (self.open.how(topology.framing()), self.amount.amount());
        Run { topology, drivers, how, amount, cores, print: &self.print, watch }
    }
}

/// Where and how a command measures, and prints.
pub struct Run<'a> {
    /// Where both sides run.
    pub topology: &'a Topology,
    /// The drivers that the user named.
    pub drivers: &'a [Driver],
    /// The framing is that of the command line; `auto` by default between machines.
    pub how: DriverOptions,
    /// How much is measured.
    pub amount: Amount,
    /// The cores that the user named.
    pub cores: CoresArg,
    /// How the report is printed.
    pub print: &'a Print,
    /// Says when to stop.
    pub watch: &'a Watch,
}

impl Run<'_> {
    /// With several messages in a frame, or not.
    pub fn coalesce(mut self, option: &CoalesceOption) -> Self {
        self.how.coalesce = option.coalesce.is_on();
        self
    }

    /// Measure these benches and sizes with the drivers that the place has.
    pub fn benches(&self, benches: Vec<(Bench, Vec<Size>)>) -> Result<Session, Error> {
        // Only `am` has bulk transfers. Other drivers send as many bytes in frames; kernel UDP is left out.
        let is_bulk = benches.iter().any(|(bench, _)| *bench == Bench::Bulk);
        let all = benches.first().map_or(&[][..], |(bench, _)| self.topology.drivers(*bench));
        let all: Vec<Driver> = all.iter().copied().filter(|driver| !(is_bulk && *driver == Driver::Udp)).collect();
        self.session(benches, vec![Loss::NONE], &all, vec![])
    }

    /// Measure the bandwidth of these sizes, for a curve.
    pub fn bandwidth(&self, sizes: Vec<Size>, drivers: &[Driver]) -> Result<Session, Error> {
        self.session(vec![(Bench::Bandwidth, sizes)], vec![Loss::NONE], drivers, vec![])
    }

    /// Measure these benches and sizes; `drivers` are the default, and `singly` hand over one message with each call.
    pub fn session(
        &self,
        benches: Vec<(Bench, Vec<Size>)>,
        losses: Vec<Loss>,
        drivers: &[Driver],
        singly: Vec<Driver>,
    ) -> Result<Session, Error> {
        let order = Order {
            drivers: if self.drivers.is_empty() { drivers } else { self.drivers }.to_vec(),
            may_skip_udp: self.drivers.is_empty(),
            how: DriverOptions { lossy: losses.len() > 1, ..self.how },
            benches,
            losses,
            singly,
            amount: self.amount,
        };
        if let Some(file) = self.how.trace {
            // Each driver that is opened appends to it.
            File::create(file).map_err(Error::system(drivers::am::TRACING))?;
        }
        let progress = Progress::new(order.count(), self.print.json);
        let is_one_machine = !matches!(self.topology, Topology::Peer { .. });
        let asked = if is_one_machine { self.cores } else { CoresArg::None };
        let setup = Setup { order: &order, cores: Cores::both(asked)?, progress: &progress, watch: self.watch };
        match self.topology {
            Topology::Loopback => threads::loopback(setup),
            Topology::Sim(on) => threads::simulated(setup, on),
            Topology::Peer { peer, on, name } => {
                machines::measure(setup, own_link(Side::Near, on, name, self.cores)?, peer)
            }
            _ => self.topology.sides(&order.drivers)?.measure(setup),
        }
    }

    /// Print a session, and return how it ended.
    pub fn print(&self, session: Session) -> Result<(), Error> {
        let report = report(&session.all, session.cores);
        self.print.publish(report, &Origin::new(self.topology.transport(), session.mtu))?;
        session.end
    }
}

/// This side's end of the wire between two machines. Transports other than interfaces check their rights when they are
/// opened.
pub fn own_link(side: Side, on: &str, name: &str, cores: CoresArg) -> Result<NamedLink, Error> {
    if am_api::transports::split(on).iter().any(|name| name.starts_with("xdp:")) {
        rights::check(false, &[Driver::Am])?;
    }
    NamedLink::new(side, name, on, pin(Cores::own(cores, side)?)?)
}
