//! A group on a bridge. The XDP program of one host numbers the messages of the others, and all receive them in one order, while
//! the process of that host does nothing but recycle credits. Needs root.
//!
//! `SEQUENCER_MESSAGES=10000 cargo test -p am-afxdp --test root_all -- sequencer::cost --nocapture` prints what it costs, beside a
//! process that stamps by polling.

use std::cell::OnceCell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use am_afxdp::{Xdp, XdpOptions};
use am_bpf::Kernel;
use am_netns::{Bridge, BridgeOptions, Host};
use am_ring::Frame;
use am_transport::{Command, JoinedGroup, Transport};
use am_wire::frame::LinkAddresses;
use am_wire::group::{self, GroupFrame, GroupHeader};
use am_wire::stamp::{Destination, Opening, SenderState, Stamps, stamp, stamped};
use am_wire::{Address, Buffer, EtherType};
use nix::sched::{CloneFlags, setns};
use nix::time::{ClockId, clock_gettime};

use crate::pair::{PATIENCE, counter};

const GROUP: u64 = 0x1122_3344_5566_7788;
const EPOCH: u32 = 3;
const KEY: [u64; 2] = [7, 8];
/// Of all members together. So no member's ring overflows.
const CREDITS: u32 = 96;
const SHARE: u32 = 16;
/// Hosts on the bridge: the sequencer's is the first, the last one only listens.
const HOSTS: usize = 5;

/// What stamps, and whether a member echoes the frames to the sequencer's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequencer {
    Program,
    /// The program, and the last member sends each frame back to the sequencer's host.
    ProgramWithEcho,
    Process,
}

struct Segment {
    hosts: Vec<Host>,
    bridge: Bridge,
}

impl Segment {
    fn new() -> Segment {
        let hosts: Vec<_> = (0..HOSTS).map(|number| Host::new(&format!("h{number}")).unwrap()).collect();
        let bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).unwrap();
        Segment { hosts, bridge }
    }

    fn address(&self, host: usize) -> Address {
        Address(self.bridge.ends()[host].address())
    }

    /// The transport of a host, on this thread, and the answer to joining the group.
    fn join(&self, host: usize, options: &XdpOptions) -> (Xdp, JoinedGroup) {
        setns(&self.hosts[host], CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
        let mut xdp = am_afxdp::open(options).unwrap_or_else(|error| panic!("{error}"));
        let joined = OnceCell::new();
        xdp.control(Command::JoinGroup { group: GROUP, joined: &joined }).unwrap();
        (xdp, joined.into_inner().unwrap())
    }

    /// Open a table for the members 1, 2, 3, ..., whose places are one less.
    fn open(&self, stamps: &Stamps) {
        let sender = |host| Some(SenderState { address: self.address(host), next: 0, limit: SHARE });
        let senders: Vec<_> = (1..HOSTS).map(sender).collect();
        let opening = Opening {
            group: GROUP,
            key: KEY,
            epoch: EPOCH,
            lease_until: now() + PATIENCE.as_nanos() as u64,
            next: 0,
            recycled: 0,
            capacity: CREDITS,
            share: SHARE,
            senders: &senders,
            to: Destination::Group,
            copies: &[],
        };
        stamps.open(&opening).unwrap();
    }
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Write a group frame with this payload, and send it.
fn send(xdp: &mut Xdp, to: Address, header: &GroupHeader, payload: &[u8]) -> bool {
    let Some(mut frame) = xdp.caps().pool.take() else { return false };
    let link = LinkAddresses { to, from: xdp.caps().address, ethertype: EtherType::DEFAULT };
    let space = frame.space().unwrap();
    group::payload(space, payload.len()).unwrap().copy_from_slice(payload);
    let length = group::emit(space, &link, header, payload.len()).unwrap();
    frame.set_len(length);
    xdp.send(to, &frame)
}

/// One member: what it sends, and what it has received.
struct Member<'a> {
    xdp: Xdp,
    place: u16,
    sequencer: Address,
    /// Its messages before this one have a number.
    numbered: u32,
    sent: u32,
    limit: u32,
    progress: Instant,
    /// By number: sender and sequence number.
    order: Vec<Option<(u16, u32)>>,
    /// It has all numbers before this one.
    contiguous: &'a AtomicU64,
    echoes: bool,
    /// How long the oldest message without a number waited.
    latencies: Vec<Duration>,
}

