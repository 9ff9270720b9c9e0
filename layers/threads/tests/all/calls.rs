//! Calls from several threads: each has one outcome, whatever happens.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{ConnectError, Fate, Framing, Node, RequestError, ReturnReason};
use am_threads::{CallError, Handlers, Reconnect, SharedEndpoint, share};

use crate::common::{LONG, MS, SQUARE, TELL, serve, squares, start, until};

/// Alpha, which calls, and beta, which squares on a thread of its own until the flag is set.
fn pair(on: &str) -> (SharedEndpoint, Arc<AtomicBool>, Vec<thread::JoinHandle<()>>) {
    let (server, beta) = start("beta", on, squares());
    let stop = Arc::new(AtomicBool::new(false));
    let is_over = stop.clone();
    serve(server, move || is_over.load(SeqCst));
    let (client, alpha) = start("alpha", on, Handlers::new());
    (client, stop, vec![alpha, beta])
}

fn end(client: SharedEndpoint, stop: &AtomicBool, threads: Vec<thread::JoinHandle<()>>) {
    stop.store(true, SeqCst);
    drop(client);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

fn callers_have_their_own_answers(on: &str) {
    const CALLS: u64 = 300;
    let (client, stop, threads) = pair(on);
    let beta = client.connect("beta", "main", Reconnect::After(10 * MS)).unwrap();
    thread::scope(|scope| {
        for caller in 0..6 {
            let client = &client;
            scope.spawn(move || {
                for number in caller * CALLS..(caller + 1) * CALLS {
                    let payload = number.to_be_bytes();
                    let answer = client.call(beta, SQUARE, &[number], &payload, LONG).wait().expect("an answer");
                    assert_eq!((answer.words(), &answer[..]), (&[number * number][..], &payload[..]));
                }
            });
        }
    });
    end(client, &stop, threads);
}

#[test]
fn six_threads_call_over_a_simulated_network() {
    callers_have_their_own_answers("sim:201");
}

#[test]
fn arguments_and_answers_may_be_longer_than_a_frame() {
    let (client, stop, threads) = pair("sim:217,loss=0.01");
    let beta = client.connect("beta", "main", Reconnect::After(10 * MS)).unwrap();
    thread::scope(|scope| {
        for caller in 0..4u64 {
            let client = &client;
            scope.spawn(move || {
                for length in [100_000, 0, 3000, 1 << 20, 5] {
                    let payload: Vec<u8> = (0..length).map(|at: u64| ((at * (caller + 3)) >> 3) as u8).collect();
                    let answer = client.call(beta, SQUARE, &[caller], &payload, LONG).wait().expect("an answer");
                    assert_eq!(answer.words(), [caller * caller]);
                    assert!(answer[..] == payload, "{length} bytes");
                }
            });
        }
    });
    end(client, &stop, threads);
}

#[test]
fn six_threads_call_over_a_bad_network() {
    callers_have_their_own_answers("sim:202,loss=0.02");
}

#[test]
fn six_threads_call_over_shared_memory() {
    callers_have_their_own_answers(&format!("shm:threads-{}", std::process::id()));
}

#[test]
fn a_thousand_calls_wait_at_once() {
    let (client, stop, threads) = pair("sim:203");
    let beta = client.connect("beta", "main", Reconnect::Never).unwrap();
    let calls: Vec<_> = (0..1000).map(|number| client.call(beta, SQUARE, &[number], b"", LONG)).collect();
    for (number, call) in calls.into_iter().enumerate().rev() {
        assert_eq!(call.wait().expect("an answer").word(0), (number * number) as u64);
    }
    end(client, &stop, threads);
}

#[test]
fn any_executor_awaits_them() {
    let (client, stop, threads) = pair("sim:204");
    let beta = client.connect("beta", "main", Reconnect::Never).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let sum = runtime.block_on(async {
        let tasks: Vec<_> = (1..=100)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move {
                    client.call(beta, SQUARE, &[number], b"", LONG).await.map(|answer| answer.word(0))
                })
            })
            .collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.expect("no panic").expect("an answer");
        }
        sum
    });
    assert_eq!(sum, 338_350);
    end(client, &stop, threads);
}

