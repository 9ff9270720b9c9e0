//! The load: one peer on a thread of its own that never pauses.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, Node};

use crate::hub::{Hub, LOAD, LONG, PATIENCE, content};

pub(crate) struct Steady {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Steady {
    pub(crate) fn start(link: &str, hub: &Option<String>) -> Steady {
        let stop = Arc::new(AtomicBool::new(false));
        let (link, hub, stopped) = (link.to_owned(), hub.clone(), Arc::clone(&stop));
        Steady { stop, thread: thread::spawn(move || load(&link, hub.as_deref(), &stopped)) }
    }

    /// It ends when all it has sent is answered: as many as the hub has handled.
    pub(crate) fn stop(self, hub: &mut Hub) {
        self.stop.store(true, Relaxed);
        hub.until("the load ends", |_| self.thread.is_finished());
        let sent = self.thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        assert_eq!(hub.load(), sent);
    }
}

/// Send until told to stop; how many were sent, each answered once.
fn load(link: &str, hub: Option<&str>, stop: &AtomicBool) -> u64 {
    let transport = am_api::transports::open(link).unwrap_or_else(|error| panic!("{error}"));
    let node = Node::builder("steady").patience(PATIENCE).open_on(transport).unwrap();
    if let Some(place) = hub {
        node.add_peer_address(place).unwrap();
    }
    let mut endpoint = node.endpoint::<HashSet<u64>>("main").unwrap();
    endpoint.on_reply(LOAD, |waiting, message| assert!(waiting.remove(&message.word(0)), "answered twice"));
    endpoint.on_returned(|_, back| panic!("{back:?}"));
    let mut waiting = HashSet::new();
    let to = endpoint.connect("hub", "main").unwrap();
    endpoint.wait_open(&mut waiting, to, LONG).unwrap_or_else(|error| panic!("{error}"));
    let mut sent = 0;
    while !stop.load(Relaxed) {
        sent += send(&mut endpoint, to, sent, &mut waiting);
        endpoint.poll(&mut waiting);
    }
    let start = Instant::now();
    while !waiting.is_empty() {
        endpoint.wait(&mut waiting, Duration::from_millis(1));
        assert!(start.elapsed() < LONG, "{} are not answered\n{}", waiting.len(), node.counters());
    }
    sent
}

/// One more, if there is credit.
fn send(endpoint: &mut Endpoint<HashSet<u64>>, to: Connection, number: u64, waiting: &mut HashSet<u64>) -> u64 {
    match endpoint.try_request(to, LOAD, &[number], &content(number)) {
        Ok(()) => u64::from(waiting.insert(number)),
        Err(error) if error.is_temporary() => 0,
        Err(error) => panic!("{error}"),
    }
}