impl Member<'_> {
    fn on_frame(&mut self, frame: &Frame) {
        let (header, payload) = GroupHeader::parse(frame.bytes()).unwrap();
        assert_eq!((header.what, header.epoch, header.group), (GroupFrame::Stamped, EPOCH, GROUP));
        assert!(header.is_authentic(KEY) && header.content == group::content(KEY, payload));
        let mine = header.sender == self.place;
        if mine && header.seq >= self.numbered {
            self.latencies.push(self.progress.elapsed());
            (self.numbered, self.progress) = (header.seq + 1, Instant::now());
        }
        if mine {
            self.limit = self.limit.max(header.limit);
        }
        // Two processors that stamp at once may send in another order.
        let (at, message) = (header.number as usize, (header.sender, header.seq));
        self.order.resize(self.order.len().max(at + 1), None);
        if let Some(before) = self.order[at].replace(message) {
            return assert_eq!(before, message);
        }
        let contiguous = self.contiguous.load(Ordering::Relaxed) as usize;
        let more = self.order[contiguous..].iter().take_while(|place| place.is_some()).count();
        self.contiguous.store((contiguous + more) as u64, Ordering::Release);
        if self.echoes {
            _ = send(&mut self.xdp, self.sequencer, &header, payload);
        }
    }

    /// Receive, then send what the credit allows; again from the first message without a number if there is no answer.
    fn turn(&mut self, messages: u32, window: u32, payload: &[u8]) -> usize {
        let mut frames = Vec::new();
        let received = self.xdp.receive(64, &mut |frame| frames.push(frame));
        frames.iter().for_each(|frame| self.on_frame(frame));
        if self.sent > self.numbered && self.progress.elapsed() > Duration::from_millis(5) {
            (self.sent, self.progress) = (self.numbered, Instant::now());
        }
        self.sent = self.sent.max(self.numbered);
        while self.sent < messages.min(self.limit).min(self.numbered + window) {
            let content = group::content(KEY, payload);
            let header = GroupHeader { content, ..GroupHeader::to_stamp(GROUP, EPOCH, self.place, self.sent) };
            let header = GroupHeader { tag: header.tag_under(KEY), ..header };
            if !send(&mut self.xdp, self.sequencer, &header, payload) {
                break;
            }
            if self.sent == self.numbered {
                self.progress = Instant::now();
            }
            self.sent += 1;
        }
        // The last message again, when credit is out: the answer has the new limit.
        let is_out = self.sent == self.limit && self.sent == self.numbered;
        if is_out && self.sent < messages && self.progress.elapsed() > Duration::from_millis(1) {
            self.progress = Instant::now();
            let header = GroupHeader {
                content: group::content(KEY, payload),
                ..GroupHeader::to_stamp(GROUP, EPOCH, self.place, self.sent - 1)
            };
            _ = send(&mut self.xdp, self.sequencer, &GroupHeader { tag: header.tag_under(KEY), ..header }, payload);
        }
        self.xdp.flush();
        received
    }
}

/// Ends the members' threads, after a panic too.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// What a run shows.
struct Run {
    /// By member: the order that it saw.
    orders: Vec<Vec<(u16, u32)>>,
    /// Of the sequencer's host.
    received_by_sequencer: u64,
    stamped_by_program: u64,
    seconds: f64,
    median: Duration,
}

struct Load {
    messages: u32,
    senders: usize,
    window: u32,
    payload: usize,
    lost_per_million: u32,
}

/// A member's thread. Returns the order that it saw, and how long its messages waited.
fn take_part(
    segment: &Segment,
    host: usize,
    sequencer: Sequencer,
    load: &Load,
    (start, is_over, contiguous): (&Barrier, &AtomicBool, &AtomicU64),
) -> (Vec<(u16, u32)>, Vec<Duration>) {
    let (xdp, _) = segment.join(host, &XdpOptions::new("am0"));
    let mut member = Member {
        xdp,
        place: host as u16 - 1,
        sequencer: segment.address(0),
        numbered: 0,
        sent: 0,
        limit: SHARE,
        progress: Instant::now(),
        order: Vec::new(),
        contiguous,
        echoes: host == HOSTS - 1 && sequencer == Sequencer::ProgramWithEcho,
        latencies: Vec::new(),
    };
    let payload = vec![host as u8; load.payload];
    let messages = if host <= load.senders { load.messages } else { 0 };
    start.wait();
    while !is_over.load(Ordering::Acquire) {
        match member.turn(messages, load.window, &payload) {
            0 if messages == 0 => thread::sleep(Duration::from_millis(1)),
            0 => thread::yield_now(),
            _ => (),
        }
    }
    (member.order.into_iter().flatten().collect(), member.latencies)
}

