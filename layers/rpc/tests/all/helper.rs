//! Helpers: a thread has the node, and the program computes.

use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Idle, Node};
use am_rpc::{CallError, Helper, Local, RemoteError, Rpc, StartError};

use crate::common::{LONG, MS, Shelf, StoreClient, StoreServer};

/// A network for one test.
fn network() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("shm:am-rpc-helper-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst))
}

/// A helper that serves a shelf as `name`. Its node is opened to spin, which the helper does not do.
fn helper(name: &'static str, on: &str) -> (Helper, Arc<Shelf>) {
    let (shelf, on) = (Arc::new(Shelf::default()), on.to_owned());
    let served = shelf.clone();
    let open = move || {
        let node = Node::builder(name).idle(Idle::spinning()).open(&on).map_err(|error| error.to_string())?;
        let rpc = Rpc::open(&node).map_err(|error| error.to_string())?;
        rpc.serve(StoreServer::shared(served)).map_err(|error| error.to_string())?;
        Ok::<_, String>(rpc)
    };
    (Helper::start(name, open).expect("a helper"), shelf)
}

fn store(local: &Local, name: &str) -> StoreClient {
    StoreClient::new(&local.peer(name).expect("a name").within(LONG))
}

/// Compute, and never poll, until this holds.
fn compute_until(what: &str, mut so: impl FnMut() -> bool) {
    let (start, mut number) = (Instant::now(), 7_u64);
    while !so() {
        number = (0..1000).fold(number, |number, _| black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1));
        assert!(start.elapsed() < LONG, "still not: {what}");
    }
}

/// What the kernel says of the thread of this name: `R`, it runs or wants to, `S`, it sleeps.
fn state(name: &str) -> Option<char> {
    let read = |task: &fs::DirEntry, file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
    let task = fs::read_dir("/proc/self/task").ok()?.flatten().find(|task| read(task, "comm").trim() == name)?;
    read(&task, "stat").rsplit_once(") ")?.1.chars().next()
}

/// Wait until many looks in a row find the thread in this state.
fn until_it_stays(name: &str, wanted: char) {
    let (start, mut in_a_row) = (Instant::now(), 0);
    while in_a_row < 20 {
        in_a_row = if state(name) == Some(wanted) { in_a_row + 1 } else { 0 };
        assert!(start.elapsed() < LONG, "{name} is {:?}, and not {wanted}", state(name));
        thread::sleep(MS);
    }
}

#[test]
fn a_program_that_never_polls_answers_calls() {
    let on = network();
    let (alpha, shelf) = helper("computes", &on);
    let (beta, _) = helper("calls", &on);
    let calls = beta.remote().run(|local| {
        let store = store(&local, "computes");
        async move {
            for number in 0..100 {
                assert_eq!(store.double(number).await, Ok(2 * number));
            }
            store.put("color", b"green").await
        }
    });
    compute_until("the calls have run", || shelf.runs() == 101);
    assert_eq!(calls.wait(), Ok(Ok(0)));
    assert_eq!([alpha.stop(LONG), beta.stop(LONG)], [Ok(0), Ok(0)]);
}

#[test]
fn a_program_calls_through_its_helper() {
    let on = network();
    let (alpha, _) = helper("serves", &on);
    let (beta, own) = helper("is-used", &on);
    for number in 0..100 {
        let call = beta.remote().run(move |local| {
            let store = store(&local, "serves");
            async move { store.double(number).await }
        });
        assert_eq!(call.wait(), Ok(Ok(2 * number)));
    }
    // Both ways at once: the program's own service is called while the program waits.
    let back = alpha.remote().run(|local| {
        let store = store(&local, "is-used");
        async move { store.double(7).await }
    });
    assert_eq!((back.wait(), own.runs()), (Ok(Ok(14)), 1));
    drop((alpha, beta));
}

#[test]
fn a_helper_sleeps_while_the_program_computes_and_polls_while_it_waits() {
    let on = network();
    let (alpha, shelf) = helper("sleeps-or-not", &on);
    until_it_stays("sleeps-or-not", 'S');
    alpha.remote().while_waiting(|| until_it_stays("sleeps-or-not", 'R'));
    until_it_stays("sleeps-or-not", 'S');
    // The same by a call that is waited for.
    let (beta, _) = helper("answers-late", &on);
    let remote = alpha.remote().clone();
    let waits = thread::spawn(move || {
        let late = remote.run(|local| {
            let store = store(&local, "answers-late");
            async move { store.sleep(500).await }
        });
        late.wait()
    });
    until_it_stays("sleeps-or-not", 'R');
    assert_eq!(waits.join().expect("no panic"), Ok(Ok(500)));
    until_it_stays("sleeps-or-not", 'S');
    assert_eq!(shelf.runs(), 0);
    drop((alpha, beta));
}

#[test]
fn a_wait_may_have_an_end() {
    let on = network();
    let (alpha, shelf) = helper("answers-at-last", &on);
    let (beta, _) = helper("waits-a-while", &on);
    let mut call = beta.remote().run(|local| {
        let store = store(&local, "answers-at-last");
        async move { store.wait_for("color").await }
    });
    let start = Instant::now();
    assert_eq!(call.wait_for(20 * MS), Err(RemoteError::TimedOut));
    assert!(start.elapsed() >= 20 * MS && start.elapsed() < LONG, "{:?}", start.elapsed());
    assert_eq!(call.wait_for(Duration::ZERO), Err(RemoteError::TimedOut));
    // Nobody waits, so its helper sleeps; and the call was not cancelled.
    until_it_stays("waits-a-while", 'S');
    shelf.values.lock().expect("no panic").insert("color".to_owned(), vec![7]);
    assert_eq!(call.wait_for(Duration::MAX), Ok(Ok(vec![7])));
    until_it_stays("waits-a-while", 'S');
    drop((call, alpha, beta));
}

