//! The command line.

use std::env::{self, VarError};
use std::ffi::OsString;
use std::path::Path;

use am_spmd::rendezvous::variables;
use clap::Parser;

/// Starts the processes of a program on the hosts of a list.
///
/// Each process finds its rank, their number and the others' addresses by am-spmd (`Place::find`, from C `AM_Init`), or in the
/// variables AM_RANK and AM_SIZE. Output is forwarded line by line, input goes to rank 0. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1,
/// SIGUSR2, SIGTSTP and SIGCONT go to all processes. If one process fails, all end. am-run must be installed on each host.
///
/// The exit code is 0 if all processes ended with 0. Otherwise it is the exit code of the first that did not, or 128 and the number of the
/// signal that ended it. It is 125 if the arguments are wrong, the job could not be started, or a host was lost; 126 if the program
/// cannot be started, and 127 if it is not there.
#[derive(Debug, Parser)]
#[command(name = "am-run", version, after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The number of processes; without it one for each slot
    #[arg(short = 'n', long = "processes", value_name = "NUMBER")]
    pub(crate) processes: Option<usize>,

    /// The hosts: NAME[:SLOTS],.., or a file with one host a line (NAME, NAME:SLOTS or NAME slots=SLOTS; # begins a comment).
    /// A host without SLOTS has one. Without this option all processes run here
    #[arg(short = 'H', long = "hosts", value_name = "LIST|FILE")]
    pub(crate) hosts: Option<String>,

    /// The command that runs another on a host: COMMAND HOST am-run --agent
    #[arg(long, value_name = "COMMAND", default_value = "ssh -o BatchMode=yes")]
    pub(crate) rsh: String,

    /// The transport that each process opens, `udp` without it and without AM_TRANSPORT: `udp`, `tcp`, `shm`, `xdp:eth1` or several joined by `+`. am-spmd adds the host's address
    /// and the job's name. `udp:10.0.0.0/8` chooses the address in that network. Several processes of a host share an interface by a
    /// daemon: `amd:SOCKET`
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<String>,

    /// Begin each line of output with its rank
    #[arg(short = 'p', long)]
    pub(crate) prefix: bool,

    /// Set a variable in each process; without =VALUE to its value here. (Processes on this host have all variables of am-run)
    #[arg(short = 'x', long = "export", value_name = "NAME[=VALUE]")]
    pub(crate) exports: Vec<String>,

    /// The directory that the processes start in; without it this one
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) directory: Option<OsString>,

    /// Where am-run is on the other hosts; without it where it is here
    #[arg(long, value_name = "PATH")]
    pub(crate) am_run: Option<OsString>,

    /// How many seconds a host has to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) patience: u64,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Examples:
  am-run -n 4 ./program                                   four processes on this host, over UDP
  am-run -n 4 --transport shm ./program                   the same over shared memory
  am-run -H alpha,beta --transport xdp:eth1 ./program     two hosts, a process each, AF_XDP
  am-run -H alpha:2,beta:2 --transport amd:/run/amd/eth1/amd.sock ./program
                                                          two each, which share the interface by the daemon amd
  am-run -H hosts --transport shm+udp -p ./program        a file of hosts; lines begin with their rank";

impl Options {
    /// The transport, unless an option names it, and the variables of `-x`.
    ///
    /// # Errors
    /// One of them has no name, or no value here.
    pub(crate) fn environment(&self) -> Result<Vec<(String, String)>, String> {
        let transport = match env::var(variables::TRANSPORT) {
            Err(VarError::NotUnicode(_)) if self.transport.is_none() => {
                return Err(format!("{} is not UTF-8: set it anew, or use --transport", variables::TRANSPORT));
            }
            transport => transport.unwrap_or_else(|_| "udp".to_owned()),
        };
        let mut all = vec![(variables::TRANSPORT.to_owned(), transport)];
        for export in &self.exports {
            let (name, value) = match export.split_once('=') {
                Some((name, value)) => (name, Ok(value.to_owned())),
                None => (&export[..], env::var(export)),
            };
            if name.is_empty() {
                return Err(format!("`-x {export}` names no variable: write `-x NAME=VALUE`"));
            }
            all.push((name.to_owned(), value.map_err(|why| no_value(name, &why))?));
        }
        Ok(all)
    }

    /// What may be wrong with a host that does not answer: a file of hosts that is not there is taken for a host.
    pub(crate) fn host_hint(&self) -> Option<String> {
        let name =
            self.hosts.as_ref().filter(|hosts| !hosts.contains([',', ':', '@', '/']) && !Path::new(hosts).is_file())?;
        Some(format!("there is no file `{name}` here, so -H {name} is the host of this name"))
    }
}

fn no_value(name: &str, why: &VarError) -> String {
    match why {
        VarError::NotPresent => {
            format!("`-x {name}`: it is not set here; set it, write `-x {name}=VALUE`, or leave it out")
        }
        VarError::NotUnicode(_) => {
            format!("`-x {name}`: its value here is not UTF-8; write another, as `-x {name}=VALUE`")
        }
    }
}
