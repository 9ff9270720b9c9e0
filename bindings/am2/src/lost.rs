//! Connections that ended, with gets that have no answer.

use am_api::{Connection, Events};

use crate::code::Status;
use crate::endpoint::{Ep, Lost, PendingGet};
use crate::undelivered::on_error;

/// Polls that handle whatever had arrived: more than a node has frames for, 64 a poll.
const POLLS: u32 = 128;

/// A connection has ended. What came by it is handled before its gets come back.
pub(crate) fn note(ep: &Ep, connection: Connection, why: Status) {
    ep.lost.borrow_mut().push(Lost { connection, why, polls: POLLS });
    ep.note_work();
}

/// The gets that were sent by connections which have ended, and whose answers did not come before, come back.
pub(crate) fn end_gets(ep: &Ep) {
    if ep.lost.borrow().is_empty() {
        return;
    }
    let is_drained = !ep.endpoint.borrow().pending_events().contains(Events::MESSAGES);
    let mut over = vec![];
    ep.lost.borrow_mut().retain_mut(|lost| {
        lost.polls -= 1;
        let stays = !is_drained && lost.polls > 0;
        over.extend((!stays).then_some(*lost));
        stays
    });
    for Lost { connection, why, .. } in over {
        ep.forget(connection);
        let of_it = |get: &&PendingGet| get.connection == Some(connection);
        let gets: Vec<_> = ep.gets.borrow().values().filter(of_it).map(|get| (get.header, get.index)).collect();
        gets.iter().for_each(|(header, index)| on_error(ep, why, header, 0, *index, false));
    }
}
