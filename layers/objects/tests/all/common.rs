//! Object types, and spaces of several processes in one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use am_api::Node;
use am_objects::codec::Decode;
use am_objects::{Builder, Call, CallError, Settings, Shared, Space, Wire, object};

pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A queue.
#[derive(Debug, Default, PartialEq, Wire)]
pub(crate) struct Jobs {
    pub(crate) items: VecDeque<u64>,
    pub(crate) popped: u64,
}

#[object]
impl Jobs {
    #[read]
    pub(crate) fn len(&self) -> u64 {
        self.items.len() as u64
    }

    #[read]
    pub(crate) fn all(&self) -> Vec<u64> {
        self.items.iter().copied().collect()
    }

    #[read]
    pub(crate) fn popped(&self) -> u64 {
        self.popped
    }

    #[write]
    pub(crate) fn push(&mut self, item: u64) {
        self.items.push_back(item);
    }

    #[write]
    #[guard(!self.items.is_empty())]
    pub(crate) fn pop(&mut self) -> u64 {
        self.popped += 1;
        self.items.pop_front().unwrap_or_default()
    }

    /// Waits until this item is there.
    #[write]
    #[guard(self.items.contains(&item))]
    pub(crate) fn take(&mut self, item: u64) -> bool {
        self.items.retain(|other| *other != item);
        true
    }

    #[write]
    pub(crate) fn take_if_there(&mut self, item: u64) -> bool {
        let count = self.items.len();
        self.items.retain(|other| *other != item);
        self.items.len() < count
    }

    #[write]
    pub(crate) fn fail(&mut self, why: &str) {
        self.popped += 1;
        panic!("{why}");
    }
}

/// Two lists, of which one goes first.
#[derive(Default, Wire)]
pub(crate) struct Desk {
    urgent: Vec<String>,
    others: Vec<String>,
}

#[object]
impl Desk {
    #[write]
    pub(crate) fn put(&mut self, what: &str, is_urgent: bool) {
        let list = if is_urgent { &mut self.urgent } else { &mut self.others };
        list.push(what.into());
    }

    /// All that was urgent.
    #[write]
    pub(crate) fn clear(&mut self) -> Vec<String> {
        std::mem::take(&mut self.urgent)
    }

    #[write]
    pub(crate) fn next(&mut self) -> String {
        when! {
            !self.urgent.is_empty() => self.urgent.remove(0),
            !self.others.is_empty() => self.others.remove(0),
        }
    }
}

pub(crate) fn node(name: &str, on: &str) -> Node {
    Node::open(name, on).unwrap_or_else(|error| panic!("{error}"))
}

/// A process that is silent for this time is put out: long, because the machine may be busy.
fn builder(node: &Node, patience: Duration) -> Builder<'_> {
    let settings = Settings { patience, ..Settings::default() };
    Space::builder(node).object::<Jobs>().object::<Desk>().settings(settings)
}

pub(crate) fn founds(node: &Node) -> Space {
    builder(node, LONG).found("lab").expect("a name")
}

pub(crate) fn joins(node: &Node, contact: &str) -> Space {
    builder(node, LONG).join("lab", &[contact]).expect("a name")
}

/// Poll all until it is so.
pub(crate) fn until(spaces: &mut [Space], mut wanted: impl FnMut(&[Space]) -> bool) {
    let end = Instant::now() + LONG;
    while !wanted(spaces) {
        assert!(Instant::now() < end, "{:?}", spaces.iter().map(|space| space.view().clone()).collect::<Vec<_>>());
        spaces.iter_mut().for_each(|space| _ = space.poll());
    }
}

/// This number of processes, and the queue `jobs` at each.
pub(crate) fn jobs(count: usize, on: &str) -> (Vec<Space>, Vec<Shared<Jobs>>) {
    jobs_with(count, on, LONG)
}

/// The same. Those that are silent for this time are put out.
pub(crate) fn jobs_with(count: usize, on: &str, patience: Duration) -> (Vec<Space>, Vec<Shared<Jobs>>) {
    jobs_at((0..count).map(|number| node(&format!("m{number}"), on)).collect(), patience)
}

/// The same at these nodes, which are `m0` and so on.
pub(crate) fn jobs_at(nodes: Vec<Node>, patience: Duration) -> (Vec<Space>, Vec<Shared<Jobs>>) {
    let mut spaces = vec![builder(&nodes[0], patience).found("lab").expect("a name")];
    let first = spaces[0].create("jobs", &Jobs::default()).expect("alone it is a majority");
    spaces.extend(nodes[1..].iter().map(|node| builder(node, patience).join("lab", &["m0"]).expect("a name")));
    let count = nodes.len();
    until(&mut spaces, |spaces| spaces.iter().all(|space| space.view().members.len() == count && space.is_primary()));
    let others = spaces[1..].iter().map(|space| space.open("jobs").expect("it came with the state").expect("its type"));
    let shared = std::iter::once(first).chain(others).collect();
    (spaces, shared)
}

/// Poll all until the call has its result.
pub(crate) fn result<R: for<'a> Decode<'a>>(spaces: &mut [Space], call: Call<R>) -> Result<R, CallError> {
    let (mut call, mut result) = (Some(call), None);
    until(spaces, |_| {
        match call.take().map(Call::now) {
            Some(Ok(done)) => result = Some(done),
            Some(Err(again)) => call = Some(again),
            None => (),
        }
        result.is_some()
    });
    result.expect("it is there")
}
