//! A key-value store, its server and its client, over any transport.
//!
//! ```text
//! kv serve shm:lab                       beta
//! kv beta shm:lab put color green        another process
//! kv beta shm:lab get color
//! kv beta shm:lab wait size              returns once another client has put it
//! ```

use std::cell::RefCell;
use std::collections::HashMap;
use std::env::args;
use std::error::Error;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

use am_api::Node;
use am_rpc::{Context, Rpc, service};
use futures_util::future::{Either, select};

#[service]
trait Store {
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    fn put(&self, key: &str, value: &[u8]);
    /// The value, once there is one.
    async fn wait(&self, context: &Context, key: &str) -> Option<Vec<u8>>;
}

#[derive(Default)]
struct Shelf {
    values: RefCell<HashMap<String, Vec<u8>>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Store for Shelf {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.values.borrow().get(key).cloned()
    }

    fn put(&self, key: &str, value: &[u8]) {
        self.values.borrow_mut().insert(key.into(), value.into());
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    async fn wait(&self, context: &Context, key: &str) -> Option<Vec<u8>> {
        let value = poll_fn(|task| {
            let value = self.get(key);
            if value.is_none() {
                self.waiting.borrow_mut().push(task.waker().clone());
            }
            value.map_or(Poll::Pending, Poll::Ready)
        });
        // Not for ever: the caller may have left.
        match select(value, std::pin::pin!(context.cancelled())).await {
            Either::Left((value, _)) => Some(value),
            Either::Right(_) => None,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let all: Vec<String> = args().skip(1).collect();
    match all.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", on] => {
            let node = Node::open("beta", on)?;
            let mut rpc = Rpc::open(&node)?;
            rpc.serve(StoreServer::new(Shelf::default()))?;
            println!("serving on {}", node.transport());
            loop {
                rpc.wait(Duration::from_secs(1));
            }
        }
        [server, on, what, key, ref value @ ..] => {
            let node = Node::builder("kv").unique_name().open(on)?;
            let mut rpc = Rpc::open(&node)?;
            let store = StoreClient::new(&rpc.peer(server)?);
            let found = match (what, value) {
                ("put", [value]) => return Ok(rpc.block_on(store.put(key, value.as_bytes()))?),
                ("get", []) => rpc.block_on(store.get(key))?,
                ("wait", []) => rpc.block_on(store.wait(key))?,
                _ => return Err("say get KEY, wait KEY or put KEY VALUE".into()),
            };
            println!("{}", found.map_or("nothing".into(), |value| String::from_utf8_lossy(&value).into_owned()));
            Ok(())
        }
        _ => Err("usage: kv serve TRANSPORT | kv SERVER TRANSPORT get|wait|put KEY [VALUE]".into()),
    }
}
