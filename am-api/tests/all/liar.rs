//! A process that may open the segment of shared memory writes over everything in it for a while. When it has ended the
//! nodes there talk again as soon as something that was lost is sent again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::id;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{LONG, Side, plain};
use am_api::{Connection, HandlerId, NotOpen, Request};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ECHO: HandlerId = HandlerId(0);
const LIES: Duration = Duration::from_secs(1);
const RUNS: u64 = 6;
/// A connection is not mended by another.
const HOUR: Duration = Duration::from_secs(3600);

/// Of a segment for two.
const HEADER: u64 = 12_288;

fn open(name: &str, on: &str) -> Side<u64> {
    let transport = am_api::transports::open(on).unwrap_or_else(|error| panic!("{error}"));
    let mut side = Side::<u64>::open(plain(name).patience(HOUR).keepalive(HOUR), transport);
    side.endpoint.on_request(ECHO, |_, Request { message: asked, token }| _ = token.reply(ECHO, asked.words(), b""));
    side.endpoint.on_reply(ECHO, |last, reply| *last = reply.word(0));
    side
}

/// Write until `stop` is set.
fn lie(file: &File, seed: u64, stop: &AtomicBool) {
    let mut random = SmallRng::seed_from_u64(seed);
    let lane = (file.metadata().unwrap().len() - HEADER) / 4;
    while !stop.load(Relaxed) {
        let (place, word) = if seed.is_multiple_of(2) { length(&mut random, lane) } else { any(&mut random, lane) };
        file.write_all_at(&word.to_le_bytes(), place / 4 * 4).unwrap();
        thread::sleep(Duration::from_micros(20));
    }
}

/// A word anywhere, mostly where it hurts: the header, and the first lines of both lanes.
fn any(random: &mut SmallRng, lane: u64) -> (u64, u32) {
    let place = match random.random_range(0..3) {
        0 => random.random_range(0..HEADER),
        1 => HEADER + lane * random.random_range(1..=2) + random.random_range(0..1024),
        _ => HEADER + random.random_range(0..lane * 4),
    };
    (place, [0, u32::MAX, random.random_range(0..5000), random.random()][random.random_range(0..4)])
}

/// A length that could be one, where the length of a record could be.
fn length(random: &mut SmallRng, lane: u64) -> (u64, u32) {
    let line = random.random_range(0..(lane - 4096) / 64);
    (HEADER + lane * random.random_range(1..=2) + 384 + line * 64, random.random_range(1..2000))
}

struct Asker {
    side: Side<u64>,
    to: Connection,
    number: u64,
}

impl Asker {
    /// Ask again and again, on a new connection where the last is over, until it is so.
    fn ask_until(&mut self, so: impl Fn(&Asker) -> bool) {
        while !so(self) {
            let endpoint = &mut self.side.endpoint;
            match endpoint.ready(self.to) {
                Ok(()) if endpoint.is_accepted(self.to) => {
                    self.number += 1;
                    _ = endpoint.try_request(self.to, ECHO, &[self.number], &[7; 200]);
                }
                Ok(()) | Err(NotOpen::Connecting) => {}
                Err(_) => {
                    endpoint.close(self.to);
                    self.to = endpoint.connect("beta", "main").unwrap();
                }
            }
            endpoint.wait(&mut self.side.state, Duration::from_millis(5));
        }
    }

    /// How long it takes until what is asked from now on is answered.
    fn is_answered(&mut self) -> Duration {
        let (start, now) = (Instant::now(), self.number);
        self.ask_until(|asker| asker.side.state > now || start.elapsed() > LONG);
        start.elapsed()
    }
}

fn alpha(on: &str, file: &str, seed: u64) -> Duration {
    let mut side = open("alpha", on);
    let to = side.endpoint.connect("beta", "main").unwrap();
    side.endpoint.wait_open(&mut side.state, to, LONG).unwrap();
    let mut asker = Asker { side, to, number: 0 };
    let file = File::options().read(true).write(true).open(file).unwrap();
    let (stop, start) = (AtomicBool::new(false), Instant::now());
    thread::scope(|liars| {
        liars.spawn(|| lie(&file, seed, &stop));
        asker.ask_until(|_| start.elapsed() > LIES);
        stop.store(true, Relaxed);
    });
    asker.is_answered()
}

#[test]
fn when_the_lies_end_they_talk_again() {
    for seed in 1..=RUNS {
        let name = format!("am-api-liar-{}-{seed}", id());
        let on = format!("shm:{name},members=2,frame=2048");
        let stop = AtomicBool::new(false);
        let time = thread::scope(|threads| {
            threads.spawn(|| {
                let mut beta = open("beta", &on);
                while !stop.load(Relaxed) {
                    beta.endpoint.wait(&mut beta.state, Duration::from_millis(100));
                }
            });
            let time = alpha(&on, &format!("/dev/shm/am-{name}.shm"), seed);
            stop.store(true, Relaxed);
            time
        });
        println!("{seed}: {time:?}");
        assert!(time < LONG, "{seed}: mute for {time:?}");
    }
}
