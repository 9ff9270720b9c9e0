//! Removes the socket files that killed processes left behind.
//!
//! DPDK's memory has no files (see `eal.rs`), so only the sockets on which devices listen can be left over. A driver
//! refuses to listen where a file exists. So a socket that has no listener any more is removed.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::DpdkOptions;

/// If the device of these options will listen on a socket file, and that file is stale, remove it.
pub(crate) fn remove_stale(options: &DpdkOptions) {
    if let Some(path) = listening_path(options).map(Path::new)
        && is_stale(path)
    {
        match fs::remove_file(path) {
            Ok(()) => tracing::info!(path = %path.display(), "removed a socket without a listener"),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "this socket has no listener, and cannot be removed")
            }
        }
    }
}

fn listening_path(options: &DpdkOptions) -> Option<&str> {
    let is = |key, value| options.argument(key) == Some(value);
    match options.device().trim_end_matches(|c: char| c.is_ascii_digit()) {
        "net_memif" if is("role", "server") && is("socket-abstract", "no") => options.argument("socket"),
        "net_vhost" | "eth_vhost" if !is("client", "1") => options.argument("iface"),
        "net_virtio_user" | "virtio_user" if is("server", "1") => options.argument("path"),
        _ => None,
    }
}

/// Whether the file is a socket without a listener: it refuses connections. A socket of another type than the one that
/// is tried does not refuse, and counts as live.
fn is_stale(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refuses = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).err().is_some_and(refuses)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn vhost(path: &Path) -> DpdkOptions {
        DpdkOptions::new(format!("net_vhost0,iface={}", path.display()))
    }

    #[test]
    fn only_a_dead_socket_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sock");
        remove_stale(&vhost(&path));
        let alive = UnixListener::bind(&path).unwrap();
        remove_stale(&vhost(&path));
        assert!(path.exists(), "somebody listens");
        drop(alive);
        remove_stale(&DpdkOptions::new(format!("net_vhost0,client=1,iface={}", path.display())));
        assert!(path.exists(), "a client does not listen");
        remove_stale(&vhost(&path));
        assert!(!path.exists(), "nobody listens");
        fs::write(&path, "a file").unwrap();
        remove_stale(&vhost(&path));
        assert!(path.exists(), "it is no socket");
    }

    #[test]
    fn each_driver_has_its_word_for_it() {
        for (arguments, path) in [
            ("net_memif0,role=server,socket-abstract=no,socket=/x", Some("/x")),
            ("net_memif0,role=server,socket=/x", None),
            ("net_memif0,role=client,socket-abstract=no,socket=/x", None),
            ("net_virtio_user1,path=/x,server=1", Some("/x")),
            ("net_virtio_user1,path=/x", None),
            ("net_af_packet0,iface=x", None),
        ] {
            assert_eq!(listening_path(&DpdkOptions::new(arguments)), path, "{arguments}");
        }
    }
}
