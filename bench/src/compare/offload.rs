//! The cable's segmentation and receive offload.

use std::process::{Command, Stdio};

use crate::deploy::veth::{INTERFACE, Pair};
use crate::error::Error;

/// Names of `ethtool -k`, and names in the table.
const FEATURES: [(&str, &str); 3] =
    [("tcp-segmentation-offload", "TSO"), ("generic-segmentation-offload", "GSO"), ("generic-receive-offload", "GRO")];

/// What is on at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offload {
    pub(crate) tso: bool,
    pub(crate) gso: bool,
    pub(crate) gro: bool,
}

impl Offload {
    /// The present state; `None` if ethtool does not tell.
    pub(super) fn of(pair: &Pair) -> Option<Offload> {
        let ask = || Command::new("ethtool").args(["-k", INTERFACE]).stdin(Stdio::null()).output();
        let each = pair.hosts.iter().map(|host| {
            let output = host.enter(ask).ok()?.ok()?;
            read(&String::from_utf8_lossy(&output.stdout))
        });
        let [near, far] = each.collect::<Option<Vec<_>>>()?.try_into().ok()?;
        Some(Offload { tso: near.tso && far.tso, gso: near.gso && far.gso, gro: near.gro && far.gro })
    }

    /// `TSO on, GSO on, GRO off`.
    pub(super) fn words(self) -> String {
        let each = [self.tso, self.gso, self.gro].into_iter().zip(FEATURES);
        let each = each.map(|(is_on, (_, name))| format!("{name} {}", if is_on { "on" } else { "off" }));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// ethtool prints one line a feature: `generic-receive-offload: off [requested on]`.
fn read(said: &str) -> Option<Offload> {
    let is_on = |(feature, _): (&str, &str)| {
        let said = said.lines().find_map(|line| line.trim().strip_prefix(feature)?.strip_prefix(": "))?;
        Some(said.starts_with("on"))
    };
    let [tso, gso, gro] = FEATURES.map(is_on);
    Some(Offload { tso: tso?, gso: gso?, gro: gro? })
}

/// Switches segmentation offload of the cable off until it is dropped.
pub(super) struct OffloadOff<'a>(&'a Pair);

/// # Errors
/// What is missing, and what installs it.
pub(super) fn find() -> Result<(), String> {
    let found = Command::new("ethtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.map(drop).map_err(|_| "ethtool is not installed: scripts/setup".to_owned())
}

impl OffloadOff<'_> {
    /// # Errors
    ///
    /// The interfaces refuse.
    pub(super) fn before(pair: &Pair) -> Result<OffloadOff<'_>, Error> {
        let cut = OffloadOff(pair);
        switch(pair, "off")?;
        Ok(cut)
    }
}

impl Drop for OffloadOff<'_> {
    fn drop(&mut self) {
        // A cable on which it can be switched off lets it be switched on.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ethtool_says() {
        let said = "Features for am0:\nrx-checksumming: on\ntcp-segmentation-offload: on\n\ttx-tcp-segmentation: on\n\
                    generic-segmentation-offload: off [requested on]\ngeneric-receive-offload: off\nrx-gro-hw: off [fixed]\n";
        let offload = read(said).unwrap();
        assert_eq!(offload, Offload { tso: true, gso: false, gro: false });
        assert_eq!(offload.words(), "TSO on, GSO off, GRO off");
        assert_eq!(read("no such device\n"), None);
    }
}
