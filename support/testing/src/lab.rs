//! Four hosts and a remote shell that enters them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use am_netns::{Bridge, BridgeOptions, Host, VethOptions, veth};
use tempfile::TempDir;

use crate::c_program::Program;

/// Hosts on a switch, called by their addresses, and a remote shell for them.
pub struct Lab {
    _hosts: Vec<Host>,
    _switch: Bridge,
    directory: TempDir,
}

/// A daemon on each host, which shares the host's interface.
pub struct Daemons(Vec<Child>);

impl Drop for Daemons {
    fn drop(&mut self) {
        for daemon in &mut self.0 {
            // It may have ended.
            _ = daemon.kill();
            _ = daemon.wait();
        }
    }
}

/// The daemon, which is another package's.
fn amd() -> PathBuf {
    let test = std::env::current_exe().expect("this test's file");
    let amd = test.ancestors().nth(2).expect("cargo's directory").join("amd");
    assert!(amd.exists(), "no {}: cargo build -p am-daemon", amd.display());
    amd
}

/// The addresses of the hosts.
pub const ADDRESSES: [&str; 4] = ["10.78.0.1", "10.78.0.2", "10.78.0.3", "10.78.0.4"];

impl Lab {
    /// The hosts and their switch.
    #[allow(clippy::new_without_default, reason = "it makes hosts")]
    pub fn new() -> Lab {
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
        // The hosts share this machine's files. Each has one directory of its own, for its daemon's socket, at the same path.
        let shell = "here=$(dirname \"$0\"); host=$1; shift\n\
            exec nsenter --net=\"$(cat \"$here/$host\")\" -- unshare --mount sh -c \\\n\
            'mount --bind \"$0\" \"$1\" && shift && exec \"$@\"' \"$here/of-$host\" \"$here/sockets\" \"$@\"\n";
        let directories = ADDRESSES.iter().map(|address| format!("of-{address}"));
        for name in directories.chain(["sockets".to_owned()]) {
            std::fs::create_dir(directory.path().join(name)).expect("a directory");
        }
        std::fs::write(directory.path().join("enter"), shell).expect("a file");
        Lab { _hosts: hosts, _switch: switch, directory }
    }

    /// The command that enters a host.
    pub fn shell(&self) -> String {
        format!("sh {}/enter", self.directory.path().display())
    }

    /// Where each host's daemon has its socket, as the host's programs see it.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("sockets/amd.sock")
    }

    /// Start a daemon on each host, on this wire.
    pub fn share(&self, wire: &str) -> Daemons {
        let enter = self.directory.path().join("enter");
        let start = |address: &str| {
            let mut command = Command::new("sh");
            command.arg(&enter).arg(address).arg(amd()).args(["run", wire, "--socket"]).arg(self.socket());
            command.spawn().expect("a daemon")
        };
        let mut daemons = Daemons(ADDRESSES.map(start).into());
        let is_there = |address: &str| Path::exists(&self.directory.path().join(format!("of-{address}/amd.sock")));
        let begin = Instant::now();
        while !ADDRESSES.into_iter().all(is_there) {
            assert!(begin.elapsed() < Duration::from_secs(60), "a daemon has no socket");
            assert!(daemons.0.iter_mut().all(|daemon| matches!(daemon.try_wait(), Ok(None))), "a daemon has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        daemons
    }

    /// Open MPI's launcher, on the first host, for a process on each.
    pub fn mpirun(&self, program: &str) -> Command {
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

/// Start a program for each descriptor of its library, over AF_XDP. It has a file of its own under that number, prints how many there are, and fails where
/// the library does not leave the file alone.
pub fn leave_each_number_alone(program: &Program) {
    let (alpha, beta) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    let _cable = veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
    let mut which = 0;
    loop {
        let said = alpha.enter(|| program.start("", &["xdp:am0", &which.to_string()]).end()).unwrap();
        which += 1;
        if which == said.trim().parse::<usize>().unwrap() {
            break;
        }
    }
    assert!(which > 10, "programs, maps, links and types are among them: {which}");
}
