//! The daemon of root in a folder of another user, who puts links in the place of its files.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::until;
use crate::users::{Place, Process, ROLE, test_of};

const OWNER: u32 = 20_041;
const GROUP: u32 = 20_042;

/// How often the daemon starts while the owner of the folder tries.
const STARTS: usize = 100;

/// The owner of a folder replaces the socket in it by a link, as often as there is one.
#[test]
fn the_role_of_the_owner() {
    let Ok(folder) = std::env::var(ROLE) else { return };
    let folder = Path::new(&folder);
    let (socket, target, trap) = (folder.join("amd.sock"), folder.join("../target"), folder.join("trap"));
    std::fs::write(folder.join("begun"), "").unwrap();
    loop {
        // It has been used, or is there already.
        let _ = symlink(&target, &trap);
        let is_there = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|file| !file.is_symlink());
        // Its private folder, too, if it gets hold of that.
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let private = names.map(|name| name.path()).find(|path| path.to_string_lossy().contains(".amd-"));
        for path in [Some(&socket), private.as_ref()].into_iter().flatten() {
            if is_there(path) {
                let _ = std::fs::rename(&trap, path);
                let _ = std::fs::rename(path, folder.join("taken"));
                let _ = symlink(&target, path);
            }
        }
    }
}

#[test]
fn links_of_the_folders_owner_are_not_followed() {
    let place = Place::new();
    let (folder, target) = (place.path("folder"), place.path("target"));
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(OWNER), Some(OWNER)).unwrap();
    std::fs::write(&target, "of root").unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
    let _owner = test_of(OWNER, &place, "folder::the_role_of_the_owner", folder.to_str().unwrap());
    until("it begins", || folder.join("begun").exists());
    for _ in 0..STARTS {
        let mut command = Command::new(place.path("amd"));
        command.args(["run", "local", "--mode", "666", "--group", &GROUP.to_string(), "--socket"]);
        command.arg(folder.join("amd.sock")).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut daemon = Process(command.spawn().unwrap());
        // It serves, or has ended because of what it has found.
        std::io::Read::read(daemon.0.stdout.as_mut().unwrap(), &mut [0; 64]).unwrap();
        let _ = kill(Pid::from_raw(daemon.0.id() as i32), Signal::SIGTERM);
        daemon.0.wait().unwrap();
        let file = std::fs::metadata(&target).unwrap();
        assert_eq!((file.mode() & 0o777, file.uid(), file.gid()), (0o600, 0, 0), "it was changed through a link");
        for name in ["amd.sock", "taken"] {
            // The owner may have taken it meanwhile.
            let _ = std::fs::remove_file(folder.join(name));
        }
    }
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "of root");
}

/// The socket has its mode and its group from the start, and the log says who can replace it.
#[test]
fn a_folder_of_another_user_is_used_and_mentioned() {
    let place = Place::new();
    let folder = place.path("folder");
    std::fs::create_dir(&folder).unwrap();
    let start = |folder: &Path| {
        let (socket, log) = (folder.join("amd.sock"), place.path("log"));
        let mut command = Command::new(place.path("amd"));
        command.args(["run", "local", "--mode", "660", "--group", &GROUP.to_string(), "--socket"]).arg(&socket);
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
        let mut daemon = Process(command.spawn().unwrap());
        until("it serves", || socket.exists());
        let file = std::fs::metadata(&socket).unwrap();
        assert_eq!((file.mode() & 0o777, file.uid(), file.gid()), (0o660, 0, GROUP));
        kill(Pid::from_raw(daemon.0.id() as i32), Signal::SIGTERM).unwrap();
        assert!(daemon.0.wait().unwrap().success());
        // It has given up the rights of root, and so can remove nothing from another user's folder.
        let left = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let is_own = std::fs::metadata(folder).unwrap().uid() == 0;
        left.for_each(|file| {
            assert!(!is_own && !file.to_string_lossy().contains(".amd-"), "{file:?} is left");
            std::fs::remove_file(file).unwrap();
        });
        std::fs::read_to_string(log).unwrap()
    };
    assert_eq!(start(&folder), "");
    std::os::unix::fs::chown(&folder, Some(OWNER), None).unwrap();
    assert!(start(&folder).contains(&format!("user {OWNER}")));
    std::os::unix::fs::chown(&folder, Some(0), None).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(start(&folder).contains("not sticky"));
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(start(&folder), "");
}