#[test]
fn without_an_answer_the_time_ends_it() {
    // Nobody runs beta's handlers.
    let (server, _beta) = start("beta", "sim:205", squares());
    let (client, _alpha) = start("alpha", "sim:205", Handlers::new());
    let beta = client.connect("beta", "main", Reconnect::After(MS)).unwrap();
    let start = Instant::now();
    // More than there is credit for: some are sent, others are not.
    let calls: Vec<_> = (0..300).map(|number| client.call(beta, SQUARE, &[number], b"", 50 * MS)).collect();
    calls.into_iter().for_each(|call| assert_eq!(call.wait().unwrap_err(), CallError::TimedOut));
    assert!(start.elapsed() >= 50 * MS && start.elapsed() < LONG);
    drop(server);
    // Nor is there anybody of this name.
    let gamma = client.connect("gamma", "main", Reconnect::After(MS)).unwrap();
    assert_eq!(client.call(gamma, SQUARE, &[1], b"", 50 * MS).wait().unwrap_err(), CallError::TimedOut);
}

#[test]
fn a_peer_that_is_not_there_fails_those_that_shall_not_connect_again() {
    let (client, _alpha) = start("alpha", "sim:206", Handlers::new());
    let gamma = client.connect("gamma", "main", Reconnect::Never).unwrap();
    let why = client.call(gamma, SQUARE, &[1], b"", LONG).wait().unwrap_err();
    assert_eq!(why, CallError::NotSent(RequestError::Dead(ReturnReason::Unreachable)));
    assert_eq!(client.call(gamma, SQUARE, &[1], b"", LONG).wait().unwrap_err(), why);
    let own = client.connect("alpha", "main", Reconnect::Never).unwrap();
    let why = client.call(own, SQUARE, &[1], b"", LONG).wait().unwrap_err();
    assert!(matches!(why, CallError::NotConnected(ConnectError::OwnNode(_))), "{why}");
    client.close(gamma);
    let why = client.call(gamma, SQUARE, &[1], b"", LONG).wait().unwrap_err();
    assert_eq!(why, CallError::NotSent(RequestError::Closed));
    assert!(matches!(client.connect("", "main", Reconnect::Never), Err(ConnectError::Name(_))));
}

#[test]
fn what_can_never_be_sent_fails_at_once() {
    let (client, stop, threads) = pair("sim:207");
    let beta = client.connect("beta", "main", Reconnect::Never).unwrap();
    let why = client.call(beta, SQUARE, &[1; 4], b"", LONG).wait().unwrap_err();
    assert_eq!(why, CallError::NotSent(RequestError::TooManyWords { count: 4, most: 3 }));
    let why = client.call(beta, SQUARE, &[], &[0; (1 << 20) + 1], LONG).wait().unwrap_err();
    assert!(matches!(why, CallError::NotSent(RequestError::TooLarge { .. })), "{why}");
    assert_eq!(client.call(beta, SQUARE, &[3], b"", LONG).wait().expect("an answer").word(0), 9);
    end(client, &stop, threads);

    let (client, _gamma) = start("gamma", "sim:207", Handlers::new().on_reply(TELL, |_| ()));
    let beta = client.connect("beta", "main", Reconnect::Never).unwrap();
    assert_eq!(client.call(beta, TELL, &[], b"", LONG).wait().unwrap_err(), CallError::HasReplyHandler);
}

#[test]
fn a_server_that_is_restarted_is_connected_to_again() {
    let (client, _alpha) = start("alpha", "sim:208", Handlers::new());
    let again = client.connect("beta", "main", Reconnect::After(MS)).unwrap();
    let never = client.connect("beta", "main", Reconnect::Never).unwrap();
    for round in 0..3 {
        let (server, beta) = start("beta", "sim:208", squares());
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let serving = serve(server, move || is_over.load(SeqCst));
        for number in 0..20 {
            let answer = client.call(again, SQUARE, &[number], b"", LONG).wait().expect("an answer");
            assert_eq!(answer.word(0), number * number);
        }
        let once = client.call(never, SQUARE, &[5], b"", LONG).wait();
        assert_eq!(once.is_ok(), round == 0, "{once:?}");
        stop.store(true, SeqCst);
        serving.join().expect("no panic");
        beta.join().expect("no panic");
    }
}

