//! Latency, bandwidth and rate; and the demonstration, which has them all.

use std::path::Path;

use clap::Args;

use am_measure::options::{
    self, CoalesceOption, CoresOption, DriverOption, Origin, PlotOption, STREAMS, SizeOption, apart, check_file,
    check_once, only, usage,
};
use am_measure::report::{INTRODUCTION, LOOPBACK, loss_curve};
use am_measure::sweep::Sweep;
use am_measure::{
    Bench, Common, Driver, Error, HostsArg, Loss, Place, Run, Session, Size, Topology, Watch, out, swept,
};

/// What the three commands share.
#[derive(Clone, Debug, Args)]
pub(crate) struct Measured {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    driver: DriverOption,
    #[command(flatten)]
    size: SizeOption,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    coalesce: CoalesceOption,
    /// Write every frame of am that this side sends or receives to this file, for tcpdump and Wireshark (pcap). This
    /// costs time
    #[arg(long, value_name = "FILE", value_parser = options::path, help_heading = "What")]
    trace: Option<&'static Path>,
}

impl Measured {
    pub(crate) fn topology(&self) -> Result<Topology, Error> {
        let drivers = &self.driver.driver;
        self.common.print.check()?;
        check_once("--driver", drivers)?;
        self.size.check()?;
        if let Some(trace) = self.trace {
            check_file("--trace", Some(trace))?;
            if !drivers.is_empty() && !drivers.contains(&Driver::Am) {
                return Err(usage("--trace is for am: add it to --driver"));
            }
            apart("--save", self.common.print.save.as_deref(), "--trace", trace)?;
        }
        if drivers.contains(&Driver::Cacheline) && self.place.here.hosts != Some(HostsArg::Shm) {
            return Err(usage("--driver cacheline is for --hosts shm: two processes share the cache line"));
        }
        self.place.topology(&self.common.open, drivers)
    }

    fn on<'a>(&'a self, topology: &'a Topology, watch: &'a Watch) -> Run<'a> {
        let run = self.common.run(topology, &self.driver.driver, self.place.cores(), watch);
        let mut run = run.coalesce(&self.coalesce);
        run.how.trace = self.trace;
        run
    }

    pub(super) fn run(&self, bench: Bench, watch: &Watch) -> Result<(), Error> {
        let topology = self.topology()?;
        let run = self.on(&topology, watch);
        run.print(run.benches(vec![(bench, self.size.size.clone())])?)
    }
}

#[derive(Clone, Debug, Args)]
#[command(mut_arg("size", |size| size.default_value("16")))]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    pub(crate) measured: Measured,
}

#[derive(Clone, Debug, Args)]
#[command(mut_arg("size", |size| size.default_value("64")))]
#[command(mut_arg("driver", |driver| driver.value_parser(only(STREAMS))))]
pub(crate) struct RateArgs {
    #[command(flatten)]
    pub(crate) measured: Measured,
}

#[derive(Clone, Debug, Args)]
#[command(mut_arg("size", |size| size.help(
    "Payload bytes of a message (64K, 1M), or `full` for as many as a frame holds [default: full; with --bulk 1M,64K,16M; \
     with --bulk --loss 1M]")))]
#[command(mut_arg("driver", |driver| driver.value_parser(only(STREAMS))))]
#[command(mut_arg("time", |time| time.default_value_if("sweep", "true", "0.05")))]
#[command(mut_arg("coalesce", |coalesce| coalesce.default_value_if("sweep", "true", "on")))]
#[command(mut_arg("plot", |plot| plot.help("Plot the curve over sizes, or with --loss over losses, as SVG")))]
pub(crate) struct BandwidthArgs {
    /// Measure the curve from 1 byte to 64 KiB, with its start-up time t0, its asymptotic bandwidth
    /// r_inf, and n1/2, the size that reaches half of it. Messages larger than a frame go in several
    /// frames [default: --time 0.05, --coalesce on]
    #[arg(long, group = "curve")]
    pub(crate) sweep: bool,
    /// Measure transfers into a registered region of the far side, compared with frames of as many bytes
    #[arg(long, conflicts_with = "sweep")]
    pub(crate) bulk: bool,
    /// Lose this percentage of the frames in each direction (1 or 1%), and report the share of the rate
    /// that remains, for each percentage; for am only
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,...", group = "curve")]
    pub(crate) loss: Vec<Loss>,
    #[command(flatten)]
    pub(crate) plot: PlotOption,
    #[command(flatten)]
    pub(crate) measured: Measured,
}

impl BandwidthArgs {
    fn bench(&self) -> Bench {
        if self.bulk { Bench::Bulk } else { Bench::Bandwidth }
    }

