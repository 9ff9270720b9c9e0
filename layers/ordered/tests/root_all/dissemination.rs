//! Ways of stamped messages to the members besides one multicast of the sequencer: copies on a bridge that forwards no multicast, and numbers that
//! senders fetch. By the program while the sequencer's process does nothing, and by the process.

use am_ordered::{Dissemination, Settings};

use crate::{MEMBERS, MESSAGES, Seen, of_a_group};

const ALL: u64 = (MESSAGES * (MEMBERS - 1)) as u64;

fn members(dissemination: Dissemination, stamp_in_process: bool, forwards: bool) -> Vec<Seen> {
    let (seen, is_program) = of_a_group(
        "xdp:am0,attach=native",
        Settings { dissemination, stamp_in_process, ..Settings::default() },
        forwards,
    );
    for member in &seen {
        println!("{} stamped, {:?}", member.stamped, member.counters);
    }
    let stamped = seen[0].stamped;
    assert!(is_program == !stamp_in_process && is_program == (stamped >= ALL), "{is_program}, {stamped} stamped");
    assert!(seen.iter().all(|member| member.counters.protocol.repaired < ALL / 20), "hardly any is lost");
    seen
}

#[test]
fn the_program_sends_copies_where_the_bridge_forwards_no_multicast() {
    members(Dissemination::Copies, false, false);
}

#[test]
fn the_process_sends_copies_where_the_bridge_forwards_no_multicast() {
    members(Dissemination::Copies, true, false);
}

#[test]
fn senders_fetch_numbers_of_the_program() {
    members(Dissemination::Fetch, false, true);
}

#[test]
fn senders_fetch_numbers_of_the_process() {
    members(Dissemination::Fetch, true, true);
}