/// A client that keeps something about its server compares the runs that answer.
#[test]
fn a_series_of_calls_notices_a_restart() {
    let (client, _alpha) = start("alpha", "sim:215", Handlers::new());
    let to = client.connect("beta", "main", Reconnect::After(MS)).unwrap();
    assert_eq!((client.max_payload(to), client.describe(to), client.incarnation(to)), (None, None, None));
    let (mut known, mut last) = (None, None);
    for _ in 0..3 {
        let (server, beta) = start("beta", "sim:215", squares().on_driver());
        // A call that is under way when the connection ends has no answer.
        let call = |_| client.call(to, SQUARE, &[7], b"", LONG).wait().ok();
        let ask = || (0..100).find_map(call).expect("an answer");
        let first = ask();
        assert!(last != Some(first.connection()), "an answer on the connection of the run before");
        // The first connection may not know the new run yet. Then it ends.
        until("the run is another one", || ask().incarnation() > known);
        let answer = ask();
        let how = client.describe(to).expect("it is open");
        assert_eq!((how.peer.to_string(), how.incarnation), ("beta/main".to_owned(), answer.incarnation()));
        assert_eq!((client.max_payload(to), client.incarnation(to)), (Some(1 << 20), answer.incarnation()));
        assert_eq!((ask().connection(), ask().incarnation()), (answer.connection(), answer.incarnation()));
        (known, last) = (answer.incarnation(), Some(answer.connection()));
        drop(server);
        beta.join().expect("no panic");
        until("the end", || client.describe(to).is_none());
        assert_eq!((client.max_payload(to), client.incarnation(to)), (None, None));
    }
}

/// No thread polls the server's endpoint.
#[test]
fn handlers_run_on_the_drivers_thread() {
    let (threads, ran) = channel();
    let handlers = Handlers::new().on_driver().on_request(SQUARE, move |request| {
        threads.send(thread::current().id()).expect("the test waits");
        let number = request.message.word(1);
        request.token.answer(&[number * number], b"").expect("an answer");
    });
    let (server, beta) = start("beta", "sim:216", handlers);
    let (client, _alpha) = start("alpha", "sim:216", Handlers::new());
    let to = client.connect("beta", "main", Reconnect::Never).unwrap();
    let calls: Vec<_> = (0..300).map(|number| client.call(to, SQUARE, &[number], b"", LONG)).collect();
    for (call, number) in calls.into_iter().zip(0..) {
        assert_eq!(call.wait().expect("an answer").word(0), number * number);
    }
    let threads: Vec<_> = ran.try_iter().collect();
    assert!(threads.len() == 300 && threads.iter().all(|thread| *thread == beta.thread().id()));
    assert_eq!(server.poll(), 0);
}

/// Those that no handler has had go to the next server; those that a handler may have had do not.
#[test]
fn what_was_not_handled_is_sent_again() {
    let (client, _alpha) = start("alpha", "sim:209", Handlers::new());
    let beta = client.connect("beta", "main", Reconnect::After(MS)).unwrap();
    let handled = Arc::new(AtomicU64::new(0));
    let (server, first) = start("beta", "sim:209", squares());
    // Nobody runs its handlers: a window of calls waits there, the others here.
    let calls: Vec<_> = (0..400).map(|number| client.call(beta, SQUARE, &[number], b"", LONG)).collect();
    thread::sleep(50 * MS);
    drop(server);
    first.join().expect("no panic");
    let counted = handled.clone();
    let (server, _second) = start(
        "beta",
        "sim:209",
        Handlers::new().on_request(SQUARE, move |request| {
            counted.fetch_add(1, SeqCst);
            request.token.reply(SQUARE, &[request.message.word(0)], b"").expect("a reply");
        }),
    );
    let stop = Arc::new(AtomicBool::new(false));
    let is_over = stop.clone();
    serve(server, move || is_over.load(SeqCst));
    let outcomes: Vec<_> = calls.into_iter().map(|call| call.wait()).collect();
    let answers = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
    assert_eq!(answers, handled.load(SeqCst));
    const WINDOW: u64 = 128;
    assert!(answers >= 400 - WINDOW, "{answers} of 400");
    stop.store(true, SeqCst);
}

/// It would come back each time.
#[test]
fn what_has_no_handler_is_not_sent_again() {
    let (client, stop, threads) = pair("sim:214");
    let beta = client.connect("beta", "main", Reconnect::After(MS)).unwrap();
    let error = client.call(beta, TELL, &[], b"", LONG).wait().unwrap_err();
    assert_eq!(error, CallError::Returned { reason: ReturnReason::NoHandler, fate: Fate::NotDelivered });
    end(client, &stop, threads);
}

#[test]
fn a_dropped_driver_ends_everything() {
    let on = "sim:210";
    let (client, alpha) = {
        let (gives, endpoint) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let node = Node::builder("alpha").framing(Framing::Plain).open(on).expect("a node");
            let (mut driver, endpoint) = share(&node, "main", Handlers::new()).expect("an endpoint");
            gives.send(endpoint).expect("the test waits");
            let start = Instant::now();
            while start.elapsed() < 100 * MS {
                driver.wait(10 * MS);
            }
        });
        (endpoint.recv().expect("an endpoint"), thread)
    };
    let beta = client.connect("beta", "main", Reconnect::After(MS)).unwrap();
    let calls: Vec<_> = (0..10).map(|number| client.call(beta, SQUARE, &[number], b"", LONG)).collect();
    let waits = {
        let client = client.clone();
        thread::spawn(move || client.wait(LONG))
    };
    for call in calls {
        assert_eq!(call.wait().unwrap_err(), CallError::NodeDropped);
    }
    assert_eq!(waits.join().expect("no panic"), 0);
    assert_eq!(client.call(beta, SQUARE, &[1], b"", LONG).wait().unwrap_err(), CallError::NodeDropped);
    assert_eq!(client.try_request(beta, TELL, &[], b""), Err(RequestError::NodeDropped));
    assert!(client.is_closed());
    alpha.join().expect("no panic");
}

