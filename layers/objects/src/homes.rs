//! Calls to the processes that keep objects, and of those whose objects this process keeps.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use am_api::Node;
use am_rpc::{CallError as RpcCallError, Context, NotSent, Rpc, RpcError, service};

use crate::ask::{Answer, Ask, Fate};
use crate::courier::{Answers, Heard, NoAnswer};
use crate::error::CallError;
use crate::table::Table;

/// A guard is waited for as long as it takes. Whether the process that is asked is there shows by itself.
const NO_LIMIT: Duration = Duration::MAX;

/// The most operations of one process that wait for their guards: as many as it can call. Beyond them the write that they wait for would find no room.
const MOST_WAITING: usize = 1 << 16;

/// The most nodes that are remembered.
const MOST_CLIENTS: usize = 1024;

/// A process that keeps objects.
#[service]
trait Home {
    async fn ask(&self, context: &Context, ask: Ask<'_>) -> Answer;
}

/// Answers for the objects of this process.
struct Here(Rc<RefCell<Table>>);

/// Where an answer is put.
#[derive(Default)]
struct Place {
    answer: Cell<Option<Answer>>,
    waker: Cell<Option<Waker>>,
}

impl Home for Here {
    async fn ask(&self, context: &Context, ask: Ask<'_>) -> Answer {
        let place = Rc::<Place>::default();
        let reply = place.clone();
        self.0.borrow_mut().ask(
            &ask,
            Box::new(move |answer| {
                reply.answer.set(Some(answer));
                reply.waker.take().into_iter().for_each(Waker::wake);
            }),
        );
        let mut cancelled = pin!(context.cancelled());
        let answer = poll_fn(|task| match place.answer.take() {
            Some(answer) => Poll::Ready(Some(answer)),
            None if cancelled.as_mut().poll(task).is_ready() => Poll::Ready(None),
            None => {
                place.waker.set(Some(task.waker().clone()));
                Poll::Pending
            }
        });
        if let Some(answer) = answer.await {
            return answer;
        }
        // Its caller has left, and does not know whether it has run.
        self.0.borrow_mut().take_back(ask.caller, Box::new(drop));
        place.answer.take().unwrap_or(Answer { at: 0, fate: Fate::NotRun })
    }
}

/// The way to the processes of a space that keep objects.
pub(crate) struct Homes {
    pub(crate) rpc: Rpc,
    endpoint: String,
    /// By the names of their nodes.
    clients: BTreeMap<String, HomeClient>,
}

impl Homes {
    /// Serve the objects that this process keeps, for the space of this name.
    pub(crate) fn open(node: &Node, space: &str, table: Rc<RefCell<Table>>) -> Result<Homes, RpcError> {
        // A name has 31 bytes at most.
        let most = (0..=30).rev().find(|most| space.is_char_boundary(*most)).unwrap_or_default();
        let endpoint = format!("{}+", &space[..most.min(space.len())]);
        let rpc = Rpc::open_as(node, &endpoint, 0)?;
        rpc.set_max_tasks(MOST_WAITING);
        rpc.serve(HomeServer::new(Here(table))).expect("it is the first service");
        Ok(Homes { rpc, endpoint, clients: BTreeMap::new() })
    }

    /// Ask the process at this node.
    pub(crate) fn ask(&mut self, node: &str, ask: &Ask<'_>, answers: &Answers) {
        let (heard, answers) = (Heard::of(ask, Err(NoAnswer::NotRun)), answers.clone());
        if !self.clients.contains_key(node) {
            // Other processes have said what their nodes' names are.
            let Ok(peer) = self.rpc.local().peer_at(node, &self.endpoint, 0) else {
                return answers.borrow_mut().push_back(heard);
            };
            if self.clients.len() >= MOST_CLIENTS {
                self.clients.clear();
            }
            self.clients.insert(node.into(), HomeClient::new(&peer.within(NO_LIMIT)));
        }
        self.clients[node].ask(*ask).on_outcome(move |outcome| {
            let answer = outcome.map_err(|error| why_none(&error));
            answers.borrow_mut().push_back(Heard { answer, ..heard });
        });
    }
}

fn why_none(error: &RpcCallError<Infallible>) -> NoAnswer {
    match error {
        RpcCallError::NotSent(NotSent::TooLong { bytes, most }) => {
            NoAnswer::Never(CallError::TooLong { needs: *bytes, most: *most })
        }
        RpcCallError::ResultTooLong => NoAnswer::Never(CallError::ResultTooLong),
        // It has another version of this library.
        RpcCallError::UnknownMethod(_) | RpcCallError::Mismatch(_) | RpcCallError::Malformed => {
            NoAnswer::Never(CallError::Malformed)
        }
        error if error.may_have_run() => NoAnswer::Unknown,
        _ => NoAnswer::NotRun,
    }
}
