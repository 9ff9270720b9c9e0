//! One message for many subscribers: all in order, the latest, a gap that is seen. A slow subscriber delays no other.

use std::time::{Duration, Instant};

use am_api::{Connection, ConnectionChange, Endpoint, Framing, HandlerId, Node, RequestError, WINDOW};
use am_base::{Publisher, PublisherCounters, Subscriber, Subscriptions, Wanted};

const FEED: HandlerId = HandlerId(5);
const LONG: Duration = Duration::from_secs(60);

fn node(name: &str, on: &str) -> Node {
    Node::builder(name).framing(Framing::Plain).open(on).expect("a simulated network")
}

/// What a subscriber has got: keys, numbers, lengths of payloads.
#[derive(Default)]
struct Seen {
    got: Vec<(u64, u64)>,
    bytes: Vec<usize>,
    missed: u64,
    has_ended: bool,
}

struct Reader {
    _node: Node,
    endpoint: Endpoint<Seen>,
    feed: Subscriptions,
    seen: Seen,
    to: Connection,
}

impl Reader {
    fn poll(&mut self) {
        self.endpoint.poll(&mut self.seen);
    }

    fn subscribe(&self, window: usize, wanted: Wanted) {
        self.feed.subscribe(&self.endpoint, self.to, window, wanted).expect("room for a request");
    }

    fn numbers(&self) -> Vec<u64> {
        self.seen.got.iter().map(|(_, number)| *number).collect()
    }
}

struct Server {
    _node: Node,
    endpoint: Endpoint<()>,
    feed: Publisher,
    published: u64,
}

impl Server {
    fn new(on: &str, most_waiting: usize) -> Server {
        let node = node("feed", on);
        let mut endpoint = node.endpoint("main").expect("an endpoint");
        let feed = Publisher::new(&mut endpoint, FEED, most_waiting);
        Server { _node: node, endpoint, feed, published: 0 }
    }

    fn poll(&mut self) {
        self.feed.wait(&mut self.endpoint, &mut (), Duration::ZERO);
    }

    fn publish(&mut self, key: u64, payload: &[u8]) -> usize {
        self.published += 1;
        self.feed.publish(&self.endpoint, key, &[self.published], payload).expect("one word")
    }

    fn counters(&self) -> PublisherCounters {
        self.feed.counters(&self.endpoint)
    }

    fn of(&self, at: usize) -> Subscriber {
        let mut all = self.feed.subscribers(&self.endpoint);
        all.sort_by_key(|subscriber| subscriber.window);
        all[at]
    }
}

/// A reader that is connected. Its payloads have to be the number again and again.
fn reader(name: &str, on: &str, server: &mut Server) -> Reader {
    let node = node(name, on);
    let mut endpoint = node.endpoint("main").expect("an endpoint");
    let feed = Subscriptions::new(&mut endpoint, FEED, |seen: &mut Seen, publication| {
        let number = publication.words()[0];
        assert!(publication.message.payload().iter().all(|&byte| byte == number as u8), "of another message");
        seen.got.push((publication.key(), number));
        seen.bytes.push(publication.message.payload().len());
        seen.missed += publication.missed;
    });
    endpoint.on_connection(|seen, event| seen.has_ended |= matches!(event.change, ConnectionChange::Ended(_)));
    let to = endpoint.connect("feed", "main").expect("a name");
    let mut reader = Reader { _node: node, endpoint, feed, seen: Seen::default(), to };
    until("connected", server, &mut [&mut reader], |_, readers| readers[0].endpoint.is_open(to));
    reader
}

/// Poll these until it is so.
fn until(
    what: &str,
    server: &mut Server,
    readers: &mut [&mut Reader],
    mut so: impl FnMut(&mut Server, &mut [&mut Reader]) -> bool,
) {
    let start = Instant::now();
    while !so(server, readers) {
        server.poll();
        readers.iter_mut().for_each(|reader| reader.poll());
        assert!(start.elapsed() < LONG, "still not: {what}; {:?}", server.feed);
    }
}

