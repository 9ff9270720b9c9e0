//! Replies from other threads, to requests that a sequential endpoint's handler took.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use am_api::{Framing, Node, RequestError};
use am_threads::{Handlers, Reconnect, SendToken, SharedEndpoint, share};

use crate::common::{LONG, MS, SQUARE, start};

type Work = (u64, u64, SendToken);

/// The node "beta", whose sequential endpoint hands 100 requests to another thread. Returns once they are answered.
fn hand_out(work: Sender<Work>, started: &Sender<SharedEndpoint>) {
    let node = Node::builder("beta").framing(Framing::Plain).open("sim:231").expect("a node");
    let (mut driver, endpoint) = share(&node, "threads", Handlers::new()).expect("an endpoint");
    let mut main = node.endpoint::<u64>("main").expect("an endpoint");
    let tokens = driver.tokens();
    main.on_request(SQUARE, move |handled, request| {
        *handled += 1;
        let (id, number) = (request.message.word(0), request.message.word(1));
        work.send((id, number, tokens.detach(request.token))).expect("the worker waits");
    });
    started.send(endpoint).expect("the test waits");
    let mut handled = 0;
    while handled < 100 {
        main.poll(&mut handled);
        driver.wait(MS);
    }
    driver.run();
}

#[test]
fn a_sequential_endpoint_hands_its_tokens_to_other_threads() {
    let (work, takes) = channel::<Work>();
    let (started, is_started) = channel();
    let node = thread::spawn(move || hand_out(work, &started));
    let endpoint = is_started.recv().expect("an endpoint");
    let worker = thread::spawn(move || {
        for (id, number, token) in takes.iter().take(100) {
            if number == 50 {
                // The reply is declined.
                drop(token);
                continue;
            }
            token.reply(SQUARE, &[id, number * number], b"").expect("posted");
        }
        drop(endpoint);
    });
    let (client, _alpha) = start("alpha", "sim:231", Handlers::new());
    let beta = client.connect("beta", "main", Reconnect::Never).unwrap();
    let within = |number| if number == 50 { 100 * MS } else { LONG };
    let call = |number| client.call(beta, SQUARE, &[number], b"", within(number));
    for (number, call) in (0..100).map(call).collect::<Vec<_>>().into_iter().enumerate() {
        let square = call.wait().ok().map(|answer| answer.word(0));
        assert_eq!(square, (number != 50).then_some((number * number) as u64), "{number}");
    }
    worker.join().expect("no panic");
    node.join().expect("no panic");
}

#[test]
fn after_the_driver_nobody_replies() {
    let (gives, takes) = channel::<SendToken>();
    let node = thread::spawn(move || {
        let node = Node::builder("beta").framing(Framing::Plain).open("sim:232").expect("a node");
        let give = std::sync::Mutex::new(gives);
        let handlers =
            Handlers::new().on_request(SQUARE, move |request| give.lock().unwrap().send(request.token).unwrap());
        let (mut driver, endpoint) = share(&node, "main", handlers).expect("an endpoint");
        while endpoint.poll() == 0 {
            driver.wait(MS);
        }
    });
    let (client, _alpha) = start("alpha", "sim:232", Handlers::new());
    let beta = client.connect("beta", "main", Reconnect::Never).unwrap();
    let call = client.call(beta, SQUARE, &[1], b"", LONG);
    let token = takes.recv().expect("a token");
    node.join().expect("no panic");
    assert_eq!(token.reply(SQUARE, &[], b""), Err(RequestError::NodeDropped));
    assert!(call.wait().is_err());
}
