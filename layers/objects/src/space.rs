//! A space of objects, as a process of it has it.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use am_api::{EndpointError, Idle, Node, NodeWaker};
use am_base::{LONGEST, end_of};
use am_ordered::{Ended, Event, Group, Level, MemberId, MessageId, SendError, Settings, View};
use am_rpc::RpcError;
use am_rpc::codec::to_vec;

use crate::ask::Ask;
use crate::call::Call;
use crate::calls::Calls;
use crate::command::{Command, NewObject};
use crate::courier::{Answers, Courier, Heard, NoAnswer, Order};
use crate::error::CallError;
use crate::file;
use crate::homes::Homes;
use crate::inbox::Inbox;
use crate::object::{Object, schema_of};
use crate::placement::{Home, Wanted};
use crate::replica::Type;
use crate::shared::Shared;
use crate::slot::Slot;
use crate::table::{Shelf, Table};

/// The longest sleep while a future is waited for: its waker ends it earlier.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// Events that are kept until the program takes them.
const MOST_EVENTS: usize = 1024;

/// Objects that several processes share, by their names. A process founds it, others join.
///
/// Everything happens in the calls that [poll](Space::poll), on the thread that calls them. Other threads have [`Shared`] objects, whose reads need
/// nothing of that thread, and whose writes wake it.
pub struct Space {
    net: Net,
    table: Rc<RefCell<Table>>,
    courier: Courier,
    events: Rc<RefCell<Vec<Event>>>,
    waker: NodeWaker,
    /// It lacks a type, or has got objects that make no sense.
    is_leaving: bool,
}

/// The order of the space's messages, and the processes that keep objects.
struct Net {
    group: Group<Shelf>,
    homes: Homes,
}

/// Where an object is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement<'a> {
    /// A copy at each process: reads cost no message, a write runs at every process.
    Replicated,
    /// One copy, at the process on the node of this name: operations of other processes are calls of that process. If it crashes, the object is
    /// lost ([`CallError::Lost`]).
    At(&'a str),
    /// Begin with a copy at each process, and follow the use: to the process that uses the object most, when few others do, or back. All processes come to the same
    /// verdict at the same message of their order. It is kept at one process at times, and may be lost then.
    Adaptive,
}

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed<'a> {
    /// A copy at each process.
    Replicated,
    /// One copy, at the process on the node of this name.
    At(&'a str),
    /// The process that kept it is gone.
    Lost,
}

/// How a space is opened.
pub struct Builder<'a> {
    node: &'a Node,
    types: Vec<Type>,
    settings: Settings,
    level: Level,
    patience: Duration,
    saved: Option<PathBuf>,
}

/// Why a space is not open.
#[derive(thiserror::Error)]
pub enum OpenError {
    /// See the cause.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// See the cause.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The file cannot be read.
    #[error("the saved objects in {path} cannot be read: {why}")]
    NotRead {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// The file was not written by [`Space::save`], or by another version of it, or was changed since.
    #[error("{path} has no saved objects, damaged ones, or those of another version of this library")]
    NotSaved {
        /// The file.
        path: PathBuf,
    },
    /// An object in the file has a type that was not named.
    #[error(
        "{path} has an object whose type this program does not know, or has another version of: name all types with `Builder::object`"
    )]
    TypeUnknown {
        /// The file.
        path: PathBuf,
    },
    /// The process has no descriptor left, by which threads wake the one that polls.
    #[error("threads could not wake the one that polls the space: {0}; raise `ulimit -n`")]
    Waker(#[from] io::Error),
}

am_api::debug_as_display!(OpenError);

/// A process that the others did not let go in time.
#[derive(thiserror::Error)]
#[error("the space has not let this process go: no majority of its processes answers, or they do not poll")]
pub struct NotLeft;

am_api::debug_as_display!(NotLeft);