fn turns(count: usize, server: &mut Server, reader: &mut Reader) {
    for _ in 0..count {
        server.poll();
        reader.poll();
    }
}

/// The server has this many subscribers.
fn subscribed(count: usize, server: &mut Server, readers: &mut [&mut Reader]) {
    until("subscribed", server, readers, |server, _| server.feed.subscribers(&server.endpoint).len() == count);
}

#[test]
fn a_slow_subscriber_keeps_its_connection_and_holds_up_no_other() {
    const COUNT: u64 = 3000;
    let on = "sim:9001,nodes=24";
    let mut server = Server::new(on, 64);
    let mut fast: Vec<Reader> = (0..19).map(|at| reader(&format!("fast{at}"), on, &mut server)).collect();
    let mut slow = reader("slow", on, &mut server);
    fast.iter().for_each(|reader| reader.subscribe(32, Wanted::All));
    slow.subscribe(2, Wanted::Latest);
    let mut readers: Vec<&mut Reader> = fast.iter_mut().chain([&mut slow]).collect();
    subscribed(20, &mut server, &mut readers);

    // The slow one is not polled.
    for number in 1..=COUNT {
        assert_eq!(server.publish(0, &[number as u8; 40]), 20);
        let mut readers: Vec<&mut Reader> = fast.iter_mut().collect();
        until("all fast ones have it", &mut server, &mut readers, |_, readers| {
            readers.iter().all(|reader| reader.seen.got.len() as u64 == number)
        });
    }
    assert!(fast.iter().all(|reader| reader.seen.missed == 0 && reader.numbers().is_sorted()));

    until("the slow one has the last", &mut server, &mut [&mut slow], |_, readers| {
        readers[0].seen.got.last() == Some(&(0, COUNT))
    });
    assert_eq!((slow.numbers(), slow.seen.missed), (vec![1, 2, COUNT], COUNT - 3));
    assert!(!slow.seen.has_ended && slow.endpoint.is_open(slow.to));
    let PublisherCounters { sent, missed, gone, .. } = server.counters();
    assert_eq!((sent, missed, gone), (19 * COUNT + 3, COUNT - 3, 0));
}

#[test]
fn a_full_queue_drops_the_oldest_and_says_how_many() {
    let on = "sim:9002";
    let mut server = Server::new(on, 8);
    let mut slow = reader("slow", on, &mut server);
    slow.subscribe(4, Wanted::All);
    subscribed(1, &mut server, &mut [&mut slow]);
    for number in 1..=100 {
        server.publish(number, &[number as u8]);
    }
    until("the last", &mut server, &mut [&mut slow], |_, readers| readers[0].seen.got.last() == Some(&(100, 100)));
    assert_eq!((slow.numbers(), slow.seen.missed), ((1..=4).chain(93..=100).collect(), 88));
}

/// Each key keeps its place in the queue, so none starves.
#[test]
fn the_latest_of_each_key_takes_the_place_of_the_one_before() {
    let on = "sim:9003";
    let mut server = Server::new(on, 8);
    let mut slow = reader("slow", on, &mut server);
    slow.subscribe(0, Wanted::Latest);
    subscribed(1, &mut server, &mut [&mut slow]);
    for key in [7, 8, 7, 9, 7, 8] {
        server.publish(key, &[server.published as u8 + 1]);
    }
    slow.subscribe(1, Wanted::Latest);
    until("three keys", &mut server, &mut [&mut slow], |_, readers| readers[0].seen.got.len() == 3);
    assert_eq!((&*slow.seen.got, slow.seen.missed), (&[(7, 5), (8, 6), (9, 4)][..], 3));
}

