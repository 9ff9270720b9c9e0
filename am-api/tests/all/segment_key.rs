//! A segment's key: nodes with it talk, others do not and say so.

use std::fs;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use am_api::{HandlerId, Node, OpenError, Problem, Request};

use crate::common::{Side, connect, in_memory, plain, problem_of, until};

const KEY: [u8; 32] = *b"only the nodes of this test know";

/// A file that only its owner can read, whatever the test's umask is.
fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn nodes_with_the_key_exchange_messages() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let digits: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    write(&path, digits + "\n");
    let (left, right) = in_memory();
    let mut alpha = Side::<u64>::open(Node::builder("alpha").segment_key(KEY), left);
    let mut beta = Side::<()>::open(Node::builder("beta").segment_key_file(&path), right);
    beta.endpoint.on_request(HandlerId(0), |(), Request { message, token }| {
        token.reply(HandlerId(0), message.words(), b"").unwrap();
    });
    alpha.endpoint.on_reply(HandlerId(0), |word, reply| *word = reply.word(0));
    let to = connect(&mut alpha, &mut beta);
    alpha.endpoint.try_request(to, HandlerId(0), &[7], b"").unwrap();
    until(&mut alpha, &mut beta, "answered", |alpha, _| alpha.state == 7);
    assert_eq!((problem_of(&alpha.node), alpha.counter("control_unauthenticated")), (None, 0));
}

#[test]
fn nodes_without_the_key_are_counted_and_named_as_the_problem() {
    let (left, right) = in_memory();
    let mut alpha = Side::<()>::open(plain("alpha").segment_key(KEY), left);
    let mut beta = Side::<()>::open(plain("beta"), right);
    let is_told = |side: &Side<()>| matches!(side.node.health(), Err(Problem::OtherKey { frames }) if frames > 0);
    until(&mut alpha, &mut beta, "notified", |alpha, beta| is_told(alpha) && is_told(beta));
    assert!(alpha.node.peers().is_empty() && beta.node.peers().is_empty());
    assert!(alpha.counter("control_unauthenticated") > 0);
}

#[test]
fn a_key_that_cannot_be_used_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let open = || open_with(&path);
    assert!(open().unwrap_err().contains("key: No such file"));
    for bad in ["", "12", &"0".repeat(63), &"0".repeat(65), &"0g".repeat(32)] {
        write(&path, bad);
        assert!(open().unwrap_err().ends_with("it does not have 64 hexadecimal digits"), "{bad}");
    }
    write(&path, [0xff; 64]);
    assert!(open().unwrap_err().contains("it is no text"));
    let name = format!("shm:am-key-{},dir={}+udp:127.0.0.1:0", std::process::id(), directory.path().display());
    let several = plain("alpha").segment_key(KEY).open(&name).map(drop);
    assert!(matches!(several, Err(OpenError::KeyOverSeveral(_))), "{several:?}");
}

/// Open a node with the key in this file.
fn open_with(path: &Path) -> Result<(), String> {
    plain("alpha").segment_key_file(path).open("udp:127.0.0.1:0").map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_key_that_is_no_secret_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    for digits in ["00", "ff", "5A"] {
        write(&path, digits.repeat(32));
        let why = open_with(&path).unwrap_err();
        assert!(why.contains("all bytes of the key are the same: `openssl rand -hex 32`"), "{digits}");
    }
    let guessed = plain("alpha").segment_key([7; 32]).open("udp:127.0.0.1:0").map(drop);
    assert!(guessed.unwrap_err().to_string().contains("take 32 random bytes"));
    write(&path, "a1".to_owned() + &"0".repeat(62));
    let open = |mode| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        open_with(&path)
    };
    for mode in [0o604, 0o644, 0o666, 0o602, 0o622] {
        assert!(open(mode).unwrap_err().contains("every user of the machine can read or write it"), "{mode:o}");
    }
    for mode in [0o600, 0o640, 0o660, 0o400] {
        assert_eq!(open(mode), Ok(()), "{mode:o}");
    }
}

/// A file of 1 TiB, `/dev/zero`, and a FIFO without a writer.
#[test]
fn a_file_without_an_end_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (long, fifo) = (directory.path().join("long"), directory.path().join("fifo"));
    write(&long, "");
    fs::File::options().write(true).open(&long).unwrap().set_len(1 << 40).unwrap();
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (left, _) = in_memory();
    let alpha = Side::<()>::open(plain("alpha"), left);
    for (path, says) in [(&*long, "it has more than 16 MiB"), (&*fifo, "it is a FIFO"), (Path::new("/dev/zero"), "")] {
        assert!(open_with(path).unwrap_err().contains(says), "{path:?}");
        let says = if says.is_empty() { "it has more than 16 MiB" } else { says };
        assert!(alpha.node.load_peers(path).unwrap_err().to_string().contains(says), "{path:?}");
    }
}
