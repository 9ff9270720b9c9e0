//! `amd`: share one NIC among programs.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use am_daemon::access::{self, Access};
use am_daemon::admin::{self, Answer, Listing, PortListing, Question};
use am_daemon::log::Log;
use am_daemon::{Daemon, DaemonError, DaemonOptions, privileges};
use clap::{Args, Parser, Subcommand};
use nix::libc::{EMFILE, ENAMETOOLONG, ENFILE, EPROTOTYPE, SIGXFSZ};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

type Error = Box<dyn std::error::Error>;

const DEFAULT_SOCKET: &str = "/run/amd/amd.sock";

/// Share one NIC among programs. Each program attaches with the transport `amd:SOCKET`, and has a link address of its own.
#[derive(Parser)]
#[command(name = "amd", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Open a wire, and serve programs until SIGTERM, SIGINT or SIGHUP. After SIGTERM they go on with the next daemon at the socket
    Run(Run),
    /// Show the programs that are attached
    List {
        #[command(flatten)]
        at: At,
        /// As JSON, in one line
        #[arg(long)]
        json: bool,
    },
    /// Set the weight of a program while the daemon runs; for root and the daemon's user
    Weight {
        /// The name of its node
        name: String,
        /// 1 to 64: with 2 it has twice the turns of a program with 1
        weight: u32,
        #[command(flatten)]
        at: At,
    },
}

#[derive(Args)]
struct At {
    /// The daemon's socket
    #[arg(long, default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
}

#[derive(Args)]
struct Run {
    /// The transport to share, as in `xdp:eth1` or `udp:10.0.0.7:7000`; `local` joins only the programs of this machine
    wire: String,
    #[command(flatten)]
    at: At,
    /// The permissions of the socket, in octal: who may write to it may attach
    #[arg(long, default_value = "660", value_parser = octal)]
    mode: u32,
    /// The group of the socket
    #[arg(long)]
    group: Option<String>,
    /// Another host of the wire, as its address there; for wires that do not find their hosts by themselves
    #[arg(long)]
    peer: Vec<String>,
    /// A file of rules: who may attach, under which names, how often, with what weight
    #[arg(long)]
    config: Option<PathBuf>,
}

/// The mode of the socket. To connect is to write, so a mode that lets others only read lets them do nothing.
fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| mode & !0o777 == 0);
    let mode = mode.ok_or("permissions in octal go here, as in `660`")?;
    let is_useless = |shift: u32| !matches!(mode >> shift & 7, 0 | 2 | 3 | 6 | 7);
    if [0, 3, 6].into_iter().any(is_useless) || mode & 0o200 == 0 {
        return Err(
            "to attach is to write, so 1, 4 and 5 allow nothing: write 600 for this user, 660 for a group, 666 for all"
                .into(),
        );
    }
    Ok(mode)
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(run) => return serve_and_log(run),
        Command::List { at, json } => list(&at.socket, json),
        Command::Weight { name, weight, at } => set_weight(&at.socket, name, weight),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    // The exit code says it, too.
    _ = writeln!(io::stderr(), "amd: {error}");
    ExitCode::FAILURE
}

fn list(socket: &Path, json: bool) -> Result<(), Error> {
    let Answer::List(listing) = ask(socket, &Question::List)? else {
        return Err("the daemon gave an answer of another version".into());
    };
    let text = if json { serde_json::to_string(&listing)? + "\n" } else { table(&listing) };
    match io::stdout().write_all(text.as_bytes()) {
        // A reader that has left, as in `| head`, has seen enough.
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the output cannot be written: {why}").into())
        }
        _ => Ok(()),
    }
}

fn set_weight(socket: &Path, name: String, weight: u32) -> Result<(), Error> {
    match ask(socket, &Question::Weight { name, weight })? {
        Answer::Refused(why) => Err(why.into()),
        _ => Ok(()),
    }
}

fn ask(socket: &Path, question: &Question) -> Result<Answer, Error> {
    let path = socket.display();
    let failed = |why: io::Error| match (why.kind(), why.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, _) => {
            format!("this user may not open {path}: {why}; ask whoever runs the daemon for its `--mode` and `--group`")
        }
        (io::ErrorKind::TimedOut, _) => format!(
            "the program at {path} has not answered for {} s: if it is `amd` and was stopped, `kill -CONT` it; otherwise end it and start \
             it again, or name another socket with --socket",
            admin::TIMEOUT.as_secs()
        ),
        (_, Some(EMFILE | ENFILE)) => format!("this process has no descriptor left: {why}; raise `ulimit -n`"),
        (_, Some(ENAMETOOLONG)) => format!("the path {path} is too long for a socket: name the daemon's with --socket"),
        (_, Some(EPROTOTYPE)) | (io::ErrorKind::InvalidData, _) => {
            format!("the program at {path} is no `amd` of this version: name the daemon's socket with --socket")
        }
        (io::ErrorKind::InvalidInput, _) => why.to_string(),
        (io::ErrorKind::UnexpectedEof, _) => {
            format!("the program at {path} gave no answer: {why}; it has ended, or too many programs attach: try again")
        }
        _ => format!("no daemon answers at {path}: {why}; name its socket with --socket"),
    };
    Ok(admin::ask(socket, question).map_err(failed)?)
}