#[test]
fn a_subscriber_shrinks_its_window_and_pauses() {
    let on = "sim:9004";
    let mut server = Server::new(on, 1000);
    let mut one = reader("one", on, &mut server);
    one.subscribe(10, Wanted::All);
    subscribed(1, &mut server, &mut [&mut one]);
    // Four are handled, and not reported: half of the window is five.
    for number in 1..=4 {
        server.publish(0, &[number]);
    }
    until("four", &mut server, &mut [&mut one], |_, readers| readers[0].seen.got.len() == 4);
    assert_eq!((server.of(0).under_way, server.of(0).sent), (4, 4));
    one.subscribe(1, Wanted::All);
    until("a window of 1", &mut server, &mut [&mut one], |server, _| server.of(0).window == 1);
    for number in 5..=60 {
        server.publish(0, &[number]);
        assert!(server.of(0).under_way <= 1);
    }
    until("all", &mut server, &mut [&mut one], |server, readers| {
        assert!(server.of(0).under_way <= 1);
        readers[0].seen.got.len() == 60
    });

    one.subscribe(0, Wanted::All);
    until("a pause", &mut server, &mut [&mut one], |server, _| server.of(0).window == 0);
    for number in 61..=70 {
        server.publish(0, &[number]);
    }
    turns(1000, &mut server, &mut one);
    assert_eq!((one.seen.got.len(), server.of(0).waiting), (60, 10));
    one.subscribe(usize::MAX, Wanted::All);
    until("the rest", &mut server, &mut [&mut one], |_, readers| readers[0].seen.got.len() == 70);
    assert_eq!((one.numbers(), server.of(0).window), ((1..=70).collect(), WINDOW));
}

#[test]
fn a_subscription_ends_and_begins_again_with_the_right_credit() {
    let on = "sim:9005";
    let mut server = Server::new(on, 1000);
    let mut one = reader("one", on, &mut server);
    for round in 0..3 {
        one.subscribe(2, Wanted::All);
        subscribed(1, &mut server, &mut [&mut one]);
        let before = one.seen.got.len();
        for _ in 0..20 {
            let number = server.published as u8 + 1;
            server.publish(0, &[number]);
            assert!(server.of(0).under_way <= 2, "round {round}");
        }
        until("ten more", &mut server, &mut [&mut one], |_, readers| readers[0].seen.got.len() >= before + 10);
        one.feed.end(&one.endpoint, one.to).expect("room for a request");
        subscribed(0, &mut server, &mut [&mut one]);
        let handled = one.seen.got.len();
        assert_eq!(server.publish(0, b""), 0);
        turns(100, &mut server, &mut one);
        assert_eq!(one.seen.got.len(), handled, "after the end");
    }
}

#[test]
fn one_that_dies_is_dropped_with_its_queue() {
    let on = "sim:9006";
    let mut server = Server::new(on, 100);
    let (mut one, mut doomed) = (reader("one", on, &mut server), reader("doomed", on, &mut server));
    one.subscribe(10, Wanted::All);
    doomed.subscribe(0, Wanted::All);
    subscribed(2, &mut server, &mut [&mut one, &mut doomed]);
    (0..7).for_each(|_| _ = server.publish(0, b""));
    drop(doomed);
    let mut published = 7;
    until("it is gone", &mut server, &mut [&mut one], |server, _| {
        published += 1;
        server.publish(0, b"") == 1
    });
    let PublisherCounters { gone, lost, .. } = server.counters();
    assert!(gone == 1 && (7..published).contains(&(lost + server.counters().missed)), "{:?}", server.feed);
    until("all", &mut server, &mut [&mut one], |_, readers| readers[0].seen.got.len() as u64 == published);
}

/// Nothing is published meanwhile.
#[test]
fn one_that_dies_is_no_subscriber_any_more() {
    let on = "sim:9009";
    let mut server = Server::new(on, 100);
    let (mut one, mut doomed) = (reader("one", on, &mut server), reader("doomed", on, &mut server));
    [&one, &doomed].iter().for_each(|reader| reader.subscribe(10, Wanted::All));
    subscribed(2, &mut server, &mut [&mut one, &mut doomed]);
    drop(doomed);
    subscribed(1, &mut server, &mut [&mut one]);
    assert_eq!(server.counters().gone, 1);
    drop(one);
    until("the second is gone", &mut server, &mut [], |server, _| server.counters().gone == 2);
    assert_eq!(server.feed.subscribers(&server.endpoint), []);
}

