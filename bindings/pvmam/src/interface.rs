//! An interface: a node on a transport, with an endpoint for messages and the endpoints of other tasks.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_int};
use std::process;
use std::rc::Rc;
use std::time::Duration;

use am_api::{
    Class, ConnectionChange, ConnectionEvent, Endpoint, EndpointError, Events, Framing, HandlerId, Message, Node,
    OpenError, Owner, Returned, Token, WINDOW, tag_of,
};
use am_c_runtime::NodeOwner;

use crate::arguments::LONGEST;
use crate::code::{Code, Failure};
use crate::handle::{self, Handle, Kind};
use crate::header::{HandlerFn, Header, REPLY, REQUEST, RETURNED_REPLY, RETURNED_REQUEST};
use crate::place::Place;
use crate::tasks::Tasks;
use crate::{current, environment, ids};

/// The endpoint of a task's node.
pub(crate) const ENDPOINT: &str = "pvmam";

/// How long a task waits for another one that connects, and for messages that were sent, unless the program says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// `am_info` of `pvmam.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Info {
    /// The number of this task; 0 for the process's number.
    pub tid: c_int,
    /// The most requests to a task that are under way; 0 for `PVMAM_DEPTH`, or the default.
    pub depth: c_int,
    /// How long calls wait for another task, in milliseconds; 0 for the default.
    pub timeout: c_int,
    /// How long a silent task is given, in milliseconds; 0 for the default.
    pub patience: c_int,
}

/// The settings of an interface.
struct Settings {
    tid: c_int,
    depth: Option<u16>,
    timeout: Duration,
    patience: Option<Duration>,
}

impl Settings {
    fn of(info: &Info) -> Result<Settings, Failure> {
        let negative = |what: &str, number: c_int| {
            Failure::argument(format!("`info->{what}` is {number}: it is not negative, and 0 stands for the default"))
        };
        let positive = |what: &str, number: c_int| match number {
            0 => Ok(None),
            1.. => Ok(Some(number)),
            _ => Err(negative(what, number)),
        };
        let tid = positive("tid", info.tid)?.unwrap_or_else(|| c_int::try_from(process::id()).unwrap_or(1));
        let depth = match positive("depth", info.depth)? {
            None => environment::depth().map_err(Failure::argument)?,
            given => given,
        };
        let wrong = |number: c_int| Failure::argument(format!("a depth of {number}: it is 1 to {WINDOW}"));
        let is_depth = |depth: &u16| (1..=WINDOW).contains(&usize::from(*depth));
        let depth = depth.map(|number| u16::try_from(number).ok().filter(is_depth).ok_or_else(|| wrong(number)));
        let time = |number: Option<c_int>| number.map(|number| Duration::from_millis(u64::from(number.unsigned_abs())));
        Ok(Settings {
            tid,
            depth: depth.transpose()?,
            timeout: time(positive("timeout", info.timeout)?).unwrap_or(TIMEOUT),
            patience: time(positive("patience", info.patience)?),
        })
    }
}

/// What handlers need of an interface.
pub(crate) struct Shared {
    pub(crate) handle: Handle,
    pub(crate) tasks: RefCell<Tasks>,
    /// Runs for messages that come back.
    pub(crate) returned: Cell<Option<HandlerFn>>,
}

type State = Rc<Shared>;

/// An interface of a thread.
pub(crate) struct Interface {
    // Before the node.
    pub(crate) endpoint: RefCell<Endpoint<State>>,
    pub(crate) shared: State,
    pub(crate) node: Node,
    pub(crate) place: Place,
    /// The address of this task, and its host: what the program gets.
    pub(crate) text: CString,
    pub(crate) host: CString,
    pub(crate) tid: c_int,
    pub(crate) timeout: Duration,
    /// The handlers that the endpoint knows, and the count of changes at which that was so.
    known: RefCell<(Vec<u8>, u64)>,
    owner: NodeOwner,
}

impl Drop for Interface {
    fn drop(&mut self) {
        handle::note_closed(self.shared.handle);
    }
}

