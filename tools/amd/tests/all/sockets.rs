//! A daemon removes only its own socket and state.

use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;

use am_daemon::{Daemon, DaemonError, DaemonOptions};

use crate::common::{Place, Running, is_served};

fn is_refused(socket: &Path) {
    match Daemon::open(DaemonOptions::new(socket)) {
        Err(why @ DaemonError::Served { .. }) => assert!(why.to_string().contains("choose another"), "{why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it has taken the socket"),
    }
}

#[test]
fn a_socket_of_another_program_is_left_alone() {
    let place = Place::new();
    let other = UnixListener::bind(place.socket()).unwrap();
    is_refused(&place.socket());
    UnixStream::connect(place.socket()).unwrap();
    assert_eq!(place.files(), ["amd.sock"]);
    drop(other);
    // Nobody has it now.
    drop(Running::local(&place.socket()));
    assert_eq!(place.files(), [""; 0]);
    let _other = UnixDatagram::bind(place.socket()).unwrap();
    is_refused(&place.socket());
}

#[test]
fn a_daemon_without_its_state_file_keeps_its_socket() {
    let place = Place::new();
    let _first = Running::local(&place.socket());
    std::fs::remove_file(place.socket().with_extension("sock.state")).unwrap();
    is_refused(&place.socket());
    assert!(is_served(&place.socket()));
}

#[test]
fn a_daemon_that_ends_leaves_the_files_of_the_next_one() {
    let place = Place::new();
    let first = Running::local(&place.socket());
    std::fs::remove_file(place.socket().with_extension("sock.state")).unwrap();
    std::fs::remove_file(place.socket()).unwrap();
    let _second = Running::local(&place.socket());
    drop(first);
    assert_eq!(place.files().len(), 2);
    assert!(is_served(&place.socket()));
}
