//! Processes: traffic, and their sudden ends.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::link::{counters, files, join, options, receive, send, until};
use am_shm::{Shm, ShmOptions};
use am_transport::{Notice, Transport};
use am_wire::Address;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::tempdir;

/// What the other process does, and where.
const ROLE: &str = "SHM_TEST_ROLE";
const DIR: &str = "SHM_TEST_DIR";

/// A process of ours; killed when dropped.
struct Other(Child);

impl Other {
    fn start(role: &str, dir: &Path) -> Other {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::other", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(DIR, dir).stdout(Stdio::null());
        Other(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    /// As `kill -9`.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn ends(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The number that ends an echo.
const END: u64 = u64::MAX;

#[test]
#[ignore = "started by two_processes_talk"]
fn other() {
    let (role, dir) = (std::env::var(ROLE).unwrap(), std::env::var(DIR).unwrap());
    let mut end = join(&options(Path::new(&dir)));
    match role.as_str() {
        "echo" => echo(&mut end),
        "flood" => loop {
            flood(&mut end);
            receive(&mut end);
        },
        "speaks" => {
            let to = somebody(&mut end);
            (1..=100).for_each(|number| until("there is room", || send(&mut end, to, number, 1000)));
            end.flush();
            // As a node that is killed while it leaves.
            kill(Pid::this(), Signal::SIGKILL).unwrap();
        }
        "sits" => loop {
            std::thread::park();
        },
        role => panic!("no role {role}"),
    }
}

/// Say who we are, and give back what comes.
fn echo(end: &mut Shm) {
    let mut asked = false;
    loop {
        if !asked {
            send(end, Address::BROADCAST, 0, 100);
            end.flush();
        }
        for (from, number) in receive(end) {
            asked = true;
            until("there is room", || {
                let sent = send(end, from, number, 100 + number as usize % 3000);
                end.flush();
                sent
            });
            if number == END {
                return;
            }
        }
        end.flush();
    }
}

/// To everybody, as much as there is room for.
fn flood(end: &mut Shm) {
    for number in 0..64 {
        send(end, Address::BROADCAST, number, 60 + number as usize * 7);
    }
    end.flush();
}

/// The address of somebody who has said something.
fn somebody(end: &mut Shm) -> Address {
    let mut found = None;
    until("somebody is heard", || {
        found = receive(end).last().map(|(from, _)| *from);
        end.flush();
        found.is_some()
    });
    found.unwrap()
}

/// Send `many` frames through the other process's echo, several at a time. They come back in order.
fn talk(end: &mut Shm, many: u64) -> Address {
    let to = somebody(end);
    let (mut sent, mut heard) = (1, 1);
    until("all came back", || {
        while sent <= many && sent - heard < 100 && send(end, to, sent, 100) {
            sent += 1;
        }
        end.flush();
        for (_, number) in receive(end).into_iter().filter(|(from, number)| *from == to && *number != 0) {
            assert_eq!(number, heard);
            heard += 1;
        }
        heard > many
    });
    to
}

#[test]
fn two_processes_talk() {
    let dir = tempdir().unwrap();
    let mut end = join(&options(dir.path()));
    let other = Other::start("echo", dir.path());
    let to = talk(&mut end, 20_000);
    until("it ends", || {
        send(&mut end, to, END, 100);
        end.flush();
        receive(&mut end).iter().any(|(_, number)| *number == END)
    });
    other.ends();
    drop(end);
    assert_eq!(files(dir.path()), [""; 0]);
}

#[test]
fn one_that_is_killed_in_a_flood_is_noticed_and_replaced() {
    let dir = tempdir().unwrap();
    let mut end = join(&options(dir.path()));
    let other = Other::start("flood", dir.path());
    let gone = somebody(&mut end);
    (0..1000).for_each(|_| drop(receive(&mut end)));
    other.kill();
    // It has not said goodbye: what is sent to it goes into its lane until that is full.
    until("its death is noticed", || {
        send(&mut end, gone, 1, 3000);
        end.flush();
        counters(&end)["shm_lost_dead"] > 0
    });
    while !receive(&mut end).is_empty() {}
    let _other = Other::start("echo", dir.path());
    assert_ne!(talk(&mut end, 1000), gone);
    assert_eq!(counters(&end)["shm_nonsense"], 0, "a kill is no lie");
}

/// What one who stands by sends, and what of it was heard.
struct Bystander {
    end: Shm,
    sent: u64,
    heard: u64,
}

impl Bystander {
    fn send(&mut self, to: Address) {
        while self.sent - self.heard < 50 && send(&mut self.end, to, self.sent + 1, 100) {
            self.sent += 1;
        }
        self.end.flush();
        receive(&mut self.end);
    }

    /// Take in at the other end: the bystander's is whole and in order all the time. Returns who else is heard.
    fn hear(&mut self, end: &mut Shm) -> Option<Address> {
        let mut other = None;
        for (who, number) in receive(end) {
            if who != self.end.caps().address {
                other = Some(who);
                continue;
            }
            self.heard += 1;
            assert_eq!(number, self.heard);
        }
        other
    }
}

#[test]
fn restarts_under_load_stop_nobody() {
    let dir = tempdir().unwrap();
    let [mut end, bystander] = [0, 1].map(|_| join(&options(dir.path())));
    let mut bystander = Bystander { end: bystander, sent: 0, heard: 0 };
    let mut last = None;
    for round in 0..15 {
        let other = Other::start("flood", dir.path());
        let mut found = None;
        until("the new one is heard", || {
            found = bystander.hear(&mut end).filter(|who| Some(*who) != last);
            found.is_some()
        });
        last = found;
        for _ in 0..300 {
            flood(&mut end);
            send(&mut end, found.unwrap(), 1, 2000);
            bystander.send(end.caps().address);
            bystander.hear(&mut end);
        }
        other.kill();
        assert!(bystander.heard > 50 * round, "the bystander's frames go on");
    }
}

/// The address of somebody who is none of these.
fn somebody_else(end: &mut Shm, known: &[Address]) -> Address {
    let mut found = None;
    until("another is heard", || {
        found = Some(somebody(end)).filter(|who| !known.contains(who));
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_killed_member_is_reported_once_and_a_stopped_one_is_not() {
    let dir = tempdir().unwrap();
    let mut end = join(&options(dir.path()));
    let stopped = Other::start("echo", dir.path());
    let mut known = vec![somebody(&mut end)];
    stopped.signal(Signal::SIGSTOP);
    let mut said = vec![];
    for _ in 0..3 {
        // The second takes the place of the first before anybody was asked who is gone.
        for _ in 0..2 {
            let other = Other::start("echo", dir.path());
            known.push(somebody_else(&mut end, &known));
            other.kill();
        }
        until("it is said", || {
            receive(&mut end);
            end.poll_notices(&mut |notice| {
                if let Notice::PeerGone(address) = notice {
                    said.push(address);
                }
            });
            said.len() == known.len() - 1
        });
    }
    said.sort_unstable();
    known.remove(0);
    known.sort_unstable();
    assert_eq!(said, known);
}

#[test]
fn the_next_member_cleans_up_after_killed_ones() {
    let dir = tempdir().unwrap();
    let others: Vec<Other> = (0..3).map(|_| Other::start("sits", dir.path())).collect();
    until("all three are in", || files(dir.path()).len() == 4);
    others.into_iter().for_each(Other::kill);
    assert_eq!(files(dir.path()).len(), 4, "nobody was there to clean up");
    drop(join(&options(dir.path())));
    assert_eq!(files(dir.path()), [""; 0]);
}

#[test]
fn abandoned_segments_of_other_names_are_removed() {
    let dir = tempdir().unwrap();
    // A file of somebody else's whose name looks like one of ours, and a segment in use.
    std::fs::write(dir.path().join("am-notes.shm"), "precious, and longer than a header of ours").unwrap();
    let used = join(&ShmOptions { name: "used".into(), ..options(dir.path()) });
    let other = Other::start("sits", dir.path());
    until("it is in", || files(dir.path()).len() == 5);
    other.kill();
    let _new = join(&ShmOptions { name: "new".into(), ..options(dir.path()) });
    assert_eq!(
        files(dir.path()),
        ["am-new.0.wake", "am-new.shm", "am-notes.shm", "am-used.0.wake", "am-used.shm"],
        "only what is dead and ours is gone"
    );
    drop(used);
}

#[test]
fn killed_members_are_not_listed_for_later_ones() {
    let dir = tempdir().unwrap();
    let others: Vec<Other> = (0..3).map(|_| Other::start("sits", dir.path())).collect();
    until("all three are in", || files(dir.path()).len() == 4);
    let mut end = join(&options(dir.path()));
    others.into_iter().for_each(Other::kill);
    // It takes the place of one of them; of the other two nobody has heard that they are dead.
    let mut late = join(&options(dir.path()));
    send(&mut late, Address::BROADCAST, 7, 100);
    late.flush();
    assert_eq!(counters(&late)["shm_sent"], 1, "to the one who lives");
    assert_eq!(receive(&mut end), [(late.caps().address, 7)]);
}

#[test]
fn the_last_frames_of_a_killed_member_arrive_although_another_has_joined() {
    let dir = tempdir().unwrap();
    let mut end = join(&options(dir.path()));
    for _ in 0..5 {
        let mut other = Other::start("speaks", dir.path());
        // It answers whom it hears. Meanwhile nothing is received here.
        until("it has answered, and is dead", || {
            send(&mut end, Address::BROADCAST, 0, 100);
            end.flush();
            other.0.try_wait().unwrap().is_some()
        });
        let mut next = join(&options(dir.path()));
        send(&mut next, Address::BROADCAST, 7, 100);
        next.flush();
        let mut heard = vec![];
        until("the next one is heard", || {
            heard.extend(receive(&mut end).into_iter().map(|(_, number)| number));
            heard.contains(&7) && heard.len() >= 100 && heard.last() == Some(&7)
        });
        assert_eq!(heard, (1..=100).chain([7]).collect::<Vec<_>>());
    }
}

#[test]
fn a_stalled_member_holds_up_no_other_and_may_go_on() {
    let dir = tempdir().unwrap();
    let [mut end, mut bystander] = [0, 1].map(|_| join(&options(dir.path())));
    let other = Other::start("echo", dir.path());
    let hangs = somebody(&mut end);
    other.signal(Signal::SIGSTOP);
    let mut number = 0;
    until("it is taken for hung", || {
        // The bystander's frames go their way between those that wait.
        number += 1;
        while !send(&mut end, hangs, 1, 3000) {
            end.flush();
            receive(&mut bystander);
        }
        send(&mut end, bystander.caps().address, number, 100);
        end.flush();
        receive(&mut bystander);
        counters(&end)["shm_lost_hung"] > 0
    });
    // From now on nothing waits for it.
    for number in 0..1000 {
        assert!(send(&mut end, hangs, 1, 3000));
        assert!(send(&mut end, bystander.caps().address, number, 100));
        end.flush();
        assert_eq!(receive(&mut bystander), [(end.caps().address, number)]);
    }
    other.signal(Signal::SIGCONT);
    receive(&mut end);
    until("it answers again", || {
        send(&mut end, hangs, 77, 100);
        end.flush();
        receive(&mut end).contains(&(hangs, 77))
    });
}
