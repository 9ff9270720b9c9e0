//! Calls from other threads.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use am_api::{Idle, Node};
use am_rpc::{CallError, RemoteError, Rpc};

use crate::common::{LONG, Shelf, StoreClient, StoreServer, drive, peer, served};

/// A server on a thread of its own; and its end.
fn server(on: String) -> (thread::JoinHandle<usize>, std::sync::Arc<std::sync::atomic::AtomicBool>) {
    let stop = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
    let is_over = stop.clone();
    let thread = thread::spawn(move || {
        let node = Node::builder("beta").idle(Idle::sleeping()).open(&on).expect("a node");
        let mut rpc = Rpc::open(&node).expect("an endpoint");
        rpc.serve(StoreServer::new(Shelf::default())).expect("the only service");
        while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
            rpc.wait(Duration::from_millis(10));
        }
        rpc.under_way()
    });
    (thread, stop)
}

#[test]
fn many_threads_call_through_one_node() {
    let on = format!("shm:am-rpc-remote-{}", std::process::id());
    let (beta, stop) = server(on.clone());
    let (gives, remote) = channel();
    let alpha = thread::spawn(move || {
        let node = Node::builder("alpha").idle(Idle::sleeping()).open(&on).expect("a node");
        let mut rpc = Rpc::open(&node).expect("an endpoint");
        let (end, ended) = futures_channel::oneshot::channel();
        gives.send((rpc.remote(), end)).expect("the test waits");
        rpc.block_on(ended).expect("the test ends it");
        rpc.under_way()
    });
    let (remote, end) = remote.recv().expect("a remote");
    let threads = [1_u64, 2, 3, 4].map(|first| {
        let remote = remote.clone();
        thread::spawn(move || {
            for number in (0..50).map(|at| first * 1000 + at) {
                let task = remote.run(move |local| {
                    let store = StoreClient::new(&local.peer("beta").expect("a name").within(LONG));
                    async move { store.double(number).await }
                });
                assert_eq!(task.wait(), Ok(Ok(2 * number)));
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    // Dropped, and so cancelled.
    drop(remote.run(|local| {
        let store = StoreClient::new(&local.peer("beta").expect("a name").within(LONG));
        async move { store.wait_for("never").await }
    }));
    let last = remote.run(|local| {
        let store = StoreClient::new(&local.peer("beta").expect("a name").within(LONG));
        async move { store.sleep(30).await }
    });
    assert_eq!(last.wait(), Ok(Ok(30)));
    end.send(()).expect("it waits");
    assert_eq!(alpha.join().expect("no panic"), 0);
    assert_eq!(remote.run(|_| async {}).wait(), Err(RemoteError::NotRun));
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(beta.join().expect("no panic"), 0);
}

#[test]
fn a_wait_on_the_nodes_thread_is_an_error() {
    let (mut sides, ..) = served();
    assert_eq!(sides[0].rpc.remote().run(|_| async {}).wait(), Err(RemoteError::OnNodeThread));
    let to = peer(&sides[0], "beta");
    let posted = sides[0].rpc.remote().run(move |local| {
        let elsewhere = local.peer("no name of a node, because it is far too long");
        async move { elsewhere.is_err() }
    });
    assert_eq!(drive(&mut sides, posted), Ok(true));
    let outcome: Result<u64, CallError<_>> = drive(&mut sides, StoreClient::new(&to).double(2));
    assert_eq!(outcome, Ok(4));
}
