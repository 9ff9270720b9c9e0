//! What a network that reorders costs, beside one of the same mean delay that does not.
//!
//! ```sh
//! cargo test -p netdev-sim --test reordering -- --nocapture --test-threads 1
//! ```

mod crowd;

use crowd::{Crowd, Span, crowd};
use netdev_sim::{MS, Nanos, Netem, US};

/// Long enough for many round trips of 2 ms.
const SPAN: Span = Span { from: 100 * MS, until: 400 * MS };

/// `netem delay 2ms 1ms reorder 10%`, and the same mean delay without.
const REORDERS: Netem = Netem { delay: 2 * MS, jitter: MS, reorder: 0.1 };
const DELAYS: Netem = Netem { delay: 1800 * US, jitter: 0, reorder: 0.0 };

/// What is sent.
#[derive(Clone, Copy, Debug)]
enum Load {
    Full,
    Shared,
    Answered,
    Bulk,
}

const LOADS: [Load; 4] = [Load::Full, Load::Shared, Load::Answered, Load::Bulk];

fn one(load: Load, netem: [Netem; 2], loss: f64) -> Crowd {
    let mut one = crowd(1, 512 * 1024);
    (one.options.netem, one.options.faults_until, one.options.loss) = (netem.to_vec(), Nanos::MAX, loss);
    match load {
        Load::Full => (),
        Load::Shared => one.body = Some(64),
        Load::Answered => (one.body, one.answers) = (Some(200), true),
        Load::Bulk => one.bulk = true,
    }
    one
}

#[test]
fn probe1() {
    let f = Crowd { window: Some(128), ..one(Load::Answered, [REORDERS, REORDERS], 0.0) }.run(SPAN);
    println!("{f}");
}

#[test]
fn dbg1() {
    let f = Crowd { window: Some(128), ..one(Load::Shared, [Netem::default(), REORDERS], 0.0) }.seeded(2).run(SPAN);
    println!("DBG {f}");
}

#[test]
fn dbg2() {
    let f = Crowd { window: Some(128), ..one(Load::Full, [Netem::default(), REORDERS], 0.01) }.seeded(1).run(SPAN);
    println!("DBG {f}");
}

#[test]
fn probe() {
    for seed in 0..4 {
        for loss in [0.0, 0.01] {
            for load in LOADS {
                for window in [128] {
                    for both in [false, true] {
                        let [a, b] = [DELAYS, REORDERS].map(|netem| {
                            let ends = [if both { netem } else { Netem::default() }, netem];
                            Crowd { window: Some(window), ..one(load, ends, loss) }.seeded(seed).run(SPAN)
                        });
                        let ratio = b.of_link / a.of_link;
                        println!(
                            "PROBE seed {seed} loss {loss} {load:?} {window} both={both} {ratio:.3} {:.6} p99 {:.0} {:.0} again {} {}",
                            a.of_link, a.p99, b.p99, a.again, b.again
                        );
                    }
                }
            }
        }
    }
}

impl Crowd {
    fn seeded(mut self, seed: u64) -> Crowd {
        self.options.seed = seed;
        self
    }
}

#[test]
fn losses() {
    for way in [0, 100 * US] {
        for load in LOADS {
            for loss in [0.0, 0.001, 0.01, 0.03] {
                let (mut sum, mut again, mut p99) = (0.0, 0, 0.0);
                for seed in 0..8 {
                    let mut one = one(load, [Netem::default(), Netem { delay: way, ..Netem::default() }], loss);
                    one.options.seed = seed;
                    let figures = one.run(Span { from: 10 * MS, until: 40 * MS });
                    (sum, again, p99) = (sum + figures.of_link / 8.0, again + figures.again, p99 + figures.p99 / 8.0);
                }
                println!("LOSS way {way} {load:?} {loss} {sum:.5} p99 {p99:.0} again {again}");
            }
        }
    }
}
