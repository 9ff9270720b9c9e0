//! Transfers from several threads: each has one outcome, and its bytes are right.

use std::sync::mpsc::channel;
use std::thread;

use am_api::{RegionId, Rights, TransferError, TransferKind};
use am_threads::{CallError, Handlers, Reconnect, SharedTransferError};

use crate::common::{LONG, MS, SQUARE, squares, start, until};

const SLOT: usize = 100_000;

fn bytes(seed: u8) -> Vec<u8> {
    (0..SLOT).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn four_threads_put_and_get() {
    for on in ["sim:401".to_owned(), "sim:402,loss=0.01".to_owned(), format!("shm:am-transfers-{}", std::process::id())]
    {
        let (events, ended) = channel();
        let handlers = squares().on_driver().on_transfer(move |event| _ = events.send(event));
        let (server, beta) = start("beta", &on, handlers);
        let region = server.register(vec![0; 4 * SLOT], Rights::BOTH).wait().expect("memory");
        let (client, alpha) = start("alpha", &on, Handlers::new());
        let to = client.connect("beta", "main", Reconnect::After(MS)).expect("a name");
        thread::scope(|scope| {
            for at in 0..4 {
                let client = &client;
                scope.spawn(move || {
                    let offset = at as u64 * SLOT as u64;
                    for round in 0..3 {
                        let sent = bytes(at * 10 + round);
                        client.put(to, region, offset, sent.clone()).wait().expect("room");
                        let got = client.get(to, region, offset, SLOT as u64).wait().expect("the bytes");
                        assert!(*got == *sent, "{at}, round {round}");
                    }
                });
            }
        });
        // The owner of the region may hear of an end later than the thread that asked for it.
        let events: Vec<_> = (0..24).map(|_| ended.recv_timeout(LONG).expect("an event")).collect();
        let memory = server.unregister(region).wait().expect("it was registered");
        assert!((0..4).all(|at| memory[at * SLOT..][..SLOT] == bytes(at as u8 * 10 + 2)));
        drop((server, client));
        [alpha, beta].into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(ended.iter().count(), 0, "more than one event of a transfer");
        for kind in [TransferKind::Deposited, TransferKind::Served] {
            let its = events.iter().filter(|event| event.kind == kind);
            assert!(its.clone().all(|event| event.result.is_ok() && event.length == SLOT as u64));
            assert_eq!(its.count(), 12, "{kind:?}");
        }
    }
}

#[test]
fn each_failure_is_an_outcome() {
    let (server, beta) = start("beta", "sim:403", squares().on_driver());
    let (client, _alpha) = start("alpha", "sim:403", Handlers::new());
    let to = client.connect("beta", "main", Reconnect::Never).expect("a name");
    let mine = server.register(vec![7; 100], Rights::READ).wait().expect("memory");
    let failed = |error: TransferError| Err(SharedTransferError::Failed(error));
    assert_eq!(client.put(to, mine, 0, b"x").wait(), failed(TransferError::Denied));
    assert_eq!(client.get(to, mine, 50, 51).wait(), failed(TransferError::OutOfBounds).map(|()| Box::default()));
    assert_eq!(client.put(to, RegionId(99), 0, b"x").wait(), failed(TransferError::NoRegion));
    assert_eq!(client.get(to, mine, 0, 1 << 32).wait(), failed(TransferError::TooLong).map(|()| Box::default()));
    assert_eq!(client.unregister(RegionId(99)).wait(), failed(TransferError::NoRegion).map(|()| Box::default()));
    assert_eq!(*client.get(to, mine, 50, 50).wait().expect("the bytes"), [7; 50]);
    assert_eq!(*client.get(to, mine, 100, 0).wait().expect("no bytes"), []);

    drop(server);
    beta.join().expect("no panic");
    let error = client.get(to, mine, 0, 1).wait().expect_err("nobody is there");
    assert!(matches!(error, SharedTransferError::NotBegun(CallError::NotSent(_))), "{error}");
    let nobody = client.connect("nobody", "main", Reconnect::After(MS)).expect("a name");
    let waits = client.put(nobody, mine, 0, b"for ever");
    client.close(nobody);
    assert!(matches!(waits.wait(), Err(SharedTransferError::NotBegun(CallError::NotSent(_)))));
}

/// Also one that waits for a peer that never comes: then the driver would never end.
#[test]
fn a_dropped_future_cancels_its_transfer() {
    let (client, alpha) = start("alpha", "sim:404", Handlers::new());
    let (server, _beta) = start("beta", "sim:404", squares().on_driver());
    let region = server.register(vec![0; 64 << 20], Rights::WRITE).wait().expect("memory");
    let [beta, nobody] =
        ["beta", "nobody"].map(|name| client.connect(name, "main", Reconnect::After(MS)).expect("a name"));
    assert_eq!(client.call(beta, SQUARE, &[3], b"", LONG).wait().expect("an answer").word(0), 9);
    drop(client.put(beta, region, 0, vec![1; 64 << 20]));
    drop(client.put(nobody, region, 0, vec![1; 10]));
    drop(client);
    until("the driver has ended", || alpha.is_finished());
    alpha.join().expect("no panic");
}

#[test]
fn without_a_driver_all_end() {
    let (gives, started) = channel();
    let (ends, end) = channel::<()>();
    let driving = thread::spawn(move || {
        let node = am_api::Node::open("alpha", "sim:405").expect("a simulated network");
        let (mut driver, endpoint) = am_threads::share(&node, "main", Handlers::new()).expect("an endpoint");
        gives.send(endpoint).expect("the test waits");
        while end.try_recv().is_err() {
            driver.wait(MS);
        }
    });
    let client = started.recv().expect("an endpoint");
    let nobody = client.connect("nobody", "main", Reconnect::After(MS)).expect("a name");
    let waits = client.put(nobody, RegionId(1), 0, b"x");
    ends.send(()).expect("it waits");
    let dropped = || SharedTransferError::NotBegun(CallError::NodeDropped);
    assert_eq!(waits.wait(), Err(dropped()));
    driving.join().expect("no panic");
    assert_eq!(client.register(vec![0], Rights::READ).wait(), Err(dropped()));
}
