//! What is wrong with a member, as a text that says what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use am_ordered_core::{Core, Dissemination, MemberId};

use crate::frames::Frames;
use crate::links::Links;

/// A process that does not answer for this time is named.
const LATE: Duration = Duration::from_secs(1);
/// With fewer repaired messages than this the way of the frames is not judged.
const MANY: u64 = 100;

/// What is looked at.
pub(crate) struct Health<'a> {
    pub(crate) core: &'a Core,
    /// The nodes of processes that the core may not know as members.
    pub(crate) nodes: &'a BTreeMap<MemberId, String>,
    pub(crate) frames: Option<&'a Frames>,
    pub(crate) links: &'a Links,
    pub(crate) contacts: &'a [String],
    pub(crate) opened_at: Duration,
    pub(crate) has_ended: bool,
    pub(crate) now: Duration,
}

impl Health<'_> {
    /// What is wrong, the worst first.
    pub(crate) fn trouble(&self) -> Option<String> {
        let member = || self.refused_part().or_else(|| self.namesakes()).or_else(|| self.apart());
        self.too_slow_to_join().or_else(member).or_else(|| self.unheard()).or_else(|| self.frames_are_lost())
    }

    fn is_joining(&self) -> bool {
        self.core.view().members.is_empty() && !self.has_ended
    }

    fn name(&self, id: MemberId) -> Option<&str> {
        self.core.member(id).map(|member| &member.name).or_else(|| self.nodes.get(&id)).map(String::as_str)
    }

    /// The processes that this member could not give its state.
    fn too_slow_to_join(&self) -> Option<String> {
        let late: Vec<&str> = self.core.late_joiners().filter_map(|id| self.name(id)).collect();
        (!late.is_empty()).then(|| {
            format!(
                "cannot join: {}. The messages of the group came faster than it took them with the state: the group has waited for it as long as for a slow \
                 member, or more waited than may (256 MiB, or 1,048,576). It tries again. Let the members send more slowly, or the process run on a faster network",
                late.join(", ")
            )
        })
    }

    /// A state that this process does not take.
    fn refused_part(&self) -> Option<String> {
        let name = self.name(self.core.refused_part_of()?).unwrap_or("a process");
        Some(format!(
            "cannot take the state of {name}: a part of it has more than 1 GiB. Let `Replica::save_part` give shorter parts; of shared objects each is one"
        ))
    }

    /// Members are asked for by the names of their nodes.
    fn namesakes(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        let name = self.core.view().names().find(|name| !names.insert(*name))?;
        let patience = self.core.settings().patience;
        Some(format!(
            "two members are called {name}. If one of them ran before, the group puts it out within {patience:?}; if both run, give each node a name of its own"
        ))
    }

    /// A member that hears no majority.
    fn apart(&self) -> Option<String> {
        let since = self.core.apart_since().filter(|since| *since + LATE <= self.now)?;
        let members: Vec<&str> = self.core.view().names().collect();
        let unreached = self.unreached();
        let which =
            if unreached.is_empty() { String::new() } else { format!(": nothing leaves for {}", unreached.join(", ")) };
        Some(format!(
            "no majority of the members {} was heard for {:.0?}{which}. What is sent waits for it, and nobody can join. If the others are gone for good, found \
             the group again; a group of two that is to go on without one of them needs `Settings::tie_break`",
            members.join(", "),
            self.now - since
        ))
    }

    /// The nodes to which nothing leaves: those of members, or of any process while this one joins.
    fn unreached(&self) -> Vec<&str> {
        let counts = |node: &&str| self.is_joining() || self.core.view().names().any(|name| name == *node);
        self.links.unreached(self.now, LATE).filter(counts).collect()
    }

    /// The processes that do not answer this one.
    fn unheard(&self) -> Option<String> {
        if self.is_joining() && self.contacts.is_empty() {
            return Some("this process cannot join: it was given no member of the group to ask".into());
        }
        let unreached = self.unreached();
        if !unreached.is_empty() {
            return Some(format!(
                "nothing leaves for {}: it has no group of this name, does not poll it, or cannot be reached from here. Over `udp:` and `tcp:` each \
                 member needs the addresses of all others",
                unreached.join(", ")
            ));
        }
        let takes_state = self.core.pieces_taken().is_some();
        (self.is_joining() && !takes_state && self.opened_at + LATE <= self.now).then(|| {
            let contacts = self.contacts.join(", ");
            format!("this process has not joined: {contacts} does not let it in, being no member of the group, or in no majority of it")
        })
    }

    /// The group's frames do not get here.
    fn frames_are_lost(&self) -> Option<String> {
        let (frames, repaired) = (self.frames?, self.core.counters().repaired);
        let hardly = self.core.view().has_links() && repaired >= MANY && frames.stamped * 10 < repaired;
        let (did, address) = (frames.stamped, frames.address());
        hardly.then(|| match self.core.settings().dissemination {
            Dissemination::Copies => format!(
                "copies of stamped messages hardly arrive: {did} did, and {repaired} messages had to be fetched from other members. If the XDP program \
                 of the sequencer's node sends them, try `Settings::stamp_in_process`"
            ),
            Dissemination::Multicast | Dissemination::Fetch => format!(
                "frames to the group's address {address} hardly arrive: {did} did, and {repaired} messages had to be fetched from other members. A switch \
                 on the way does not forward them: turn multicast snooping off there, or add the address to its table (a Linux bridge: `bridge link set \
                 dev PORT mcast_flood on`), or found the group with `Dissemination::Copies`"
            ),
        })
    }
}
