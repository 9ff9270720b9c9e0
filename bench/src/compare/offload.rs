//! The cable's segmentation and receive offload.

use std::process::{Command, Output, Stdio};

use am_netns::Host;
use serde::Serialize;

use am_measure::Error;
use am_measure::deploy::{INTERFACE, Pair};

/// Names of `ethtool -k`, and names in the table.
const FEATURES: [(&str, &str); 3] =
    [("tcp-segmentation-offload", "TSO"), ("generic-segmentation-offload", "GSO"), ("generic-receive-offload", "GRO")];

/// What is on at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Offload {
    pub(super) tso: bool,
    pub(super) gso: bool,
    pub(super) gro: bool,
}

impl Offload {
    /// The present state; `None` if ethtool does not tell.
    pub(super) fn of(pair: &Pair) -> Option<Offload> {
        let of = |host| read(&String::from_utf8_lossy(&ethtool(host, &["-k", INTERFACE]).ok()?.stdout));
        let [near, far] = [of(&pair.hosts[0])?, of(&pair.hosts[1])?];
        Some(Offload { tso: near.tso && far.tso, gso: near.gso && far.gso, gro: near.gro && far.gro })
    }

    /// `TSO on, GSO on, GRO off`.
    pub(super) fn words(self) -> String {
        let each = [self.tso, self.gso, self.gro].into_iter().zip(FEATURES);
        let each = each.map(|(is_on, (_, name))| format!("{name} {}", if is_on { "on" } else { "off" }));
        each.collect::<Vec<_>>().join(", ")
    }
}

fn ethtool(host: &Host, words: &[&str]) -> Result<Output, Error> {
    let run = || Command::new("ethtool").args(words).stdin(Stdio::null()).output();
    host.enter(run)?.map_err(Error::system("starting ethtool"))
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

/// Fails with the command that installs ethtool, if it is missing.
pub(super) fn find() -> Result<(), String> {
    let found = Command::new("ethtool").arg("--version").stdin(Stdio::null()).output();
    found.map(drop).map_err(|_| "ethtool is not installed: scripts/setup".to_owned())
}

/// Switch segmentation offload of the cable `on` or `off`.
pub(super) fn switch(pair: &Pair, to: &str) -> Result<(), Error> {
    for host in &pair.hosts {
        let output = ethtool(host, &["-K", INTERFACE, "tso", to, "gso", to])?;
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