#[test]
fn a_stop_waits_for_calls_that_run() {
    let on = network();
    let (alpha, shelf) = helper("stops", &on);
    let (beta, _) = helper("called-it", &on);
    let call = |key: &'static str| {
        beta.remote().run(move |local| {
            let store = store(&local, "stops");
            async move { store.wait_for(key).await }
        })
    };
    let early = call("early");
    compute_until("it runs", || shelf.runs() == 1);
    let puts = shelf.clone();
    let later = thread::spawn(move || {
        thread::sleep(50 * MS);
        puts.values.lock().expect("no panic").insert("early".to_owned(), vec![7]);
    });
    assert_eq!(alpha.stop(LONG), Ok(0));
    assert_eq!(early.wait(), Ok(Ok(vec![7])));
    later.join().expect("no panic");
    drop(beta);
}

#[test]
fn a_stop_leaves_calls_that_do_not_end() {
    let on = network();
    let (alpha, shelf) = helper("leaves", &on);
    let (beta, _) = helper("is-left", &on);
    let never = beta.remote().run(|local| {
        let store = store(&local, "leaves");
        async move { store.wait_for("never").await }
    });
    compute_until("it runs", || shelf.runs() == 1);
    assert_eq!(alpha.stop(10 * MS), Ok(1));
    let outcome = never.wait().expect("its own helper runs");
    assert!(outcome.as_ref().is_err_and(CallError::may_have_run), "{outcome:?}");
    drop(beta);
}

#[test]
fn a_call_of_the_program_ends_with_its_helper() {
    let on = network();
    let (alpha, shelf) = helper("goes-on", &on);
    let (beta, _) = helper("is-dropped", &on);
    let never = beta.remote().run(|local| {
        let store = store(&local, "goes-on");
        async move { store.wait_for("never").await }
    });
    let waits = thread::spawn(move || never.wait());
    compute_until("it runs", || shelf.runs() == 1);
    let remote = beta.remote().clone();
    drop(beta);
    assert_eq!(waits.join().expect("no panic"), Err(RemoteError::NotRun));
    assert_eq!(remote.run(|_| async {}).wait(), Err(RemoteError::NotRun));
    // The other side is told, and goes on.
    compute_until("its task is cancelled", || !shelf.cancelled.lock().expect("no panic").is_empty());
    assert!(alpha.is_running());
}

#[test]
fn a_helper_that_does_not_start_says_why() {
    let open = || Node::open("alpha", "moon:7").map(|node| Rpc::open(&node).expect("an endpoint"));
    let error = Helper::start("fails", open).expect_err("there is no such transport");
    assert!(matches!(error, StartError::Open(_)) && error.to_string().contains("moon"), "{error}");
    let error =
        Helper::start("panics", || -> Result<Rpc, String> { panic!("as the test wants") }).expect_err("a panic");
    assert!(matches!(error, StartError::Panicked(_)), "{error}");
    assert_eq!(error.to_string(), "the helper's thread panicked: as the test wants");
    let error = Helper::start("two\0names", || -> Result<Rpc, String> { unreachable!("it has no thread") });
    assert!(matches!(error, Err(StartError::Name)), "{error:?}");
}

#[test]
fn a_panic_of_a_method_ends_its_call_alone() {
    let on = network();
    let (alpha, shelf) = helper("has-a-panic", &on);
    let (beta, _) = helper("hears-of-it", &on);
    let calls = beta.remote().run(|local| {
        let store = store(&local, "has-a-panic");
        async move {
            let inline = store.panic().await;
            let task = store.panic_later("color");
            _ = store.put("color", b"green").await;
            (inline, task.await, store.double(2).await)
        }
    });
    assert_eq!(calls.wait(), Ok((Err(CallError::Panicked), Err(CallError::Panicked), Ok(4))));
    assert!(alpha.is_running());
    assert_eq!((alpha.stop(LONG), shelf.runs()), (Ok(0), 2));
    drop(beta);
}

#[test]
fn a_panic_of_what_the_program_gave_is_said_at_the_end() {
    let (alpha, _) = helper("is-broken", &network());
    let broken = alpha.remote().run(|_| {
        if black_box(true) {
            panic!("as the test wants");
        }
        async {}
    });
    assert_eq!(broken.wait(), Err(RemoteError::NotRun));
    compute_until("its thread has ended", || !alpha.is_running());
    let error = alpha.stop(Duration::ZERO).expect_err("it panicked");
    assert_eq!(error.to_string(), "the helper's thread panicked: as the test wants");
}

#[test]
fn a_helper_may_be_dropped_on_its_own_thread() {
    let (alpha, _) = helper("drops-itself", &network());
    let (remote, (gives, gone)) = (alpha.remote().clone(), channel());
    let dropped = remote.run(move |_| {
        drop(alpha);
        gives.send(()).expect("the test waits");
        async {}
    });
    // It may end before or after it has given the outcome.
    _ = dropped.wait();
    assert_eq!(gone.recv(), Ok(()), "it has not survived the drop");
    compute_until("its thread has ended", || state("drops-itself").is_none());
}
