//! One of many nodes, each of which asks all others and answers them. It connects to each member that joins.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use am_api::MemberChange;

use super::book;
use super::client::Lane;
use super::peer::Peer;
use super::process::{Leave, Place, open};
use crate::Error;

/// Requests of one connection that are neither answered nor back.
const MAX_OPEN: u32 = 4;
/// After this many requests a connection is closed and another one opened.
const REQUESTS: u32 = 2000;
const TURN: Duration = Duration::from_millis(2);

/// Ask and answer until told to leave.
///
/// Beside the book is a file of the changes of members. Each line has a time, a node's name, and 1 for joined or 0 for left. The first
/// line is the start of the process.
pub(super) fn run(place: &Place, leave: &Leave) -> Result<(), Error> {
    let (mut peer, mut members) = (Peer::new(place)?, File::create(place.book.with_extension("members"))?);
    let mut note = |name: &str, is_member: bool| {
        members.write_all(format!("{} {name} {}\n", book::now(), u8::from(is_member)).as_bytes())
    };
    let Some(node) = open(place, leave)? else { return Ok(()) };
    // The connection to each member.
    let mut lanes = BTreeMap::<String, Lane>::new();
    note(&place.name, true)?;
    let mut endpoint = Peer::endpoint(&node)?;
    endpoint.on_members(|peer, event| peer.members.push((event.member.peer.name.to_string(), event.change)));
    while !leave.load(Relaxed) {
        for (name, lane) in &mut lanes {
            if !lane.step(&endpoint, &mut peer) {
                *lane = Lane::connect(&endpoint, name, REQUESTS, MAX_OPEN)?;
            }
        }
        endpoint.wait(&mut peer, TURN);
        for (name, change) in peer.members.drain(..) {
            match change {
                MemberChange::Joined => {
                    note(&name, true)?;
                    let lane = Lane::connect(&endpoint, &name, REQUESTS, MAX_OPEN)?;
                    lanes.entry(name).or_insert(lane);
                }
                MemberChange::Left(_) => {
                    note(&name, false)?;
                    // An open connection ends when its node has lost patience.
                    lanes.remove(&name);
                }
                MemberChange::Changed => {}
            }
        }
    }
    peer.leave();
    Ok(())
}
