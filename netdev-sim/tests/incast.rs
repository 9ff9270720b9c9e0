//! 64 senders to one receiver: what of its link arrives, who gets how much, and how late.

use engine::{Engine, Look};
use netdev_sim::{Happening, MS, Nanos, Net, Options, US};
use proto::{Config, Core, EndpointId, Event, FlowId, FlowState, FramingChoice, Time};
use transport::Transport;
use wire::control::{Incarnation, Name, NodeId};
use wire::{Class, Framing};

const SENDERS: usize = 64;
/// A turn takes so long.
const TURN: Nanos = 2 * US;
/// Flows are open and credits settled by then; measured from then on.
const FROM: Nanos = 20 * MS;
const UNTIL: Nanos = 60 * MS;

struct Host {
    engine: Engine,
    endpoint: EndpointId,
    flow: Option<FlowId>,
    next: Nanos,
    events: Vec<Event>,
}

#[derive(Default)]
struct Seen {
    /// Bytes from each sender.
    bytes: Vec<u64>,
    /// From admission to delivery.
    late: Vec<Nanos>,
}

struct Figures {
    of_link: f64,
    jain: f64,
    p99_over_share: f64,
    lost: u64,
    again: u64,
}

fn name(node: usize) -> Name {
    Name::new(&format!("node{node}")).expect("short")
}

fn host(net: &mut Net, at: usize, window: u16) -> Host {
    let mut config = Config::new(NodeId(at as u64 + 1), Incarnation(1), name(at), net.address(at));
    config.framing = FramingChoice::Fixed(Framing::Split);
    config.window = window;
    config.seed = at as u64 * 7919;
    let mut core = Core::new(config, Time(0));
    let endpoint = core.endpoint(name(0), 0).expect("the first");
    let flow = (at > 0).then(|| core.connect(Time(0), endpoint, name(0), name(0), 0).expect("room"));
    let engine = Engine::new(core, net.nic(at).caps().pool.clone());
    Host { engine, endpoint, flow, next: Nanos::MAX, events: vec![] }
}

impl Host {
    fn turn(&mut self, net: &mut Net, at: usize, seen: &mut Seen) -> Nanos {
        let now = net.now();
        let received = self.engine.inhale(Look::AtAll, || Time(now), net.nic(at));
        while let Some(message) = self.engine.core_mut().poll_deliver(self.endpoint) {
            let (sent, from) = (message.words().at(0), message.words().at(1) as usize);
            if (FROM..UNTIL).contains(&now) {
                seen.bytes[from - 1] += message.payload().len() as u64 + 16;
                seen.late.push(now - sent);
            }
            let (flow, class) = (message.flow, message.class);
            drop(message);
            self.engine.core_mut().forgo(flow);
            self.engine.core_mut().release(flow, class);
        }
        let waits = self.send(now, at);
        let events = &mut self.events;
        let sent = self.engine.exhale(|| Time(now), net.nic(at), &mut |event| events.push(event));
        self.events.clear();
        net.turned(at);
        let busy = waits || received + sent > 0 || net.nic(at).has_arrivals();
        if busy { now + TURN } else { self.engine.sleep_until().0.max(now + TURN) }
    }

    /// As much as there is credit for: full frames. Whether more could be sent.
    fn send(&mut self, now: Nanos, at: usize) -> bool {
        let Some(flow) = self.flow else { return false };
        let FlowState::Open { max_body, .. } = self.engine.core().state(flow) else { return false };
        while self.engine.core().credit(flow, Class::Request) > 0 {
            let Some(frame) = self.engine.pool().take() else { return true };
            let write = |place: &mut [u8]| {
                place[..8].copy_from_slice(&now.to_be_bytes());
                place[8..16].copy_from_slice(&(at as u64).to_be_bytes());
            };
            if self.engine.core_mut().send(flow, Class::Request, 0, 2, frame, max_body, write).is_err() {
                return true;
            }
        }
        false
    }
}

fn incast(window: u16) -> Figures {
    let options =
        Options { rx: 1024, fill: 1024, frames: 4096, switch_buffer: 512 * 1024, ..Options::calm(SENDERS + 1) };
    let mut net = Net::new(options);
    let mut hosts: Vec<Host> = (0..=SENDERS).map(|at| host(&mut net, at, window)).collect();
    let mut seen = Seen { bytes: vec![0; SENDERS], late: vec![] };
    (0..=SENDERS).for_each(|at| schedule(&mut net, &mut hosts[at], at, 0));
    while net.now() < UNTIL
        && let Some(happening) = net.step()
    {
        let now = net.now();
        match happening {
            Happening::Alarm(at) if hosts[at].next == now => {
                hosts[at].next = Nanos::MAX;
                let due = hosts[at].turn(&mut net, at, &mut seen);
                schedule(&mut net, &mut hosts[at], at, due);
            }
            Happening::Wake(at) => schedule(&mut net, &mut hosts[at], at, now),
            _ => (),
        }
    }
    figures(&net, &hosts, seen)
}

fn schedule(net: &mut Net, host: &mut Host, at: usize, when: Nanos) {
    let when = when.max(net.now());
    if when < host.next {
        host.next = when;
        net.alarm(when, at);
    }
}

fn figures(net: &Net, hosts: &[Host], mut seen: Seen) -> Figures {
    let (rate, time) = (net.options().rate as f64, (UNTIL - FROM) as f64 / 1e9);
    let sum: f64 = seen.bytes.iter().map(|&bytes| bytes as f64).sum();
    let squares: f64 = seen.bytes.iter().map(|&bytes| (bytes as f64).powi(2)).sum();
    seen.late.sort_unstable();
    let p99 = seen.late.get(seen.late.len() * 99 / 100).copied().unwrap_or(Nanos::MAX);
    // One full frame of each sender, with all that is around it on the wire.
    let share = SENDERS as f64 * (1514.0 + 24.0) * 8.0 / rate * 1e9;
    Figures {
        of_link: sum * 8.0 / (rate * time),
        jain: sum * sum / (SENDERS as f64 * squares),
        p99_over_share: p99 as f64 / share,
        lost: net.switch().count().full,
        again: hosts.iter().map(|host| host.engine.core().counters().retransmitted).sum(),
    }
}

#[test]
fn an_incast_neither_collapses_nor_starves_anybody() {
    println!("{SENDERS} senders of full frames; window: goodput over link rate, Jain's index, p99 over the fair share");
    // Credits are cut from one budget, first come first served: with windows that fill it, those
    // who come late get the least, and the switch's buffer overflows.
    for (window, wanted) in [(1, true), (2, true), (4, true), (128, false)] {
        let Figures { of_link, jain, p99_over_share, lost, again } = incast(window);
        let line =
            format!("{window:4}: {of_link:.3}, {jain:.3}, {p99_over_share:.1}; {lost} dropped, {again} sent again");
        println!("{line}");
        assert!(of_link > if wanted { 0.9 } else { 0.5 }, "{line}");
        assert!(!wanted || (jain > 0.95 && p99_over_share < 6.0), "{line}");
    }
}
