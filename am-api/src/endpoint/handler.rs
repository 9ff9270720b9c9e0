//! Handlers: the functions that an endpoint runs for messages and events.

use derive_where::derive_where;

use crate::{
    ConnectionEvent, Destination, GroupMessage, HandlerId, LongHead, MemberEvent, Message, Outcome, Request, Returned,
    Transfer,
};

type OnRequest<S> = Box<dyn FnMut(&mut S, Request<'_, S>)>;
type OnMessage<S> = Box<dyn FnMut(&mut S, Message<'_, S>)>;
type OnReturned<S> = Box<dyn FnMut(&mut S, Returned<'_, S>)>;
type OnTransfer<S> = Box<dyn FnMut(&mut S, Transfer<'_, S>)>;
type OnOutcome<S> = Box<dyn FnMut(&mut S, Outcome<'_, S>)>;
type OnConnection<S> = Box<dyn FnMut(&mut S, ConnectionEvent<'_, S>)>;
type Into<S> = Box<dyn FnMut(&mut S, &LongHead<'_>) -> Option<Destination>>;
type OnMembers<S> = Box<dyn FnMut(&mut S, MemberEvent<'_, S>)>;
type OnGroup<S> = Box<dyn FnMut(&mut S, GroupMessage<'_, S>)>;

/// The handlers of an endpoint. They are boxed at set-up, so running one does not allocate.
#[derive_where(Default)]
pub(crate) struct Handlers<S> {
    pub(crate) requests: Table<OnRequest<S>>,
    pub(crate) replies: Table<OnMessage<S>>,
    /// For the outcomes of calls, except answers, which are replies.
    pub(crate) outcomes: Table<OnOutcome<S>>,
    pub(crate) unhandled: Option<OnMessage<S>>,
    pub(crate) returned: Option<OnReturned<S>>,
    pub(crate) connection: Option<OnConnection<S>>,
    pub(crate) transfer: Option<OnTransfer<S>>,
    /// Where the payloads of long messages go.
    pub(crate) into: Option<Into<S>>,
    pub(crate) members: Option<OnMembers<S>>,
    pub(crate) group: Option<OnGroup<S>>,
}

/// Functions by [`HandlerId`]. The table is as long as the largest index in use requires.
#[derive_where(Default)]
pub(crate) struct Table<F>(Vec<Option<F>>);

impl<F> Table<F> {
    pub(crate) fn set(&mut self, at: HandlerId, handler: F) {
        let at = at.0 as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at] = Some(handler);
    }

    #[inline]
    pub(crate) fn get(&mut self, at: HandlerId) -> Option<&mut F> {
        self.0.get_mut(at.0 as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_finds_what_was_set_last_and_nothing_else() {
        let mut table = Table::default();
        table.set(HandlerId(3), 'a');
        table.set(HandlerId(255), 'b');
        table.set(HandlerId(3), 'c');
        assert_eq!(table.get(HandlerId(3)), Some(&mut 'c'));
        assert_eq!(table.get(HandlerId(255)), Some(&mut 'b'));
        assert_eq!(table.get(HandlerId(4)), None);
    }
}
