//! Both hosts on this machine: two network namespaces and a cable.
//!
//! ```text
//!   near: a thread of this process       far: a process of its own
//!  ┌───────────────────────────────┐    ┌───────────────────────────────┐
//!  │ namespace "alpha"         am0 ┼veth┼ am0          namespace "beta" │
//!  └──────────────┬────────────────┘    └──────────────▲────────────────┘
//!                 └── plan: standard input ────────────┘  its end ends the far side
//! ```
//!
//! Nothing has a name on this machine and everything hangs on open files and
//! processes of ours, so that nothing is left however either side ends.

use std::env::current_exe;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hosts::{Host, VethOptions, veth};

use crate::cores::{Cores, pin};
use crate::error::Error;
use crate::link::{InterfaceLink, Side};
use crate::progress::Progress;
use crate::session::{Order, run};
use crate::watch::Watch;

use super::Session;
use super::pipe::{Lines, Pipe};

/// Both ends of the cable are called so.
const INTERFACE: &str = "am0";
const ADDRESSES: (&str, &str) = ("10.77.0.1/24", "10.77.0.2/24");
/// The far side has so long to end by itself.
const LEAVE: Duration = Duration::from_secs(2);

/// The process of the far side; ended when this is dropped.
struct Far(Child);

impl Drop for Far {
    fn drop(&mut self) {
        // Its standard input is closed by now, which it takes for its end.
        let start = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && start.elapsed() < LEAVE {
            sleep(Duration::from_millis(2));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Make hosts and cable, start the far side, measure, remove everything.
///
/// # Errors
/// What is missing, or whatever ended the session early.
pub(crate) fn measure(
    order: &Order,
    mtu: u32,
    cores: Cores,
    progress: &Progress,
    watch: &Watch,
) -> Result<Session, Error> {
    let (alpha, beta) = (Host::new("alpha")?, Host::new("beta")?);
    let options = VethOptions { mtu, addresses: Some(ADDRESSES), ..VethOptions::default() };
    veth(&alpha, INTERFACE, &beta, INTERFACE, &options)?;
    let far = Far(beta.enter(|| start_far(cores))??);
    alpha.enter(|| near(order, cores, far, progress, watch))?
}

fn start_far(cores: Cores) -> Result<Child, Error> {
    let program = current_exe().map_err(Error::system("finding this program"))?;
    let core = cores.far.map_or("none".to_owned(), |core| core.to_string());
    Command::new(program)
        .args(["far", "--name", "beta", "--on", &format!("xdp:{INTERFACE}")])
        .args(["--cores", &core])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ctrl-C is for the near side, which then ends the far side.
        .process_group(0)
        .spawn()
        .map_err(Error::system("starting the far side"))
}

fn near(order: &Order, cores: Cores, mut far: Far, progress: &Progress, watch: &Watch) -> Result<Session, Error> {
    let (Some(to), Some(from)) = (far.0.stdin.take(), far.0.stdout.take()) else {
        return Err(Error::PeerGone("it was started without a pipe".to_owned()));
    };
    let closed = watch.clone();
    let mut control = Pipe { to, from: Lines::read(from, move || closed.peer_is_gone()) };
    let mut link = InterfaceLink::new(Side::Near, "alpha", INTERFACE, pin(cores.near)?)?;
    let here = link.here()?;
    let (all, there) = run(order, &here, &mut control, &mut link, progress, watch)?;
    Ok(Session { all, cores: Cores { near: here.core, far: there.core } })
}
