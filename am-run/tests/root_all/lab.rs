//! Four hosts and a remote shell that enters them.

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

    /// Open MPI's launcher, on the first host, for a process on each.
    pub(crate) fn mpirun(&self, program: &str) -> Command {
        // The hosts share this machine's files and its name; each needs its own for mpirun's files. mpirun passes one text to a
        // remote shell, as ssh takes it.
        let own = "mkdir -p \"$TMPDIR\" && hostname \"$0\" && exec \"$@\"";
        let text = format!(
            "#!/bin/sh\nhost=$1; shift; export TMPDIR={}/files-$host\nexec {} \"$host\" unshare --uts sh -c '{own}' \"h${{host##*.}}\" sh -c \"$*\"\n",
            self.directory.path().display(),
            self.shell()
        );
        let shell = self.directory.path().join("enter.sh");
        std::fs::write(&shell, text).expect("a file");
        assert!(Command::new("chmod").arg("+x").arg(&shell).status().expect("chmod").success());
        // mpirun's own connections need an address that its hosts reach, so it runs on the first.
        let network = "--mca oob_tcp_if_include 10.78.0.0/24 --mca plm_rsh_no_tree_spawn 1";
        let text = format!(
            "mpirun.openmpi --allow-run-as-root -n 4 --host {} --mca plm_rsh_agent {} {network} {}",
            ADDRESSES.join(","),
            shell.display(),
            program
        );
        let mut command = Command::new(&shell);
        command.args([ADDRESSES[0], &text]);
        command
    }
}