#[test]
fn a_dropped_call_is_forgotten() {
    let (client, stop, threads) = pair("sim:211");
    let beta = client.connect("beta", "main", Reconnect::Never).unwrap();
    // More than may wait at once.
    for _ in 0..70 {
        let calls: Vec<_> = (0..1000).map(|number| client.call(beta, SQUARE, &[number], b"", LONG)).collect();
        drop(calls);
        assert_eq!(client.call(beta, SQUARE, &[2], b"", LONG).wait().expect("an answer").word(0), 4);
    }
    end(client, &stop, threads);
}

/// Its peer is not there, so nothing is ever sent.
#[test]
fn a_dropped_call_to_nobody_is_forgotten() {
    let (client, _alpha) = start("alpha", "sim:215", Handlers::new());
    let gamma = client.connect("gamma", "main", Reconnect::After(MS)).unwrap();
    let kept = client.call(gamma, SQUARE, &[7], b"", Duration::MAX);
    // More than may wait at once.
    for number in 0..100_000 {
        let call = client.call(gamma, SQUARE, &[number], b"", LONG);
        let mut cx = Context::from_waker(Waker::noop());
        let outcome = Pin::new(&mut { call }).poll(&mut cx);
        assert!(outcome.is_pending(), "call {number}: {outcome:?}");
        if number % 10_000 == 0 {
            // The driver takes some of them.
            thread::sleep(20 * MS);
        }
    }
    drop(kept);
}

/// No clock shows the end of these times.
#[test]
fn times_may_be_as_long_as_there_are() {
    let (client, stop, threads) = pair("sim:216");
    for time in [Duration::MAX, Duration::from_secs(18_446_744_074), Duration::from_secs(u64::MAX)] {
        let beta = client.connect("beta", "main", Reconnect::After(time)).unwrap();
        let answer = client.call(beta, SQUARE, &[3], b"", time).wait();
        assert_eq!(answer.expect("an answer").word(0), 9, "{time:?}");
        client.close(beta);
    }
    // Nor the end of this pause: the first connection fails, and the driver lives.
    let gamma = client.connect("gamma", "main", Reconnect::After(Duration::MAX)).unwrap();
    assert_eq!(client.call(gamma, SQUARE, &[3], b"", 2000 * MS).wait().unwrap_err(), CallError::TimedOut);
    end(client, &stop, threads);
}

#[test]
fn without_time_a_call_ends_at_once() {
    let (client, stop, threads) = pair("sim:217");
    let beta = client.connect("beta", "main", Reconnect::Never).unwrap();
    let why = client.call(beta, SQUARE, &[3], b"", Duration::ZERO).wait().unwrap_err();
    assert_eq!(why, CallError::TimedOut);
    end(client, &stop, threads);
}

#[test]
fn a_nodes_own_thread_does_not_wait_for_itself() {
    let node = Node::open("alpha", "sim:212").expect("a node");
    let (mut driver, client) = share(&node, "main", Handlers::new()).expect("an endpoint");
    let beta = client.connect("beta", "main", Reconnect::Never).unwrap();
    assert_eq!(client.call(beta, SQUARE, &[1], b"", LONG).wait().unwrap_err(), CallError::OnNodeThread);
    driver.poll();
}

#[test]
fn a_call_wakes_a_driver_that_sleeps() {
    let (client, stop, threads) = pair("sim:213");
    let beta = client.connect("beta", "main", Reconnect::Never).unwrap();
    client.call(beta, SQUARE, &[1], b"", LONG).wait().expect("an answer");
    let start = Instant::now();
    for number in 0..50 {
        // Long enough for both nodes to sleep.
        thread::sleep(2 * MS);
        client.call(beta, SQUARE, &[number], b"", LONG).wait().expect("an answer");
    }
    // A missed wake-up would cost the node's longest sleep, 100 ms.
    assert!(start.elapsed() < 50 * 40 * MS, "{:?}", start.elapsed());
    end(client, &stop, threads);
}
