//! The cable without what it does for the kernel: segments are cut before they cross it.

use std::process::{Command, Stdio};

use crate::deploy::veth::{INTERFACE, Pair};
use crate::error::Error;

/// Off until this is dropped.
pub(super) struct Offload<'a>(&'a Pair);

/// # Errors
/// What is missing, and what installs it.
pub(super) fn find() -> Result<(), String> {
    let found = Command::new("ethtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.map(drop).map_err(|_| "ethtool is not installed: scripts/setup".to_owned())
}

impl Offload<'_> {
    /// # Errors
    /// The interfaces do not let it be switched.
    pub(super) fn off(pair: &Pair) -> Result<Offload<'_>, Error> {
        let off = Offload(pair);
        switch(pair, "off")?;
        Ok(off)
    }
}

impl Drop for Offload<'_> {
    fn drop(&mut self) {
        // A cable that lets it be switched off lets it be switched on.
        let _ = switch(self.0, "on");
    }
}

fn switch(pair: &Pair, to: &str) -> Result<(), Error> {
    let switch = || {
        let mut command = Command::new("ethtool");
        command.args(["-K", INTERFACE, "tso", to, "gso", to]).stdin(Stdio::null()).output()
    };
    for host in &pair.hosts {
        let output = host.enter(switch)?.map_err(Error::system("starting ethtool"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Facility(format!("segmentation offload cannot be switched {to}: {why}")));
        }
    }
    Ok(())
}