/// Why an interface could not be opened.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{}", am_c_runtime::advice(.0))]
    Open(#[from] OpenError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

fn open_node(transport: &str, settings: &Settings) -> Result<Node, OpenError> {
    let mut builder = Node::builder(&format!("t{:x}", settings.tid)).unique_name().max_message(LONGEST);
    if let Some(depth) = settings.depth {
        builder = builder.window(depth);
    }
    if let Some(patience) = settings.patience {
        builder = builder.patience(patience);
    }
    // Where no switch can learn addresses, a question to the network would only take time.
    let builder = if environment::has_switch(transport) { builder } else { builder.framing(Framing::Plain) };
    builder.open(transport)
}

/// Open the first of the transports that can be opened. If none can be, the first error is the one to know.
fn open_first(transports: &[String], settings: &Settings) -> Result<Node, OpenError> {
    let mut node = open_node(transports.first().map_or("", String::as_str), settings);
    for transport in transports.iter().skip(1) {
        node = node.or_else(|error| open_node(transport, settings).map_err(|_| error));
    }
    node
}

impl Interface {
    /// Open an interface on this transport, or on the environment's.
    pub(crate) fn open(transport: Option<&str>, info: &Info) -> Result<Interface, Failure> {
        let settings = Settings::of(info)?;
        let transport = match transport.filter(|transport| !transport.is_empty()) {
            Some(transport) => transport.to_owned(),
            None => environment::transport().map_err(Failure::of(Code::Transport))?,
        };
        // Before the transport opens: a child may be forked meanwhile.
        let owner = Owner::new().map_err(Failure::of(Code::Transport))?;
        let opened = Interface::open_on(&environment::complete(&transport), &settings, owner);
        opened.map_err(Failure::of(Code::Transport))
    }

    fn open_on(transports: &[String], settings: &Settings, owner: Owner) -> Result<Interface, Error> {
        let node = open_first(transports, settings)?;
        let mut endpoint = node.endpoint_with_tag::<State>(ENDPOINT, tag_of([node.name()]))?;
        endpoint.on_connection(|shared, event| changed(shared, &event));
        endpoint.on_returned(|shared, returned| came_back(shared, &returned));
        endpoint.set_event_mask(Events::default() | Events::CAN_SEND);
        let own = environment::host();
        let transports = environment::for_others(&node.local_address());
        let place = Place::new(&own, node.name(), node.link_address(), transports);
        let shared = Rc::new(Shared {
            handle: Handle::new(Kind::Interface),
            tasks: RefCell::default(),
            returned: Cell::new(None),
        });
        handle::note_open(shared.handle);
        Ok(Interface {
            endpoint: RefCell::new(endpoint),
            text: CString::new(place.text()).unwrap_or_default(),
            host: CString::new(place.host.clone()).unwrap_or_default(),
            shared,
            node,
            place,
            tid: settings.tid,
            timeout: settings.timeout,
            known: RefCell::new((vec![], u64::MAX)),
            owner: NodeOwner::new(owner),
        })
    }

    /// Run `work` with the endpoint, which knows all handlers that messages can name.
    #[inline]
    pub(crate) fn with_endpoint<T>(&self, work: impl FnOnce(&mut Endpoint<State>, &mut State) -> T) -> T {
        let endpoint = &mut *self.endpoint.borrow_mut();
        if self.known.borrow().1 != ids::changes() {
            self.add_handlers(endpoint);
        }
        work(endpoint, &mut self.shared.clone())
    }

    #[cold]
    fn add_handlers(&self, endpoint: &mut Endpoint<State>) {
        let (known, changes) = &mut *self.known.borrow_mut();
        *changes = ids::changes();
        for id in ids::handlers() {
            if !known.contains(&id) {
                let handler = HandlerId(id);
                endpoint.on_request(handler, |shared, request| arrived(shared, &request.message, Some(request.token)));
                endpoint.on_reply(handler, |shared, reply| arrived(shared, &reply, None));
                known.push(id);
            }
        }
    }

    /// Whether the program has closed descriptors of the library.
    #[cold]
    pub(crate) fn is_lost(&self) -> bool {
        self.owner.is_lost()
    }

    /// The words of a message of this task.
    #[inline]
    pub(crate) fn words(&self) -> [u64; 1] {
        [u64::from(self.tid.unsigned_abs())]
    }

    /// The text of a failure to reach a task, with what keeps this node from its peers.
    #[cold]
    pub(crate) fn explain(&self, mut failure: Failure) -> Failure {
        if matches!(failure.code, Code::Unreachable | Code::Timeout) {
            failure.text = self.node.explain(&failure.text);
        }
        failure
    }
}

/// The task at the other side of a message's connection: its tid in the list, or else the one that it has given itself.
#[inline]
fn task_of(shared: &Shared, message: &Message<'_, State>) -> c_int {
    let listed = shared.tasks.borrow().tid(message.from());
    listed.unwrap_or_else(|| c_int::try_from(message.word(0)).unwrap_or(0))
}

/// A message has arrived: run its handler.
#[inline]
fn arrived(shared: &Shared, message: &Message<'_, State>, token: Option<Token>) {
    let id = message.handler().0;
    // It had one when this function was set for it, and keeps one as long as the interface is open.
    let Some(run) = ids::handler(id) else { return };
    let header = Header {
        from_task: task_of(shared, message),
        kind: if token.is_some() { REQUEST } else { REPLY },
        handler: id.into(),
        total_length: message.payload().len(),
    };
    current::run(run, shared.handle, &header, message.payload(), token);
}

/// A message of this task has come back.
#[cold]
fn came_back(shared: &Shared, returned: &Returned<'_, State>) {
    let Some(run) = shared.returned.get() else { return };
    let message = &returned.message;
    let header = Header {
        // The message has this task's own tid.
        from_task: shared.tasks.borrow().tid(returned.to()).unwrap_or(0),
        kind: if returned.class() == Class::Request { RETURNED_REQUEST } else { RETURNED_REPLY },
        handler: message.handler().0.into(),
        total_length: message.payload().len(),
    };
    current::run(run, shared.handle, &header, message.payload(), None);
}

/// A connection has changed.
#[cold]
fn changed(shared: &Shared, event: &ConnectionEvent<'_, State>) {
    let mut tasks = shared.tasks.borrow_mut();
    match event.change {
        ConnectionChange::Accepted => tasks.accepted(event.connection, event.peer.node.as_str()),
        ConnectionChange::Ended(_) if tasks.ended(event.connection) => {
            drop(tasks);
            event.endpoint.close(event.connection);
        }
        ConnectionChange::Opened | ConnectionChange::Failed(_) | ConnectionChange::Ended(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind of transport is available to C programs.
    #[test]
    fn every_kind_is_known() {
        for kind in am_api::transports::kinds() {
            // A setting that none has: the kind itself has to refuse it.
            let name = format!("{},no-such-setting=1", kind.example);
            let failure = Interface::open(Some(&name), &Info::default()).err().expect(kind.scheme);
            assert!(failure.code == Code::Transport && failure.text.contains("no-such-setting"), "{}", failure.text);
        }
    }
}
