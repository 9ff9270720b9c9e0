//! Several threads on one endpoint: they send, wait, and run handlers at the same time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use am_api::{ConnectionChange, Fate, HandlerId, RequestError, ReturnReason};
use am_threads::{CallError, Handlers, Reconnect};

use crate::common::{LONG, MS, SQUARE, TELL, serve, squares, start, until};

const DONE: HandlerId = HandlerId(2);

const EACH: u64 = 2_000;

/// Counts the requests, and adds their numbers.
fn counts(served: &Arc<[AtomicU64; 2]>) -> Handlers {
    let served = served.clone();
    Handlers::new().on_request(TELL, move |request| {
        served[0].fetch_add(1, SeqCst);
        served[1].fetch_add(request.message.word(0), SeqCst);
        assert_eq!(&request.message[..], b"hello");
        request.token.reply(DONE, request.message.words(), b"").expect("a reply");
    })
}

/// Four threads send on one endpoint and run its handlers, and four run the handlers on the other side.
fn four_threads_on_each_side(on: &str) {
    let served = Arc::default();
    let (server, beta) = start("beta", on, counts(&served));
    let replies = Arc::new(AtomicU64::new(0));
    let replied = replies.clone();
    let handlers = Handlers::new().on_reply(DONE, move |_| _ = replied.fetch_add(1, SeqCst));
    let (client, alpha) = start("alpha", on, handlers);
    let to = client.connect("beta", "main", Reconnect::Never).unwrap();
    let serving = [(); 4].map(|()| {
        let done = replies.clone();
        serve(server.clone(), move || done.load(SeqCst) == 4 * EACH)
    });
    thread::scope(|scope| {
        for thread in 0..4 {
            let (client, replies) = (&client, &replies);
            scope.spawn(move || {
                for number in thread * EACH..(thread + 1) * EACH {
                    client.request(to, TELL, &[number], b"hello").expect("sent");
                    client.poll();
                }
                while replies.load(SeqCst) < 4 * EACH {
                    client.wait(10 * MS);
                }
            });
        }
    });
    drop((client, server));
    let handled: usize = serving.into_iter().map(|server| server.join().expect("no panic")).sum();
    let served = served.each_ref().map(|count| count.load(SeqCst));
    assert_eq!((handled as u64, served), (4 * EACH, [4 * EACH, 4 * EACH * (4 * EACH - 1) / 2]));
    [alpha, beta].into_iter().for_each(|node| node.join().expect("no panic"));
}

#[test]
fn four_threads_over_a_simulated_network() {
    four_threads_on_each_side("sim:221");
}

#[test]
fn four_threads_over_a_bad_network() {
    four_threads_on_each_side("sim:222,loss=0.02");
}

#[test]
fn four_threads_over_shared_memory() {
    four_threads_on_each_side(&format!("shm:shared-{}", std::process::id()));
}

/// Each handler waits for three others, which only other threads can run.
#[test]
fn handlers_of_four_threads_run_at_once() {
    let (barrier, through) = (Arc::new(Barrier::new(4)), Arc::new(AtomicUsize::new(0)));
    let (meet, count) = (barrier.clone(), through.clone());
    let (server, _beta) = start(
        "beta",
        "sim:223",
        Handlers::new().on_request(TELL, move |_| {
            meet.wait();
            count.fetch_add(1, SeqCst);
        }),
    );
    let servers: Vec<_> = (0..4)
        .map(|_| {
            let through = through.clone();
            serve(server.clone(), move || through.load(SeqCst) == 8)
        })
        .collect();
    let (client, _alpha) = start("alpha", "sim:223", Handlers::new());
    let to = client.connect("beta", "main", Reconnect::Never).unwrap();
    (0..8).for_each(|_| client.request(to, TELL, &[], b"").expect("sent"));
    until("all have met", || through.load(SeqCst) == 8);
    servers.into_iter().for_each(|server| _ = server.join().expect("no panic"));
}

