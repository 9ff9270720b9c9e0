//! **What `am-bench pvm` measures**: unchanged programs of PVM, by PVM's own routes and by active messages, in one run, with the figures of
//! the PVMAM paper (Mucci, figures 2 to 7).
//!
//! ```text
//!   rounds ─▶ turn.rs: one route, a PVM of two hosts in a sandbox
//!               ├─ pvm.c      two tasks, by size: half of a round trip, and one way
//!               ├─ group.c    several tasks: broadcast, reduce, all to all
//!               └─ fft.c      a transform of 1152 x 1152 numbers, a master and 1 to 8 slaves
//!   ─▶ measured.rs ─▶ report.rs, plot.rs
//! ```
//!
//! The programs are the same for all routes. With active messages `libpvm_am.so` is loaded before PVM's library.
//!
//! Read first: `route.rs` (what is compared), then `turn.rs`.
#![forbid(unsafe_code)]

mod measured;
mod plot;
mod report;
mod route;
mod turn;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use am_measure::deploy::{Pair, check_mtu};
use am_measure::options::{self, CoresOption, DEFAULT_MTU, Origin, PlotOption, check_once, only};
use am_measure::options::{AmountOptions, Print};
use am_measure::{Driver, Error, HostsArg, Progress, Watch, rights};

use measured::Figures;
use route::Route;
use turn::Order;

/// What a user has to do first.
const NEEDS: &str = "\
It needs root, PVM (scripts/setup --with-pvm), and the library: make -C bindings/pvm, or cargo build --release -p am-pvm. The newer one \
of both is measured, and named. The transform has one size, and takes most of the time: with --size it runs only if --slaves is given.";

/// Without `--size`.
const SIZES: [usize; 7] = [8, 64, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Without `--slaves`.
const SLAVES: [usize; 4] = [1, 2, 4, 8];

/// The options of `pvm`.
#[derive(Clone, Debug, Args)]
#[command(after_help = NEEDS)]
#[command(mut_arg("rounds", |rounds| rounds.default_value("3")))]
#[command(mut_arg("time", |time| time.default_value("0.05")))]
#[command(mut_arg("plot", |plot| plot.help("Plot time and bandwidth over size, and the transform's time over the slaves, as SVG")))]
pub struct PvmArgs {
    /// Where the tasks run: two hosts, and over shared memory both on one [default: veth]
    #[arg(long, value_parser = only(&[HostsArg::Veth]), help_heading = "Where")]
    hosts: Option<HostsArg>,
    /// MTU of the veth pair
    #[arg(long, default_value_t = DEFAULT_MTU, value_name = "BYTES", help_heading = "Where")]
    mtu: u32,
    #[command(flatten)]
    cores: CoresOption,
    /// Bytes of a message; a group of tasks has those of 8, 1K and 64K that are among them [default: 8,64,1K,8K,64K,256K,1M]
    #[arg(long, value_delimiter = ',', value_parser = options::message, value_name = "BYTES,...",
          help_heading = "What")]
    size: Vec<usize>,
    /// Slaves of the transform [default: 1,2,4,8, or no transform with --size]
    #[arg(long, value_delimiter = ',', value_parser = slaves, value_name = "COUNT,...", help_heading = "What")]
    slaves: Vec<usize>,
    /// A route that takes longer for one turn is ended
    #[arg(long, default_value = "120", value_parser = options::seconds, value_name = "SECONDS")]
    limit: Duration,
    /// The library [default: the newer libpvm_am.so of target/library and the one beside am-bench]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    #[command(flatten)]
    amount: AmountOptions,
    #[command(flatten)]
    print: Print,
    #[command(flatten)]
    plot: PlotOption,
}

/// The rows of the transform are dealt out evenly.
fn slaves(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ (1 | 2 | 3 | 4 | 6 | 8 | 9 | 12 | 16)) => Ok(count),
        _ => Err("1, 2, 3, 4, 6, 8, 9, 12 or 16".to_owned()),
    }
}

impl PvmArgs {
    /// # Errors
    /// Options that do not go together.
    pub fn check(&self) -> Result<(), Error> {
        self.plot.check(&self.print)?;
        check_once("--size", &self.size)?;
        check_once("--slaves", &self.slaves)?;
        check_mtu(self.mtu, &[Driver::Am])
    }

    /// The sizes of messages, and the slaves of each transform: none if only sizes are given. Both rise.
    fn sizes_and_slaves(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut sizes, mut slaves) = (self.size.clone(), self.slaves.clone());
        if slaves.is_empty() && sizes.is_empty() {
            slaves = SLAVES.to_vec();
        }
        if sizes.is_empty() {
            sizes = SIZES.to_vec();
        }
        sizes.sort_unstable();
        slaves.sort_unstable();
        (sizes, slaves)
    }

    /// Measure all routes in turn, print them, and plot them if asked.
    ///
    /// # Errors
    /// A right, PVM or the library is missing; or a route cannot be measured.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        self.check()?;
        rights::check(true, &[Driver::Am])?;
        let library = turn::library(self.library.as_deref())?;
        let name = turn::short_name(&library);
        let version = turn::version(watch)?;
        let (sizes, slaves) = self.sizes_and_slaves();
        let (pair, cores, amount) = (Pair::new(self.mtu, None)?, self.cores.both()?, self.amount.amount());
        let progress = Progress::new(Route::ALL.len() * amount.rounds, self.print.json);
        let order = Order { pair, library, sizes, slaves, cores, amount, limit: self.limit };
        let mut all = vec![];
        for round in 0..amount.rounds {
            for nth in 0..Route::ALL.len() {
                // Each round begins with another one.
                let route = Route::ALL[(round + nth) % Route::ALL.len()];
                progress.say(&format!("round {}: {}", round + 1, route.name()));
                all.extend(turn::take(route, round, &order, watch)?);
                progress.done();
            }
        }
        let Order { sizes, slaves, .. } = order;
        let figures = Figures { all, sizes, slaves, cores, rounds: amount.rounds, version, library: name };
        self.print.publish(figures.report(), &Origin::new("all", Some(self.mtu)))?;
        self.plot.write(|| figures.svg())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        pvm: PvmArgs,
    }

    #[test]
    fn sizes_alone_leave_the_transform_out() {
        let of = |options: &[&str]| {
            Program::try_parse_from([&["program"], options].concat()).expect("options").pvm.sizes_and_slaves()
        };
        assert_eq!(of(&[]), (SIZES.to_vec(), SLAVES.to_vec()));
        assert_eq!(of(&["--size", "64K,8"]), (vec![8, 64 << 10], vec![]));
        assert_eq!(of(&["--slaves", "2,1"]), (SIZES.to_vec(), vec![1, 2]));
        assert_eq!(of(&["--size", "8", "--slaves", "2"]), (vec![8], vec![2]));
    }
}
