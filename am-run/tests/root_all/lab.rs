//! Four hosts and a remote shell that enters them.

use std::path::Path;
use std::process::Command;

use am_netns::{Bridge, BridgeOptions, Host};
use tempfile::TempDir;

/// Hosts on a switch, called by their addresses, and a remote shell for them.
pub(crate) struct Lab {
    _hosts: Vec<Host>,
    _switch: Bridge,
    directory: TempDir,
}

pub(crate) const ADDRESSES: [&str; 4] = ["10.78.0.1", "10.78.0.2", "10.78.0.3", "10.78.0.4"];

impl Lab {
    pub(crate) fn new() -> Lab {
        let hosts: Vec<Host> = ADDRESSES.iter().map(|address| Host::new(address).expect("a host")).collect();
        let switch =
            Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).expect("a switch");
        let directory = tempfile::tempdir().expect("a directory");
        for (host, address) in hosts.iter().zip(ADDRESSES) {
            let mut add = Command::new("ip");
            add.args(["address", "add", &format!("{address}/24"), "dev", "am0"]);
            assert!(host.enter(|| add.status()).expect("a host").expect("ip").success());
            std::fs::write(directory.path().join(address), host.path()).expect("a file");
        }
        let shell = "host=$1; shift; exec nsenter --net=\"$(cat \"$(dirname \"$0\")/$host\")\" -- \"$@\"\n";
        std::fs::write(directory.path().join("enter"), shell).expect("a file");
        Lab { _hosts: hosts, _switch: switch, directory }
    }

    /// The command that enters a host.
    pub(crate) fn shell(&self) -> String {
        format!("sh {}/enter", self.directory.path().display())
    }

    /// Where its files are.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}