impl Builder<'_> {
    /// Objects of this type may be in the space. All processes name all types.
    #[must_use]
    pub fn object<T: Object>(mut self) -> Self {
        self.types.push(Type::of::<T>());
        self
    }

    /// The bounds of the space's [group](am_ordered::Group).
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// When a write runs: `Safe`, which is the default, when no crash of a minority undoes it; `Agreed` sooner.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// How long a call waits. A write that has had no place in the order for this time ends as [`CallError::Unknown`]; a read of an object that another process keeps,
    /// or a latest one, ends as [`CallError::NotRun`] if it has had no answer. 10 s by default. How long the others wait for a silent process is [`Settings::patience`].
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience.min(LONGEST);
        self
    }

    /// A space that is [founded](Builder::found) begins with the objects that [`Space::save`] has written to this file. One that is joined has those of
    /// the others.
    #[must_use]
    pub fn saved(mut self, path: impl Into<PathBuf>) -> Self {
        self.saved = Some(path.into());
        self
    }

    /// Found a space: this process is its only one, until others [join](Builder::join).
    ///
    /// Two processes that both found have two separate spaces of one name, each with its own objects, and neither hears of the other. So one process founds, and which
    /// one it is has to be decided outside: by the configuration, say. A process that may be the first or not, joins by its contacts, and waits for [`Space::is_primary`]; it does
    /// not found because none has answered for some time, as they may only be slow.
    ///
    /// # Errors
    /// The node cannot have an endpoint of this name, or no waker; the file of saved objects cannot be read.
    pub fn found(self, name: &str) -> Result<Space, OpenError> {
        let path = self.saved.clone();
        let state = path.map(|path| match file::read(&path) {
            Ok(Some(state)) => Ok((path, state)),
            Ok(None) => Err(OpenError::NotSaved { path }),
            Err(why) => Err(OpenError::NotRead { path, why }),
        });
        self.open(name, state.transpose()?, |node, settings, table| Group::found(node, name, settings, table))
    }

    /// A process more, by processes that may be in the space.
    ///
    /// # Errors
    /// As for [`found`](Builder::found).
    pub fn join(self, name: &str, contacts: &[impl AsRef<str>]) -> Result<Space, OpenError> {
        self.open(name, None, |node, settings, table| Group::join(node, name, contacts, settings, table))
    }

    /// Found a space, or join it by a contact, in a simulation: as a member of the caller's choice, so that each run is the same. No other
    /// process may ever be this one.
    #[doc(hidden)]
    pub fn simulated(self, name: &str, member: u64, contact: Option<&str>) -> Result<Space, OpenError> {
        let me = (MemberId(member), contact);
        self.open(name, None, |node, settings, table| Group::simulated(node, name, me, settings, table))
    }

    fn open(
        self,
        name: &str,
        saved: Option<(PathBuf, Vec<u8>)>,
        group: impl FnOnce(&Node, Settings, Shelf) -> Result<Group<Shelf>, EndpointError>,
    ) -> Result<Space, OpenError> {
        let waker = self.node.waker()?;
        let inbox = Arc::new(Inbox::new(waker.clone()));
        let mut table = Table::new(self.types, Calls::new(inbox.clone()));
        if let Some((path, state)) = saved {
            table.objects.begin_with(&state).map_err(|why| match why {
                CallError::TypeUnknown => OpenError::TypeUnknown { path },
                _ => OpenError::NotSaved { path },
            })?;
        }
        let (events, me, table) = (table.events.clone(), table.objects.me.clone(), Rc::new(RefCell::new(table)));
        let group = group(self.node, self.settings, Shelf(table.clone()))?;
        me.set(group.me().0);
        let homes = Homes::open(self.node, name, table.clone())?;
        let courier = Courier::new(table.clone(), inbox, self.level, self.patience);
        let net = Net { group, homes };
        Ok(Space { net, table, courier, events, waker, is_leaving: false })
    }
}

/// Ends a wait of the thread that polls.
struct Alarm(NodeWaker);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