    fn sizes(&self) -> Vec<Size> {
        let given = &self.measured.size.size;
        let of_bulk = |size: &Size| match *size {
            Size::Bytes(bytes) => Size::Bulk(bytes),
            other => other,
        };
        match (self.bulk, &given[..]) {
            (false, []) => vec![Size::Full],
            (false, given) => given.to_vec(),
            // One size by default: the curve is over losses.
            (true, []) if !self.loss.is_empty() => vec![Size::Bulk(1 << 20)],
            (true, []) => [1 << 20, 64 << 10, 16 << 20].map(Size::Bulk).to_vec(),
            (true, given) => given.iter().map(of_bulk).collect(),
        }
    }

    pub(crate) fn topology(&self) -> Result<Topology, Error> {
        let Measured { size, driver, common, .. } = &self.measured;
        self.plot.check(&common.print)?;
        if self.sweep && !size.size.is_empty() {
            return Err(usage("--sweep has its own sizes: omit --size"));
        }
        if !self.loss.is_empty() && !driver.driver.is_empty() && !driver.driver.contains(&Driver::Am) {
            return Err(usage(
                "--loss is for am, and other drivers lose nothing on purpose: give --driver am, or omit --driver",
            ));
        }
        if self.plot.plot.is_some() && !self.sweep && self.loss.is_empty() {
            return Err(usage("--plot needs a curve: add --sweep or --loss"));
        }
        check_once("--loss", &self.loss)?;
        self.measured.topology()
    }

    pub(super) fn run(&self, watch: &Watch) -> Result<(), Error> {
        let topology = self.topology()?;
        let (run, bench) = (self.measured.on(&topology, watch), self.bench());
        if self.sweep {
            return self.sweep(&run);
        }
        if self.loss.is_empty() {
            return run.print(run.benches(vec![(bench, self.sizes())])?);
        }
        let losses = [&[Loss::NONE], &self.loss[..]].concat();
        let session = run.session(vec![(bench, self.sizes())], losses, &[Driver::Am], vec![])?;
        let svg = self.plot.plot.as_ref().map(|_| loss_curve(&session.all, bench));
        let printed = run.print(session);
        svg.map_or(Ok(()), |svg| self.plot.write(|| svg))?;
        printed
    }

    /// Measure the curve over sizes.
    fn sweep(&self, run: &Run<'_>) -> Result<(), Error> {
        let session = run.bandwidth(swept(), run.topology.drivers(Bench::Bandwidth))?;
        let sweep = Sweep::new(&session.all, session.cores);
        run.print.publish(sweep.report(), &Origin::new(run.topology.transport(), session.mtu))?;
        self.plot.write(|| {
            let modes = sweep.curves.iter().map(|curve| format!("{} {}", curve.first.driver, curve.first.mode));
            sweep.svg(&format!("bandwidth by size: {}", modes.collect::<Vec<_>>().join(", ")))
        })?;
        session.end
    }
}

#[derive(Clone, Debug, Args)]
#[command(mut_arg("size", |size| size.help(
    "Payload bytes of a message (64K, 1M), or `full` for as many as a frame holds [default: round trip 16, bandwidth full]")))]
#[command(mut_arg("driver", |driver| driver.value_parser(only(STREAMS)).help("The drivers to measure, in turn [default: all]")))]
#[command(mut_arg("framing", |framing| framing.default_value("bare").help("Where our messages carry their header")))]
#[command(mut_arg("time", |time| time.default_value("0.1")))]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    cores: CoresOption,
    #[command(flatten)]
    driver: DriverOption,
    #[command(flatten)]
    size: SizeOption,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    coalesce: CoalesceOption,
}

impl DemoArgs {
    /// Measure latency and bandwidth with explanations, over a cable, or in memory if a cable cannot be made.
    pub(super) fn run(&self, watch: &Watch) -> Result<(), Error> {
        self.common.print.check()?;
        check_once("--driver", &self.driver.driver)?;
        self.size.check()?;
        let on = |topology| {
            let run = self.common.run(topology, &self.driver.driver, self.cores.cores.unwrap_or_default(), watch);
            run.coalesce(&self.coalesce)
        };
        let sizes = |default| if self.size.size.is_empty() { vec![default] } else { self.size.size.clone() };
        let measure = |topology| -> Result<Session, Error> {
            let benches = vec![(Bench::Latency, sizes(Size::Bytes(16))), (Bench::Bandwidth, sizes(Size::Full))];
            on(topology).benches(benches)
        };
        let say = |text: &str| if self.common.print.json { Ok(()) } else { out::print(&format!("{text}\n\n")) };
        say(INTRODUCTION)?;
        match measure(&Topology::Veth(1500, None)) {
            Err(error) if error.exit_code() == 3 => {
                say(&format!("That is not possible here.\n{error}\n\n{LOOPBACK}"))?;
                on(&Topology::Loopback).print(measure(&Topology::Loopback)?)
            }
            session => on(&Topology::Veth(1500, None)).print(session?),
        }
    }
}