#[test]
fn a_threads_requests_arrive_in_their_order() {
    const COUNT: u64 = 20_000;
    let seen = Arc::new(Mutex::new(vec![]));
    let notes = seen.clone();
    let (server, _beta) = start(
        "beta",
        "sim:224",
        Handlers::new().on_request(TELL, move |request| notes.lock().unwrap().push(request.message.word(0))),
    );
    let (client, _alpha) = start("alpha", "sim:224", Handlers::new());
    let to = client.connect("beta", "main", Reconnect::Never).unwrap();
    // More than the queue holds: the sender waits for room.
    let sends = {
        let client = client.clone();
        thread::spawn(move || (0..COUNT).for_each(|number| client.request(to, TELL, &[number], b"").expect("sent")))
    };
    while seen.lock().unwrap().len() < COUNT as usize {
        assert!(server.wait(LONG) > 0, "{} arrived", seen.lock().unwrap().len());
    }
    sends.join().expect("no panic");
    assert!(seen.lock().unwrap().iter().copied().eq(0..COUNT));
}

#[test]
fn a_full_queue_says_so() {
    let (client, _alpha) = start("alpha", "sim:225", Handlers::new());
    let to = client.connect("nobody", "main", Reconnect::After(LONG)).unwrap();
    let full = (0..100_000).find_map(|_| client.try_request(to, TELL, &[], b"").err());
    assert_eq!(full, Some(RequestError::QueueFull));
    let waits = {
        let client = client.clone();
        thread::spawn(move || client.request(to, TELL, &[], b""))
    };
    thread::sleep(10 * MS);
    client.close(to);
    assert_eq!(waits.join().expect("no panic"), Ok(()));
}

#[test]
fn what_is_not_delivered_comes_back_with_its_cause() {
    let back = Arc::new(Mutex::new(vec![]));
    let changes = Arc::new(Mutex::new(vec![]));
    let (returned, changed) = (back.clone(), changes.clone());
    let handlers = Handlers::new()
        .on_returned(move |message| returned.lock().unwrap().push(message))
        .on_connection(move |event| changed.lock().unwrap().push((event.change, event.name.to_string())));
    let (client, _alpha) = start("alpha", "sim:226", handlers);
    let (server, beta) = start("beta", "sim:226", squares());
    let to = client.connect("beta", "main", Reconnect::Never).unwrap();
    until("open", || {
        client.poll();
        !changes.lock().unwrap().is_empty()
    });
    assert_eq!(changes.lock().unwrap()[0], (ConnectionChange::Opened, "beta/main".to_owned()));
    drop(server);
    beta.join().expect("no panic");
    until("ended", || {
        client.poll();
        changes.lock().unwrap().len() == 2
    });
    client.request(to, TELL, &[7, 8], b"back").expect("posted");
    until("back", || {
        client.poll();
        !back.lock().unwrap().is_empty()
    });
    let message = &back.lock().unwrap()[0];
    assert_eq!((message.to, message.handler, message.words()), (to, TELL, &[7, 8][..]));
    assert_eq!(message.payload, b"back");
    assert!(matches!(message.why, CallError::NotSent(RequestError::Dead(_))), "{}", message.why);
}

/// A server that asks its clients: they connected to it, and it knows no names.
#[test]
fn the_sender_of_a_request_can_be_asked() {
    let (server, _beta) = {
        let (gives, later) = std::sync::mpsc::channel::<am_threads::SharedEndpoint>();
        let later = Mutex::new(later);
        let asks = Mutex::new(None);
        let handlers = Handlers::new().on_request(TELL, move |request| {
            let mut asks = asks.lock().unwrap();
            let server = asks.get_or_insert_with(|| later.lock().unwrap().recv().expect("the endpoint"));
            server.try_request(request.message.from(), DONE, request.message.words(), b"").expect("posted");
        });
        let (server, beta) = start("beta", "sim:227", handlers);
        gives.send(server.clone()).unwrap();
        (server, beta)
    };
    let told = Arc::new(AtomicU64::new(0));
    let sum = told.clone();
    let handlers = Handlers::new().on_request(DONE, move |request| _ = sum.fetch_add(request.message.word(0), SeqCst));
    let (client, _alpha) = start("alpha", "sim:227", handlers);
    let to = client.connect("beta", "main", Reconnect::Never).unwrap();
    (1..=10).for_each(|number| client.request(to, TELL, &[number], b"").expect("sent"));
    until("notified", || {
        server.poll();
        client.poll();
        told.load(SeqCst) == 55
    });
    let no_handler = CallError::Returned { reason: ReturnReason::NoHandler, fate: Fate::NotDelivered };
    assert_eq!(client.call(to, SQUARE, &[1], b"", LONG).wait().unwrap_err(), no_handler);
}