impl Space {
    /// Open a space on this node.
    pub fn builder(node: &Node) -> Builder<'_> {
        let (types, settings, level) = (vec![], Settings::default(), Level::Safe);
        Builder { node, types, settings, level, patience: Duration::from_secs(10), saved: None }
    }

    /// The object of this name, which is created if there is none, with this value: a copy at each process.
    ///
    /// # Errors
    /// See [`CallError`]: it is [`CallError::Unknown`] after the space's patience.
    pub fn create<T: Object>(&mut self, name: &str, value: &T) -> Result<Shared<T>, CallError> {
        self.create_at(name, value, Placement::Replicated)
    }

    /// The same, in this place. One that is there already stays where it is.
    ///
    /// # Errors
    /// The same, or [`CallError::NoSuchProcess`].
    pub fn create_at<T: Object>(
        &mut self,
        name: &str,
        value: &T,
        placement: Placement<'_>,
    ) -> Result<Shared<T>, CallError> {
        if !self.table.borrow().objects.knows::<T>() {
            // The processes that lack the type would leave the space: the others hear of no such object.
            return self.open::<T>(name).unwrap_or(Err(CallError::TypeUnknown));
        }
        if matches!(placement, Placement::At(_)) {
            // One that joins does not know yet who is there.
            self.wait_until(self.courier.patience, |space| !space.view().members.is_empty() || space.ended().is_some());
        }
        let (to, state) = (self.wanted(placement)?, to_vec(value).map_err(|_| CallError::Malformed)?);
        let new = NewObject { name, of: T::NAME, schema: schema_of::<T>(), state: &state, to };
        let created = self.command::<u64>(|call| Command::Create { call, new });
        self.block_on(created)?;
        self.open(name).unwrap_or(Err(CallError::Unknown))
    }

    /// Have an object elsewhere. The call is done once it is there. Operations that are under way run once, before that or after it; writes that wait for their
    /// guards wait there.
    pub fn place<T: Object>(&mut self, object: &Shared<T>, placement: Placement<'_>) -> Call<()> {
        if !self.has(object) {
            return Call::ready(Err(CallError::OtherSpace));
        }
        match self.wanted(placement) {
            Ok(to) => self.place_number(object.number(), to),
            Err(why) => Call::ready(Err(why)),
        }
    }

    /// Where an object is, as far as this process knows. One of another space is [`Placed::Lost`].
    pub fn placed<T: Object>(&self, object: &Shared<T>) -> Placed<'_> {
        let home = if self.has(object) { self.table.borrow().objects.home(object.number()) } else { Home::Lost };
        match home {
            Home::Everywhere => Placed::Replicated,
            Home::At { process, .. } => {
                let home = self.view().members.iter().find(|member| member.id.0 == process);
                home.map_or(Placed::Lost, |member| Placed::At(&member.name))
            }
            Home::Lost => Placed::Lost,
        }
    }

    /// Whether the object is of this space: another one may have one of its number.
    fn has<T: Object>(&self, object: &Shared<T>) -> bool {
        object.is_of(&self.courier.inbox)
    }

    fn wanted(&self, placement: Placement<'_>) -> Result<Wanted, CallError> {
        Ok(match placement {
            Placement::Replicated => Wanted::Everywhere,
            Placement::Adaptive => Wanted::AsUsed,
            Placement::At(node) => {
                let home = self.view().members.iter().find(|member| member.name == node);
                Wanted::At(home.ok_or(CallError::NoSuchProcess)?.id.0)
            }
        })
    }

    fn place_number(&mut self, object: u64, to: Wanted) -> Call<()> {
        self.command(|call| Command::Place { call, object, to })
    }

    fn command<'c, R>(&mut self, command: impl FnOnce(u64) -> Command<'c>) -> Call<R> {
        let failed = self.table.borrow().objects.failed;
        if let Some(why) = failed {
            return Call::ready(Err(why));
        }
        let slot = Arc::new(Slot::default());
        let call = self.courier.begin(slot.clone());
        self.courier.send(&mut self.net, Some(call), &command(call));
        Call::pending(slot, self.courier.inbox.clone(), false)
    }

    /// The object of this name. `None` if there is none here yet.
    ///
    /// # Errors
    /// [`CallError::TypeDiffers`].
    pub fn open<T: Object>(&self, name: &str) -> Option<Result<Shared<T>, CallError>> {
        let found = self.table.borrow().objects.find(name)?;
        Some(found.map(|(object, replica)| Shared::new(replica, object, self.courier.inbox.clone())))
    }

    /// Do what has to be done. Returns how much was.
    pub fn poll(&mut self) -> usize {
        self.turn(Duration::ZERO)
    }

    /// Poll until something was done, or the time is over. Meanwhile this thread may sleep; other threads' writes wake it.
    pub fn wait(&mut self, timeout: Duration) -> usize {
        let end = end_of(timeout);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let done = self.turn(left);
            if done > 0 || left.is_zero() {
                return done;
            }
        }
    }

    /// How a wait of this process's thread waits: it spins, yields, or sleeps at once.
    pub fn set_idle(&mut self, idle: Idle) {
        self.net.group.set_idle(idle);
    }

    pub(crate) fn waker(&self) -> &NodeWaker {
        &self.waker
    }

    /// Whether another thread waits for a call.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.courier.inbox.waiters.any()
    }

    /// Poll. If there was nothing to do, sleep once, for this time at most.
    pub(crate) fn turn(&mut self, longest: Duration) -> usize {
        let sent = self.courier.send_wishes(&mut self.net);
        let longest = if sent > 0 { Duration::ZERO } else { longest };
        let done = sent + self.net.group.turn(longest);
        let Homes { rpc, .. } = &mut self.net.homes;
        // The group's turn has received for both.
        let called = if rpc.has_work() { rpc.handle() } else { 0 };
        done + called + self.go_on()
    }

    /// Poll until this future is ready: a [`Call`](crate::Call), or a block that awaits several. A call ends by itself; what waits for a guard ends once
    /// the guard holds.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        self.block_on_until(future, None).expect("without an end it is waited for")
    }

    /// The same, for this time at most. `None`: it was not ready, and is dropped. A write that waits for its guard is taken back then.
    pub fn block_on_for<F: Future>(&mut self, future: F, timeout: Duration) -> Option<F::Output> {
        self.block_on_until(future, Some(end_of(timeout)))
    }

    fn block_on_until<F: Future>(&mut self, future: F, end: Option<Instant>) -> Option<F::Output> {
        let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Alarm(self.waker.clone()))));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(output);
            }
            let left = end.map_or(LONGEST_SLEEP, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            self.turn(left.min(LONGEST_SLEEP));
        }
    }

    /// Poll until this holds, or the time is over. Returns whether it holds.
    pub fn wait_until(&mut self, timeout: Duration, mut holds: impl FnMut(&Space) -> bool) -> bool {
        let end = end_of(timeout);
        while !holds(self) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.wait(left);
        }
        true
    }

    /// What has happened to the space since the last call, the oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.events.take()
    }

    /// The processes of the space.
    pub fn view(&self) -> &View {
        self.net.group.view()
    }

    /// Whether this process is with a majority of the others. Without it no write runs, and reads may be old.
    pub fn is_primary(&self) -> bool {
        self.net.group.is_primary()
    }

    /// Why this process is not in the space any more.
    pub fn ended(&self) -> Option<Ended> {
        self.net.group.ended()
    }

    /// What is wrong, and what to do.
    pub fn health(&self) -> Option<String> {
        let table = self.table.borrow();
        let failed = table.objects.failed.map(|why| why.to_string());
        let difference = table.difference.as_ref().map(ToString::to_string);
        let lost = || {
            let name = table.objects.lost()?;
            Some(format!("the object `{name}` is lost with the process that kept it: create it again"))
        };
        failed.or(difference).or_else(lost).or_else(|| self.net.group.health())
    }

    /// Calls of this process that have left, and have no result yet.
    pub fn waiting(&self) -> usize {
        self.courier.calls.borrow().len()
    }

    /// Write all objects to a file, as they are here now, for [`Builder::saved`]. The file is there whole, or as it was.
    ///
    /// # Errors
    /// The system's; another process keeps an object; this process does not have the space's objects; or the `Encode` of an object's type fails.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        file::write(path.as_ref(), &self.saved_state()?)
    }

    fn saved_state(&self) -> io::Result<Vec<u8>> {
        let table = self.table.borrow();
        if let Some(why) = table.objects.failed {
            return Err(io::Error::other(why));
        }
        if self.view().members.is_empty() {
            return Err(io::Error::other(
                "this process has not joined, and has no objects: wait for `Space::is_primary`",
            ));
        }
        if let Some(name) = table.objects.kept_elsewhere() {
            return Err(io::Error::other(format!(
                "another process keeps the object `{name}`: have a copy here first, by `Space::place`"
            )));
        }
        table.objects.state().map_err(io::Error::other)
    }

    /// Leave the space. Writes that wait for a guard end as [`CallError::Unknown`]: the guard may hold before all have heard of it. What this process keeps goes to another one.
    ///
    /// # Errors
    /// The others have not let this process go in time.
    pub fn leave(mut self, timeout: Duration) -> Result<(), NotLeft> {
        let end = end_of(timeout);
        let me = self.net.group.me();
        let kept = self.table.borrow().objects.kept();
        for object in kept.into_iter().filter(|_| self.is_primary()).collect::<Vec<_>>() {
            let next = self.view().ids().find(|id| *id != me);
            if let Some(next) = next {
                let placed = self.place_number(object, Wanted::At(next.0));
                // One whose value is too long for a message is lost.
                self.block_on_for(placed, end.saturating_duration_since(Instant::now()));
            }
        }
        self.courier.send_wishes(&mut self.net);
        let left = self.net.group.leave(end.saturating_duration_since(Instant::now())).map(drop).map_err(|_| NotLeft);
        self.courier.calls.borrow_mut().end_all(CallError::Ended);
        self.courier.inbox.close(&Err(CallError::Ended));
        left
    }

    /// What follows from the messages that have arrived.
    fn go_on(&mut self) -> usize {
        let mut events = self.events.borrow_mut();
        let excess = events.len().saturating_sub(MOST_EVENTS);
        events.drain(..excess);
        drop(events);
        let done = self.courier.go_on(&mut self.net);
        // Nothing runs here any more, so this process must not give its objects to others, nor keep some.
        if self.table.borrow().objects.failed.is_some() && !self.is_leaving {
            self.is_leaving = true;
            self.net.group.begin_leave();
        }
        done
    }
}

impl Order for Net {
    fn send(&mut self, level: Level, bytes: &[u8]) -> Result<u64, SendError> {
        self.group.send(level, bytes).map(MessageId::number)
    }

    fn catch_up(&mut self, level: Level) -> u64 {
        self.group.catch_up(level)
    }

    fn me(&self) -> MemberId {
        self.group.me()
    }

    fn view(&self) -> &View {
        self.group.view()
    }

    fn has_ended(&self) -> bool {
        self.group.ended().is_some()
    }

    fn is_primary(&self) -> bool {
        self.group.is_primary()
    }

    fn max_command(&self) -> usize {
        self.group.max_payload()
    }

    fn ask(&mut self, to: MemberId, ask: &Ask<'_>, answers: &Answers) {
        let home = self.group.view().members.iter().find(|member| member.id == to);
        match home {
            Some(member) => self.homes.ask(&member.name, ask, answers),
            // The view is newer than the order's last message here. The message that says what is lost comes.
            None => answers.borrow_mut().push_back(Heard::of(ask, Err(NoAnswer::NotRun))),
        }
    }
}
