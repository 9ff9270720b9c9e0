//! Whole nodes over one daemon.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use am_api::{HandlerId, Node, Request, RequestError};

use crate::common::{Place, Running, is_honest, list, port, until};

const ECHO: HandlerId = HandlerId(0);

/// A node that echoes, on a thread of its own; ends when dropped.
pub(crate) struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Server {
    pub(crate) fn start(name: &str, transport: String) -> Server {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, name) = (stop.clone(), name.to_owned());
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let node = Node::open(&name, &transport).unwrap();
            let mut endpoint = node.endpoint("main").unwrap();
            endpoint.on_request(ECHO, |count: &mut u64, Request { message, token }| {
                *count += 1;
                _ = token.reply(ECHO, &[], message.payload());
            });
            tell.send(()).unwrap();
            let mut count = 0;
            while !stopped.load(Relaxed) {
                endpoint.wait(&mut count, std::time::Duration::from_millis(20));
            }
            count
        });
        told.recv().unwrap();
        Server { stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().into_iter().for_each(|thread| _ = thread.join().unwrap());
    }
}

/// Echo this many messages through a node of its own.
pub(crate) fn echo(name: &str, transport: &str, peer: &str, messages: u64) {
    let node = Node::open(name, transport).unwrap();
    let mut endpoint = node.endpoint("main").unwrap();
    endpoint.on_reply(ECHO, |count: &mut u64, _| *count += 1);
    let mut to = endpoint.connect(peer, "main").unwrap();
    let (mut count, mut asked) = (0, 0);
    until("all replies arrive", || {
        while asked < messages {
            match endpoint.try_request(to, ECHO, &[], &asked.to_be_bytes()) {
                Ok(()) => asked += 1,
                // Beside a flood, a set-up on a busy machine may take too long.
                Err(RequestError::Dead(_)) if asked == 0 => to = endpoint.connect(peer, "main").unwrap(),
                Err(_) => break,
            }
        }
        endpoint.poll(&mut count);
        count == messages
    });
}

pub(crate) fn amd(socket: &Path) -> String {
    format!("amd:{}", socket.display())
}

#[test]
fn two_nodes_of_one_daemon_reach_each_other() {
    let place = Place::new();
    let daemon = Running::local(&place.socket());
    let server = Server::start("beta", amd(&place.socket()));
    echo("alpha", &amd(&place.socket()), "beta", 10_000);
    until("the first program has gone", || list(&place.socket()).ports.len() == 1);
    let beta = port(&place.socket(), "beta").unwrap();
    // Small messages share frames.
    assert!(beta.sent > 100 && beta.delivered > 100, "{beta:?}");
    is_honest(&beta);
    drop(server);
    until("the second program has gone", || list(&place.socket()).ports.is_empty());
    drop(daemon);
    assert_eq!(place.files(), [""; 0], "files are left");
}
