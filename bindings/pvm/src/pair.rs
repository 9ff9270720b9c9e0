//! The pairs: this task and each other one, what they have agreed on, and what has arrived of a message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::c_int;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use am_api::{Connection, ConnectionChange, Fate, Message};

use crate::layout::Pmsg;
use crate::library::Library;

/// A message of PVM's that is in none of its lists.
#[derive(Debug, PartialEq)]
pub(crate) struct Loose(*mut Pmsg);

// SAFETY: memory of PVM's that one thread at a time works with, under the lock of the process.
unsafe impl Send for Loose {}

impl Loose {
    pub(crate) fn new(message: *mut Pmsg) -> Loose {
        Loose(message)
    }

    /// The message: the caller's from now on.
    pub(crate) fn into_raw(self) -> *mut Pmsg {
        self.0
    }

    fn free(self, library: &Library) {
        // SAFETY: it is in no list, so nothing else frees it.
        unsafe { (library.free_message)(self.0) };
    }
}

/// Messages wait to be sent: some have come back, or handlers of the program have left some.
pub(crate) static OWES: AtomicBool = AtomicBool::new(false);

/// How far two tasks are with their agreement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing was sent yet.
    #[default]
    New,
    /// This task has offered a route.
    Asked,
    /// Both know each other's node. The connection opens.
    Agreed,
    /// The last message by PVM's own route has left: the next ones go as active messages.
    Switched,
    /// They stay on PVM's own route.
    Own,
}

/// What this task's node knows of another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Its name. Empty before it is known.
    pub(crate) node: String,
    /// The addresses at which the node looks for it.
    pub(crate) addresses: Vec<String>,
}

/// This task and another one.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    pub(crate) stage: Stage,
    pub(crate) connection: Option<Connection>,
    /// Where the other task's node is.
    pub(crate) known: Known,
    /// The other task has this library.
    pub(crate) has_library: bool,
    /// The other task was killed, and pieces are missing: nothing of it arrives any more.
    is_gone: bool,
    /// The other task has switched: nothing more comes by PVM's own route.
    has_switched: bool,
    /// Whole messages that arrived before those of PVM's own route.
    held: Vec<Loose>,
    /// The first pieces of a message.
    part: Option<Loose>,
    /// The number of the next piece to this task, and of the next one from it.
    pub(crate) sends: u32,
    expects: u32,
}

/// All pairs of this task. The state of its endpoint.
#[derive(Debug)]
pub(crate) struct Pairs {
    library: &'static Library,
    all: BTreeMap<c_int, Pair>,
    /// The tasks of which the daemon was asked to say when they end, and has not yet.
    pub(crate) watched: BTreeSet<c_int>,
    /// Whole messages, in their order, which PVM does not have yet.
    ready: VecDeque<Loose>,
    /// The progress thread receives: it keeps copies.
    pub(crate) is_away: bool,
    /// What it has received.
    copies: Vec<Copied>,
    /// Memory for further copies.
    spare: Vec<Vec<u8>>,
    /// Messages that have come back, and that no task has got.
    back: Vec<(Head, Vec<u8>)>,
    /// Messages that are not whole, and will not be.
    dropped: Vec<Loose>,
    /// Connections that have ended, and those of tasks that have.
    pub(crate) late: Vec<Connection>,
    pub(crate) counts: Counts,
}

/// The most copies whose memory is kept for others.
const MOST_SPARE: usize = 256;

/// What the progress thread has received.
#[derive(Debug)]
enum Copied {
    Piece(Head, Vec<u8>),
    /// Nothing more of this task follows.
    End(c_int),
}

/// What a task reports at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) returned: u64,
    pub(crate) switches: u64,
    /// Messages of the program that took PVM's routes.
    pub(crate) passed: u64,
}

impl Counts {
    /// What a task says at its end.
    pub(crate) fn report(self, name: &str, transport: &str) -> String {
        let counted = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (sent, reached) = (counted(self.sent, "message"), counted(self.switches, "task"));
        let passed = match self.passed {
            0 => String::new(),
            // Why nothing was sent as active messages.
            some => {
                let why = if self.switches == 0 {
                    ": two tasks agree first, for some milliseconds, if both have the library"
                } else {
                    ""
                };
                format!(" ({} took PVM's routes{why})", counted(some, "message"))
            }
        };
        format!(
            "pvm-am: {name}: {sent} sent and {} received as active messages, {} returned, {reached} reached, over {transport}{passed}",
            self.received, self.returned
        )
    }
}

