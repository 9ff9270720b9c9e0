//! The daemon goes on when its log cannot be written, or is not read. The lines are lost.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use am_vnic::VnicOptions;
use am_wire::EtherType;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{Ends, Place, is_served, until};

/// A pipe holds this much, which is less than the log of the programs below.
const PIPE_BYTES: i32 = 4096;

fn start(socket: &Path, errors: impl Into<Stdio>) -> Ends {
    let mut command = Command::new(env!("CARGO_BIN_EXE_amd"));
    command.args(["run", "local", "--socket"]).arg(socket).stdout(Stdio::null()).stderr(errors);
    let daemon = Ends(command.spawn().unwrap());
    until("it serves", || is_served(socket));
    daemon
}

/// Programs come and go, each with two lines of the log. Then the daemon ends as it should.
fn serves_and_ends(mut daemon: Ends, socket: &Path) {
    for _ in 0..200 {
        am_vnic::open(&VnicOptions { frames: 64, ..VnicOptions::new(socket) }).unwrap();
    }
    assert!(is_served(socket));
    kill(Pid::from_raw(daemon.0.id().cast_signed()), Signal::SIGTERM).unwrap();
    until("it has ended", || daemon.0.try_wait().unwrap().is_some());
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
    assert!(!socket.exists());
}

/// A program that is refused tries again and again.
#[test]
fn the_log_has_a_refused_user_once_a_second() {
    let place = Place::new();
    let log = place.socket().with_file_name("log");
    let _daemon = start(&place.socket(), File::create(&log).unwrap());
    let said = || std::fs::read_to_string(&log).unwrap().matches("was refused").count() as u64;
    let options = VnicOptions { ethertype: EtherType::new(0x1234).unwrap(), ..VnicOptions::new(place.socket()) };
    let (start, mut refused) = (Instant::now(), 0);
    until("it is said again", || {
        assert!(am_vnic::open(&options).is_err());
        refused += 1;
        said() >= 2 && refused >= 20
    });
    assert!(said() <= start.elapsed().as_secs() + 1, "{refused} were refused, and {} said", said());
}

#[test]
fn a_log_that_cannot_be_written_is_lost() {
    let place = Place::new();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    serves_and_ends(start(&place.socket(), full), &place.socket());
}

#[test]
fn a_reader_that_leaves_takes_the_log_with_it() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let daemon = start(&place.socket(), writer);
    drop(reader);
    serves_and_ends(daemon, &place.socket());
}

#[test]
fn a_reader_that_reads_nothing_does_not_stop_the_daemon() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    fcntl(&reader, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES)).unwrap();
    serves_and_ends(start(&place.socket(), writer), &place.socket());
}
