//! The endpoint of a program for calls, in both directions.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::{Duration, Instant};

use am_api::{Endpoint, EndpointName, InvalidName, Node};

use crate::dispatch::{Dispatch, For};
use crate::error::{RpcError, ServeError};
use crate::local::{ENDPOINT, Local};
use crate::method::MethodInfo;
use crate::peer::Peer;
use crate::reflection::{Health, HealthTable, Mirror, ReflectionServer};
use crate::remote::{Jobs, Remote};
use crate::runtime::Runtime;
use crate::service::Service;
use crate::statistics::MethodStatistics;
use crate::tasks::{LocalTask, Tasks, Woken};

/// The longest wait without a look at what is due.
const LONG: Duration = Duration::from_secs(3600);

/// The endpoint of a program for calls: it serves, and it calls. It stays on the node's thread, and runs methods only while it is polled.
pub struct Rpc {
    endpoint: Endpoint<()>,
    runtime: Rc<Runtime>,
    local: Local,
    remote: Remote,
    jobs: Jobs,
    dispatch: Rc<Dispatch>,
    health: Rc<HealthTable>,
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
        let (local, (remote, jobs)) = (Local(runtime.clone()), Jobs::new(waker.clone()));
        let health = Rc::<HealthTable>::default();
        let mirror = ReflectionServer::new(Mirror::new(&dispatch, health.clone()));
        dispatch.serve(Rc::new(mirror), &For::All).expect("it is the first service");
        Ok(Rpc { endpoint, runtime, local, remote, jobs, dispatch, health, woken: Woken::new(waker) })
    }

    /// Serve a service from now on: `rpc.serve(StoreServer::new(store))`.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve(&self, service: impl Service) -> Result<(), ServeError> {
        self.dispatch.serve(Rc::new(service), &For::Callers)
    }

    /// Serve a service to those callers for whom this function says so: it gets the caller's name, and the method. Others get
    /// [`Forbidden`](crate::CallError::Forbidden). A name is what its node says it is. An endpoint with a tag ([`open_as`](Rpc::open_as)) is for
    /// callers that know the tag.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve_to(
        &self,
        service: impl Service,
        allows: impl Fn(&EndpointName, &'static MethodInfo) -> bool + 'static,
    ) -> Result<(), ServeError> {
        self.dispatch.serve(Rc::new(service), &For::Allowed(Rc::new(allows)))
    }

    /// Say whether the service of this name can be called, to callers that ask [`Reflection`](crate::Reflection).
    pub fn set_health(&self, service: &str, health: Health) {
        self.health.borrow_mut().insert(service.into(), health);
    }

    /// What each method has done since it is served.
    pub fn statistics(&self) -> Vec<MethodStatistics> {
        self.dispatch.statistics()
    }

    /// The endpoint `rpc` of the node of this name. It is connected when it is called.
    ///
    /// # Errors
    /// The name is none.
    pub fn peer(&self, node: &str) -> Result<Peer, InvalidName> {
        self.local.peer(node)
    }

    /// For code on this thread that does not poll.
    pub fn local(&self) -> Local {
        self.local.clone()
    }

    /// For other threads.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// One turn: receive, run methods and tasks, send. Returns how many messages and events were handled.
    #[inline]
    pub fn poll(&mut self) -> usize {
        let handled = self.endpoint.poll(&mut ());
        handled + self.after_turn()
    }

    /// The same with what a turn of another endpoint of the node has received, for a program that polls several: it does not receive.
    #[inline]
    pub fn handle(&mut self) -> usize {
        let handled = self.endpoint.handle(&mut ()) + self.after_turn();
        self.endpoint.flush();
        handled
    }

    /// Poll until something was handled, or the time is over. Spin, yield or sleep meanwhile.
    pub fn wait(&mut self, timeout: Duration) -> usize {
        let due = self.runtime.may_sleep().unwrap_or(timeout);
        let handled = self.endpoint.wait(&mut (), timeout.min(due));
        handled + self.after_turn()
    }

    #[inline]
    fn after_turn(&self) -> usize {
        let has_begun = self.jobs.begin(&self.local);
        usize::from(self.runtime.after_turn() | has_begun)
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
        self.local.spawn(future);
    }

    /// Give tasks to an executor of the program, on the node's thread: those of [`spawn`](Rpc::spawn), and calls that are not ready at once.
    /// With tokio: `rpc.set_executor(|task| _ = tokio::task::spawn_local(task))`.
    pub fn set_executor(&self, spawn: impl Fn(LocalTask) + 'static) {
        self.runtime.tasks.set_executor(Rc::new(spawn));
    }

    /// Let this number of calls of one connection run as tasks, instead of [`MAX_TASKS`](crate::MAX_TASKS). For a service whose calls wait for other calls: beyond the limit
    /// none comes in, not even the one that the others wait for.
    pub fn set_max_tasks(&self, most: usize) {
        self.runtime.tasks.set_most(most);
    }

    /// Begin no more calls of others ([`ShuttingDown`](crate::CallError::ShuttingDown)), and poll until those that run have their results, and this
    /// side's calls their outcomes, or the time is over. Returns how many are left. A program that makes calls and does not await them ends so:
    /// what still waits for a connection when the `Rpc` is dropped is not sent.
    ///
    /// It has the thread meanwhile, so tasks that the program's own executor runs on it do not go on: there,
    /// [`shut_down_beside`](Rpc::shut_down_beside) is the one to call.
    pub fn shut_down(&mut self, timeout: Duration) -> usize {
        self.dispatch.is_shut_down.set(true);
        let begun = Instant::now();
        while self.runtime.unfinished() > 0 {
            let left = timeout.saturating_sub(begun.elapsed()).min(LONG);
            if left.is_zero() {
                break;
            }
            self.wait(left);
        }
        self.endpoint.flush();
        self.runtime.unfinished()
    }

    /// As [`shut_down`](Rpc::shut_down), for a program whose executor has this thread ([`set_executor`](Rpc::set_executor)): after each turn the
    /// executor's other tasks go on. It does not sleep.
    pub async fn shut_down_beside(&mut self, timeout: Duration) -> usize {
        self.dispatch.is_shut_down.set(true);
        let begun = Instant::now();
        while self.runtime.unfinished() > 0 && begun.elapsed() < timeout {
            self.poll();
            give_way().await;
        }
        self.endpoint.flush();
        self.runtime.unfinished()
    }

    /// Whether a poll has something to do: a message or an event waits, or a task, or something is due. For a program that polls other endpoints of the
    /// node.
    pub fn has_work(&self) -> bool {
        self.runtime.is_due() || !self.endpoint.pending_events().is_empty()
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

/// Let the executor poll its other tasks.
async fn give_way() {
    let mut is_second = false;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Drop for Rpc {
    /// All calls have their outcomes: one that was sent may have run.
    fn drop(&mut self) {
        self.runtime.close();
    }
}

impl fmt::Debug for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Rpc");
        self.runtime.sizes().iter().for_each(|(table, size)| _ = text.field(table, size));
        text.finish_non_exhaustive()
    }
}