/// Else one that pauses for ever keeps the publisher from ending.
#[test]
fn who_pauses_is_not_waited_for() {
    let on = "sim:9010";
    let mut server = Server::new(on, 100);
    let (mut one, mut paused) = (reader("one", on, &mut server), reader("paused", on, &mut server));
    one.subscribe(1, Wanted::All);
    paused.subscribe(0, Wanted::All);
    let mut readers = [&mut one, &mut paused];
    subscribed(2, &mut server, &mut readers);
    (0..3).for_each(|_| _ = server.publish(0, b""));
    assert!(!server.feed.is_accepted(&server.endpoint), "two wait for the window of one");
    until("accepted", &mut server, &mut readers, |server, _| server.feed.is_accepted(&server.endpoint));
    assert_eq!((one.seen.got.len(), paused.seen.got.len(), server.of(0).waiting), (3, 0, 3));
}

#[test]
fn one_buffer_of_any_length_reaches_all() {
    let on = "sim:9007";
    let mut server = Server::new(on, 100);
    let mut readers: Vec<Reader> = (0..3).map(|at| reader(&format!("r{at}"), on, &mut server)).collect();
    readers.iter().for_each(|reader| reader.subscribe(2, Wanted::All));
    let lengths = [0, 1, 1400, 1500, 65_536, 1_000_000, 1 << 20, 3];
    let mut readers: Vec<&mut Reader> = readers.iter_mut().collect();
    subscribed(3, &mut server, &mut readers);
    for length in lengths {
        let byte = server.published as u8 + 1;
        server.publish(0, &vec![byte; length]);
    }
    // Longer than these nodes accept: a gap for all of them.
    server.publish(0, &vec![0; (1 << 20) + 1]);
    server.publish(0, b"\x0a");
    until("all", &mut server, &mut readers, |_, readers| readers.iter().all(|reader| reader.seen.got.len() == 9));
    for reader in readers {
        assert_eq!((&reader.seen.bytes[..8], reader.seen.bytes[8], reader.seen.missed), (&lengths[..], 1, 1));
    }
    assert_eq!((server.counters().too_long, server.counters().missed), (3, 3));
    assert_eq!(
        server.feed.publish(&server.endpoint, 0, &[1, 2, 3], *b""),
        Err(RequestError::TooManyWords { count: 3, most: 2 })
    );
}

/// A subscriber that sends wrong numbers harms only itself. A node that is no publisher publishes nothing.
#[test]
fn made_up_words_are_not_believed() {
    let on = "sim:9008";
    let mut server = Server::new(on, 4);
    let mut one = reader("one", on, &mut server);
    let request = |one: &Reader, words: &[u64]| {
        one.endpoint.try_request(one.to, FEED, words, b"nothing").expect("room for a request");
    };
    for words in [&[][..], &[1], &[u64::MAX, 0], &[1, 2, 3, 4]] {
        request(&one, words);
    }
    request(&one, &[u64::MAX, 1, u64::MAX]);
    subscribed(1, &mut server, &mut [&mut one]);
    assert_eq!((server.of(0).window, server.of(0).under_way, server.of(0).wanted), (WINDOW, 0, Wanted::Latest));
    // This side has not subscribed, so nothing that arrives counts.
    (0..10).for_each(|_| _ = server.publish(0, b""));
    turns(1000, &mut server, &mut one);
    assert!(one.seen.got.is_empty() && server.of(0).under_way <= 10);
    request(&one, &[3, 77, 0]);
    subscribed(0, &mut server, &mut [&mut one]);
}
