//! What is wrong is said, with what to do. Needs DPDK, but no rights.

mod ends;

use std::fs;
use std::process::Command;

use crate::ends::{alone, counter, fresh, memif_ends, open};
use am_testing::doomed::Receiver;
use am_transport::{Transport, TransportExt};
use am_wire::Buffer;

fn error(rest: &str) -> String {
    open(rest).map(|_| ()).unwrap_err().to_string()
}

/// DPDK runs with normal pages, whatever the machine has.
fn started() {
    drop(
        open(&format!("net_memif7,role=server,socket=@am-{},am.pages=normal", fresh()))
            .unwrap_or_else(|error| panic!("{error}")),
    );
}

#[track_caller]
fn assert_says(error: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(error.contains(word), "`{word}` is not in: {error}"));
}

#[test]
fn devices_that_cannot_be() {
    let _alone = alone();
    started();
    assert_says(&error("net_nosuch0,x=1"), &["net_nosuch0", "DPDK says", "failed to parse device"]);
    assert_says(&error("net_af_packet0,iface=nosuch"), &["making the device net_af_packet0,iface=nosuch", "nosuch"]);
    let king = error("net_memif0,role=king");
    assert_says(&king, &["net_memif0", "DPDK says: memif_set_role(): Unknown role: king"]);
    let nobody = error(&format!("net_memif0,role=client,socket=@am-{}", fresh()));
    assert_says(&nobody, &["opening net_memif0", "Failed to connect socket"]);
    assert_says(&error("0000:03:00.0"), &["PCI devices", "open 0000:03:00.0 before"]);
    assert_says(&error("net_memif0,am.pages=huge"), &["huge pages", "before the others"]);
    assert_says(&error("net_null0,am.frames=100"), &["100 frames are too few", "am.frames="]);
    assert_says(&error("net_null0,am.frames=4000000"), &["4000000 frames", "7812 MiB", "am.memory=", "am.frames"]);
    assert_says(&error("net_memif0,mac=01:00:00:00:00:01"), &["01:00:00:00:00:01", "mac="]);
    // And nothing of all that is left.
    drop(memif_ends(""));
}

#[test]
fn a_device_is_opened_once() {
    let _alone = alone();
    let [near, far] = memif_ends("");
    assert_says(&error("net_memif0,role=server"), &["net_memif0 is open", "another number"]);
    drop((near, far));
    drop(memif_ends(""));
}

#[test]
fn nothing_is_left_in_the_file_system() {
    let _alone = alone();
    let ends = memif_ends("");
    let ours = format!("am-{}", std::process::id());
    for directory in ["/var/run/dpdk", "/dev/hugepages"] {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        let left = entries.flatten().find(|entry| entry.file_name().to_string_lossy().contains(&ours));
        assert!(left.is_none(), "{left:?}");
    }
    drop(ends);
}

#[test]
fn the_thread_may_run_where_it_could_before() {
    let before = allowed();
    let _alone = alone();
    started();
    assert_eq!(allowed(), before);
}

fn allowed() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap().to_owned()
}

#[test]
fn what_is_sent_to_nobody_is_lost_and_counted() {
    let _alone = alone();
    let [mut near, far] = memif_ends("");
    drop(far);
    crate::ends::eventually("the link is down", || !near.is_up());
    for number in 0..1000 {
        let mut frame = near.caps().pool.take().expect("they come home");
        frame.set_len(60);
        assert!(near.send(am_wire::Address::BROADCAST, &frame), "there is room: nothing waits");
        near.flush();
        assert_eq!(counter(&near, "dpdk_lost_link_down"), number + 1);
    }
    assert_eq!(counter(&near, "dpdk_link_down"), 1);
    assert_eq!(near.link_error().as_deref(), Some("the link is down: the other end is not connected"));
}

/// The error of opening a device in a process of its own.
fn error_elsewhere(device: &str, shim: &str) -> String {
    Receiver::begin("says_what_is_wrong", &[("AM_TEST_DEVICE", device), ("AM_DPDK_SHIM", shim)]).said()
}

#[test]
#[ignore = "started by error_elsewhere"]
fn says_what_is_wrong() {
    println!("{}", error(&std::env::var("AM_TEST_DEVICE").unwrap()));
}

#[test]
fn a_start_that_fails_says_why_and_leaves_nothing() {
    let prefix = format!("am-fails-{}", std::process::id());
    let device = format!("net_null0,am.pages=normal,am.memory=99999999,am.file-prefix={prefix}");
    let said = Receiver::begin("says_what_is_wrong", &[("AM_TEST_DEVICE", &device)]).said();
    assert_says(&said, &["DPDK does not start", "am.memory=99999999", "choose less"]);
    for place in ["/var/run/dpdk".into(), std::env::temp_dir().join("dpdk")] as [std::path::PathBuf; 2] {
        assert!(!place.join(&prefix).exists(), "{}", place.display());
    }
}

#[test]
fn a_missing_shim_is_named() {
    let said = error_elsewhere("net_null0", "/nowhere/x.so");
    assert_says(&said, &["/nowhere/x.so", "scripts/setup --with-dpdk", "AM_DPDK_SHIM"]);
}

/// A library `x.so` of this C source, while the directory lives.
fn library(source: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let (file, library) = (directory.path().join("x.c"), directory.path().join("x.so"));
    fs::write(&file, source).unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&file).status().unwrap();
    assert!(made.success());
    (directory, library.to_str().unwrap().to_owned())
}

#[test]
fn a_shim_of_another_version_is_not_used() {
    let (_directory, shim) = library("static unsigned table[64] = {99}; void *am_dpdk_shim(void) { return table; }");
    assert_says(&error_elsewhere("net_null0", &shim), &["version 99", "x.so", "--with-dpdk"]);
}

/// Prints the variables that DPDK's libraries set, and whether each was there.
const SETENV: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int setenv(const char *name, const char *value, int overwrite) {
    int (*next)(const char *, const char *, int) = dlsym(RTLD_NEXT, "setenv");
    Dl_info caller;
    if (dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "librte"))
        fprintf(stdout, "DPDK %s %s\n", getenv(name) ? "replaces" : "adds", name), fflush(stdout);
    return next(name, value, overwrite);
}
"#;

/// Adding a variable moves the environment, under the feet of a thread that starts a command.
#[test]
fn drivers_add_nothing_to_the_environment() {
    let (_directory, preloaded) = library(SETENV);
    let said = Receiver::begin("opens_null", &[("LD_PRELOAD", &preloaded)]).said();
    assert_says(&said, &["DPDK replaces "]);
    assert!(!said.contains("DPDK adds"), "{said}");
}

#[test]
#[ignore = "started by drivers_add_nothing_to_the_environment"]
fn opens_null() {
    drop(open("net_null0,am.pages=normal").unwrap());
}
