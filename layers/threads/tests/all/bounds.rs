//! What waits for threads has a bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use am_api::{Node, RequestError};
use am_threads::{Handlers, Reconnect, share};

use crate::common::TELL;

/// More than may wait.
const MANY: usize = 20_000;

#[test]
fn messages_that_came_back_and_were_not_taken_leave_no_room() {
    let node = Node::open("alpha", "sim:90").expect("a node");
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let handlers = Handlers::new().on_returned(move |_| _ = count.fetch_add(1, SeqCst));
    let (mut driver, endpoint) = share(&node, "main", handlers).expect("an endpoint");
    let to = endpoint.connect("beta", "main", Reconnect::Never).expect("a peer");
    endpoint.close(to);
    let mut send = || {
        let result = endpoint.try_request(to, TELL, &[], b"hello");
        driver.poll();
        result
    };
    let sent = (0..MANY).take_while(|_| send().is_ok()).count();
    assert!(sent < MANY, "{sent} requests came back, and all of them wait");
    assert_eq!(send(), Err(RequestError::QueueFull));
    while endpoint.poll() > 0 {}
    assert_eq!(seen.load(SeqCst), sent, "each comes back");
    assert_eq!(send(), Ok(()));
}

/// Without a handler no thread takes them.
#[test]
fn messages_that_come_back_to_no_handler_take_no_room() {
    let node = Node::open("alpha", "sim:91").expect("a node");
    let (mut driver, endpoint) = share(&node, "main", Handlers::new()).expect("an endpoint");
    let to = endpoint.connect("beta", "main", Reconnect::Never).expect("a peer");
    endpoint.close(to);
    for _ in 0..MANY {
        endpoint.try_request(to, TELL, &[], b"hello").expect("room");
        driver.poll();
    }
    assert_eq!(endpoint.poll(), 0);
}