fn serve_and_log(run: Run) -> ExitCode {
    let log = match Log::start() {
        Ok(log) => log,
        Err(why) => {
            _ = writeln!(io::stderr(), "amd: no thread for the log: {why}; raise `ulimit -u`");
            return ExitCode::FAILURE;
        }
    };
    let Err(error) = serve(run, &log) else { return ExitCode::SUCCESS };
    log.error(&format!("amd: {error}\n"));
    ExitCode::FAILURE
}

fn serve(run: Run, log: &Log) -> Result<(), Error> {
    let group = run.group.as_deref().map(|name| group_number(name, run.mode)).transpose()?;
    let access = run.config.as_deref().map(read_access).transpose()?.unwrap_or_default();
    let wire = (run.wire != "local").then_some(run.wire);
    if wire.is_none() && !run.peer.is_empty() {
        return Err("--peer is another host of the wire, and `local` has none: leave it out, or name a wire".into());
    }
    let options = DaemonOptions {
        wire: wire.clone(),
        mode: run.mode,
        group,
        peers: run.peer,
        access,
        ..DaemonOptions::new(&run.at.socket)
    };
    let [stop, is_terminated, too_long] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    signal_hook::flag::register(SIGTERM, is_terminated.clone())?;
    // Caught, so that a limit of the state file's size is an error of its writes and does not end the daemon.
    signal_hook::flag::register(SIGXFSZ, too_long)?;
    let mut daemon = Daemon::open(options)?;
    let left = privileges::drop_all_but_needed(wire.as_deref())?;
    let left = if left.is_empty() { "no capabilities".into() } else { left.join(" ") };
    let socket = run.at.socket.display();
    let said = format!(
        "amd: serves {} at {socket} (mode {:o}), with {left}\n\
         amd: programs attach with `amd:{socket}`; `amd list --socket {socket}` shows them\n",
        daemon.wire(),
        run.mode
    );
    log.output(&said);
    daemon.run(&stop);
    if is_terminated.load(Relaxed) {
        daemon.leave_state();
    }
    Ok(())
}

fn group_number(name: &str, mode: u32) -> Result<u32, Error> {
    if mode & 0o020 == 0 {
        return Err(
            format!("--group {name} allows nothing with --mode {mode:o}: write --mode 660, or leave it out").into()
        );
    }
    let number = name.parse().map_or_else(|_| access::group_number(name), access::check_number);
    Ok(number.map_err(|why| format!("--group {name}: {why}"))?)
}

fn read_access(path: &Path) -> Result<Access, DaemonError> {
    let text = am_input::text_file::read(path).map_err(|source| DaemonError::Config { path: path.into(), source })?;
    let access = Access::parse(&text).map_err(|why| DaemonError::Access { path: path.into(), why })?;
    let others = std::fs::metadata(path).is_ok_and(|file| {
        ![0, nix::unistd::geteuid().as_raw()].contains(&file.uid()) || (file.is_file() && file.mode() & 0o022 != 0)
    });
    if others {
        tracing::warn!("others can write to {}, and so decide who may attach after a restart", path.display());
    }
    Ok(access)
}

/// The listing, a line for each port.
fn table(listing: &Listing) -> String {
    let head = [
        "port",
        "name",
        "user",
        "process",
        "weight",
        "queue",
        "sent",
        "delivered",
        "dropped",
        "flows",
        "address",
        "refused",
    ];
    let rows: Vec<_> = std::iter::once(head.map(String::from)).chain(listing.ports.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &[String; 12]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let Listing { wire, link_error, from_wire, to_wire, for_no_port, spoofed, .. } = listing;
    let error = link_error.as_ref().map(|why| format!("the wire does not work: {why}\n")).unwrap_or_default();
    let wire = format!("{wire}: {from_wire} frames in, {to_wire} out, {for_no_port} for no port, {spoofed} spoofed\n");
    let missing = listing.ports.iter().filter_map(|port| Some((port.port, port.no_queue.as_ref()?)));
    let missing = missing.map(|(port, why)| format!("port {port} has no queue: {why}\n"));
    error + &wire + &rows.iter().map(line).chain(missing).collect::<String>()
}

/// A port's line.
fn row(port: &PortListing) -> [String; 12] {
    let refused = port.refused.iter().map(|(why, count)| format!("{why}={count}")).collect::<Vec<_>>().join(" ");
    let process = match port.pid {
        _ if port.is_expected => "(gone)".into(),
        // Of another PID namespace.
        0 => "(unknown)".into(),
        pid => pid.to_string(),
    };
    [
        port.port.to_string(),
        port.name.clone().unwrap_or("-".into()),
        port.uid.to_string(),
        process,
        port.weight.to_string(),
        port.queue.map_or("-".into(), |queue| queue.to_string()),
        port.sent.to_string(),
        port.delivered.to_string(),
        port.dropped.to_string(),
        port.flows.to_string(),
        port.address.clone(),
        if refused.is_empty() { "0".into() } else { refused },
    ]
}
