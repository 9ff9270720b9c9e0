//! What a member has sent before it ends arrives, although another one joins before it is read.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::link::{join, options, reaches, receive, send, until};
use am_shm::{Shm, ShmOptions};
use am_transport::{Notice, Transport};
use am_wire::Address;
use nix::time::{ClockId, clock_gettime};
use tempfile::tempdir;

/// More than one call receives.
const MANY: u64 = 200;

/// Both have met. Nothing is in their lanes.
fn meet(one: &mut Shm, other: &mut Shm) {
    reaches(one, other);
    reaches(other, one);
}

/// Send this number of frames, and leave.
fn say_and_leave(mut from: Shm, to: Address) -> Address {
    for number in 1..=MANY {
        until("there is room", || send(&mut from, to, number, 100));
    }
    from.flush();
    from.caps().address
}

/// All frames, and then the news that this one has gone.
fn hears(end: &mut Shm, gone: Address) {
    let (mut heard, mut is_gone) = (0, false);
    until("it has gone", || {
        for (who, number) in receive(end) {
            assert!(who == gone || heard == MANY, "{who} is heard before all of {gone}");
            heard += u64::from(who == gone);
            assert!(who != gone || number == heard);
        }
        end.poll_notices(&mut |notice| is_gone |= notice == Notice::PeerGone(gone));
        is_gone
    });
    assert_eq!(heard, MANY, "it has gone, and not all of its frames have arrived");
}

#[test]
fn the_next_run_takes_nothing_from_the_one_that_left() {
    let dir = tempdir().unwrap();
    // The one that leaves has the number before, or behind, the one that reads.
    for is_first in [false, true] {
        let [a, b] = [0, 1].map(|_| join(&options(dir.path())));
        let (mut stays, mut leaves) = if is_first { (b, a) } else { (a, b) };
        meet(&mut stays, &mut leaves);
        let gone = say_and_leave(leaves, stays.caps().address);
        let mut runs: Vec<Shm> = (0..3).map(|_| join(&options(dir.path()))).collect();
        for run in &mut runs {
            send(run, Address::BROADCAST, 1, 100);
            run.flush();
        }
        hears(&mut stays, gone);
        runs.iter_mut().for_each(|run| meet(&mut stays, run));
    }
}

#[test]
fn a_member_has_gone_as_soon_as_its_last_frame_is_received() {
    let dir = tempdir().unwrap();
    let [mut stays, mut leaves] = [0, 1].map(|_| join(&options(dir.path())));
    meet(&mut stays, &mut leaves);
    let gone = leaves.caps().address;
    assert!((1..=3).all(|number| send(&mut leaves, stays.caps().address, number, 100)));
    drop(leaves);
    assert_eq!([(); 3].map(|()| stays.receive(1, &mut |_| ())), [1; 3]);
    assert_eq!(receive(&mut stays), []);
    let mut notices = 0;
    stays.poll_notices(&mut |notice| notices += u32::from(notice == Notice::PeerGone(gone)));
    assert_eq!(notices, 1);
}

#[test]
fn numbers_are_used_again_as_soon_as_their_lanes_are_read() {
    let dir = tempdir().unwrap();
    let mut stays = join(&options(dir.path()));
    let mut numbers = vec![];
    for _ in 0..100 {
        let mut next = join(&options(dir.path()));
        meet(&mut stays, &mut next);
        let gone = say_and_leave(next, stays.caps().address);
        hears(&mut stays, gone);
        numbers.push(gone.0[5]);
    }
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
}

/// Up to four members: eight numbers, all of which are taken or wait for one of the first two.
fn exhausted(dir: &Path) -> (ShmOptions, [Shm; 3], [Vec<Address>; 2]) {
    let options = ShmOptions { members: Some(4), ..options(dir) };
    let sleeper = |others: usize| {
        let mut sleeps = join(&options);
        let mut others: Vec<Shm> = (0..others).map(|_| join(&options)).collect();
        others.iter_mut().for_each(|other| meet(&mut sleeps, other));
        let gone = others.into_iter().map(|other| say_and_leave(other, sleeps.caps().address)).collect();
        (sleeps, gone)
    };
    let (first, second) = (sleeper(3), sleeper(2));
    let third = join(&options);
    (options, [first.0, second.0, third], [first.1, second.1])
}

fn hears_all(end: &mut Shm, mut gone: Vec<Address>) {
    let mut heard = 0;
    until("all have gone", || {
        heard += receive(end).iter().filter(|(_, number)| *number > 0).count() as u64;
        end.poll_notices(&mut |notice| gone.retain(|gone| notice != Notice::PeerGone(*gone)));
        gone.is_empty()
    });
    assert_eq!(heard % MANY, 0);
    assert!(heard >= 2 * MANY, "{heard}");
}

#[test]
fn a_newcomer_waits_for_a_number_whose_lanes_are_read() {
    let dir = tempdir().unwrap();
    let (options, [mut first, mut second, _third], [of_first, of_second]) = exhausted(dir.path());
    let again = options.clone();
    let newcomer = std::thread::spawn(move || drop(join(&options)));
    std::thread::sleep(Duration::from_millis(50));
    hears_all(&mut second, of_second);
    newcomer.join().unwrap();
    hears_all(&mut first, of_first);
    let mut newcomer = join(&again);
    meet(&mut first, &mut newcomer);
    meet(&mut second, &mut newcomer);
}

#[test]
fn a_member_that_never_reads_keeps_no_newcomer_out() {
    let dir = tempdir().unwrap();
    let (options, [first, mut second, _third], [_, of_second]) = exhausted(dir.path());
    // As if they had left long ago.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    let ago = ((now.tv_sec() * 1000 + now.tv_nsec() / 1_000_000) as u32).wrapping_sub(3_600_000);
    let file = std::fs::File::options().write(true).open(dir.path().join("am-test.shm")).unwrap();
    for number in 1..4 {
        file.write_all_at(&ago.to_le_bytes(), 1024 + number * 128 + 4).unwrap();
    }
    let begin = Instant::now();
    let mut newcomer = join(&options);
    assert!(newcomer.caps().address.0[5] < 4, "it has the number that was free for longest");
    assert!(begin.elapsed() < Duration::from_secs(10), "it has waited");
    // Its own frames are not mixed with those that it has replaced, and the others' are still there.
    hears_all(&mut second, of_second);
    meet(&mut second, &mut newcomer);
    drop(first);
}

#[test]
fn a_dead_reader_keeps_no_number() {
    let dir = tempdir().unwrap();
    let (options, [first, second, third], _) = exhausted(dir.path());
    drop((first, second));
    let newcomers = [0, 1, 2].map(|_| join(&options));
    drop((third, newcomers));
}
