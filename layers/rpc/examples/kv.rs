//! A key-value store, its server and its client, over any transport.
//!
//! ```text
//! kv serve shm:lab                       beta
//! kv beta shm:lab put color green        another process
//! kv beta shm:lab get color
//! kv beta shm:lab watch co               what is put from now on, under keys that begin so
//! ```

use std::cell::RefCell;
use std::collections::HashMap;
use std::env::args;
use std::error::Error;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use am_api::Node;
use am_rpc::{Context, Rpc, StreamWriter, service};
use futures_channel::mpsc::{Sender, channel};
use futures_util::StreamExt;

/// All watchers share one.
type Pair = (Rc<str>, Rc<[u8]>);

#[service]
trait Store {
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    fn put(&self, key: &str, value: &[u8]);
    async fn watch(&self, context: &Context, prefix: &str, changes: StreamWriter<Pair>);
}

#[derive(Default)]
struct Shelf {
    values: RefCell<HashMap<Rc<str>, Rc<[u8]>>>,
    watchers: RefCell<Vec<(String, Sender<Pair>)>>,
}

/// The most changes that a watcher may be behind. Beyond that it is ended.
const BEHIND: usize = 1000;

impl Store for Shelf {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.values.borrow().get(key).map(|value| value.to_vec())
    }

    fn put(&self, key: &str, value: &[u8]) {
        let change: Pair = (key.into(), value.into());
        self.values.borrow_mut().insert(change.0.clone(), change.1.clone());
        self.watchers.borrow_mut().retain_mut(|(prefix, to)| {
            !to.is_closed() && (!key.starts_with(&**prefix) || to.try_send(change.clone()).is_ok())
        });
    }

    async fn watch(&self, context: &Context, prefix: &str, mut to: StreamWriter<Pair>) {
        let (watcher, changes) = channel(BEHIND);
        self.watchers.borrow_mut().push((prefix.into(), watcher));
        let mut changes = pin!(changes.take_until(context.cancelled()));
        while let Some(change) = changes.next().await {
            if to.send(&change).await.is_err() {
                break;
            }
        }
    }
}

fn serve(on: &str) -> Result<(), Box<dyn Error>> {
    let node = Node::open("beta", on)?;
    let mut rpc = Rpc::open(&node)?;
    rpc.serve(StoreServer::new(Shelf::default()))?;
    println!("serving on {}", node.transport());
    loop {
        rpc.wait(Duration::from_secs(1));
    }
}

fn ask(server: &str, on: &str, what: &[&str]) -> Result<(), Box<dyn Error>> {
    let node = Node::builder("kv").unique_name().open(on)?;
    let mut rpc = Rpc::open(&node)?;
    let peer = rpc.peer(server)?;
    let store = StoreClient::new(&peer);
    match what {
        ["get", key] => match rpc.block_on(store.get(key).named())? {
            Some(value) => println!("{}", String::from_utf8_lossy(&value)),
            None => println!("nothing"),
        },
        ["put", key, value] => rpc.block_on(store.put(key, value.as_bytes()).named())?,
        ["watch", prefix] => {
            let (watch, mut changes) = StoreClient::new(&peer.within(Duration::MAX)).watch(prefix);
            while let Some(Ok((key, value))) = rpc.block_on(changes.next()) {
                println!("{key} {}", String::from_utf8_lossy(&value));
            }
            rpc.block_on(watch.named())?;
        }
        _ => return Err("say get KEY, put KEY VALUE or watch PREFIX".into()),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let all: Vec<String> = args().skip(1).collect();
    match all.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", on] => serve(on),
        [server, on, ref what @ ..] => ask(server, on, what),
        _ => Err("usage: kv serve TRANSPORT | kv SERVER TRANSPORT get KEY | put KEY VALUE | watch PREFIX".into()),
    }
}