/// The words of a piece: what is in front of each message of PVM's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) tag: c_int,
    pub(crate) context: c_int,
    pub(crate) encoding: c_int,
    pub(crate) wait_id: c_int,
    pub(crate) source: c_int,
    /// The piece is a part of a fragment. Otherwise it has whole fragments, with their lengths in front of the bytes.
    pub(crate) is_part: bool,
    /// The part that its fragment begins with.
    pub(crate) is_first_part: bool,
    /// Of a first part, the length of its fragment; the number of whole fragments.
    pub(crate) size: u32,
    /// Another piece follows.
    pub(crate) has_more: bool,
    /// Another piece was before this one.
    pub(crate) is_later: bool,
    /// Of the pieces of this pair, in this direction: of a killed task some may be missing.
    pub(crate) nth: u32,
    /// The task that it is for.
    pub(crate) destination: c_int,
}

const fn join(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// The bits of a piece's number.
const NTH_BITS: u32 = 28;

/// The number behind that of a piece.
pub(crate) const fn next(nth: u32) -> u32 {
    (nth + 1) & ((1 << NTH_BITS) - 1)
}

/// The words of a head.
pub(crate) const WORDS: usize = 4;

impl Head {
    pub(crate) fn words(self) -> [u64; WORDS] {
        let flags = [self.has_more, self.is_later, self.is_part, self.is_first_part];
        let flags = (0..).zip(flags).fold(0, |all, (bit, is_set)| all | u32::from(is_set) << bit);
        [
            join(self.tag as u32, self.context as u32),
            join(self.encoding as u32, self.wait_id as u32),
            join(self.size, flags | self.nth << (u32::BITS - NTH_BITS)),
            join(self.source as u32, self.destination as u32),
        ]
    }

    fn of(word: impl Fn(usize) -> u64) -> Head {
        let (low, high) = (|at| word(at) as u32, |at| (word(at) >> 32) as u32);
        Head {
            tag: low(0) as c_int,
            context: high(0) as c_int,
            encoding: low(1) as c_int,
            wait_id: high(1) as c_int,
            size: low(2),
            has_more: high(2) & 1 != 0,
            is_later: high(2) & 2 != 0,
            is_part: high(2) & 4 != 0,
            is_first_part: high(2) & 8 != 0,
            nth: high(2) >> (u32::BITS - NTH_BITS),
            source: low(3) as c_int,
            destination: high(3) as c_int,
        }
    }
}

/// The bytes of one length of a fragment.
pub(crate) const LENGTH: usize = 4;

/// The fragments of a piece that has whole ones. `None` if their lengths are not those of the bytes.
fn fragments(count: u32, payload: &[u8]) -> Option<Vec<&[u8]>> {
    let (lengths, mut bytes) = payload.split_at_checked(LENGTH.checked_mul(count as usize)?)?;
    let mut list = Vec::with_capacity(count as usize);
    for length in lengths.chunks_exact(LENGTH) {
        let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
        let (fragment, rest) = bytes.split_at_checked(length)?;
        list.push(fragment);
        bytes = rest;
    }
    bytes.is_empty().then_some(list)
}

/// Add a piece to its message. The first part of a fragment makes room for the others. `false` if it is none of this message.
fn add(library: &Library, message: *mut Pmsg, head: Head, payload: &[u8]) -> bool {
    if head.is_part {
        let has_room = !head.is_first_part || head.size == 0 || library.append_empty(message, head.size as usize);
        return has_room && (payload.is_empty() || library.fill(message, payload));
    }
    let Some(fragments) = fragments(head.size, payload) else { return false };
    fragments.into_iter().for_each(|fragment| library.append(message, fragment));
    true
}

/// The task's number in the name of its node.
fn task_of(name: &str) -> Option<c_int> {
    let (number, _) = name.strip_prefix('t')?.split_once('-')?;
    c_int::from_str_radix(number, 16).ok()
}

/// The beginning of the name of a task's node.
pub(crate) fn name_of(task: c_int) -> String {
    format!("t{task:x}")
}

impl Pairs {
    pub(crate) fn new(library: &'static Library) -> Pairs {
        Pairs {
            library,
            all: BTreeMap::new(),
            watched: BTreeSet::new(),
            ready: VecDeque::new(),
            is_away: false,
            copies: vec![],
            spare: vec![],
            back: vec![],
            dropped: vec![],
            late: vec![],
            counts: Counts::default(),
        }
    }

    pub(crate) fn pair(&mut self, task: c_int) -> &mut Pair {
        self.all.entry(task).or_default()
    }

    /// The other task's stage, and the connection with it.
    pub(crate) fn stage(&self, task: c_int) -> (Stage, Option<Connection>) {
        self.all.get(&task).map_or_else(Default::default, |pair| (pair.stage, pair.connection))
    }

    /// Whether the other task has shown that it has this library.
    pub(crate) fn has_library(&self, task: c_int) -> bool {
        self.all.get(&task).is_some_and(|pair| pair.has_library)
    }

    pub(crate) fn connections(&self) -> impl Iterator<Item = Connection> {
        self.all.values().filter_map(|pair| pair.connection)
    }

    /// The next whole message.
    pub(crate) fn take(&mut self) -> Option<Loose> {
        self.ready.pop_front()
    }

    /// Whether messages wait for the program's next call.
    pub(crate) fn has_arrived(&self) -> bool {
        !self.ready.is_empty() || !self.copies.is_empty()
    }

    /// A piece of a message has arrived.
    pub(crate) fn arrived<S>(&mut self, message: &Message<'_, S>) {
        let head = Head::of(|at| message.word(at));
        if !self.is_away {
            return self.take_piece(head, message.payload());
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(message.payload());
        self.copies.push(Copied::Piece(head, copy));
    }

    /// A message has come back. If no task has got it, it goes by PVM's route.
    pub(crate) fn came_back<S>(&mut self, message: &Message<'_, S>, fate: Fate) {
        let head = Head::of(|at| message.word(at));
        self.counts.returned += 1;
        // A task that has ended is forgotten, and its number may be another task's. Of several pieces the others may have arrived.
        let is_known = self.all.contains_key(&head.destination);
        if fate == Fate::NotDelivered && is_known && !head.has_more && !head.is_later {
            self.back.push((head, message.payload().to_vec()));
            OWES.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_back(&self) -> bool {
        !self.back.is_empty()
    }

    /// The messages that have come back, in their order, with their tasks.
    pub(crate) fn take_back(&mut self) -> Vec<(Loose, c_int, c_int)> {
        let library = self.library;
        let build = |(head, payload): (Head, Vec<u8>)| {
            let message = library.build(&[], head.encoding);
            add(library, message, head, &payload);
            // SAFETY: it was just made.
            unsafe {
                (*message).context = head.context;
                (*message).wait_id = head.wait_id;
                (*message).source = head.source;
            }
            (Loose(message), head.destination, head.tag)
        };
        mem::take(&mut self.back).into_iter().map(build).collect()
    }

    /// The program calls: its messages are built from what the progress thread has received.
    pub(crate) fn catch_up(&mut self) {
        if self.copies.is_empty() && self.dropped.is_empty() {
            return;
        }
        for copied in mem::take(&mut self.copies) {
            match copied {
                Copied::Piece(head, payload) => {
                    self.take_piece(head, &payload);
                    if self.spare.len() < MOST_SPARE {
                        self.spare.push(payload);
                    }
                }
                Copied::End(task) => self.drop_part(task),
            }
        }
        self.dropped.drain(..).for_each(|message| message.free(self.library));
    }

    fn take_piece(&mut self, head: Head, payload: &[u8]) {
        let library = self.library;
        // The task has ended.
        let Some(pair) = self.all.get_mut(&head.source) else { return };
        if head.nth != pair.expects {
            // What is behind the missing ones would come out of its order.
            pair.is_gone = true;
            self.dropped.extend(pair.part.take());
        }
        pair.expects = next(head.nth);
        if pair.is_gone {
            return;
        }
        let whole = match (pair.part.take(), head.is_later) {
            (Some(part), true) => part.into_raw(),
            // Its first pieces were dropped.
            (None, true) => return,
            // What a handler could not send whole is sent anew.
            (part, false) => {
                self.dropped.extend(part);
                library.build(&[], head.encoding)
            }
        };
        if !add(library, whole, head, payload) {
            self.dropped.push(Loose(whole));
            return;
        }
        if head.has_more {
            pair.part = Some(Loose(whole));
            return;
        }
        // SAFETY: it was made above, or when its first piece arrived.
        unsafe {
            (*whole).tag = head.tag;
            (*whole).context = head.context;
            (*whole).wait_id = head.wait_id;
            (*whole).source = head.source;
            (*whole).destination = library.own_tid();
        }
        self.counts.received += 1;
        if pair.has_switched { self.ready.push_back(Loose(whole)) } else { pair.held.push(Loose(whole)) }
    }

    /// The last message of PVM's own route has arrived.
    pub(crate) fn switched_by(&mut self, task: c_int) {
        let Some(pair) = self.all.get_mut(&task) else { return };
        pair.has_switched = true;
        self.ready.extend(pair.held.drain(..));
    }

    /// Something happened to a connection.
    pub(crate) fn changed(&mut self, change: ConnectionChange, connection: Connection, node: &str) {
        let Some(task) = task_of(node) else { return };
        // Without an offer to a task, or one of it, it has ended.
        let Some(pair) = self.all.get_mut(&task) else {
            self.late.extend((change == ConnectionChange::Accepted).then_some(connection));
            return;
        };
        if pair.known.node.is_empty() {
            node.clone_into(&mut pair.known.node);
        }
        match change {
            ConnectionChange::Opened => {}
            // The other task got this one's offer.
            ConnectionChange::Accepted if matches!(pair.stage, Stage::New | Stage::Asked) => {
                (pair.stage, pair.connection) = (Stage::Agreed, Some(connection));
            }
            ConnectionChange::Accepted => pair.connection = Some(connection),
            ConnectionChange::Failed(_) | ConnectionChange::Ended(_) if pair.connection == Some(connection) => {
                // Its flow id is in use until it is closed.
                let ended = self.end(task);
                self.late.extend(ended);
            }
            ConnectionChange::Failed(_) | ConnectionChange::Ended(_) => {}
        }
    }

    /// The daemon has said that a task has ended: nothing of it arrives any more. Returns its connection, and what is known of its node.
    pub(crate) fn forget(&mut self, task: c_int) -> Option<(Option<Connection>, Known)> {
        self.back.retain(|(head, _)| head.destination != task);
        let pair = self.all.remove(&task)?;
        self.dropped.extend(pair.held.into_iter().chain(pair.part));
        Some((pair.connection, pair.known))
    }

    /// Whether a task is looked for at this address.
    pub(crate) fn has_address(&self, address: &str) -> bool {
        self.all.values().any(|pair| pair.known.addresses.iter().any(|known| known == address))
    }

    /// The number of pairs.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// No active message goes to this task any more, and a message that is not whole is dropped. Returns the connection with it.
    pub(crate) fn end(&mut self, task: c_int) -> Option<Connection> {
        let pair = self.all.get_mut(&task)?;
        pair.stage = Stage::Own;
        let connection = pair.connection.take();
        match self.copies.is_empty() {
            true => self.drop_part(task),
            // The rest of the message may be among them.
            false => self.copies.push(Copied::End(task)),
        }
        connection
    }

    fn drop_part(&mut self, task: c_int) {
        let part = self.all.get_mut(&task).and_then(|pair| pair.part.take());
        self.dropped.extend(part);
    }
}

/// Frees the messages that the program does not get.
impl Drop for Pairs {
    fn drop(&mut self) {
        let held = self.all.values_mut().flat_map(|pair| pair.held.drain(..).chain(pair.part.take()));
        for message in held.chain(self.ready.drain(..)).chain(self.dropped.drain(..)) {
            message.free(self.library);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head {
        tag: 7,
        context: 12,
        encoding: 0x1000_0000,
        wait_id: -3,
        source: 0x40002,
        is_part: false,
        is_first_part: false,
        size: 3,
        has_more: true,
        is_later: false,
        nth: (1 << NTH_BITS) - 1,
        destination: 0x80003,
    };

    #[test]
    fn a_head_is_in_words_as_it_was() {
        let words = HEAD.words();
        assert_eq!(Head::of(|at| words[at]), HEAD);
        assert_eq!(next(HEAD.nth), 0);
        let later = Head { has_more: false, is_later: true, is_part: true, is_first_part: true, ..HEAD };
        assert_eq!(Head::of(|at| later.words()[at]), later);
    }

    #[test]
    fn a_report_says_why_nothing_went_as_active_messages() {
        let counts = Counts { sent: 0, received: 1, returned: 0, switches: 0, passed: 5 };
        let wanted = "pvm-am: t1: 0 messages sent and 1 received as active messages, 0 returned, 0 tasks reached, over udp \
                      (5 messages took PVM's routes: two tasks agree first, for some milliseconds, if both have the library)";
        assert_eq!(counts.report("t1", "udp"), wanted);
        let counts = Counts { sent: 1, switches: 1, passed: 1, ..counts };
        let wanted = "pvm-am: t1: 1 message sent and 1 received as active messages, 0 returned, 1 task reached, over udp \
                      (1 message took PVM's routes)";
        assert_eq!(counts.report("t1", "udp"), wanted);
        assert!(Counts { passed: 0, ..counts }.report("t1", "udp").ends_with(", over udp"));
    }

    #[test]
    fn fragments_are_cut_where_their_lengths_say() {
        assert_eq!(fragments(0, b""), Some(vec![]));
        let payload = [&1_u32.to_le_bytes()[..], &2_u32.to_le_bytes(), b"abc"].concat();
        assert_eq!(fragments(2, &payload), Some(vec![&b"a"[..], b"bc"]));
        assert_eq!(fragments(2, &payload[..10]), None, "a byte is missing");
        assert_eq!(fragments(2, &[&payload[..], b"d"].concat()), None, "a byte too many");
        assert_eq!(fragments(u32::MAX, &payload), None);
    }

    #[test]
    fn a_nodes_name_names_its_task() {
        assert_eq!(task_of(&format!("{}-abc", name_of(0x80012))), Some(0x80012));
        assert_eq!((task_of("t80012"), task_of("x-1"), task_of("tzz-1")), (None, None, None));
    }
}