fn run(segment: &Segment, sequencer: Sequencer, load: &Load) -> Run {
    let options = XdpOptions { lost_per_million: load.lost_per_million, ..XdpOptions::new("am0") };
    let (mut home, joined) = segment.join(0, &options);
    let (in_process, in_program) = (Box::new(Stamps::new()), joined.stamps);
    let program = || in_program.as_ref().map(|stamps| &***stamps).unwrap_or_else(|why| panic!("{why}"));
    let stamps = if sequencer == Sequencer::Process { &*in_process } else { program() };
    segment.open(stamps);
    let (start, is_over) = (Barrier::new(HOSTS), AtomicBool::new(false));
    let contiguous: Vec<AtomicU64> = (1..HOSTS).map(|_| AtomicU64::new(0)).collect();
    let total = u64::from(load.messages) * load.senders as u64;
    let is_done = || contiguous.iter().all(|count| count.load(Ordering::Acquire) == total);
    let (mut orders, mut latencies) = (Vec::new(), Vec::new());
    let (mut received, mut began) = (0, Instant::now());
    thread::scope(|scope| {
        let members: Vec<_> = (1..HOSTS)
            .map(|host| {
                let (start, is_over, contiguous) = (&start, &is_over, &contiguous[host - 1]);
                scope.spawn(move || take_part(segment, host, sequencer, load, (start, is_over, contiguous)))
            })
            .collect();
        start.wait();
        let ends = EndOnDrop(&is_over);
        began = Instant::now();
        while !is_done() {
            assert!(began.elapsed() < PATIENCE, "{contiguous:?} of {total}, {:?}", stamps.credits());
            stamps.recycle(contiguous.iter().map(|count| count.load(Ordering::Acquire)).min().unwrap());
            match sequencer {
                Sequencer::Program => thread::sleep(Duration::from_micros(100)),
                Sequencer::ProgramWithEcho => {
                    received += home.receive(64, &mut drop) as u64;
                    thread::sleep(Duration::from_micros(100));
                }
                Sequencer::Process if stamp_all(&mut home, stamps) == 0 => thread::yield_now(),
                Sequencer::Process => (),
            }
        }
        drop(ends);
        for member in members {
            let (order, its) = member.join().unwrap();
            orders.push(order);
            latencies.extend(its);
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!((stamps.credits().sum(), stamps.next()), (CREDITS.into(), total));
    received += home.receive(64, &mut drop) as u64;
    let stamped_by_program = if sequencer == Sequencer::Process { 0 } else { counter(&home, "xdp_stamped") };
    latencies.sort_unstable();
    let median = latencies[latencies.len() / 2];
    Run { orders, received_by_sequencer: received, stamped_by_program, seconds, median }
}

/// The process of the sequencer stamps what has arrived.
fn stamp_all(home: &mut Xdp, stamps: &Stamps) -> usize {
    let mut frames = Vec::new();
    let received = home.receive(64, &mut |frame| frames.push(frame));
    for frame in &mut frames {
        let (header, _) = GroupHeader::parse(frame.bytes()).unwrap();
        let from = am_wire::frame::parse(frame.bytes(), EtherType::DEFAULT).unwrap().source;
        let own = home.caps().address;
        if let Ok(stamp) = stamp(stamps, &header, from, now()) {
            let header = stamped(stamps, &header, &stamp);
            group::rewrite(frame.space().unwrap(), group::address(GROUP), own, &header);
            _ = home.send(group::address(GROUP), frame);
        }
    }
    home.flush();
    received
}

/// One order at all members, and each sender's messages in theirs.
fn check(run: &Run, load: &Load) {
    let first = &run.orders[0];
    assert_eq!(first.len(), load.messages as usize * load.senders);
    assert!(run.orders.iter().all(|order| order == first));
    for place in 0..load.senders as u16 {
        let seqs = first.iter().filter(|(sender, _)| *sender == place).map(|(_, seq)| *seq);
        assert!(seqs.eq(0..load.messages));
    }
}

#[test]
fn the_program_stamps_without_its_process() {
    if !Kernel::running().has_sequencer() {
        return;
    }
    let load = Load { messages: 3_000, senders: 3, window: 16, payload: 64, lost_per_million: 5_000 };
    let run = run(&Segment::new(), Sequencer::Program, &load);
    check(&run, &load);
    assert_eq!((run.received_by_sequencer, run.stamped_by_program), (0, 9_000));
}

#[test]
fn a_process_stamps_by_the_same_function() {
    let load = Load { messages: 2_000, senders: 3, window: 16, payload: 64, lost_per_million: 5_000 };
    check(&run(&Segment::new(), Sequencer::Process, &load), &load);
}

#[test]
fn a_member_sends_the_frames_back_to_the_sequencers_host() {
    if !Kernel::running().has_sequencer() {
        return;
    }
    let load = Load { messages: 1_000, senders: 3, window: 16, payload: 64, lost_per_million: 0 };
    let run = run(&Segment::new(), Sequencer::ProgramWithEcho, &load);
    check(&run, &load);
    assert!(run.received_by_sequencer > 2_900, "{}", run.received_by_sequencer);
}

#[test]
fn cost() {
    let messages = std::env::var("SEQUENCER_MESSAGES").map_or(200, |text| text.parse().expect("a number"));
    if !Kernel::running().has_sequencer() {
        return;
    }
    let segment = Segment::new();
    for round in 0..3 {
        for sequencer in [Sequencer::Program, Sequencer::Process, Sequencer::ProgramWithEcho] {
            let one = Load { messages, senders: 1, window: 1, payload: 64, lost_per_million: 0 };
            let latency = run(&segment, sequencer, &one).median;
            let all = Load { messages: 3 * messages, senders: 3, window: 16, payload: 64, lost_per_million: 0 };
            let rate = 9.0 * f64::from(messages) / run(&segment, sequencer, &all).seconds;
            println!(
                "round {round} {sequencer:?}: one message {latency:.1?} (median), three senders {rate:.0} messages/s"
            );
        }
    }
}
