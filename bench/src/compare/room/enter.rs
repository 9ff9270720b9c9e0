//! Become a program of the room: in its network, on its core.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::sethostname;

use super::places::{HOSTS, network};
use super::{Network, failed};
use crate::cores::pin;
use crate::error::Error;

/// `near|far CORE|none PROGRAM ARGUMENT...`
///
/// # Errors
/// Why it could not be started; otherwise this process is that program.
pub(crate) fn become_it(words: &[String]) -> Error {
    enter(words).err().unwrap_or_else(|| Error::Usage("room enter: near or far, a core or none, a program".to_owned()))
}

/// Some programs look for interfaces in `/sys`, which shows those of the network that it was mounted in.
fn see_own_interfaces() -> Result<(), Error> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed("making mounts of its own"))?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(failed("mounting"))?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none).map_err(failed("mounting /sys"))
}

fn enter(words: &[String]) -> Result<(), Error> {
    let [side, core, program, arguments @ ..] = words else { return Ok(()) };
    let side = if side == "far" { Network::Far } else { Network::Near };
    let namespace = File::open(network(side)).map_err(Error::system("opening a network namespace"))?;
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(failed("entering a network namespace"))?;
    see_own_interfaces()?;
    if side == Network::Far {
        unshare(CloneFlags::CLONE_NEWUTS).map_err(failed("making a host's name"))?;
        sethostname(HOSTS[1]).map_err(failed("naming a host"))?;
    }
    pin(core.parse().ok())?;
    let why = Command::new(program).args(arguments).exec();
    Err(Error::Facility(format!("{program}: {why}")))
}
