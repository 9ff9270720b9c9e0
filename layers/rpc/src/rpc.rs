//! The endpoint of a program for calls, in both directions.

use std::fmt;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::{Duration, Instant};

use am_api::{Endpoint, InvalidName, Name, Node};
use am_base::Link;

use crate::dispatch::Dispatch;
use crate::error::{RpcError, ServeError};
use crate::peer::Peer;
use crate::runtime::Runtime;
use crate::service::Service;
use crate::tasks::{LocalTask, Tasks, Woken};

/// The endpoint that [`Rpc::open`] opens, and that [`Rpc::peer`] calls.
const ENDPOINT: &str = "rpc";

/// The longest wait without a look at what is due.
const LONG: Duration = Duration::from_secs(3600);

/// The endpoint of a program for calls: it serves, and it calls. It stays on the node's thread, and runs methods only while it is polled.
pub struct Rpc {
    endpoint: Endpoint<()>,
    runtime: Rc<Runtime>,
    dispatch: Rc<Dispatch>,
    /// Set for the future that [`block_on`](Rpc::block_on) polls.
    woken: Arc<Woken>,
}

impl Rpc {
    /// The node's endpoint `rpc`.
    ///
    /// # Errors
    /// See [`RpcError`].
    pub fn open(node: &Node) -> Result<Rpc, RpcError> {
        Rpc::open_as(node, ENDPOINT, 0)
    }

    /// An endpoint of another name; only peers that give this tag can call it.
    ///
    /// # Errors
    /// See [`RpcError`].
    pub fn open_as(node: &Node, endpoint: &str, tag: u64) -> Result<Rpc, RpcError> {
        let mut endpoint = node.endpoint_with_tag(endpoint, tag)?;
        let waker = node.waker().map_err(|error| RpcError::NoWaker(error.to_string()))?;
        let runtime = Runtime::new(&mut endpoint, Tasks::new(waker.clone()));
        let dispatch = Dispatch::new(&mut endpoint, &runtime);
        Ok(Rpc { endpoint, runtime, dispatch, woken: Woken::new(waker) })
    }

    /// Serve a service from now on: `rpc.serve(StoreServer::new(store))`.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve(&self, service: impl Service) -> Result<(), ServeError> {
        self.dispatch.serve(Rc::new(service))
    }

    /// The endpoint `rpc` of the node of this name. It is connected when it is called.
    ///
    /// # Errors
    /// The name is none.
    pub fn peer(&self, node: &str) -> Result<Peer, InvalidName> {
        self.peer_at(node, ENDPOINT, 0)
    }

    /// An endpoint of another name, which has this tag.
    ///
    /// # Errors
    /// One of the names is none.
    pub fn peer_at(&self, node: &str, endpoint: &str, tag: u64) -> Result<Peer, InvalidName> {
        for name in [node, endpoint] {
            Name::new(name).ok_or_else(|| InvalidName(name.into()))?;
        }
        Ok(Peer::new(self.runtime.clone(), self.runtime.add_peer(Link::to(node, endpoint, tag))))
    }

    /// One turn: receive, run methods and tasks, send. Returns how many messages and events were handled.
    #[inline]
    pub fn poll(&mut self) -> usize {
        let handled = self.endpoint.poll(&mut ());
        handled + usize::from(self.runtime.after_turn())
    }

    /// Poll until something was handled, or the time is over. Spin, yield or sleep meanwhile.
    pub fn wait(&mut self, timeout: Duration) -> usize {
        let due = self.runtime.next_due().unwrap_or(timeout);
        let handled = self.endpoint.wait(&mut (), timeout.min(due));
        handled + usize::from(self.runtime.after_turn())
    }

    /// Poll until this future is ready: a call, or anything that awaits calls.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        let waker = Waker::from(self.woken.clone());
        let mut context = PollContext::from_waker(&waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            while !self.woken.take() {
                self.wait(LONG);
            }
        }
    }

    /// Run this future as a task of the node.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.runtime.tasks.spawn(Box::pin(future));
    }

    /// Give tasks to an executor of the program, on the node's thread: those of [`spawn`](Rpc::spawn), and calls that are not ready at once.
    /// With tokio: `rpc.set_executor(|task| _ = tokio::task::spawn_local(task))`.
    pub fn set_executor(&self, spawn: impl Fn(LocalTask) + 'static) {
        self.runtime.tasks.set_executor(Rc::new(spawn));
    }

    /// Begin no more calls of others ([`ShuttingDown`](crate::CallError::ShuttingDown)), and poll until those that run have their results, or
    /// the time is over. Returns how many are left.
    pub fn shut_down(&mut self, timeout: Duration) -> usize {
        self.dispatch.is_shut_down.set(true);
        let until = Instant::now() + timeout;
        while self.runtime.tasks.len() > 0 || !self.runtime.outbox.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait(left);
        }
        self.endpoint.flush();
        self.runtime.tasks.len()
    }

    /// How many calls are under way: those of this side, and those of others that run as tasks.
    pub fn under_way(&self) -> usize {
        self.runtime.under_way()
    }

    /// The endpoint: for its connections, counters and descriptor. The handler ids 0 to 15 are the layer's own.
    pub fn endpoint(&mut self) -> &mut Endpoint<()> {
        &mut self.endpoint
    }
}

impl Drop for Rpc {
    /// The runtime has the tasks, and they may have the runtime.
    fn drop(&mut self) {
        self.runtime.tasks.clear();
    }
}

impl fmt::Debug for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rpc").field("under_way", &self.under_way()).finish_non_exhaustive()
    }
}
